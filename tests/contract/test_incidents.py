"""What needs a person: one line for each root cause, the worst first."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from opendataflow import Manifest, Pool, Store
from opendataflow.insight.incidents import OpenProblem, in_short, incidents
from tests.support.flows import chain, change, claim_one, dataset, drain, job, produce


def fail(store: Store, jobid: str, why: str) -> None:
    """The next chunk of a job fails."""
    claim = claim_one(store, jobid)
    store.fail(claim, detail=why)


def kinds(found: tuple[OpenProblem, ...]) -> list[str]:
    return [each.kind for each in found]


def test_nothing_needs_anybody_in_an_empty_store(store: Store) -> None:
    assert incidents(store) == ()
    assert in_short(()) == "0 incidents"


def test_failures_that_say_the_same_are_one_incident_with_what_waits_behind_it(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2", "3"])
    fail(store, "make", "no space left on /scratch/1")
    fail(store, "make", "no space left on /scratch/2")
    (found,) = incidents(store)
    assert (found.kind, found.n, found.failed_behind, found.waiting_behind) == ("FAILED", 2, 0, 2)
    assert (found.jobs, found.datasets, found.chunk) == (("make",), ("product",), ("product", "1"))
    assert found.text == "no space left on /scratch/1"
    assert found.since is not None
    assert (found.behind, found.cause) == (2, 1)


def test_the_worst_come_first(store: Store) -> None:
    chain(store)
    store.register([dataset("other")])
    store.announce("raw", ["1", "2"])
    store.announce("other", ["1"])
    produce(store, "make", "1")
    store.hold("product", ["1"])
    fail(store, "make", "no such host")
    store.refuse_arrival("other", "1", "WRONG_DATA", "the same content as 0")
    store.pause("use", why="a release")
    found = incidents(store)
    assert kinds(found) == ["FAILED", "REFUSED", "HOLD", "PAUSED"]
    assert found[1].text == "a later delivery was refused: the same content as 0"
    assert found[3].text == "by tester: a release"
    assert in_short(found) == "1 FAILED, 1 REFUSED, 1 HOLD, 1 PAUSED"


def test_a_pool_with_no_slots_is_paused(store: Store) -> None:
    chain(store, pools=[Pool("etl", 0), Pool("other", 1)], pool="etl")
    (found,) = incidents(store)
    assert (found.kind, found.pool, found.jobs) == ("PAUSED", "etl", ("make", "use"))
    assert found.text == "pool etl has 0 slots: nothing of 2 jobs can begin"


def test_late_and_missing_chunks_are_grouped_by_dataset(store: Store) -> None:
    store.register(
        [dataset("raw", "day", options={"expected": True}), dataset("report", "day", options={"deadline": "06:00"})],
        [job("make", "raw", writes="report")],
    )
    store.views.clock = lambda: datetime(2026, 11, 15, 7, tzinfo=UTC).timestamp()  # type: ignore[method-assign]
    store.announce("raw", ["2026-11-10"])
    produce(store, "make")
    late, missing = incidents(store)
    assert (late.kind, late.n, late.chunk) == ("LATE", 4, ("report", "2026-11-11"))
    assert late.text.startswith("raw 2026-11-11: NOT DELIVERED")
    assert (missing.kind, missing.n, missing.chunk) == ("MISSING", 4, ("raw", "2026-11-11"))


def test_what_came_and_was_refused_is_one_incident_and_not_missing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.register([dataset("raw", "day", options={"expected": True})])
    store.views.clock = lambda: datetime(2026, 11, 15, 7, tzinfo=UTC).timestamp()  # type: ignore[method-assign]
    store.announce("raw", ["2026-11-12"])
    store.refuse_arrival("raw", "2026-11-13", "WRONG_DATA", "it has 0 rows")
    refused, missing = incidents(store)
    assert (refused.kind, refused.n, refused.chunk) == ("REFUSED", 1, ("raw", "2026-11-13"))
    assert (missing.kind, missing.n, missing.chunk) == ("MISSING", 1, ("raw", "2026-11-14"))
    monkeypatch.setattr("opendataflow.insight.incidents._FOLLOWED", -1)
    assert [(each.kind, each.n) for each in incidents(store)] == [("REFUSED", 1), ("MISSING", 1)]


def test_a_broken_definition_is_an_incident(store: Store) -> None:
    chain(store)
    store.dml("update dataset set partition = 'purple' where datasetid = 'raw'")
    found = incidents(store)
    assert kinds(found) == ["BROKEN"]
    assert found[0].datasets == ("raw",)


def test_of_very_many_chunks_only_the_first_are_grouped_and_nobody_follows_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain(store)
    store.announce("raw", [str(n) for n in range(12)])
    for n in range(6):
        fail(store, "make", f"no space left on /scratch/{n}")
    monkeypatch.setattr("opendataflow.insight.incidents._FOLLOWED", 5)
    monkeypatch.setattr("opendataflow.insight.incidents._GROUPED", 4)
    (found,) = incidents(store)
    assert (found.kind, found.n, found.at_least, found.behind) == ("FAILED", 6, False, None)
    for _ in range(2):
        fail(store, "make", "no such host")
    monkeypatch.setattr("opendataflow.insight.incidents._GROUPED", 7)
    first, second = incidents(store)
    assert (first.n, first.at_least, second.n, second.at_least) == (6, True, 1, True)


def test_text_from_outside_cannot_begin_a_line_or_steer_a_terminal(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    fail(store, "make", "bad\n\x1b[31mred " + "x" * 1000)
    (found,) = incidents(store)
    assert "\n" not in found.text
    assert "\x1b" not in found.text
    assert len(found.text) == 300


def test_what_runs_or_waits_by_itself_is_no_incident(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    produce(store, "make", "1")
    claim_one(store, "make")
    store.resubmit("product", ["1"])
    assert incidents(store) == ()


def test_a_chunk_that_somebody_typed_as_failed_is_one(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    produce(store, "make", "1")
    change(store, "product", "1", "FAILED")
    with store.looking():
        (found,) = incidents(store)
    assert (found.kind, found.chunk) == ("FAILED", ("product", "1"))


def test_all_that_is_stale_is_one_incident_and_the_last(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    chain(store)
    for content in ("a", "b"):
        store.announce("raw", ["1", "2"], manifests={n: Manifest(fingerprint=f"{n}{content}") for n in ("1", "2")})
        drain(store, *(("make", "use") if content == "a" else ()))
    store.pause("use", why="a release")
    paused, found = incidents(store)
    assert (paused.kind, found.kind, found.n, found.at_least) == ("PAUSED", "STALE", 4, False)
    assert (found.datasets, found.chunk) == (("product", "report"), ("product", "1"))
    monkeypatch.setattr("opendataflow.insight.incidents._STALE", 2)
    assert incidents(store)[-1].at_least
