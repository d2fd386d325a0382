"""Steering: what the terminal and the console do through the same functions; a dry run writes nothing at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from opendataflow import Manifest, Pool, Store, steer
from opendataflow.errors import BadTransition, UnknownPool, UnknownRun, UsageError
from opendataflow.model.selector import Selector
from opendataflow.project import without_file
from opendataflow.steer import preview
from tests.support.flows import chain, claim_one, dataset, drain, dump, fold_in, job, status

NOWHERE = without_file(Path("/data"), None)
ONE = Selector(("product",), ("1",))


def test_one_output_that_was_set_aside_by_sql_can_be_released(store: Store) -> None:
    store.register([dataset(name) for name in ("raw", "good", "bad")], [job("split", "raw", writes=("good", "bad"))])
    store.announce("raw", ["1"])
    store.commit(claim_one(store, "split"))
    store.dml("update datastatus set status = 'HOLD' where datasetid = 'bad'")
    assert [change[:2] for change in store.release("bad", ["1"])] == [("bad", "1")]
    assert [status(store, name, "1") for name in ("good", "bad")] == ["READY", "READY"]


def made(store: Store) -> None:
    chain(store, pools=[Pool("etl", 4)], pool="etl")
    store.announce("raw", ["1", "2"])
    drain(store, "make", "use")


@pytest.mark.parametrize("verb", ["resubmit", "hold", "fail", "forget"])
def test_a_dry_run_says_what_the_verb_then_does(store: Store, verb: str) -> None:
    made(store)
    before = dump(store)
    planned = steer.steer(store, verb, ONE, dry_run=True)
    assert dump(store) == before
    assert steer.steer(store, verb, ONE, why="a reason") == planned
    assert [(each.datasetid, each.dataid, each.before) for each in planned] == [("product", "1", "READY")]
    assert status(store, "product", "1") == planned[0].after
    assert store.views.last_events("product", "1")[0].why == "a reason"


def test_a_dry_run_folds_in_what_was_typed_and_changes_nothing_else(store: Store) -> None:
    made(store)
    store.dml("update datastatus set status = 'HOLD' where datasetid = 'product' and dataid = '1' and locktype = 'OUT'")
    fold_in(store)
    before = dump(store)
    planned = steer.steer(store, "release", ONE, dry_run=True)
    assert [(each.before, each.after) for each in planned] == [("HOLD", "READY")]
    assert dump(store) == before
    assert steer.steer(store, "release", ONE) == planned
    assert status(store, "product", "1") == "READY"


def test_what_is_stale_is_made_again(store: Store) -> None:
    made(store)
    store.announce("raw", ["1"], again=True)
    before = dump(store)
    planned = steer.remake(store, Selector(), dry_run=True)
    assert dump(store) == before
    assert [(each.datasetid, each.dataid, each.after) for each in planned] == [
        ("product", "1", "RESUBMIT"),
        ("report", "1", "RESUBMIT"),
    ]
    assert steer.remake(store, Selector(), why="corrected") == planned


def test_a_recall_needs_a_reason_and_its_preview_none(store: Store) -> None:
    made(store)
    before = dump(store)
    planned = steer.recall(store, "raw", "1", why="", cascade=True, dry_run=True)
    with pytest.raises(UsageError):
        steer.recall(store, "raw", "1", why=" ", cascade=True)
    assert dump(store) == before
    assert len(planned.versions) == 3
    assert steer.recall(store, "raw", "1", why="half of it", cascade=True).versions == planned.versions


def test_a_run_is_cancelled_by_its_number_or_by_its_job(store: Store) -> None:
    made(store)
    store.announce("raw", ["3", "4"])
    runs = [claim_one(store, "make").runid, claim_one(store, "make").runid]
    with pytest.raises(UsageError, match="2 chunks"):
        steer.cancel(store, "make")
    before = dump(store)
    assert steer.cancel(store, "make", "3", dry_run=True).run.runid == runs[0]
    assert dump(store) == before
    found = steer.cancel(store, str(runs[0]), why="hangs")
    assert (found.run.dataid, found.within) == ("3", store.catalogue().job("make").lease / 3)
    assert status(store, "product", "3") == "FAILED"
    with pytest.raises(BadTransition):
        steer.cancel(store, str(runs[0]), dry_run=True)
    for word in ("999999", "9" * 400):
        with pytest.raises(UnknownRun):
            steer.cancel(store, word)
    with pytest.raises(UnknownRun):
        steer.cancel(store, "use")


def test_a_job_is_paused_and_resumed(store: Store) -> None:
    made(store)
    before = dump(store)
    assert steer.pause(store, "make", dry_run=True) == "make"
    assert not steer.resume(store, "make")
    assert dump(store) == before
    steer.pause(store, "make", why="repairs")
    assert steer.resume(store, "make", dry_run=True)
    assert "make" in store.catalogue().paused
    assert steer.resume(store, "make")
    assert "make" not in store.catalogue().paused


def test_a_pool_gets_other_slots_and_history_says_who_and_why(store: Store) -> None:
    made(store)
    before = dump(store)
    planned = steer.set_pool(store, "etl", "8", dry_run=True)
    assert dump(store) == before
    assert (planned.pool.slots, planned.before, planned.is_changed) == (8, Pool("etl", 4), True)
    done = steer.set_pool(store, "etl", "8", why="the backlog")
    assert (done.now, done.is_changed) == (8, True)
    event = store.views.events()[-1]
    assert (event.kind, event.before, event.after, event.why) == ("pool set", "4", "8", "pool etl: the backlog")
    assert not steer.set_pool(store, "etl", "8").is_changed
    assert steer.set_pool(store, "etl", hours=["Mon-Fri 08:00-18:00 -> 4"]).hours == ("Mon-Fri 08:00-18:00 -> 4",)
    assert steer.set_pool(store, "etl", "unlimited", always=True).now is None
    for word in ("-1", "many", "9" * 12, "²"):
        with pytest.raises(UsageError):
            steer.set_pool(store, "etl", word)
    with pytest.raises(UnknownPool):
        steer.set_pool(store, "nosuch", always=True)


def test_several_causes_are_recovered_in_one_transaction(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2", "3"])
    for message in ("the disk is full", "no route to host", "bad key"):
        store.fail(claim_one(store, "make"), "JOB_FAILED", message)
    before = dump(store)
    assert len(steer.recover(store, dry_run=True)[0].resubmit) == 3
    planned, _ = steer.recover(store, ["disk is full", "no route"], dry_run=True)
    assert dump(store) == before
    assert [dataid for _, dataid in planned.resubmit] == ["1", "2"]
    _, done = steer.recover(store, ["disk is full", "no route"], why="mended")
    assert done is not None
    assert len(done.changed) == 2
    assert [status(store, "product", each) for each in "123"] == ["RESUBMIT", "RESUBMIT", "FAILED"]
    assert steer.recover(store, ["bad key"])[1] is not None
    assert steer.recover(store)[1] is None


def test_what_is_resubmitted_itself_is_not_counted_among_what_stays(store: Store) -> None:
    made(store)
    alone = preview.preview_chunks(store, "resubmit", ONE)
    assert any("1 chunk made from it stays unchanged" in line for line in alone.words)
    both = preview.preview_chunks(store, "resubmit", Selector(dataids=("1",), jobs=("make", "use")))
    assert {change.datasetid for change in both.changes} == {"product", "report"}
    assert not any("stay" in line for line in both.words)


def test_all_that_stays_and_all_that_reads_now_is_counted(store: Store) -> None:
    names = [str(n) for n in range(43)]
    store.register(
        [dataset(name) for name in "abcef"],
        [job(reads + writes, reads, writes=writes) for reads, writes in ("ab", "bc", "ce", "bf")] + [job("read", "b")],
    )
    store.announce("a", names)
    drain(store, "ab", "bc", "ce", "bf")
    store.claim("read", 30)
    words = preview.preview_chunks(store, "resubmit", Selector(("b",), tuple(names))).words
    assert "129 chunks made from them stay unchanged, and are STALE if the new version has other content." in words
    assert "30 runs that read it now continue with their version of the input." in words
    few = preview.preview_chunks(store, "resubmit", Selector(("b", "c"), ("0", "1"))).words
    assert any("4 chunks made from them stay" in line for line in few), few


def test_everything_is_foreseen_in_words_and_nothing_is_written(store: Store) -> None:
    chain(store, pools=[Pool("etl", 4)], pool="etl")
    for content in ("first", "second"):
        found = {each: Manifest(fingerprint=f"{content} {each}") for each in ("1", "2", "3")}
        store.announce("raw", list(found), manifests=found)
        if content == "first":
            drain(store, "make", "use")
    run = claim_one(store, "use", dataid="2", force=True)
    store.fail_chunks("product", ["3"])
    before = dump(store)
    told = {
        "resubmit": preview.preview_chunks(store, "resubmit", ONE),
        "two": preview.preview_chunks(store, "hold", Selector(("product",), ("1", "3"))),
        "release": preview.preview_chunks(store, "hold", Selector(("raw",), ("9",))),
        "stale": preview.preview_remake(store, Selector(("product",))),
        "recall": preview.preview_recall(store, "product", "2", cascade=True),
        "alone": preview.preview_recall(store, "product", "1", hold=True),
        "rollback": preview.preview_rollback(store, NOWHERE, "raw", "1"),
        "cancel": preview.preview_cancel(store, str(run.runid)),
        "pause": preview.preview_pause(store, "use"),
        "resume": preview.preview_resume(store, "use"),
        "pool": preview.preview_pool(store, "etl", "0"),
        "recover": preview.preview_recover(store),
        "nothing": preview.preview_chunks(store, "fail", Selector(("product",), ("3",))),
    }
    assert dump(store) == before
    assert {name: each.headline for name, each in told.items()} == {
        "resubmit": "product 1 becomes RESUBMIT",
        "two": "2 chunks become HOLD",
        "release": "raw 9 becomes HOLD",
        "stale": "2 chunks become RESUBMIT",
        "recall": "2 versions will be blocked for all jobs",
        "alone": "1 version will be blocked for all jobs",
        "rollback": "raw 1 returns from version 2 to version 1",
        "cancel": f"Run {run.runid} is ended",
        "pause": "No chunk of use will start on any machine",
        "resume": "use is not paused",
        "pool": "Slots of pool etl: 0 (paused); before: 4",
        "recover": "1 chunk becomes RESUBMIT",
        "nothing": "Nothing changes",
    }
    assert told["nothing"].count == 0
    assert "make makes it again at the next ordinary start, before new chunks." in told["resubmit"].words
    assert "1 run reads it now and loses its chunk; it is retried automatically." in told["recall"].words
    assert "1 run continues to the end." in told["pause"].words
    assert any(words.startswith("1 chunk made from it stays readable") for words in told["alone"].words)
