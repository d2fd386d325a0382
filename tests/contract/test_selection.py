"""Which chunks a selector means, on every store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from opendataflow import Store
from opendataflow.errors import OdfError, UnknownDataset, UnknownJob, UsageError
from opendataflow.insight.selection import scope, select
from opendataflow.model.selector import Selector, Subject
from tests.support.flows import chain, claim_one

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
ALL = ("READY", "FAILED", "RESUBMIT", "HOLD", "PENDING")


@pytest.fixture
def flow(store: Store) -> Store:
    """raw 1–6 → make → product → use → report: product 2 and 3 failed, report has 1 and 4, raw 6 is held."""
    chain(store)
    store.announce("raw", [str(n) for n in range(1, 7)])
    why = {"2": "disk 7 is full", "3": "no such table 'x'"}
    for claim in store.claim("make", 6):
        if claim.dataid in why:
            store.fail(claim, outcome="JOB_FAILED" if claim.dataid == "2" else "TIMED_OUT", detail=why[claim.dataid])
        else:
            store.commit(claim)
    for claim in store.claim("use", 2):
        store.commit(claim)
    store.hold("raw", ["6"], why="the vendor")
    return store


def meant(store: Store, selector: Selector, **how: object) -> dict[str, list[str]]:
    return {each.datasetid: each.dataids for each in select(store, selector, **how)}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("selector", "chunks"),
    [
        (Selector(("product",), ("1", "2..3")), {"product": ["1", "2", "3"]}),
        (Selector(jobs=("make", "use"), dataids=("1",)), {"product": ["1"], "report": ["1"]}),
        (Selector(statuses=("FAILED",)), {"product": ["2", "3"]}),
        (Selector(("product",), statuses=("FAILED", "READY")), {"product": ["1", "2", "3", "4", "5", "6"]}),
        (Selector(("product",), ("1..2",), statuses=("FAILED",)), {"product": ["2"]}),
        (Selector(causes=("Disk 9 is full",)), {"product": ["2"]}),
        (Selector(causes=("TIMED_OUT",)), {"product": ["3"]}),
        (Selector(("raw",), causes=("vendor",)), {"raw": ["6"]}),
        (Selector(causes=("JOB_FAILED", "TIMED_OUT"), statuses=("READY",)), {}),
        (Selector(("raw",), since=LONG_AGO, statuses=("HOLD",)), {"raw": ["6"]}),
        (Selector(("product",), until=LONG_AGO), {}),
        (Selector(who=("nobody",)), {}),
        (Selector(downstream_of=("raw:1",)), {"product": ["1"], "report": ["1"]}),
        (Selector(downstream_of=("raw:2",)), {}),
        (Selector(downstream_of=("raw:1", "raw:5")), {"product": ["1", "5"], "report": ["1"]}),
        (Selector(upstream_of=("report:4",)), {"product": ["4"]}),
        (Selector(("raw",), upstream_of=("report:4",)), {"raw": ["4"]}),
        (Selector(downstream_of=("product",)), {"report": ["1", "4"]}),
        (Selector(downstream_of=("raw",), statuses=("FAILED",)), {"product": ["2", "3"]}),
        (Selector(jobs=("use",), downstream_of=("raw:1",)), {"report": ["1"]}),
        (Selector(("product",), everything=True), {"product": ["1", "2", "3", "4", "5", "6"]}),
    ],
    ids=lambda each: " ".join(each.words()) if isinstance(each, Selector) else "",
)
def test_a_selector_means_these_chunks(flow: Store, selector: Selector, chunks: dict[str, list[str]]):
    assert meant(flow, selector, statuses=ALL) == chunks


def test_who_changed_a_chunk_last_is_asked_of_the_history(flow: Store):
    me = flow.views.last_events("product", "2", 1)[0].who
    assert me is not None
    assert meant(flow, Selector(who=(me.partition("@")[0],), statuses=("FAILED",))) == {"product": ["2", "3"]}
    assert meant(flow, Selector(since=datetime.now(UTC) - timedelta(days=1), statuses=("FAILED",))) == {
        "product": ["2", "3"]
    }
    assert meant(flow, Selector(since=datetime.now(UTC) + timedelta(days=1), statuses=("FAILED",))) == {}


def test_a_range_means_new_chunks_only_where_nothing_is_asked_of_them(flow: Store):
    assert meant(flow, Selector(("raw",), ("6..8",)), new_ones=True) == {"raw": ["6", "7", "8"]}
    assert meant(flow, Selector(("raw",), ("6..8",), statuses=("HOLD",)), new_ones=True) == {"raw": ["6"]}


def test_what_was_made_again_from_something_else_is_no_longer_downstream(flow: Store):
    flow.resubmit("product", ["1"])
    flow.commit(claim_one(flow, "make"))
    assert meant(flow, Selector(upstream_of=("product:1",), datasets=("raw",))) == {"raw": ["1"]}
    assert meant(flow, Selector(downstream_of=("product:1",))) == {"report": ["1"]}


@pytest.mark.parametrize(
    ("selector", "error"),
    [
        (Selector(), UsageError),
        (Selector(everything=True), UsageError),
        (Selector(("product",)), UsageError),
        (Selector(("product",), ("1",), everything=True), UsageError),
        (Selector(("nothing",), ("1",)), UnknownDataset),
        (Selector(jobs=("nothing",), everything=True), UnknownJob),
        (Selector(("raw",), jobs=("make",), everything=True), UsageError),
        (Selector(downstream_of=("nothing",)), UnknownDataset),
        (Selector(downstream_of=("raw", "raw:1")), UsageError),
    ],
)
def test_what_names_nothing_is_refused(flow: Store, selector: Selector, error: type[OdfError]):
    with pytest.raises(error):
        select(flow, selector)


def test_a_scope_says_of_one_chunk_whether_it_is_meant(flow: Store):
    downstream = scope(flow, Selector(downstream_of=("raw",), statuses=("FAILED",)))
    assert downstream.matches(Subject("product", "2", "make", "FAILED"))
    assert not downstream.matches(Subject("raw", "2", "outside", "FAILED"))
    assert not downstream.matches(Subject("product", "2", "make", "READY"))
    one = scope(flow, Selector(downstream_of=("raw:1",)))
    assert one.matches(Subject("report", "1"))
    assert not one.matches(Subject("report", "4"))
    made = scope(flow, Selector(jobs=("make",), dataids=("1..3",)))
    assert made.matches(Subject("product", "2", "outside")), "it belongs to its producer, whoever touched it"
    assert not made.matches(Subject("report", "2", "use"))
    with pytest.raises(UnknownJob):
        scope(flow, Selector(jobs=("nothing",)))
