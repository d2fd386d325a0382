"""The looks of now, asked about then: matrix, list, explanation and reasons."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from opendataflow import Manifest, Store
from opendataflow.errors import BadDataid, UnknownJob
from opendataflow.insight.explain import explain
from opendataflow.insight.explain_then import explain_then
from opendataflow.insight.matrix import chunk_list, overview
from opendataflow.insight.past import chunk_list_then, overview_then
from opendataflow.insight.then import StoreAsOf
from opendataflow.insight.why_then import why_then
from opendataflow.model import Answer, Receipt
from tests.support.flows import chain, claim_one, dataset, job, produce

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def now() -> datetime:
    return datetime.now(UTC)


def statuses(store: Store, at: datetime, **how: str) -> dict[tuple[str, str], str]:
    return {(chunk.datasetid, chunk.dataid): chunk.status for chunk in chunk_list_then(store, at, (), **how)}


def test_the_matrix_of_now_is_that_of_a_moment_ago(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2", "3", "4"])
    produce(store, "make")
    store.fail(claim_one(store, "make"))
    claim_one(store, "make")
    store.hold("raw", ["4"])
    moment = now() + timedelta(seconds=1)
    then, today = overview_then(store, moment), overview(store.views)
    assert then.blocks == today.blocks
    assert (then.exceptions, then.untouched) == (today.exceptions, today.untouched)
    listed = [(chunk.datasetid, chunk.dataid, chunk.status, chunk.version) for chunk in chunk_list_then(store, moment)]
    assert listed == [(chunk.datasetid, chunk.dataid, chunk.status, chunk.version) for chunk in chunk_list(store.views)]


def test_the_matrix_goes_back_behind_everything_that_came_since(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    store.fail(claim_one(store, "make"))
    friday = now()
    store.resubmit("product", ["1"])
    produce(store, "make")
    store.announce("raw", ["3"])
    store.forget("raw", ["2"])
    assert statuses(store, friday) == {("raw", "1"): "READY", ("raw", "2"): "READY", ("product", "1"): "FAILED"}
    assert statuses(store, friday, status="FAILED") == {("product", "1"): "FAILED"}
    assert statuses(store, friday, since="2") == {("raw", "2"): "READY"}
    seen = overview_then(store, friday)
    assert [(each.datasetid, each.status, each.n) for each in seen.exceptions] == [("product", "FAILED", 1)]
    assert seen.untouched == ("report",)
    assert (seen.at, any("today" in remark for remark in seen.not_known)) == (friday, True)


def test_of_very_many_chunks_the_last_ones_by_then_are_looked_at(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opendataflow.insight.then._AT_LEAST", 5)
    monkeypatch.setattr("opendataflow.insight.past.LOOKED_AT", 5)
    chain(store)
    store.announce("raw", [str(n) for n in range(1, 21)])
    then = now()
    store.announce("raw", [str(n) for n in range(21, 41)])
    seen = overview_then(store, then, ["raw"])
    (line,) = seen.blocks[0].lines
    assert (line.last, line.at_least) == ("20", True)
    assert any("--from" in remark for remark in seen.not_known)
    (line,) = overview_then(store, then, ["raw"], exact=True).blocks[0].lines
    assert (line.first, line.last, line.counts) == ("1", "20", {"READY": 20})


def test_a_refused_arrival_shows_until_it_was_taken(store: Store) -> None:
    chain(store)
    store.refuse_arrival("raw", "1", "WRONG_DATA", "the rows are of another day")
    then = now()
    store.announce("raw", ["1"])
    (reason,) = overview_then(store, then).reasons
    assert (reason.dataid, reason.status) == ("1", "REFUSED")
    assert overview_then(store, now()).reasons == ()


def test_before_the_history_begins_nothing_is_known(store: Store) -> None:
    chain(store)
    assert "no history" in overview_then(store, LONG_AGO).not_known[0]
    store.announce("raw", ["1"])
    seen = overview_then(store, LONG_AGO)
    assert (seen.blocks, "nothing is known of that time" in seen.not_known[0]) == ((), True)
    explained = explain_then(store, "raw", "1", LONG_AGO)
    assert (explained.status, "nothing is known of it before" in explained.meaning) == (None, True)
    asked = why_then(store, "make", "1", LONG_AGO)
    assert (asked.verdict, asked.decision) == ("DATA_NOT_READY", None)
    assert "nothing is known" in asked.reasons[0].text
    with pytest.raises(BadDataid):
        explain_then(store, "raw", "x", LONG_AGO)
    with pytest.raises(UnknownJob):
        why_then(store, "nosuch", None, LONG_AGO)


def test_a_chunk_is_explained_as_it_was(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"], manifests={"1": Manifest(fingerprint="a")})
    claim = claim_one(store, "make")
    running = now()
    store.commit(claim)
    produce(store, "use")
    published = now()
    store.resubmit("product", ["1"])
    produce(store, "make")
    then = explain_then(store, "product", "1", running)
    assert (then.status, then.published, then.versions, then.at) == ("RUNNING", None, (), running)
    assert [(run.status, run.ended) for run in then.runs] == [("RUNNING", None)]
    assert [event.kind for event in then.events] == ["claimed"]
    then = explain_then(store, "product", "1", published)
    assert (then.status, then.versions, [run.status for run in then.runs]) == ("READY", (1,), ["READY"])
    assert then.published is not None
    assert [(source.datasetid, source.version, source.is_newer) for source in then.made_from] == [("raw", 1, False)]
    assert [(reader.jobid, reader.status, reader.version) for reader in then.read_by] == [("use", "DONE", 1)]
    today = explain(store.views, "product", "1")
    late = explain_then(store, "product", "1", now() + timedelta(seconds=1))
    assert (late.status, late.published, late.events) == (today.status, today.published, today.events)
    assert late.decisions == today.decisions


def test_limits_of_readers_are_not_made_up(store: Store) -> None:
    store.register([dataset("raw", options={"readers": 3})], [])
    store.announce("raw", ["1"])
    (safe,) = [answer for answer in explain_then(store, "raw", "1", now()).answers if answer.question == "safe"]
    assert "limits" not in safe.evidence


def test_why_a_chunk_did_not_run_then(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    before = now()
    store.fail(claim_one(store, "make"), detail="exit 3")
    failed = now()
    store.resubmit("product", ["1"])
    produce(store, "make")
    produce(store, "use")
    then = why_then(store, "make", "1", before)
    assert (then.reasons[0].name, then.decision, then.running) == ("YES", None, ())
    then = why_then(store, "make", "1", failed)
    assert (then.verdict, then.reasons[0].name) == ("LOCKED", "LOCKED")
    assert then.reasons[0].text.startswith("product 1 was FAILED since ")
    assert then.decision is not None
    assert (then.decision.verdict, then.decision.receipt.jobid) == ("YES", "make")
    then = why_then(store, "use", "1", failed)
    assert (then.verdict, [reason.name for reason in then.reasons]) == ("DATA_NOT_READY", ["DATA_NOT_READY"])
    assert then.reasons[0].text.startswith("product 1 was FAILED since ")
    assert any("those of today" in remark for remark in then.not_known)


def test_why_knows_what_the_latest_chunk_was(store: Store) -> None:
    store.register(
        [dataset(name, "day") for name in ("raw", "rates", "out")],
        [job("make", "raw", "rates latest", writes="out")],
    )
    store.announce("raw", ["2026-11-12"])
    early = now()
    store.announce("rates", ["2026-11-11"])
    later = now()
    store.announce("rates", ["2026-11-12"])
    asked = why_then(store, "make", "2026-11-12", early)
    assert [reason.text for reason in asked.reasons] == ["no chunk of rates was READY"]
    ready = why_then(store, "make", "2026-11-12", later).answers[0]
    assert ready.yes
    assert "2026-11-11" in str(ready.evidence["inputs"])


def test_why_says_what_it_cannot_know_of_all(store: Store) -> None:
    store.register([dataset("raw"), dataset("out", "text")], [job("total", "raw all", writes="out")])
    store.announce("raw", ["1"])
    asked = why_then(store, "total", "all", now())
    assert any("all of raw" in remark for remark in asked.not_known)


def test_why_a_job_did_not_run_then(store: Store) -> None:
    chain(store)
    assert why_then(store, "make", None, now()).verdict == "NOTHING_TO_DO"
    store.announce("raw", ["1", "2"])
    claim = claim_one(store, "make")
    running = now()
    store.give_back(claim, Receipt("make", "1", (Answer("place", False, {}, "no disk"),)), "no disk")
    refused = now()
    then = why_then(store, "make", None, running)
    assert (then.verdict, [run.dataid for run in then.running]) == ("RUNNING", ["1"])
    then = why_then(store, "make", None, refused)
    assert (then.verdict, then.running) == ("INVALID_PATH", ())
    assert "no disk" in then.reasons[0].text
    assert then.decision is not None
    assert then.decision.verdict == "INVALID_PATH"


def test_the_store_of_then_answers_like_a_store(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2", "3"])
    then = StoreAsOf(store, now())
    store.announce("raw", ["4"])
    assert then.ends_given([("raw", " ", "\x7f"), ("report", " ", "\x7f")]) == [("1", "3"), (None, None)]
    assert [each.dataid for each in then.chunks_between("raw", " ", "\x7f", 2)] == ["1", "2"]
    first = then.chunks("raw", n=1)[-1]
    assert [chunk.dataid for chunk in then.chunks("raw", after=first)] == ["2", "3"]
    assert then.chunks("raw", status="FAILED") == []
    assert then.given_chunks([("raw", "1"), ("raw", "4")]) == {("raw", "1"): "READY"}
    assert (then.readers("raw", "9"), then.readers_running("raw"), then.remarked()) == ([], None, [])


def test_about_a_job_the_past_tells_what_its_chunks_were_not_only_what_was_allowed(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    first, second = store.claim("make", 2)
    store.commit(first)
    store.fail(second, detail="disk full")
    told = why_then(store, "make", None, datetime.now(UTC))
    assert [(reason.name, reason.text.partition(" since")[0]) for reason in told.reasons] == [
        ("LOCKED", "product 2 was FAILED"),
        ("NOTHING_TO_DO", "1 chunk of product was READY, among the last that it asked for"),
    ]
