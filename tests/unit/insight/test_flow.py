"""The order in which people think of datasets."""

from __future__ import annotations

import pytest

from opendataflow.errors import UnknownDataset
from opendataflow.insight.flow import chosen, datasets_in_order
from opendataflow.model import Catalogue
from tests.support.flows import dataset, job

CATALOGUE = Catalogue.build(
    [dataset(name) for name in ("z_raw", "y_clean", "a_report", "b_alone")],
    [job("last", "y_clean", writes="a_report"), job("first", "z_raw", writes="y_clean")],
)


def test_datasets_come_along_the_flow_and_the_built_in_one_is_hidden():
    assert datasets_in_order(CATALOGUE) == ["z_raw", "y_clean", "a_report", "b_alone"]


def test_named_datasets_are_shown_as_named():
    assert chosen(CATALOGUE, ["today", "y_clean", "today"]) == ["today", "y_clean"]
    with pytest.raises(UnknownDataset):
        chosen(CATALOGUE, ["nothing"])
