"""What happened, newest first, to whatever a selector means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from opendataflow import Store
from opendataflow.errors import UnknownDataset, UnknownJob, UsageError
from opendataflow.insight import history as history_module
from opendataflow.insight.history import KINDS, history
from opendataflow.model.selector import Selector
from opendataflow.store.views import Filter, Stretch
from tests.support.flows import chain, claim_one, fold_in, put

SOON = timedelta(days=1)
ANY = Selector()


@pytest.fixture
def flow(store: Store) -> Store:
    """raw 1–3 → make → product → use → report: product 2 failed and was resubmitted, report 1 is made, make is paused."""
    chain(store)
    store.announce("raw", ["1", "2", "3"])
    for claim in store.claim("make", 3):
        if claim.dataid == "2":
            store.fail(claim, outcome="TIMED_OUT", detail="longer than 7 s")
        else:
            store.commit(claim)
    store.commit(claim_one(store, "use"))
    store.resubmit("product", ["2"], why="the network is back")
    store.pause("make", why="a new disk")
    return store


def told(store: Store, selector: Selector = ANY, **how: object) -> list[str]:
    page = history(store, selector, **how)  # type: ignore[arg-type]
    return [" ".join(filter(None, (each.kind, each.datasetid, each.dataid))) for each in page.events]


def everything(store: Store) -> list[str]:
    return [" ".join(filter(None, (each.kind, each.datasetid, each.dataid))) for each in store.views.events()][::-1]


def test_everything_is_told_newest_first(flow: Store):
    assert told(flow) == everything(flow)
    page = history(flow, ANY, n=2)
    assert [(each.kind, each.what) for each in page.events] == [
        ("paused", "job paused"),
        ("resubmitted", "resubmitted"),
    ]
    resubmitted = page.events[1]
    assert (resubmitted.before, resubmitted.after, resubmitted.why) == ("FAILED", "RESUBMIT", "the network is back")
    assert page.older == resubmitted.eventid


def test_page_follows_page_until_nothing_is_left(flow: Store):
    pages: list[str] = []
    before: int | None = None
    while True:
        page = history(flow, ANY, n=3, before=before)
        pages += [" ".join(filter(None, (each.kind, each.datasetid, each.dataid))) for each in page.events]
        if page.older is None:
            break
        before = page.older
    assert pages == everything(flow)


@pytest.mark.parametrize(
    ("selector", "kinds", "expected"),
    [
        (Selector(("product",), ("2",)), (), ["resubmitted product 2", "failed product 2", "claimed product 2"]),
        (Selector(("product",), ("2..3",)), ("published",), ["published product 3"]),
        (Selector(statuses=("FAILED",)), (), ["failed product 2"]),
        (Selector(causes=("TIMED_OUT",)), (), ["failed product 2"]),
        (Selector(causes=("longer than 9 s",)), (), ["failed product 2"]),
        (Selector(("report",)), ("published", "claimed"), ["published report 1", "claimed report 1"]),
        (Selector(jobs=("use",)), (), ["published report 1", "claimed report 1"]),
        (Selector(jobs=("make",)), ("paused", "failed"), ["paused", "failed product 2"]),
        (ANY, ("announced",), ["announced raw 3", "announced raw 2", "announced raw 1"]),
        (Selector(downstream_of=("product",)), (), ["published report 1", "claimed report 1"]),
        (Selector(upstream_of=("report:1",), datasets=("raw",)), (), ["announced raw 1"]),
        (Selector(who=("nobody",)), (), []),
        (Selector(until=datetime(2001, 1, 1, tzinfo=UTC)), (), []),
        (Selector(since=datetime.now(UTC) + SOON), (), []),
    ],
)
@pytest.mark.parametrize("stretch", [20_000, 3])
def test_a_selector_says_which_events_are_meant(
    flow: Store,
    monkeypatch: pytest.MonkeyPatch,
    selector: Selector,
    kinds: tuple[str, ...],
    expected: list[str],
    stretch: int,
):
    """Whether all that is meant is among the newest events, or has to be found by an index."""
    monkeypatch.setattr(history_module, "_STRETCH", stretch)
    found: list[str] = []
    before: int | None = None
    while True:
        page = history(flow, selector, kinds=kinds, before=before)
        found += [" ".join(filter(None, (each.kind, each.datasetid, each.dataid))) for each in page.events]
        before = page.older
        if before is None:
            break
    assert [each for each in found if not each.startswith("admitted")] == expected


def test_the_same_is_found_by_every_index_a_few_at_a_time(flow: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(history_module, "_LOOK", 1)
    assert told(flow, Selector(("product",), ("2",)))[:2] == ["resubmitted product 2", "failed product 2"]
    assert told(flow, ANY, kinds=("failed", "resubmitted")) == ["resubmitted product 2", "failed product 2"]


def test_who_did_something_is_found_by_how_the_name_begins(flow: Store):
    me = flow.views.events()[-1].who
    assert me is not None
    assert told(flow, Selector(who=(me.partition("@")[0],))) == everything(flow)
    assert told(flow, Selector(since=datetime.now(UTC) - SOON, until=datetime.now(UTC) + SOON)) == everything(flow)


def test_a_change_by_sql_is_found_at_the_time_when_it_was_typed(flow: Store):
    put(flow, "raw", "9", "READY")
    fold_in(flow)
    (change,) = history(flow, ANY, kinds=("sql",)).events
    assert (change.what, change.datasetid, change.dataid, change.after) == ("changed by SQL", "raw", "9", "READY")


def test_what_is_gone_still_has_its_history(flow: Store):
    flow.forget("product", ["1"])
    assert told(flow, Selector(("product",), ("1",)))[0] == "forgotten product 1"
    with pytest.raises(UnknownDataset):
        history(flow, Selector(("nothing",)))
    with pytest.raises(UnknownJob):
        history(flow, Selector(jobs=("nothing",)))
    with pytest.raises(UsageError):
        history(flow, ANY, kinds=("nothing",))


def test_every_kind_that_the_store_tells_has_words(flow: Store):
    assert {event.kind for event in flow.views.events()} <= set(KINDS)


def test_how_a_run_ended_is_told_where_it_ended(flow: Store):
    (failed,) = history(flow, Selector(statuses=("FAILED",))).events
    assert (failed.outcome, failed.why) == ("TIMED_OUT", "longer than 7 s")
    assert all(each.outcome is None for each in history(flow, ANY, kinds=("claimed",)).events)


def test_every_event_of_a_stretch_is_looked_at(flow: Store):
    newest = flow.views.newest_event()
    events = flow.views.history(Stretch(newest + 1, newest - 4), Filter(), 100)
    assert [each.eventid for each in events] == [newest, newest - 1, newest - 2, newest - 3]
