"""Yes or no, the five answers are stored; a no changes nothing else."""

from __future__ import annotations

from opendataflow import Manifest, Store
from opendataflow.model import Answer, Receipt
from opendataflow.store import Claim
from tests.support.flows import chain, claim_one, dataset, dump, end_waits, in_status, job, produce, status


def no(claim: Claim) -> Receipt:
    return Receipt(claim.jobid, claim.dataid, (Answer("ready", True), Answer("right", True), Answer("place", False)))


def test_a_claim_stores_its_receipt(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    (event,) = store.views.receipts("make", "1")
    assert (event.kind, event.runid, event.epoch) == ("claimed", claim.runid, 1)
    assert event.receipt is not None
    assert event.receipt.verdict == "YES"
    assert event.receipt == claim.receipt
    assert event.receipt.answer("ready").evidence == {"inputs": [["raw", "1", "READY"]]}
    rows = store.sql("select jobid, datasetid, dataid, verdict from receipt")
    assert rows == (["jobid", "datasetid", "dataid", "verdict"], [("make", "product", "1", "YES")])


def test_admit_stores_the_five_answers_beside_the_run(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    names = ("ready", "right", "place", "validated", "safe")
    answers = tuple(Answer(name, True, {"looked": name}) for name in names)
    store.admit(claim, Receipt("make", "1", answers))
    admitted = store.views.receipts("make", "1")[-1]
    assert (admitted.kind, admitted.after, admitted.runid) == ("admitted", "YES", claim.runid)
    assert admitted.receipt == Receipt("make", "1", answers)
    assert status(store, "product", "1") == "RUNNING"


def test_a_refusal_stores_the_answers_and_nothing_else(store: Store) -> None:
    chain(store)
    before = dump(store)
    receipt = Receipt("make", "1", (Answer("ready", False, {"raw": None}, "raw 1 was never produced"),))
    store.refuse(receipt, "raw 1 is not READY")
    (event,) = store.views.receipts("make", "1")
    assert (event.kind, event.after, event.why, event.receipt) == (
        "refused",
        "DATA_NOT_READY",
        "raw 1 is not READY",
        receipt,
    )
    after = dump(store)
    assert {table: rows for table, rows in after.items() if table != "event"} == {
        table: rows for table, rows in before.items() if table != "event"
    }


def test_what_is_given_back_is_as_it_was(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    before = store.sql("select * from datastatus")
    claim = claim_one(store, "make")
    store.give_back(claim, no(claim), "outside the roots")
    assert store.sql("select * from datastatus") == before
    assert (status(store, "product", "1"), in_status(store, "raw", "1", "make")) == (None, None)
    assert store.views.running() == []
    refused = store.views.receipts("make", "1")[-1]
    assert (refused.kind, refused.after, refused.why) == ("refused", "INVALID_PATH", "outside the roots")
    run = store.views.run(claim.runid)
    assert (run.status, run.outcome) == ("REFUSED", "INVALID_PATH")


def test_others_go_before_what_was_given_back(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2", "3"])
    claim = claim_one(store, "make")
    store.give_back(claim, no(claim), "no", wait=600)
    assert [found.dataid for found in store.claim("make", n=5)] == ["2", "3"]
    end_waits(store)
    again = claim_one(store, "make")
    assert (again.dataid, again.epoch, again.tries) == ("1", 2, 1)


def test_an_epoch_that_was_given_back_is_not_used_again(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    for expected in (1, 2, 3):
        claim = claim_one(store, "make")
        assert claim.epoch == expected
        store.give_back(claim, no(claim), "no", wait=0)
    assert produce(store, "make").epoch == 4


def test_a_resubmitted_chunk_that_is_given_back_is_resubmit_again(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    produce(store, "make", "1")
    store.resubmit("product", ["1"])
    claim = claim_one(store, "make")
    store.give_back(claim, no(claim), "no", wait=600)
    assert status(store, "product", "1") == "RESUBMIT"
    assert claim_one(store, "make").dataid == "2"
    end_waits(store)
    again = claim_one(store, "make")
    assert (again.dataid, again.tries, again.epoch) == ("1", 1, 3)
    store.commit(again)
    assert in_status(store, "raw", "1", "make") == "DONE"


def test_a_chunk_that_was_given_back_can_still_be_taken_by_name(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    store.give_back(claim, no(claim), "no", wait=60)
    assert store.claim("make") == []
    assert claim_one(store, "make", dataid="1").epoch == 2


def test_what_one_run_gives_back_stays_locked_for_the_run_beside_it(store: Store) -> None:
    store.register(
        [dataset("raw", start="1"), dataset("mean", start="1")], [job("mean", "raw window 2", writes="mean")]
    )
    store.announce("raw", ["1", "2", "3"])
    first, second, third = store.claim("mean", n=3)
    store.commit(first)
    store.give_back(second, no(second), "no")
    assert in_status(store, "raw", "2", "mean") == "RUNNING", "the third run reads it"
    store.commit(third)
    assert (in_status(store, "raw", "2", "mean"), in_status(store, "raw", "3", "mean")) == ("DONE", "DONE")


def test_a_forced_run_that_is_given_back_leaves_what_was_published(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    store.commit(claim, {"product": Manifest(location="/data/1")})
    forced = claim_one(store, "make", dataid="1", force=True)
    store.give_back(forced, no(forced), "no")
    assert status(store, "product", "1") in ("READY", "FAILED"), "never as if it had not been produced"
    published = store.views.manifest("product", "1")
    assert published is not None
    assert published.manifest.location == "/data/1"
    assert store.claim("make") == []


def test_force_takes_what_nobody_may_take_unless_it_runs(store: Store) -> None:
    chain(store)
    claim = claim_one(store, "make", dataid="1", force=True)
    assert (claim.forced, claim.receipt.verdict) == (True, "NOT_ASKED")
    assert store.sql("select verdict from receipt")[1] == [("NOT_ASKED",)]
    assert store.claim("make", dataid="1", force=True) == []
    store.commit(claim)
    again = claim_one(store, "make", dataid="1", force=True)
    assert again.epoch == 2
    store.commit(again)
    assert store.views.run(again.runid).forced
