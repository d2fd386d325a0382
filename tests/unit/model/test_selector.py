"""One grammar of selectors: what one means, in a command line and in a file."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from opendataflow.errors import BadDefinition, BadId, OdfError, UnknownStatus, UsageError
from opendataflow.model import Partition
from opendataflow.model.selector import Selector, Subject

AT = datetime(2026, 11, 14, 3, tzinfo=UTC)
DAY = Partition("day")
SUBJECT = Subject(
    "flights", "2013-01-05", "clean", "FAILED", AT, "ann@etl1:4711", ("JOB_FAILED", "disk 7 of host-3 is full")
)


@pytest.mark.parametrize(
    "selector",
    [
        Selector(),
        Selector(("flights",)),
        Selector(("other", "flights")),
        Selector(("flights",), ("2013-01-04", "2013-01-05")),
        Selector(("flights",), ("2013-01-01..2013-01-31",)),
        Selector(jobs=("clean",)),
        Selector(statuses=("failed",)),
        Selector(statuses=("READY", "ERROR")),
        Selector(causes=("JOB_FAILED",)),
        Selector(causes=("job_failed",)),
        Selector(causes=("Disk 12 of host-9",)),
        Selector(since=AT),
        Selector(until=datetime(2026, 11, 14, 4, tzinfo=UTC)),
        Selector(who=("ann",)),
        Selector(who=("ann@etl1",)),
        Selector(("flights",), ("2013-01-05",), ("clean",), ("FAILED",), ("full",), AT, None, ("ann@",)),
    ],
)
def test_what_is_named_is_meant(selector: Selector):
    assert selector.matches(SUBJECT, DAY)


@pytest.mark.parametrize(
    "selector",
    [
        Selector(("other",)),
        Selector(("flights",), ("2013-01-04",)),
        Selector(("flights",), ("2013-02-01..2013-02-28",)),
        Selector(jobs=("load",)),
        Selector(statuses=("READY",)),
        Selector(causes=("LEASE_LOST",)),
        Selector(causes=("no such table",)),
        Selector(causes=("4711",)),
        Selector(until=AT),
        Selector(since=datetime(2026, 11, 14, 4, tzinfo=UTC)),
        Selector(who=("bob",)),
        Selector(who=("etl1",)),
        Selector(("flights",), ("2013-01-05",), ("clean",), ("FAILED",), ("full",), AT, None, ("bob",)),
    ],
)
def test_all_kinds_have_to_fit(selector: Selector):
    assert not selector.matches(SUBJECT, DAY)


def test_what_is_not_known_of_a_subject_is_not_what_was_named():
    for selector in (
        Selector(("flights",)),
        Selector(("flights",), ("1",)),
        Selector(causes=("x",)),
        Selector(since=AT),
        Selector(who=("ann",)),
        Selector(statuses=("READY",)),
    ):
        assert not selector.matches(Subject())
    assert not Selector(("a",), ("1..3",)).matches(Subject("a", "x"), Partition("number"))
    assert not Selector(("a",), ("1..3",)).matches(Subject("a", "2")), "a range needs the order"


def test_a_selector_goes_to_data_and_back():
    table = {
        "dataset": ["flights"],
        "dataid": ["2013-01-01..2013-01-31"],
        "job": ["clean"],
        "status": ["FAILED"],
        "cause": ["full"],
        "by": ["ann"],
        "upstream_of": ["months"],
        "downstream_of": ["raw:2013-01-05"],
    }
    assert Selector.from_data(table).to_data() == table
    assert Selector.from_data({"dataset": "flights"}) == Selector(("flights",))
    assert Selector.from_data({}).is_empty


def test_a_selector_goes_to_words_of_a_command_line():
    selector = Selector(("flights",), ("1..3",), statuses=("FAILED",), since=AT, downstream_of=("raw:1",))
    assert selector.words() == [
        *("flights", "1..3", "--status", "FAILED", "--since", "2026-11-14T03:00:00+00:00"),
        *("--downstream-of", "raw:1"),
    ]


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ({"datasets": "x"}, BadDefinition),
        ({"dataset": 7}, BadDefinition),
        ({"dataset": []}, BadDefinition),
        ({"dataset": ["a", 1]}, BadDefinition),
        ({"dataset": "a b"}, BadId),
        ({"dataid": "1"}, BadDefinition),
        ({"status": "GOOD"}, UnknownStatus),
        ({"downstream_of": "raw:"}, BadId),
        ({"since": "2h"}, BadDefinition),
        ([], BadDefinition),
    ],
)
def test_what_selects_nothing_is_refused_by_name(table: object, error: type[OdfError]):
    with pytest.raises(error):
        Selector.from_data(table, "[notify.night]")


def test_a_span_of_time_has_to_begin_before_it_ends():
    with pytest.raises(UsageError):
        Selector(since=AT, until=AT)
