"""The names of versions, of what is staged for a fixed location, and of rejected rows."""

from __future__ import annotations

import pytest

from opendataflow import Dataset, Partition
from opendataflow.files import is_data
from opendataflow.files.versions import (
    Leftover,
    another_version_location,
    chunk_location,
    epoch_of,
    is_one_file,
    leftover_of,
    replaced_location,
    staging_location,
    version_location,
)

DAYS = Dataset("days", kind="file", location="days/{dataid}", partition=Partition("day"))


@pytest.mark.parametrize(
    ("name", "epoch"),
    [("v000001", 1), ("v1234567", 1234567), ("v000012-0a1b2c", 12), ("v1", None), ("v000001.old", None), ("x", None)],
)
def test_a_version_folder_tells_its_epoch(name: str, epoch: int | None) -> None:
    assert epoch_of(name) == epoch


def test_each_epoch_has_a_folder_of_its_own_below_its_chunk() -> None:
    location = version_location(DAYS, "/data/days/2013-01-01", "2013-01-01", 7)
    assert location == "/data/days/2013-01-01/v000007"
    assert epoch_of(another_version_location(location).rpartition("/")[2]) == 7


@pytest.mark.parametrize(
    ("template", "kind", "location"),
    [
        ("days/{dataid}", "day", "/x"),
        ("days/{year}/{month}/{day}", "day", "/x"),
        ("days/{year}/{month}", "day", "/x/2013-01-01"),
        ("days", "day", "/x/2013-01-01"),
    ],
)
def test_a_location_that_does_not_name_its_chunk_gets_the_dataid(template: str, kind: str, location: str) -> None:
    dataset = Dataset("days", kind="file", location=template, partition=Partition(kind))
    assert chunk_location(dataset, "/x", "2013-01-01") == location


def test_what_is_staged_for_a_fixed_location_is_hidden_beside_it() -> None:
    staged = staging_location("/data/orders", 3)
    folder, _, name = staged.rpartition("/")
    assert folder == "/data"
    assert not is_data(name)
    assert leftover_of(name, "/data/orders") == Leftover(3, is_replaced=False)
    old = replaced_location(another_version_location(staged)).rpartition("/")[2]
    assert leftover_of(old, "/data/orders") == Leftover(3, is_replaced=True)
    assert leftover_of(old, "/data/other") is None
    assert leftover_of("orders", "/data/orders") is None


@pytest.mark.parametrize(
    ("location", "options", "expected"),
    [
        ("orders/{dataid}.csv", {"layout": "plain"}, True),
        ("orders/{dataid}.csv", {}, False),
        ("orders/{dataid}", {"layout": "plain"}, False),
        ("orders/{dataid}.csv", {"layout": "plain", "compression": "gzip"}, False),
    ],
)
def test_a_plain_chunk_that_is_named_like_a_file_is_one(
    location: str, options: dict[str, object], expected: bool
) -> None:
    assert is_one_file(Dataset("orders", kind="file", location=location, format="csv", options=options)) is expected
