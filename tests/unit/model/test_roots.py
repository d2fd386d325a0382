"""Locations are kept relative to the root that they lie in, and nothing else is taken for one of them."""

from __future__ import annotations

import pytest

from opendataflow.model.roots import Roots

ROOTS = Roots(["/data", "/data/lake", "s3a://lake/flights"])


@pytest.mark.parametrize(
    ("location", "kept"),
    [
        ("/data/clean/1/v000001", "clean/1/v000001"),
        ("/data/lake/clean/1", "root2:clean/1"),
        ("s3a://lake/flights/1", "root3:1"),
        ("/data", "."),
        ("/database/1", "/database/1"),
        ("s3a://lake/flights2/1", "s3a://lake/flights2/1"),
        ("/data/root2:x", "/data/root2:x"),
        ("/data/store:x", "/data/store:x"),
        ("", ""),
        ("db.example/shop/public.orders", "db.example/shop/public.orders"),
    ],
)
def test_a_location_is_kept_relative_to_the_innermost_root_and_found_again(location: str, kept: str) -> None:
    assert ROOTS.kept(location) == kept
    assert kept == location or ROOTS.found(kept) == location


def test_a_moved_root_finds_everything_where_it_is_now() -> None:
    moved = Roots(["/mnt/stick/data"])
    assert moved.found(Roots(["/home/me/data"]).kept("/home/me/data/raw/1.csv")) == "/mnt/stick/data/raw/1.csv"


@pytest.mark.parametrize("kept", ["/etc/passwd", "root9:x", "store:x", "root2:/etc/passwd", "s3://other/x", "root1:x"])
def test_what_names_no_root_stays_as_it_is(kept: str) -> None:
    assert ROOTS.found(kept) == kept


def test_a_relative_location_that_climbs_is_not_resolved_so_that_others_see_it() -> None:
    assert ROOTS.found("../../etc/passwd") == "/data/../../etc/passwd"


def test_without_a_project_file_the_folder_of_the_store_counts() -> None:
    alone = Roots(store_folder="/home/me/etl")
    assert alone.kept("/home/me/etl/out/1") == "store:out/1"
    assert alone.found("store:out/1") == "/home/me/etl/out/1"
    assert alone.found("out/1") == "out/1"
