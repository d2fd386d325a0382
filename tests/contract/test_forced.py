"""What a forced run, a named one and a late delivery do to the candidates of others: what is derived is what is."""

from __future__ import annotations

from opendataflow import Manifest, Pool, Store
from tests.support.flows import chain, claim_one, dataset, drain, following, job, produce, put, status


def all_of_it(store: Store) -> None:
    """raw → make → product; total reads all of product, which has one chunk."""
    store.register(
        [dataset("raw"), dataset("product"), dataset("sum", "text")],
        [job("make", "raw", writes="product"), job("total", "product all", writes="sum")],
    )
    store.announce("raw", ["1"])
    produce(store, "make")
    assert following(store, "total") == ["all"]


def stale(store: Store) -> list[tuple[str, str]]:
    return [(row.datasetid, row.dataid) for row in store.views.stale()]


def test_what_is_made_again_by_force_is_no_input_meanwhile(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    produce(store, "make")
    assert store.views.next_dataids("use") == ["1"]
    again = claim_one(store, "make", dataid="1", force=True)
    assert store.views.next_dataids("use") == []
    store.commit(again)
    assert store.views.next_dataids("use") == ["1"]


def test_a_forced_run_that_is_given_back_leaves_its_readers_what_they_had(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    produce(store, "make")
    store.give_back(claim_one(store, "make", dataid="1", force=True), None, "nobody began it", wait=0)
    assert store.views.next_dataids("use") == ["1"]


def test_a_forced_run_that_is_given_back_leaves_each_output_as_it_was(store: Store) -> None:
    store.register([dataset(name) for name in ("raw", "good", "bad")], [job("split", "raw", writes=("good", "bad"))])
    put(store, "bad", "1", "PENDING")
    store.give_back(claim_one(store, "split", dataid="1", force=True), None, "nobody began it", wait=0)
    assert [status(store, name, "1") for name in ("good", "bad")] == [None, "PENDING"]


def test_whoever_reads_all_waits_for_what_is_forced_upstream(store: Store) -> None:
    all_of_it(store)
    forced = claim_one(store, "make", dataid="2", force=True)
    assert store.claim("total") == []
    store.commit(forced)
    assert {item.dataid for item in claim_one(store, "total").inputs} == {"1", "2"}


def test_whoever_reads_all_waits_for_what_is_delivered_upstream(store: Store) -> None:
    all_of_it(store)
    store.announce("raw", ["2"])
    assert store.claim("total") == []
    assert drain(store, "make") == [("make", "2")]
    assert {item.dataid for item in claim_one(store, "total").inputs} == {"1", "2"}


def test_whoever_reads_all_waits_for_a_source_that_somebody_named(store: Store) -> None:
    store.register(
        [dataset("made"), dataset("low"), dataset("sum", "text")],
        [job("source", writes="made"), job("use", "made", writes="low"), job("total", "low all", writes="sum")],
    )
    store.commit(claim_one(store, "source", dataid="1"))
    produce(store, "use")
    assert following(store, "total") == ["all"]
    claim_one(store, "source", dataid="2")
    assert store.claim("total") == []


def test_whoever_reads_all_need_not_wait_for_a_job_that_is_gone(store: Store) -> None:
    all_of_it(store)
    store.announce("raw", ["2"])
    assert following(store, "total") == []
    store.dml("delete from job where jobid = 'make'")
    assert following(store, "total") == ["all"]


def test_a_chunk_that_was_named_and_not_taken_stays_in_line(store: Store) -> None:
    chain(store, pools=[Pool("pool", 0)], pool="pool")
    store.announce("raw", ["1"])
    store.announce("product", ["1"])
    assert following(store, "make") == []
    store.dml("delete from datastatus where datasetid = 'product' and dataid = '1' and locktype = 'OUT'")
    assert store.claim("make", dataid="1") == [], "the pool has no slot"
    assert store.views.next_dataids("make") == ["1"], "which is no reason to forget the chunk"


def test_what_a_forced_run_did_without_makes_its_chunk_stale_once_it_is_there(store: Store) -> None:
    chain(store)
    store.commit(claim_one(store, "make", dataid="1", force=True))
    store.commit(claim_one(store, "use", dataid="2", force=True))
    assert stale(store) == []
    store.announce("raw", ["1"], manifests={"1": Manifest(fingerprint="a")})
    assert stale(store) == [("product", "1")]
    store.announce("raw", ["2"])
    produce(store, "make", "2")
    assert ("report", "2") in stale(store)


def test_a_job_that_reruns_does_so_when_what_it_did_without_is_delivered(store: Store) -> None:
    chain(store, options={"on_new_version": "rerun"})
    store.commit(claim_one(store, "make", dataid="1", force=True))
    store.announce("raw", ["1"])
    assert following(store, "make") == ["1"]
