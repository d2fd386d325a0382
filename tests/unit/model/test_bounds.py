"""Bounds: what follows a key, how rows are shared out, and which ranges of keys leave a gap or overlap."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendataflow.errors import BadDefinition
from opendataflow.model.bounds import Range, after, breaks, ends, even, order_by, order_of


@pytest.mark.parametrize(
    ("kind", "key", "bound"),
    [
        ("whole", "41", "42"),
        ("whole", "-1", "0"),
        ("whole", "9223372036854775807", "9223372036854775808"),
        ("decimal(2)", "99.99", "100.00"),
        ("decimal(0)", "-1", "0"),
        ("double", "1.0", "1.0000000000000002"),
        ("float", "-1.0", "-0.9999999403953552"),
        ("date", "2024-02-28", "2024-02-29"),
        ("date", "9999-12-31", "9999-12-31T23:59:59.999999"),
        ("timestamp", "2025-01-01T00:00:00+00:00", "2025-01-01T00:00:00.000001+00:00"),
        ("timestamp_ntz", "2024-12-31T23:59:59.999999", "2025-01-01T00:00:00"),
        ("text", "zürich", "zürich\x01"),
        ("text", "", "\x01"),
        ("char(4)", "ab", "ab  \x01"),
        ("uuid", "00000000-0000-0000-0000-0000000000ff", "00000000-0000-0000-0000-000000000100"),
    ],
)
def test_a_bound_lies_right_above_its_key(kind: str, key: str, bound: str) -> None:
    assert after(kind, key) == bound
    assert order_by(kind)(key) < order_by(kind)(bound)


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("timestamp_ntz", "9999-12-31T23:59:59.999999"),
        ("uuid", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
        ("double", "1.7976931348623157e308"),
        ("decimal(0)", "9" * 38),
    ],
)
def test_above_the_last_key_there_is_no_bound(kind: str, key: str) -> None:
    with pytest.raises(BadDefinition):
        after(kind, key)


def test_rows_are_shared_out_evenly_and_no_bucket_is_cut() -> None:
    assert even([1] * 10, 3) == [0, 4, 7]
    assert even([1, 100, 1], 3) == [0, 2]
    assert even([3] * 7, 100) == [0, 1, 2, 3, 4, 5, 6]
    assert even([0, 0, 3, 3], 2) == [0, 3]  # what is empty begins nothing, but nothing is left out before the first
    assert even([], 5) == even([0, 0], 5) == []


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.integers(1, 20))
def test_chunks_are_never_more_than_asked_and_hardly_larger_than_their_share(rows: list[int], parts: int) -> None:
    begins = even(rows, parts)
    assert len(begins) <= parts
    if not sum(rows):
        return
    assert begins[0] == 0
    sizes = [sum(rows[first:last]) for first, last in pairwise([*begins, len(rows)])]
    assert sum(sizes) == sum(rows)
    assert all(sizes)
    assert max(sizes) <= sum(rows) / parts + max(rows)


def ranges(*bounds: tuple[str, str]) -> list[Range]:
    return [Range(str(n), *each) for n, each in enumerate(bounds, 1)]


def test_ranges_that_follow_one_another_have_no_breaks_in_whatever_order_they_come() -> None:
    assert breaks(ranges(("9", "10"), ("10", "200"), ("-5", "9"))) == []
    assert breaks(ranges(("2024-12-31", "2025-01-02"), ("2025-01-02", "9999-12-31T23:59:59.999999"))) == []
    assert breaks(ranges(("10", "9"), ("9", "é"), ("é", "é\x01"))) == []  # as texts, 10 comes before 9
    assert breaks([]) == breaks(ranges(("1", "2"))) == []


def test_gaps_overlaps_and_ranges_that_run_backwards_are_named_with_their_chunks() -> None:
    found = breaks(ranges(("1", "5"), ("5", "9"), ("10", "12"), ("11", "13"), ("20", "20")))
    assert [tuple(each) for each in found] == [
        ("gap", "9", "10", "2", "3"),
        ("overlap", "11", "12", "3", "4"),
        ("backwards", "20", "20", "5", "5"),
    ]
    inside = breaks(ranges(("1", "100"), ("5", "10"), ("100", "200")))
    assert [tuple(each) for each in inside] == [("overlap", "5", "10", "1", "2")]


def test_bounds_compare_as_what_all_of_them_are() -> None:
    assert sorted(["10", "9", "-1.5"], key=order_of(["10", "9", "-1.5"])) == ["-1.5", "9", "10"]
    assert sorted(["10", "9"], key=order_of(["10", "9", "x"])) == ["10", "9"]
    assert ends(ranges(("9", "10"), ("10", "200"), ("-5", "9"))) == ("-5", "200")
    zones = ["2025-01-01T00:30:00+01:00", "2025-01-01T00:00:00+00:00"]
    assert order_of(zones)(zones[0]) < order_of(zones)(zones[1])
