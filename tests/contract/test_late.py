"""What is late, and what holds it up."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from opendataflow import Dataset, Partition, Store
from opendataflow.insight.absent import LOOK_BACK, missing_in
from opendataflow.insight.axis import FIRST_KEY, LAST_KEY
from opendataflow.insight.chunk_sheet import chunk_sheet
from opendataflow.insight.explain import explain
from opendataflow.insight.health import health
from opendataflow.insight.late import LATE, Late, late
from opendataflow.insight.why import why
from opendataflow.model import TODAY
from opendataflow.project import without_file
from tests.support.flows import claim_one, dataset, job, produce

NOWHERE = without_file(Path("/data"), None)
MORNING = datetime(2026, 11, 15, 7, 0, tzinfo=UTC).timestamp()


def at(store: Store, moment: float) -> Store:
    """The store at this moment."""
    store.views.clock = lambda: moment  # type: ignore[method-assign]
    return store


@pytest.fixture
def flow(store: Store) -> Store:
    """raw → clean → report, by day; the report is due at six, and raw is expected."""
    rules = {"options": {"deadline": "06:00"}}
    store.register(
        [
            dataset("raw", "day", options={"expected": True}),
            dataset("clean", "day"),
            dataset("report", "day", **rules),
        ],
        [job("make", "raw", writes="clean"), job("use", "clean", writes="report")],
    )
    return at(store, MORNING)


def found(store: Store) -> list[Late]:
    return list(late(store).late)


def signs(store: Store) -> list[tuple[str, str, str]]:
    return [(each.datasetid, each.dataid, each.sign) for each in found(store)]


def test_nothing_is_late_where_nothing_was_ever_there(flow: Store) -> None:
    assert signs(flow) == []


def test_a_chunk_that_is_ready_in_time_is_not_late(flow: Store) -> None:
    flow.announce("raw", ["2026-11-14"])
    produce(flow, "make")
    produce(flow, "use")
    assert signs(flow) == []


def test_before_its_deadline_nothing_is_late(flow: Store) -> None:
    flow.announce("raw", ["2026-11-13"])
    produce(flow, "make")
    produce(flow, "use")
    at(flow, MORNING - 2 * 3600)
    assert signs(flow) == [("raw", "2026-11-14", "MISSING")]
    at(flow, MORNING)
    assert signs(flow) == [("raw", "2026-11-14", "MISSING"), ("report", "2026-11-14", LATE)]


def test_the_chain_begins_with_what_nobody_delivered(flow: Store) -> None:
    flow.announce("raw", ["2026-11-13"])
    produce(flow, "make")
    produce(flow, "use")
    report = found(flow)[-1]
    assert [(link.datasetid, link.state) for link in report.chain] == [
        ("raw", "NOT DELIVERED"),
        ("clean", "WAITING"),
        ("report", "WAITING"),
    ]
    assert report.status is None
    assert report.expected is None
    assert report.seconds_late == 3600.0
    assert report.due == datetime(2026, 11, 15, 6, tzinfo=UTC)


def test_the_chain_begins_with_what_failed_and_says_why(flow: Store) -> None:
    flow.announce("raw", ["2026-11-13", "2026-11-14"])
    produce(flow, "make", "2026-11-13")
    produce(flow, "use", "2026-11-13")
    flow.fail(claim_one(flow, "make"), detail="the disk is full")
    (report,) = found(flow)
    assert report.root.state == "FAILED"
    assert "the disk is full" in report.root.why
    assert report.expected is None
    assert report.seconds_left is not None


def test_a_run_that_is_on_its_way_says_when_it_is_expected(flow: Store) -> None:
    flow.announce("raw", ["2026-11-13", "2026-11-14"])
    produce(flow, "make", "2026-11-13")
    produce(flow, "use", "2026-11-13")
    claim_one(flow, "make")
    (report,) = found(flow)
    assert (report.root.state, report.root.jobid) == ("RUNNING", "make")
    assert report.expected is not None


def test_a_chunk_that_was_set_aside_is_late_and_says_by_whom(flow: Store) -> None:
    flow.announce("raw", ["2026-11-14"])
    produce(flow, "make")
    flow.hold("clean", ["2026-11-14"], why="the vendor looks at it")
    flow.announce("raw", ["2026-11-13"])
    produce(flow, "make")
    produce(flow, "use", "2026-11-13")
    (report,) = found(flow)
    assert report.root.state == "HOLD"
    assert "the vendor looks at it" in report.root.why


def test_a_delivery_that_was_refused_is_told_as_such(flow: Store) -> None:
    flow.announce("raw", ["2026-11-13"])
    flow.refuse_arrival("raw", "2026-11-14", "NOT_VALIDATED", "it has 0 rows")
    (raw,) = [each for each in found(flow) if each.datasetid == "raw"]
    assert (raw.sign, raw.root.state) == ("REFUSED", "REFUSED")
    assert "it has 0 rows" in raw.root.why


def test_what_could_run_and_nobody_started_is_told(flow: Store) -> None:
    flow.announce("raw", ["2026-11-13", "2026-11-14"])
    produce(flow, "make", "2026-11-13")
    produce(flow, "use", "2026-11-13")
    produce(flow, "make", "2026-11-14")
    (report,) = found(flow)
    assert (report.root.datasetid, report.root.state) == ("report", "CLAIMABLE")


def test_a_chunk_that_is_made_again_after_its_deadline_is_late_until_it_is_ready(flow: Store) -> None:
    flow.announce("raw", ["2026-11-14"])
    produce(flow, "make")
    produce(flow, "use")
    flow.resubmit("report", ["2026-11-14"])
    assert signs(flow) == [("report", "2026-11-14", LATE)]
    explained = explain(flow.views, "report", "2026-11-14")
    assert explained.missed == datetime(2026, 11, 15, 6, tzinfo=UTC)
    assert [reason.name for reason in why(flow, "use", "2026-11-14").reasons][-1] == LATE
    checked = health(flow)
    assert (checked.level, checked.figures["late"]) == (1, 1)
    produce(flow, "use")
    assert signs(flow) == []
    assert explain(flow.views, "report", "2026-11-14").missed is None
    assert LATE not in [reason.name for reason in why(flow, "use", "2026-11-14").reasons]
    assert (health(flow).level, health(flow).figures["late"]) == (0, 0)


def test_a_dataset_that_expects_nothing_is_late_only_with_what_it_has(store: Store) -> None:
    options = {"deadline": "06:00", "expected": False}
    store.register([Dataset("log", partition=Partition("day"), options=options)], [job("write", writes="log")])
    at(store, MORNING)
    claim = claim_one(store, "write", dataid="2026-11-01")
    store.fail(claim)
    assert signs(store) == [("log", "2026-11-01", LATE)]


@pytest.mark.parametrize("options", [{}, {"expected": False}])
def test_a_chunk_that_is_not_expected_has_missed_no_deadline_at_any_door(
    store: Store, options: dict[str, object]
) -> None:
    rules = {"deadline": "06:00"} | options
    store.register(
        [dataset("raw", "day"), dataset("report", "day", options=rules)], [job("use", "raw", writes="report")]
    )
    at(store, MORNING)
    store.announce("raw", ["2026-11-01", "2026-11-10"])
    if not options:
        claim_one(store, "use", dataid="2026-11-10")  # expected from here on
    late_ones = {dataid for _, dataid, _ in signs(store)}
    for dataid in ("2026-11-01", "2026-11-09", "2026-11-10", "2026-11-11"):
        is_late = dataid in late_ones
        assert (explain(store.views, "report", dataid).missed is not None) == is_late, dataid
        assert (LATE in [reason.name for reason in why(store, "use", dataid).reasons]) == is_late, dataid
        sheet = chunk_sheet(store, NOWHERE, "report", dataid)
        assert (sheet.missed is not None) == is_late, dataid


@pytest.mark.parametrize(
    "rule",
    ["Mon-Fri", {"without": ["2026-11-07", "2026-11-08"]}, {"only": [f"2026-11-{day:02}" for day in (5, 6, 9, 10)]}],
)
def test_a_period_that_a_calendar_upstream_leaves_out_is_not_expected(store: Store, rule: object) -> None:
    store._clock = lambda: datetime(2026, 11, 11, 7, tzinfo=UTC).timestamp()
    at(store, store._clock())
    store.register(
        [
            dataset("days", "day", start="2026-11-05", options={"calendar": rule}),
            dataset("rates", "day"),
            dataset("report", "day", options={"deadline": "06:00", "expected": True}),
        ],
        [job("fetch", "days", writes="rates"), job("use", "rates", writes="report")],
    )
    for _ in range(3):
        produce(store, "fetch")
        produce(store, "use")
    assert signs(store) == [("report", "2026-11-10", LATE)]
    assert missing_in(store.views, store.catalogue(), {"report": (FIRST_KEY, LAST_KEY)}) == {"report": ["2026-11-10"]}
    assert explain(store.views, "report", "2026-11-08").missed is None
    assert LATE not in [reason.name for reason in why(store, "use", "2026-11-08").reasons]


def test_what_was_never_there_is_looked_for_only_so_far_back(store: Store) -> None:
    store.register([dataset("raw", "day", start="2020-01-01", options={"expected": True})])
    at(store, MORNING)
    assert len(found(store)) == LOOK_BACK
    assert late(store).look_back == LOOK_BACK


def test_the_zone_of_the_project_counts(store: Store) -> None:
    store.register([Dataset("today", partition=Partition("day"), options={"timezone": "America/New_York"})])
    store.register([dataset("raw", "day", start="2026-11-13", options={"deadline": "06:00"})])
    at(store, datetime(2026, 11, 14, 10, 59, tzinfo=UTC).timestamp())
    assert signs(store) == []
    at(store, datetime(2026, 11, 14, 11, 1, tzinfo=UTC).timestamp())
    assert signs(store) == [("raw", "2026-11-13", "MISSING")]


def test_only_what_is_asked_for_is_listed(flow: Store) -> None:
    flow.announce("raw", ["2026-11-12"])
    listed = late(flow, lambda name, dataid, status: name == "raw" and dataid > "2026-11-13").late
    assert [(each.datasetid, each.dataid) for each in listed] == [("raw", "2026-11-14")]


def test_more_than_fit_are_cut_and_said_to_be(store: Store) -> None:
    store.register([dataset("raw", "day", start="2026-11-01", options={"expected": True})])
    at(store, MORNING)
    seen = late(store, most=3)
    assert (len(seen.late), seen.more) == (3, True)
    assert seen.late[0].dataid == "2026-11-01"


@pytest.mark.parametrize(
    "options",
    [
        {"deadline": "+999999d"},
        {"deadline": "+99999999w"},
        {"expected": "999999d"},
        {"expected": 1e308},
        {"expected": 10**400},
        {"deadline": "06:00", "expected": "999999d"},
    ],
)
def test_what_no_project_file_would_take_is_no_deadline(store: Store, options: dict[str, object]) -> None:
    store.register([dataset("raw", "day", options=options)])
    store.announce("raw", ["2026-11-14"])
    at(store, MORNING)
    assert not [each for each in found(store) if each.datasetid != "raw"]
    assert health(store) is not None
    assert explain(store.views, "raw", "2026-11-13") is not None


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("rule", ["+2h", "06:00", "+366d"])
def test_chunks_at_the_ends_of_the_calendar_are_not_late(store: Store, zone: str, rule: str) -> None:
    store.register([replace(TODAY, options={"timezone": zone}), dataset("hourly", "hour", options={"deadline": rule})])
    edges = ["0001-01-01T00", "0001-12-31T23", "9999-12-31T22", "9999-12-31T23"]
    store.announce("hourly", edges)
    store.hold("hourly", edges)
    at(store, MORNING)
    late_ones = found(store)
    assert not set(edges[2:]) & {each.dataid for each in late_ones}
    assert all(each.due.year > 1 for each in late_ones)
    for edge in edges:
        assert explain(store.views, "hourly", edge) is not None
