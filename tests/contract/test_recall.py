"""Recall: published data was bad, so no job reads it again; nor, with cascade, what was really made from it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import opendataflow
from opendataflow import Manifest, Store
from opendataflow.errors import BadTransition, LeaseLost, WrongData
from opendataflow.model import Receipt
from opendataflow.store import Claim
from opendataflow.store.engine import claims
from tests.support.flows import (
    chain,
    change,
    claim_one,
    dataset,
    drain,
    dump,
    fold_in,
    job,
    kinds,
    produce,
    put,
    status,
)

JOBS = ("make", "use")


def made(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"], manifests={each: Manifest(fingerprint=f"bad {each}") for each in ("1", "2")})
    drain(store, *JOBS)


def test_a_preview_writes_nothing(store: Store) -> None:
    made(store)
    before = dump(store)
    planned = store.recall("raw", "1", why="half of it is missing", cascade=True, dry_run=True)
    assert dump(store) == before
    assert [tuple(version) for version in planned.versions] == [
        ("raw", "1", 1),
        ("product", "1", 1),
        ("report", "1", 1),
    ]
    assert [(each.datasetid, each.after) for each in planned.changed] == [
        ("raw", "RESUBMIT"),
        ("product", "RESUBMIT"),
        ("report", "RESUBMIT"),
    ]


def test_what_was_made_from_it_is_unreadable_too_and_comes_back_in_order(store: Store) -> None:
    made(store)
    store.recall("raw", "1", why="half of it is missing", cascade=True)
    assert [status(store, name, "1") for name in ("raw", "product", "report")] == ["RESUBMIT"] * 3
    assert [status(store, name, "2") for name in ("raw", "product", "report")] == ["READY"] * 3
    assert drain(store, *JOBS) == [], "nothing is made from it until it is delivered anew"
    event = store.views.last_events("report", "1")[0]
    assert (event.kind, event.why, event.before, event.after) == (
        "recalled",
        "half of it is missing",
        "READY",
        "RESUBMIT",
    )
    store.announce("raw", ["1"], manifests={"1": Manifest(fingerprint="good 1")})
    assert drain(store, "use", "make") == [("make", "1"), ("use", "1")]
    assert [(row.version, row.why) for row in store.views.recalled([("report", "1")])] == [(1, "half of it is missing")]


def test_without_cascade_only_the_chunk_itself(store: Store) -> None:
    made(store)
    recall = store.recall("product", "1", why="wrong join")
    assert [tuple(version) for version in recall.versions] == [("product", "1", 1)]
    assert (status(store, "product", "1"), status(store, "report", "1")) == ("RESUBMIT", "READY")


def test_held_it_stays_recalled_and_a_release_has_it_made_again(store: Store) -> None:
    made(store)
    store.recall("product", "1", why="wrong join", cascade=True, hold=True)
    assert (status(store, "product", "1"), status(store, "report", "1")) == ("HOLD", "HOLD")
    assert drain(store, *JOBS) == []
    store.release("product", ["1"])
    store.release("report", ["1"])
    assert (status(store, "product", "1"), status(store, "report", "1")) == ("RESUBMIT", "RESUBMIT")
    assert drain(store, *JOBS) == [("make", "1"), ("use", "1")]


def test_runs_that_read_it_now_lose_it_and_come_back_by_themselves(store: Store) -> None:
    made(store)
    store.resubmit("report", ["1"])
    running = claim_one(store, "use")
    recall = store.recall("product", "1", why="wrong join")
    assert [run.runid for run in recall.lost] == [running.runid]
    with pytest.raises(LeaseLost):
        store.commit(running)
    assert status(store, "report", "1") == "RESUBMIT"
    assert "an input was recalled" in (store.views.run(running.runid).detail or "")
    assert drain(store, *JOBS) == [("make", "1"), ("use", "1")]


def test_versions_that_are_not_current_are_recalled_too(store: Store) -> None:
    made(store)
    store.resubmit("report", ["1"])
    produce(store, "use", "1")
    store.recall("product", "1", why="wrong join", cascade=True)
    assert [row.version for row in store.views.recalled([("report", "1")])] == [1, 2]
    with pytest.raises(BadTransition):
        store.rollback("report", "1", to=1)
    with pytest.raises(BadTransition):
        store.rollback("report", "1")


def test_ready_by_hand_does_not_make_it_readable(store: Store) -> None:
    made(store)
    store.recall("product", "1", why="wrong join")
    change(store, "product", "1", "READY")
    fold_in(store)
    assert status(store, "product", "1") == "RESUBMIT"
    assert kinds(store, "product", "1")[-2:] == ["sql", "recalled"]


def test_the_same_file_does_not_come_back_unless_somebody_insists(store: Store) -> None:
    made(store)
    store.recall("raw", "1", why="half of it is missing")
    bad = {"1": Manifest(fingerprint="bad 1")}
    with pytest.raises(WrongData, match="recalled"):
        store.announce("raw", ["1"], manifests=bad)
    assert status(store, "raw", "1") == "RESUBMIT"
    assert store.views.refusals()[0].dataid == "1"
    store.announce("raw", ["1"], manifests=bad, again=True)
    assert status(store, "raw", "1") == "READY"


def test_what_was_never_published_cannot_be_recalled(store: Store) -> None:
    chain(store)
    with pytest.raises(BadTransition):
        store.recall("raw", "1", why="?")
    store.hold("raw", ["1"])
    with pytest.raises(BadTransition):
        store.recall("raw", "1", why="?")


def test_a_chunk_that_is_being_made_again_is_left_to_its_run(store: Store) -> None:
    made(store)
    store.resubmit("product", ["1"])
    running = claim_one(store, "make")
    store.recall("product", "1", why="wrong join", cascade=True)
    assert (status(store, "product", "1"), status(store, "report", "1")) == ("RUNNING", "RESUBMIT")
    store.commit(running)
    assert drain(store, *JOBS) == [("use", "1")]


def test_outputs_of_one_run_are_recalled_together(store: Store) -> None:
    store.register([dataset(name) for name in ("raw", "left", "right")], [job("both", "raw", writes=("left", "right"))])
    store.announce("raw", ["1"])
    produce(store, "both")
    store.recall("left", "1", why="wrong")
    assert (status(store, "left", "1"), status(store, "right", "1")) == ("RESUBMIT", "RESUBMIT")
    assert drain(store, "both") == [("both", "1")]


def test_a_commit_that_happens_meanwhile_is_waited_for_and_recalled_too(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    in_commit, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        in_commit.set()
        go_on.wait(240)

    with opendataflow.open(store.url) as other, ThreadPoolExecutor(2) as threads:
        publishing = threads.submit(store.commit_many, [(claim, {}, 0)], publish_files=[wait])
        assert in_commit.wait(240)
        recalling = threads.submit(other.recall, "raw", "1", why="bad", cascade=True)
        with pytest.raises(TimeoutError):
            recalling.result(timeout=0.5)
        go_on.set()
        publishing.result()
        assert {version[:2] for version in recalling.result().versions} == {("raw", "1"), ("product", "1")}
    assert status(store, "product", "1") == "RESUBMIT"
    assert "lost" not in kinds(store, "product", "1")
    with pytest.raises(BadTransition):
        store.rollback("product", "1", to=1)


@pytest.mark.parametrize("mapping", ["ref", "ref latest"])
def test_a_claim_and_a_recall_of_what_it_reads_never_miss_each_other(
    store: Store, monkeypatch: pytest.MonkeyPatch, mapping: str
) -> None:
    store.register([dataset("raw"), dataset("ref"), dataset("out")], [job("make", "raw", mapping, writes="out")])
    store.announce("raw", ["1"])
    store.announce("ref", ["1"])
    fold_in(store)
    claimed, go_on = threading.Event(), threading.Event()
    take = claims.take

    def slowly(*given: Any) -> list[Claim]:
        taken = take(*given)
        claimed.set()
        go_on.wait(240)
        return taken

    monkeypatch.setattr(claims, "take", slowly)
    with opendataflow.open(store.url) as other, ThreadPoolExecutor(2) as threads:
        claiming = threads.submit(store.claim, "make")
        assert claimed.wait(240)
        recalling = threads.submit(other.recall, "ref", "1", why="bad")
        with pytest.raises(TimeoutError):
            recalling.result(timeout=0.5)
        go_on.set()
        (claim,) = claiming.result()
        assert [run.runid for run in recalling.result().lost] == [claim.runid]
    with pytest.raises(LeaseLost):
        store.commit(claim)
    assert status(store, "out", "1") == "RESUBMIT"
    assert store.claim("make") == []


def test_a_refused_forced_run_does_not_bring_a_recalled_version_back(store: Store) -> None:
    made(store)
    claim = claim_one(store, "make", dataid="1", force=True)
    store.recall("product", "1", why="bad")
    store.give_back(claim, Receipt("make", "1"), "no", wait=0)
    assert status(store, "product", "1") == "RESUBMIT"


def test_forgetting_does_not_let_the_same_file_back_in(store: Store) -> None:
    made(store)
    store.recall("raw", "1", why="half of it is missing")
    store.forget("raw", ["1"])
    with pytest.raises(WrongData):
        store.announce("raw", ["1"], manifests={"1": Manifest(fingerprint="bad 1")})
    store.announce("raw", ["1"], manifests={"1": Manifest(fingerprint="good 1")})
    assert status(store, "raw", "1") == "READY"


def test_a_rollback_to_the_recalled_content_is_refused_whatever_its_number(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    for content in ("good", "bad", "bad"):
        claim = claim_one(store, "make")
        store.commit(claim, {"product": Manifest(fingerprint=content)})
        store.resubmit("product", ["1"])
    store.recall("product", "1", why="bad")
    with pytest.raises(BadTransition):
        store.rollback("product", "1", to=2)
    store.rollback("product", "1", to=1)
    assert status(store, "product", "1") == "READY"


def test_what_was_only_written_as_ready_can_be_recalled_once_somebody_read_it(store: Store) -> None:
    chain(store)
    put(store, "raw", "1", "READY")
    drain(store, *JOBS)
    recall = store.recall("raw", "1", why="bad", cascade=True)
    assert [version[0] for version in recall.versions] == ["raw", "product", "report"]


def test_today_is_not_recalled(store: Store) -> None:
    store.register([dataset("out", "day")], [job("daily", "today", writes="out")])
    claim_one(store, "daily")
    with pytest.raises(BadTransition):
        store.recall("today", store.views.all_chunks("today").__next__().dataid, why="bad")
