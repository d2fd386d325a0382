"""Axes: every dataid alone where they fit, else in periods that people know."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendataflow.errors import BadDataid
from opendataflow.insight.axis import axis, first_key, last_key, ranges
from opendataflow.model import TYPES, Partition, sort_key


def days(first: str, last: str) -> tuple[int, int]:
    return TYPES["day"].parse(first), TYPES["day"].parse(last)


def test_what_fits_has_a_column_each():
    found = axis("day", *days("2013-01-30", "2013-02-02"), 10)
    assert [column.first for column in found.columns] == ["2013-01-30", "2013-01-31", "2013-02-01", "2013-02-02"]
    assert found.is_single


def test_days_become_months_and_then_years():
    months = axis("day", *days("2012-01-15", "2012-12-31"), 20)
    assert months.each == "one month"
    assert (months.columns[0].label, months.columns[0].first, months.columns[0].size) == ("2012-01", "2012-01-15", 17)
    assert months.columns[1].size == 29
    years = axis("day", *days("2000-01-01", "2019-12-31"), 20)
    assert [column.label for column in years.columns] == [str(year) for year in range(2000, 2020)]


def test_what_no_period_fits_becomes_even_steps():
    found = axis("day", *days("0001-01-01", "9999-12-31"), 20)
    assert len(found.columns) <= 20
    numbers = axis("number", 0, 999_999, 60)
    assert numbers.each == "20,000 numbers"
    assert (numbers.columns[1].first, numbers.columns[1].last) == ("20000", "39999")
    shards = axis("range", 1, 1000, 60)
    assert (shards.columns[0].first, shards.columns[0].last) == ("1", "20")


@given(
    st.sampled_from(["day", "hour", "month", "number", "range"]),
    st.integers(1, 10**6),
    st.integers(0, 10**5),
    st.integers(10, 120),
)
def test_an_axis_has_no_gap_and_fits(type_name: str, low: int, size: int, width: int):
    dataid_type = TYPES[type_name]
    low = min(max(low, dataid_type.first), dataid_type.last)
    high = min(low + size, dataid_type.last)
    found = axis(type_name, low, high, width)
    assert len(found.columns) <= width
    assert sum(column.size for column in found.columns) == high - low + 1
    steps = [(dataid_type.parse(column.first), dataid_type.parse(column.last)) for column in found.columns]
    assert steps[0][0] == low
    assert steps[-1][1] == high
    assert all(after[0] == before[1] + 1 for before, after in pairwise(steps))


def test_a_coarser_or_finer_period_is_a_window_too():
    day, month = Partition("day"), Partition("month")
    assert first_key(day, "2013-01") <= sort_key(day, "2013-01-01")
    assert sort_key(day, "2013-01-31") <= last_key(day, "2013-01") < sort_key(day, "2013-02-01")
    assert first_key(month, "2013-01-15") == "2013-01"
    with pytest.raises(BadDataid):
        first_key(day, "soon")
    with pytest.raises(BadDataid):
        first_key(Partition("number"), "2013-01")


def test_dataids_that_follow_one_another_are_a_range():
    assert ranges(Partition("day"), ["2013-01-31", "2013-02-01", "2013-02-03"]) == [
        ("2013-01-31", "2013-02-01"),
        ("2013-02-03", "2013-02-03"),
    ]
    assert ranges(Partition("number"), ["9", "10", "x", "11"]) == [("9", "10"), ("x", "x"), ("11", "11")]
    assert ranges(Partition(), ["a", "b"]) == [("a", "a"), ("b", "b")]
