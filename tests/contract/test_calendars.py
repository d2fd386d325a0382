"""Calendars: the clock announces every period once it is over, and a job that reads them catches up by itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from opendataflow import Dataset, Input, Job, Partition, Store
from opendataflow.errors import BadDefinition, BadTransition, DataNotReady
from opendataflow.insight.explain import explain
from opendataflow.insight.recovery import plan
from opendataflow.insight.why.job import about_job
from opendataflow.model.definitions.calendar import check_over, why_unannounced

BERLIN = ZoneInfo("Europe/Berlin")


def calendar(kind: str = "day", start: str = "2026-11-05", rule: object = True, end: str | None = None) -> Dataset:
    return Dataset("periods", partition=Partition(kind, start=start, end=end), options={"calendar": rule})


def made(store: Store, dataset: Dataset, timezone: str = "UTC") -> list[str]:
    """What a job makes that reads the calendar, until nothing is left."""
    output = Dataset("made", partition=Partition(dataset.partition.type))
    today = Dataset("today", partition=Partition("day"), options={"timezone": timezone})
    store.register([today, dataset, output], [Job("make", (Input("periods"),), ("made",))])
    return drained(store)


def drained(store: Store) -> list[str]:
    done = []
    while claims := store.claim("make"):
        done.append(claims[0].dataid)
        store.commit(claims[0])
    return done


def at(store: Store, when: str, zone: ZoneInfo = BERLIN) -> None:
    moment = datetime.fromisoformat(when).replace(tzinfo=zone).timestamp()
    store._clock = lambda: moment


def test_a_day_is_ready_when_it_is_over_in_the_zone_of_the_project(store: Store) -> None:
    at(store, "2026-11-07T23:59")
    assert made(store, calendar(), "Europe/Berlin") == ["2026-11-05", "2026-11-06"]
    at(store, "2026-11-08T00:01")
    assert drained(store) == ["2026-11-07"], "in Berlin it is over, in UTC it is not"
    assert drained(store) == []


def test_what_was_missed_is_caught_up_in_order(store: Store) -> None:
    at(store, "2026-11-06T12:00")
    assert made(store, calendar()) == ["2026-11-05"]
    at(store, "2026-11-10T12:00")
    assert drained(store) == ["2026-11-06", "2026-11-07", "2026-11-08", "2026-11-09"]


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (calendar("hour", "2026-11-10T21"), ["2026-11-10T21", "2026-11-10T22", "2026-11-10T23"]),
        (calendar("month", "2026-08"), ["2026-08", "2026-09", "2026-10"]),
        (calendar("year", "2024"), ["2024", "2025"]),
        (calendar(rule="Mon-Fri"), ["2026-11-05", "2026-11-06", "2026-11-09", "2026-11-10"]),
        (calendar(rule={"days": "Mon-Fri", "without": ["2026-11-09"]}), ["2026-11-05", "2026-11-06", "2026-11-10"]),
        (calendar(rule={"only": ["2026-11-08", "2026-11-30"]}), ["2026-11-08"]),
        (calendar(end="2026-11-06"), ["2026-11-05", "2026-11-06"]),
        (calendar(start="2026-12-01"), []),
    ],
)
def test_periods_that_count(store: Store, dataset: Dataset, expected: list[str]) -> None:
    at(store, "2026-11-11T00:30")
    assert made(store, dataset, "Europe/Berlin") == expected


def test_periods_that_are_announced_by_hand_hide_no_others(store: Store) -> None:
    at(store, "2026-11-07T12:00")
    store.register([calendar()])
    store.announce("periods", ["2026-11-06"])
    assert made(store, calendar()) == ["2026-11-05", "2026-11-06"]
    at(store, "2026-11-11T12:00")
    store.announce("periods", ["2026-11-10"])
    assert drained(store) == ["2026-11-07", "2026-11-08", "2026-11-09", "2026-11-10"]


def test_a_period_that_is_forgotten_or_set_aside_stays_so(store: Store) -> None:
    at(store, "2026-11-07T12:00")
    assert made(store, calendar()) == ["2026-11-05", "2026-11-06"]
    store.forget("made", ["2026-11-05"])
    store.forget("periods", ["2026-11-05"])
    store.hold("periods", ["2026-11-07"])
    at(store, "2026-11-09T12:00")
    assert drained(store) == ["2026-11-08"]
    store.release("periods", ["2026-11-07"])


def test_an_earlier_start_brings_the_periods_before(store: Store) -> None:
    at(store, "2026-11-07T12:00")
    assert made(store, calendar()) == ["2026-11-05", "2026-11-06"]
    assert made(store, calendar(start="2026-11-03")) == ["2026-11-03", "2026-11-04"]


def test_an_undone_claim_has_announced_nothing(store: Store, open_again: Callable[..., Store]) -> None:
    at(store, "2026-11-07T12:00")
    made(store, calendar())
    other = open_again()
    at(other, "2026-11-08T12:00")
    assert [claim.dataid for claim in other.claim("make")] == ["2026-11-07"]
    assert drained(store) == [], "its own clock is behind"


@pytest.mark.parametrize(
    ("partition", "rule"),
    [
        (Partition("day"), True),
        (Partition("number", start="1"), True),
        (Partition("day", start="2026-01-01"), "Mon-Fried"),
        (Partition("day", start="2026-01-01"), {"weekdays": "Mon"}),
        (Partition("day", start="2026-01-01"), {"without": ["2026-02-30"]}),
        (Partition("month", start="2026-01"), {"only": ["2026-01-01"]}),
        (Partition("day", start="2026-01-01"), 7),
    ],
)
def test_a_calendar_that_makes_no_sense_is_refused(partition: Partition, rule: object) -> None:
    with pytest.raises(BadDefinition):
        Dataset("periods", partition=partition, options={"calendar": rule})


def test_no_job_writes_a_calendar(store: Store) -> None:
    with pytest.raises(BadDefinition, match="whose chunks the clock announces"):
        store.register([calendar(), Dataset("raw")], [Job("make", (Input("raw"),), ("periods",))])


def test_a_look_finds_the_periods_that_a_claim_would_announce(store: Store, open_again: Callable[..., Store]) -> None:
    at(store, "2026-11-07T12:00")
    assert made(store, calendar()) == ["2026-11-05", "2026-11-06"]
    looker = open_again()
    at(looker, "2026-11-09T12:00")
    with looker.looking() as pending:
        assert pending.words == ("2 calendar periods are over and pending: the next claim announces them",)
        assert looker.views.next_dataids("make") == ["2026-11-07", "2026-11-08"]
    assert looker.views.next_dataids("make") == [], "only a claim announces them"
    assert looker.views.last_events("periods", "2026-11-07", 10) == []
    at(store, "2026-11-09T12:00")
    assert drained(store) == ["2026-11-07", "2026-11-08"]


def test_a_look_announces_no_today(store: Store) -> None:
    at(store, "2026-11-07T12:00")
    store.register([Dataset("made", partition=Partition("day"))], [Job("make", (Input("today"),), ("made",))])
    with store.looking():
        assert store.views.chunk("today", "2026-11-07") is None
        why = about_job(store, store.catalogue(), store.catalogue().job("make"))
        assert why.reasons[0].commands == ("odf run make",), "which announces it"
    assert drained(store) == ["2026-11-07"]


def test_a_period_that_was_announced_ahead_of_time_stops_no_other(store: Store) -> None:
    at(store, "2026-11-07T12:00")
    made(store, calendar())
    store.announce("periods", ["2026-11-20"])
    at(store, "2026-11-09T12:00")
    assert drained(store) == ["2026-11-07", "2026-11-08", "2026-11-20"]


@pytest.mark.parametrize(
    ("dataid", "reason"), [("2026-11-08", "leaves it out"), ("2026-11-09", "this day is not over"), ("2026-11-06", "")]
)
def test_what_the_clock_did_not_announce_has_a_reason(dataid: str, reason: str) -> None:
    now = datetime(2026, 11, 9, 12, tzinfo=BERLIN).timestamp()
    found = why_unannounced(calendar(rule="Mon-Fri"), dataid, now, BERLIN)
    assert reason in found
    assert bool(reason) == bool(found)


def test_a_period_that_the_clock_announced_is_not_resubmitted(store: Store) -> None:
    at(store, "2026-11-07T12:00")
    assert made(store, calendar()) == ["2026-11-05", "2026-11-06"]
    with pytest.raises(BadTransition) as problem:
        store.resubmit("periods", ["2026-11-05"])
    assert "odf resubmit made 2026-11-05" in problem.value.hint
    store.fail_chunks("periods", ["2026-11-05"])
    (left,) = plan(store).by_hand
    assert left.who == "you (the calendar announces each day only once)"
    assert left.commands == ("odf ready periods 2026-11-05",)
    store.announce("periods", ["2026-11-05"])
    assert not plan(store).by_hand
    assert explain(store.views, "periods", "2026-11-05").by_clock


def test_a_period_that_is_not_over_is_not_announced(store: Store) -> None:
    over = datetime(2026, 11, 7, 22, 30, tzinfo=ZoneInfo("UTC")).timestamp()  # 23:30 in Berlin
    check_over(calendar(), ["2026-11-06"], over, BERLIN)
    with pytest.raises(DataNotReady, match="periods 2026-11-07: this day is not over"):
        check_over(calendar(), ["2026-11-06", "2026-11-07"], over, BERLIN)
    check_over(Dataset("raw", partition=Partition("day")), ["2026-11-07"], over, BERLIN)
