"""What the store was at a moment of the past, from events, runs and manifests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from opendataflow import Manifest, Store
from opendataflow.model import Answer, Receipt
from tests.support.flows import chain, change, claim_one, fold_in, produce, put, status

BEGIN = datetime(2026, 11, 13, 6, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return BEGIN + timedelta(minutes=minutes)


def tell(store: Store, minutes: float, kind: str, change: str, **rest: object) -> None:
    """An event of product 1, as the engine writes it, at a time that the test chooses."""
    before, after = (None if word == "-" else word for word in change.split(" → "))
    facts = {"datasetid": "product", "dataid": "1", "jobid": "make", "before": before, "after": after} | rest
    values = ["null" if value is None else f"'{value}'" for value in facts.values()]
    store.dml(
        f"insert into event (at, kind, {', '.join(facts)}) "
        f"values ('{at(minutes):%Y-%m-%d %H:%M:%S.%f}+00', '{kind}', {', '.join(values)})"
    )


def was(store: Store, minutes: float, chunk: tuple[str, str] = ("product", "1")) -> str | None:
    return store.views.chunks_then([chunk], at(minutes))[chunk].status


def now() -> datetime:
    return datetime.now(UTC)


def test_a_chunk_was_what_its_last_event_says(store: Store) -> None:
    chain(store)
    tell(store, 1, "claimed", "- → RUNNING", runid=7, epoch=1)
    tell(store, 2, "failed", "RUNNING → FAILED", runid=7, epoch=1)
    tell(store, 3, "resubmitted", "FAILED → RESUBMIT")
    tell(store, 4, "claimed", "RESUBMIT → RUNNING", runid=8, epoch=2)
    tell(store, 5, "admitted", "- → YES", runid=8, epoch=2)
    tell(store, 6, "published", "RUNNING → READY", runid=8, epoch=2)
    assert [was(store, minute + 0.5) for minute in range(8)] == [
        None,
        "RUNNING",
        "FAILED",
        "RESUBMIT",
        "RUNNING",
        "RUNNING",
        "READY",
        "READY",
    ]
    chunk = store.views.chunks_then([("product", "1")], at(6))["product", "1"]
    assert (chunk.version, chunk.epoch, chunk.runid, chunk.since, chunk.jobid) == (2, 2, 8, at(6), "make")
    assert not store.views.chunks_then([("product", "1")], at(0))["product", "1"].is_known
    assert store.views.chunks_then([("product", "1")], at(0))["product", "1"].known_from == at(1)


def test_a_change_by_sql_counts_from_when_it_was_made_although_it_is_told_later(store: Store) -> None:
    chain(store)
    tell(store, 1, "announced", "- → READY", datasetid="raw", epoch=1)
    tell(store, 5, "announced", "FAILED → READY", datasetid="raw", epoch=2)
    tell(store, 2, "sql", "READY → FAILED", datasetid="raw", jobid="outside")
    chunk = ("raw", "1")
    assert [was(store, minute, chunk) for minute in (1, 2, 4, 5)] == ["READY", "FAILED", "FAILED", "READY"]


def test_what_a_reader_is_told_is_no_status_of_the_chunk(store: Store) -> None:
    chain(store)
    tell(store, 1, "published", "RUNNING → READY", epoch=1)
    tell(store, 2, "sql", "DONE → FAILED", jobid="use")
    tell(store, 3, "sql", "RUNNING → FAILED", jobid="use")
    assert was(store, 4) == "READY"


@pytest.mark.parametrize(
    "receipt", [Receipt("make", "1", (Answer("place", False),)), None], ids=["refused", "not begun"]
)
def test_a_claim_that_is_given_back_leaves_what_was_there_before_it(store: Store, receipt: Receipt | None) -> None:
    chain(store)
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    running = now()
    store.give_back(claim, receipt, "no")
    assert store.views.chunks_then([("product", "1")], running)["product", "1"].status == "RUNNING"
    after = store.views.chunks_then([("product", "1")], now())["product", "1"]
    assert (after.status, after.is_known) == (None, True)


def test_a_version_is_known_from_publishes_announcements_and_rollbacks(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"], manifests={"1": Manifest(fingerprint="a")})
    first = now()
    store.announce("raw", ["1"], manifests={"1": Manifest(fingerprint="b")}, again=True)
    second = now()
    store.rollback("raw", "1", to=1)
    versions = [
        store.views.chunks_then([("raw", "1")], moment)["raw", "1"].version for moment in (first, second, now())
    ]
    assert versions == [1, 2, 1]


def test_what_was_before_the_first_event_is_told_by_it(store: Store) -> None:
    chain(store)
    tell(store, 3, "held", "READY → HOLD")
    chunk = store.views.chunks_then([("product", "1")], at(1))["product", "1"]
    assert (chunk.status, chunk.is_known, chunk.known_from, chunk.since) == ("READY", True, at(3), None)


def test_a_chunk_without_a_history_is_known_from_its_row(store: Store) -> None:
    chain(store)
    put(store, "raw", "1", "READY")
    asked = [("raw", "1"), ("raw", "2")]
    late, never = (store.views.chunks_then(asked, now() + timedelta(seconds=1))[chunk] for chunk in asked)
    assert (late.status, late.is_known) == ("READY", True)
    assert (never.status, never.is_known) == (None, False)
    assert not store.views.chunks_then([("raw", "1")], at(0))["raw", "1"].is_known


def test_now_is_as_now(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2", "3"])
    produce(store, "make")
    store.fail(claim_one(store, "make"), detail="exit 3")
    claim_one(store, "make")
    change(store, "product", "2", "HOLD")
    fold_in(store)
    store.forget("raw", ["3"])
    chunks = [(name, dataid) for name in ("raw", "product", "report") for dataid in "1234"]
    then = store.views.chunks_then(chunks, now() + timedelta(seconds=1))
    assert list(then) == chunks
    assert {chunk: then[chunk].status for chunk in chunks} == {chunk: status(store, *chunk) for chunk in chunks}
    current = {(row.datasetid, row.dataid): row.version for row in store.views.current(chunks).values()}
    assert {chunk: then[chunk].version for chunk in current} == current


def test_the_event_before_a_moment_is_found_by_its_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opendataflow.store.views.as_of._MARGIN", 0)
    chain(store)
    assert store.views.first_event() is None
    assert store.views.event_before(at(0)) == 0
    for minute in range(40):
        tell(store, minute, "published", "RUNNING → READY", dataid=str(minute))
    tell(store, 5, "sql", "READY → FAILED")  # folded in late
    tell(store, 50, "published", "RUNNING → READY")
    first = store.views.events(n=1)[0].eventid
    found = [store.views.event_before(at(minute)) - first for minute in (-1, 0, 7.5, 39, 45, 50, 99)]
    assert found[0] < 0
    assert found[1:] == [0, 7, 39, 39, 41, 41]
    assert store.views.first_event() == at(0)


def test_the_event_before_is_a_little_late_rather_than_early(store: Store) -> None:
    chain(store)
    for minute in range(3):
        tell(store, minute, "published", "RUNNING → READY")
    assert store.views.event_before(at(0)) == store.views.events()[-1].eventid


def test_events_up_to_a_moment_are_newest_first(store: Store) -> None:
    chain(store)
    tell(store, 1, "claimed", "- → RUNNING")
    tell(store, 3, "published", "RUNNING → READY")
    tell(store, 2, "sql", "READY → FAILED")
    assert [event.kind for event in store.views.events_until("product", "1", at(2.5))] == ["sql", "claimed"]
    assert [event.kind for event in store.views.events_until("product", "1", at(9), n=1)] == ["published"]


def test_what_is_gone_since_and_what_was_moved_before(store: Store) -> None:
    chain(store)
    tell(store, 1, "published", "RUNNING → READY", dataid="1")
    tell(store, 2, "published", "RUNNING → READY", dataid="2")
    tell(store, 3, "forgotten", "READY → -", dataid="1")
    assert store.views.gone_since(at(2)) == [("product", "1")]
    assert store.views.gone_since(at(4)) == []
    assert store.views.gone_since(at(2), look_back=0) == []
    assert sorted(store.views.moved_before(["product"], at(9))) == [("product", "1"), ("product", "2")]
    assert store.views.moved_before(["raw"], at(9)) == []


def test_receipts_and_runs_of_a_job_at_a_moment(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    produce(store, "make")
    between = now()
    claim = claim_one(store, "make")
    running = now()
    store.fail(claim, detail="exit 3")
    assert [run.dataid for run in store.views.running_at("make", running)] == ["2"]
    assert store.views.running_at("make", between) == store.views.running_at("make", now()) == []
    assert {event.dataid for event in store.views.receipts_until("make", between)} == {"1"}
    newest = store.views.receipts_until("make", running, n=1)
    assert [(event.dataid, event.receipt is not None) for event in newest] == [("2", True)]
    assert store.views.receipts_until("use", now()) == []


def test_refused_arrivals_are_known_until_something_happens_to_their_chunk(store: Store) -> None:
    chain(store)
    tell(store, 1, "refused", "- → WRONG_DATA", datasetid="raw", jobid="outside")
    tell(store, 3, "announced", "- → READY", datasetid="raw", jobid="outside")
    assert [event.dataid for event in store.views.refusals_until(at(2))] == ["1"]
    assert store.views.refusals_until(at(0)) == store.views.refusals_until(at(3)) == []


@pytest.mark.parametrize("name", ["NOT_VALIDATED", "UNTRUSTED_DEFINITION"])
def test_a_refused_attempt_counts_while_its_inputs_have_the_versions_that_it_was_about(store: Store, name: str) -> None:
    chain(store)
    store.announce("raw", ["1"], manifests={"1": Manifest(bytes=1)})
    answer = Answer("validated", False, {}, "changed", own_no=name if name == "UNTRUSTED_DEFINITION" else "")
    store.give_back(claim_one(store, "make"), Receipt("make", "1", (answer,)), "changed")
    refused = now()
    assert [event.after for event in store.views.refusals("make")] == [name]
    store.announce("raw", ["1"], manifests={"1": Manifest(bytes=2)})
    counts = [name] if name == "UNTRUSTED_DEFINITION" else []
    assert [event.after for event in store.views.refusals("make")] == counts
    corrected = now()
    store.rollback("raw", "1")
    assert [event.after for event in store.views.refusals("make")] == [name]
    assert [event.after for event in store.views.refusals_until(refused)] == [name]
    assert [event.after for event in store.views.refusals_until(corrected)] == counts
    assert [event.after for event in store.views.refusals_until(now())] == [name]
