"""Where the rows lie that a check refused."""

from __future__ import annotations

import pytest

from opendataflow import Dataset, Partition
from opendataflow.files.quarantine import has_quarantine, rejected_dataset
from opendataflow.model import Check


@pytest.mark.parametrize(
    ("location", "beside"),
    [
        ("clean/flights/{dataid}", "clean/flights__rejected/{dataid}"),
        ("{datasetid}/{dataid}", "{datasetid}/{dataid}"),
        ("{dataid}/x", "rejected/{dataid}/x"),
        ("raw/f-{dataid}.csv", "raw/{datasetid}/f-{dataid}.csv"),
        ("s3a://lake/clean/{year}/{dataid}", "s3a://lake/clean__rejected/{year}/{dataid}"),
    ],
)
def test_rejected_rows_lie_beside_the_good_ones(location: str, beside: str) -> None:
    flights = Dataset(
        "flights",
        kind="file",
        location=location,
        partition=Partition("day", column="day"),
        checks=(Check("not_null", {"columns": ["carrier"]}),),
        options={"quarantine": True, "layout": "plain"},
    )
    assert has_quarantine(flights)
    rejected = rejected_dataset(flights)
    assert (rejected.datasetid, rejected.location, rejected.checks) == ("flights__rejected", beside, ())
    assert "layout" not in rejected.options
    assert not has_quarantine(rejected)
