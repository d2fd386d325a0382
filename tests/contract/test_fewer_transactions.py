"""What a run needs before and after its work is one call each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from opendataflow import Manifest, Store
from opendataflow.errors import LeaseLost, StoreReadOnly
from opendataflow.insight.report import report
from opendataflow.model import Answer, InputChunk, Receipt
from opendataflow.store import EarlierChunks
from tests.support.flows import chain, change, claim_one, dataset, dump, fold_in, job, kinds, produce

YES = tuple(Answer(name, True) for name in ("ready", "right", "place", "validated", "safe"))


def test_the_inputs_of_several_runs_come_together(store: Store) -> None:
    store.register(
        [dataset("raw"), dataset("side"), dataset("product")], [job("make", "raw", "side lag 1", writes="product")]
    )
    store.announce(
        "raw",
        ["1", "2"],
        manifests={"1": Manifest(location="/raw/1", format="csv", bytes=3, rows=2, schema="x INT")},
        bounds={"2": ("10", "20")},
    )
    store.announce("side", ["0", "1"])
    first, second = store.claim("make", n=2)
    chunks = store.input_chunks([first, second])
    assert list(chunks) == [first.runid, second.runid]
    assert chunks[first.runid] == (
        InputChunk("raw", "1", 1, Manifest("/raw/1", "csv", bytes=3, rows=2, schema="x INT"), None),
        InputChunk("side", "0", 1, None, None),
    )
    assert chunks[second.runid] == (InputChunk("raw", "2", 1, None, ("10", "20")), InputChunk("side", "1", 1))
    assert store.input_chunks([]) == {}


def test_a_run_reads_the_version_that_it_claimed(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"], manifests={"1": Manifest(location="/raw/old", fingerprint="a")})
    claim = claim_one(store, "make")
    store.announce("raw", ["1"], manifests={"1": Manifest(location="/raw/new", fingerprint="b")})
    (chunk,) = store.input_chunks([claim])[claim.runid]
    assert chunk.manifest is not None
    assert (chunk.version, chunk.manifest.location) == (1, "/raw/old")


def test_a_job_without_inputs_reads_nothing(store: Store) -> None:
    store.register([dataset("product")], [job("make", writes="product")])
    claim = claim_one(store, "make", dataid="1")
    assert store.input_chunks([claim]) == {claim.runid: ()}


def test_receipts_and_logs_of_several_runs_are_recorded_together(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    first, second = store.claim("make", n=2)
    store.admit_many([(first, Receipt("make", "1", YES), "/logs/1"), (second, None, "/logs/2")])
    assert [store.views.run(claim.runid).log for claim in (first, second)] == ["/logs/1", "/logs/2"]
    assert kinds(store, "product", "1") == ["claimed", "admitted"]
    assert kinds(store, "product", "2") == ["claimed"]
    assert store.views.receipts("make", "1")[-1].receipt == Receipt("make", "1", YES)


def test_the_leases_of_several_runs_are_extended_together(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2", "3"])
    first, second, third = store.claim("make", n=3, lease=60)
    store.resubmit("product", [second.dataid], force=True)  # it lost its chunk
    before = {run.runid: run.lease_until for run in store.views.running()}
    store.dml("update run set lease_until = lease_until - 30 where status = 'RUNNING'")
    until = store.heartbeat_many([first, second, third])
    assert list(until) == [first.runid, third.runid]
    assert all(until[runid] >= (before[runid] or 0) for runid in until)
    assert store.heartbeat_many([]) == {}


def test_a_claim_that_was_not_begun_is_given_back_for_whoever_comes_next(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    store.give_back(claim, None, "the drain ends", wait=0.0)
    assert store.views.chunk("product", "1") is None
    [event] = store.views.last_events("product", "1", 1)
    assert (event.kind, event.before, event.after, event.why) == ("given back", "RUNNING", None, "the drain ends")
    [run] = store.views.runs()
    assert (run.outcome, run.detail) == ("GIVEN_BACK", "the drain ends")
    assert (store.views.failed_runs(), store.views.attempts_failed("make", 9), store.views.refusals()) == ([], [], [])
    assert report(store).counts.runs == 0
    assert report(store).refused == report(store).deeds == ()
    again = claim_one(store, "make")
    assert (again.dataid, again.tries) == ("1", 1)


def test_admitting_without_anything_to_say_writes_nothing(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    before = dump(store)
    store.admit(claim, None)
    assert dump(store) == before
    store.admit(claim, None, log="/logs/1")
    assert store.views.run(claim.runid).log == "/logs/1"


def publish(store: Store, dataid: str, rows: int, schema: str) -> None:
    claim = claim_one(store, "make", dataid=dataid)
    store.commit(claim, {"product": Manifest(rows=rows, schema=schema)})


def test_the_past_of_a_chunk(store: Store, open_again: Callable[..., Store]) -> None:
    chain(store)
    assert store.past("product", "5", 3, "report") == EarlierChunks("", (), False)
    store.announce("raw", ["1", "2", "10", "5"])
    publish(store, "1", 10, "x INT")
    publish(store, "2", 20, "x INT, y INT")
    publish(store, "10", 30, "x INT")
    assert store.past("product", "5", 3, None) == EarlierChunks("x INT", (20, 10), False), "the first publish counts"
    assert open_again().past("product", "11", 2, None) == EarlierChunks("x INT", (30, 20), False)
    produce(store, "use", "1")
    assert store.past("product", "1", 0, "report") == EarlierChunks("x INT", (), True)


def test_only_what_is_published_pins_a_schema(store: Store, open_again: Callable[..., Store]) -> None:
    chain(store)
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    change(store, "product", "1", "RESUBMIT")
    fold_in(store)
    with pytest.raises(LeaseLost):
        store.commit(claim, {"product": Manifest(schema="x INT")})
    assert store.past("product", "2").schema == ""
    publish(open_again(), "1", 1, "y INT")
    store.resubmit("product", ["1"])
    publish(store, "1", 1, "z INT")
    assert store.past("product", "2").schema == "y INT"


def test_folding_in_also_moves_what_is_due(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    store.give_back(claim, Receipt("make", "1"), "no", wait=0.000001)
    assert store.views.next_dataids("make") == []
    fold_in(store)
    assert store.views.next_dataids("make") == ["1"]
    before = dump(store)
    fold_in(store)
    assert dump(store) == before


def test_looking_at_what_is_next_writes_nothing(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    fold_in(store)
    change(store, "raw", "1", "HOLD")
    before = dump(store)
    assert store.views.next_dataids("make") == ["1", "2"]
    assert dump(store) == before
    fold_in(store)
    assert store.views.next_dataids("make") == ["2"]


def test_a_look_at_a_store_that_cannot_be_written_sees_what_is_pending(store: Store, monkeypatch) -> None:
    chain(store)
    store.announce("raw", ["1"])
    change(store, "raw", "1", "HOLD")

    def refuse() -> None:
        raise StoreReadOnly("it cannot be written")

    monkeypatch.setattr(store._backend, "writing", refuse)
    with store.looking() as pending:
        assert pending.changes == 1


def test_a_store_is_used_over_a_second_connection_at_the_same_time(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    other = store.new_connection()
    assert other.url == store.url
    first, second = store.claim("make", n=2)
    other.commit_many([(first, {}, 0)])
    store.commit(second)
    assert [claim.dataid for claim in other.claim("use", n=2)] == ["1", "2"]
    assert {run.owner for run in store.views.running()} == {first.owner}
    if other is not store:
        other.close()
    assert store.claim("make") == []


def test_a_store_says_whether_a_writer_keeps_all_others_waiting(store: Store, open_again: Callable[..., Store]) -> None:
    """`odf chaos` asks before it leaves a worker frozen: it would wait for the frozen worker's lock itself."""
    other = open_again()
    assert not store.is_write_locked()
    with other._backend.writing() as transaction:
        transaction.run("meta_put", name="x", value="1")
        assert store.is_write_locked() is store.url.startswith("sqlite")
    assert not store.is_write_locked()
