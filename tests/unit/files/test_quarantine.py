"""Where the rows lie that a check refused."""

from __future__ import annotations

import pytest

from opendataflow import Dataset, Partition
from opendataflow.errors import BadDefinition
from opendataflow.files.quarantine import has_quarantine, is_quarantine, is_within, limit_of, rejected_dataset
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
        options={"quarantine": {"max": "1 %"}, "layout": "plain"},
    )
    assert has_quarantine(flights)
    rejected = rejected_dataset(flights)
    assert (rejected.datasetid, rejected.location, rejected.checks) == ("flights__rejected", beside, ())
    assert "layout" not in rejected.options
    assert not has_quarantine(rejected)


@pytest.mark.parametrize(
    ("declared", "limit"),
    [(True, "10 %"), ({}, "10 %"), ({"max": "1 %"}, "1 %"), ({"max": "0.5%"}, "0.5%"), ({"max": 0}, 0)],
)
def test_a_quarantine_has_a_limit(declared: object, limit: object) -> None:
    assert limit_of(Dataset("flights", options={"quarantine": declared})) == limit


@pytest.mark.parametrize("declared", ["yes", {"max": "1"}, {"max": "101 %"}, {"max": -1}, {"max": True}, {"most": 1}])
def test_what_is_no_quarantine_is_refused(declared: object) -> None:
    assert not is_quarantine(declared)
    with pytest.raises(BadDefinition, match="flights: quarantine cannot be"):
        limit_of(Dataset("flights", options={"quarantine": declared}))


def test_a_limit_is_a_share_of_all_rows_or_a_number() -> None:
    assert is_within("10 %", 1, 10)
    assert not is_within("10 %", 2, 19)
    assert is_within(2, 2, 2)
    assert not is_within(2, 3, 1000)
