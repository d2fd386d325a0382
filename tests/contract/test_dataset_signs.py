"""Signs of a dataset, where somebody typed a dataid that does not fit."""

from __future__ import annotations

from opendataflow.insight.dataset_signs import Sign, lines_of
from opendataflow.insight.stale import STALE
from tests.support.flows import dataset


def test_a_dataid_that_does_not_fit_is_listed_before_all_others(store) -> None:
    days = dataset("days", "day")
    store.register([days])
    lines = lines_of(store, days, Sign(STALE, ("not a day", "2025-11-01"), False), None, 10)
    assert [line.dataid for line in lines] == ["2025-11-01", "not a day"]
