"""What the store knows about one (job, dataid), and what is decided from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from opendataflow import Pool, Store
from opendataflow.errors import UnknownJob
from opendataflow.model import Answer, InputFact, Limit, OutputFact, ReadFact, Receipt, decide
from tests.support.flows import chain, claim_one, dataset, dump, fold_in, job, produce, put

TRACKED = "only tracked: no location and no checks are declared"


def verdict(store: Store, jobid: str, dataid: str) -> str:
    fold_in(store)
    return decide(store.views.facts(jobid, dataid)).verdict


def reasons(store: Store, jobid: str, dataid: str) -> list[str]:
    fold_in(store)
    return [item.why for item in store.views.facts(jobid, dataid).unresolved]


def rates(store: Store) -> None:
    """A job that joins each sale with the latest rate."""
    store.register(
        [dataset(name, "day") for name in ("sales", "rates", "priced")],
        [job("price", "sales", "rates latest", writes="priced")],
    )


def whole(store: Store, **partition: Any) -> None:
    """A job that reads everything that parts makes, which is made from raw."""
    store.register(
        [dataset("raw"), dataset("parts", **partition), dataset("sum", "text")],
        [job("make", "raw", writes="parts"), job("total", "parts all", writes="sum")],
    )


def test_the_facts_of_a_chunk_that_may_run(store: Store) -> None:
    chain(store, pools=[Pool("etl", 2)], pool="etl")
    store.announce("raw", ["1"])
    facts = store.views.facts("make", "1")
    assert (facts.jobid, facts.dataid, facts.partition, facts.forced) == ("make", "1", "number", False)
    assert facts.inputs == (InputFact("raw", "1", "READY", 1),)
    assert facts.outputs == (OutputFact("product", None, None),)
    assert (facts.unresolved, facts.reads, facts.deferred, facts.malformed) == ((), (), 0.0, "")
    assert facts.limits == (Limit("pool", "etl", 2, 0),)
    assert (facts.place, facts.validated) == (TRACKED, TRACKED)
    assert decide(facts).verdict == "YES"


def test_looking_at_the_facts_changes_nothing(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    before = dump(store)
    store.views.facts("make", "1")
    store.views.facts("make", "nonsense")
    assert dump(store) == before
    with pytest.raises(UnknownJob):
        store.views.facts("nosuch", "1")


def test_an_input_that_is_not_there_is_a_no_to_the_first_question(store: Store) -> None:
    chain(store)
    assert store.views.facts("make", "1").inputs == (InputFact("raw", "1", None, None),)
    assert verdict(store, "make", "1") == "DATA_NOT_READY"
    put(store, "raw", "1", "FAILED")
    assert verdict(store, "make", "1") == "DATA_NOT_READY"


def test_a_malformed_dataid_is_a_no_to_the_second_question(store: Store) -> None:
    chain(store, partition="day")
    facts = store.views.facts("make", "2025-13-01")
    assert "2025-13-01" in facts.malformed
    assert (facts.inputs, facts.outputs) == ((), ())
    assert decide(facts).verdict == "WRONG_DATA"


def test_what_holds_the_chunk_is_a_no_to_the_last_question(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2", "3"])
    claim = claim_one(store, "make")
    assert store.views.facts("make", "1").outputs == (OutputFact("product", "RUNNING", claim.runid),)
    assert store.views.facts("make", "1").reads == (ReadFact("raw", "1", "RUNNING"),)
    assert verdict(store, "make", "1") == "LOCKED"
    store.commit(claim)
    assert verdict(store, "make", "1") == "LOCKED", "it is done"
    store.resubmit("product", ["1"])
    assert verdict(store, "make", "1") == "YES"
    store.hold("product", ["2"])
    assert verdict(store, "make", "2") == "LOCKED"


def test_a_row_that_says_consumed_locks_where_there_is_no_output(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    put(store, "raw", "1", "DONE", jobid="make", locktype="IN")
    fold_in(store)
    assert store.views.facts("make", "1").reads == (ReadFact("raw", "1", "DONE"),)
    assert verdict(store, "make", "1") == "LOCKED"


def test_what_was_refused_a_moment_ago_is_deferred(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    store.give_back(claim, Receipt("make", "1", (Answer("place", False),)), "no", wait=30)
    assert 0 < store.views.facts("make", "1").deferred <= 30
    assert verdict(store, "make", "1") == "LOCKED"


def test_a_full_pool_is_a_no_to_the_last_question(store: Store) -> None:
    chain(store, pools=[Pool("etl", 1)], pool="etl")
    store.announce("raw", ["1", "2"])
    claim = claim_one(store, "make")
    assert store.views.facts("make", "2").limits == (Limit("pool", "etl", 1, 1),)
    assert verdict(store, "make", "2") == "LOCKED"
    store.commit(claim)
    assert verdict(store, "make", "2") == "YES"


def test_a_missing_latest_input_is_not_ready_whoever_asks(store: Store) -> None:
    rates(store)
    store.announce("sales", ["2025-03-10"])
    assert verdict(store, "price", "2025-03-10") == "DATA_NOT_READY"
    assert store.claim("price", dataid="2025-03-10") == []
    assert reasons(store, "price", "2025-03-10") == [
        "no chunk of rates up to 2025-03-10 is READY, and price reads the latest one"
    ]
    store.announce("rates", ["2025-03-11"])
    assert verdict(store, "price", "2025-03-10") == "DATA_NOT_READY", "it is newer"
    store.announce("rates", ["2025-03-01", "2025-03-09"])
    assert verdict(store, "price", "2025-03-10") == "YES"
    assert store.views.facts("price", "2025-03-10").inputs[0] == InputFact("rates", "2025-03-09", "READY", 1)


def all_without_chunks(store: Store) -> str:
    return "total reads all of parts, which has no chunk yet"


def all_while_more_can_run(store: Store) -> str:
    store.announce("raw", ["1", "2", "3"])
    produce(store, "make", "1")
    return "total waits until make has produced all of parts: 2 chunks can still run"


def all_while_one_runs(store: Store) -> str:
    store.announce("raw", ["1", "2"])
    produce(store, "make", "1")
    claim_one(store, "make")
    return "total reads all of parts, and 1 of its chunks are RUNNING: 2"


def all_after_failures(store: Store) -> str:
    store.announce("raw", ["1", "2", "3"])
    produce(store, "make", "1")
    for claim in store.claim("make", n=2):
        store.fail(claim)
    return "total reads all of parts, and 2 of its chunks are FAILED: 2, 3"


@pytest.mark.parametrize("story", [all_without_chunks, all_while_more_can_run, all_while_one_runs, all_after_failures])
def test_a_missing_input_of_mapping_all_is_not_ready_and_says_why(store: Store, story: Callable[[Store], str]) -> None:
    whole(store)
    expected = story(store)
    assert verdict(store, "total", "all") == "DATA_NOT_READY"
    assert store.claim("total", dataid="all") == []
    assert reasons(store, "total", "all")[0] == expected
    assert all(item.mapping == "all" for item in store.views.facts("total", "all").unresolved)


def test_all_of_a_counted_dataset_needs_every_chunk(store: Store) -> None:
    store.register(
        [dataset("parts", "range", count=3, lower="0", upper="30"), dataset("sum", "text")],
        [job("total", "parts all", writes="sum")],
    )
    store.announce("parts", ["1", "2"])
    assert reasons(store, "total", "all") == ["total reads all 3 chunks of parts, and only 2 are there"]
    store.announce("parts", ["3"])
    assert verdict(store, "total", "all") == "YES"
    assert [item.dataid for item in store.views.facts("total", "all").inputs] == ["1", "2", "3"]


def test_all_waits_for_what_is_unfinished_further_upstream(store: Store) -> None:
    store.register(
        [dataset("raw"), dataset("middle"), dataset("parts"), dataset("sum", "text")],
        [
            job("first", "raw", writes="middle"),
            job("make", "middle", writes="parts"),
            job("total", "parts all", writes="sum"),
        ],
    )
    store.announce("raw", ["1", "2"])
    produce(store, "first", "1")
    produce(store, "make", "1")
    store.fail(claim_one(store, "first"))
    assert reasons(store, "total", "all") == [
        "total waits until first has produced all of parts: some of its chunks run now, are deferred, failed or were set aside"
    ]
    assert verdict(store, "total", "all") == "DATA_NOT_READY"


def test_place_and_validated_of_what_is_only_tracked_are_not_asked(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    receipt = claim_one(store, "make").receipt
    assert receipt.verdict == "YES"
    for question in ("place", "validated"):
        assert (receipt.answer(question).yes, receipt.answer(question).why) == (None, TRACKED)
    stored = store.views.receipts("make", "1")[0].receipt
    assert stored == receipt


def test_a_claim_of_data_that_has_a_location_is_open_until_somebody_looked(store: Store) -> None:
    store.register(
        [dataset("raw", kind="file", location="raw/{dataid}"), dataset("product")],
        [job("make", "raw", writes="product")],
    )
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    assert claim.receipt.verdict == "NOT_ASKED"
    assert store.views.receipts("make", "1") == [], "the gate stores the answers"
    assert decide(store.views.facts("make", "1")).answer("place").yes is None


def test_the_facts_of_a_claim_are_those_it_was_made_by(store: Store) -> None:
    store.register(
        [dataset("raw"), dataset("good"), dataset("bad")],
        [job("make", "raw", writes=("good", "bad"), pool="etl")],
        [Pool("etl", 5)],
    )
    store.announce("raw", ["1", "2"])
    first, second = store.claim("make", n=2)
    assert (first.facts.epoch, first.facts.inputs) == (1, (InputFact("raw", "1", "READY", 1),))
    assert first.facts.outputs == (OutputFact("bad", None), OutputFact("good", None))
    assert [claim.facts.limits for claim in (first, second)] == [
        (Limit("pool", "etl", 5, 0),),
        (Limit("pool", "etl", 5, 1),),
    ]
    store.commit_many([(first, {}, 0), (second, {}, 0)])
    store.resubmit("good", ["1"])
    again = claim_one(store, "make")
    assert [item.status for item in again.facts.outputs] == ["RESUBMIT", "RESUBMIT"]


def test_a_forced_claim_knows_what_stood_there_and_was_asked_nothing(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    produce(store, "make", "1")
    forced = claim_one(store, "make", dataid="1", force=True)
    assert forced.facts.forced
    assert forced.facts.outputs[0].status == "READY"
    assert forced.receipt.verdict == "NOT_ASKED"
    assert store.sql("select verdict from receipt order by receiptid")[1] == [("YES",), ("NOT_ASKED",)]


def test_whoever_ends_a_run_in_another_process_gets_its_claim(store: Store, open_again: Callable[..., Store]) -> None:
    chain(store)
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    other = open_again().claim_of(claim.runid)
    assert (other.runid, other.epoch, other.inputs) == (claim.runid, claim.epoch, claim.inputs)
    assert other.facts.inputs == claim.facts.inputs
    assert other.receipt.verdict == "NOT_ASKED"
    store.commit(other)
