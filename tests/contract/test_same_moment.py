"""Two who meet at one chunk at the same moment: neither waits for ever, and neither takes it from the other."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import psycopg
import pytest

import opendataflow
from opendataflow import Manifest, Store
from opendataflow.errors import Locked
from opendataflow.store.drivers import queries
from tests.support.flows import chain, change, claim_one, dataset, fold_in, following, job, kinds, produce, status


class Meeting(NamedTuple):
    """Those who meet: a store, another connection to its database, and a thread in which the store can be kept waiting."""

    store: Store
    other: psycopg.Connection
    threads: ThreadPoolExecutor


@pytest.fixture
def meeting(postgres_url: str) -> Iterator[Meeting]:
    """A new store for them."""
    with (
        opendataflow.open(postgres_url, create=True) as store,
        psycopg.connect(postgres_url, options="-c search_path=dataflow") as other,
        ThreadPoolExecutor(1) as threads,
    ):
        yield Meeting(store, other, threads)


def waits(said: Future[Any]) -> None:
    """It has not come to its end, and does not before somebody lets it."""
    with pytest.raises(TimeoutError):
        said.result(timeout=1)


@pytest.mark.postgres
def test_two_who_rescue_and_fold_at_the_same_time_do_not_keep_each_other_waiting(postgres_url: str) -> None:
    with (
        opendataflow.open(postgres_url, create=True) as store,
        psycopg.connect(postgres_url, options="-c search_path=dataflow -c lock_timeout=60s") as other,
        ThreadPoolExecutor(1) as threads,
    ):
        chain(store)
        store.announce("raw", ["1", "2"])
        run = claim_one(store, "make")
        store.dml(f"update run set lease_until = 1 where runid = {run.runid}")
        change(store, "raw", "2", "HOLD")
        # The other one ends it in a claim of its own, and then finds that there is something to fold in.
        other.execute("select 1 from run where runid = %s for update", [run.runid])
        claiming = threads.submit(store.claim, "make")
        waits(claiming)
        other.execute(queries.load("postgres")["lock_folding"].encode())
        other.rollback()
        assert [claim.dataid for claim in claiming.result(timeout=60)] == ["1"]
        assert status(store, "product", "1") == "RUNNING"


@pytest.mark.postgres
@pytest.mark.parametrize("verb", ["announce", "hold"])
def test_a_chunk_that_somebody_begins_to_produce_at_this_moment_is_locked(meeting: Meeting, verb: str) -> None:
    store, other, threads = meeting
    chain(store)
    # As a claim writes it, which nobody else sees before its commit.
    columns = "datasetid, dataid, jobid, locktype, status, epoch, seal"
    other.execute(
        f"insert into datastatus ({columns}) values ('product', '1', 'make', 'OUT', 'RUNNING', 1, 1)".encode()
    )
    said = threads.submit(getattr(store, verb), "product", ["1"])
    waits(said)
    other.commit()
    with pytest.raises(Locked):
        said.result(timeout=60)
    assert status(store, "product", "1") == "RUNNING"


@pytest.mark.postgres
def test_a_job_that_is_registered_while_a_claim_folds_gets_its_candidates(postgres_url: str) -> None:
    with (
        opendataflow.open(postgres_url, create=True) as store,
        opendataflow.open(postgres_url) as registrar,
        psycopg.connect(postgres_url, options="-c search_path=dataflow") as other,
        ThreadPoolExecutor(2) as threads,
    ):
        chain(store)
        store.announce("raw", ["1"])
        assert following(store, "make") == ["1"]
        change(store, "raw", "1", "READY")
        other.execute(queries.load("postgres")["lock_folding"].encode())
        claiming = threads.submit(store.claim, "use")
        waits(claiming)
        registering = threads.submit(registrar.register, [dataset("copy")], [job("late", "raw", writes="copy")])
        wait([registering], timeout=2)  # it may have to wait for the claim
        other.rollback()
        assert (claiming.result(timeout=60), len(registering.result(timeout=60))) == ([], 2)
        assert following(store, "late") == ["1"]


@pytest.mark.postgres
def test_what_somebody_takes_at_this_moment_is_not_derived_as_if_it_were_free(meeting: Meeting) -> None:
    store, other, threads = meeting
    chain(store)
    store.announce("raw", ["1"])
    # As a claim does, which nobody else sees before its commit.
    other.execute("select 1 from candidate where jobid = 'make' and dataid = '1' for update")
    other.execute("delete from candidate where jobid = 'make' and dataid = '1'")
    columns = "datasetid, dataid, jobid, locktype, status, epoch, seal"
    other.execute(
        f"insert into datastatus ({columns}) values ('product', '1', 'make', 'OUT', 'RUNNING', 1, 1)".encode()
    )
    said = threads.submit(store.announce, "raw", ["1"], again=True)
    waits(said)
    other.commit()
    assert said.result(timeout=60).ready == ("1",)
    assert store.sql("select jobid, dataid from candidate")[1] == []


@pytest.mark.postgres
def test_a_run_that_ends_while_its_chunk_is_taken_away_has_one_end(meeting: Meeting) -> None:
    store, other, threads = meeting
    chain(store)
    store.announce("raw", ["1"])
    run = claim_one(store, "make")
    other.execute("update run set status = 'READY', ended = now() where runid = %s", [run.runid])
    said = threads.submit(store.hold, "product", ["1"], force=True)
    waits(said)
    other.commit()
    said.result(timeout=60)
    assert kinds(store, "product", "1") == ["claimed", "held"], "it was not lost"


@pytest.mark.postgres
def test_a_row_that_is_typed_while_a_verb_finds_none_comes_first(meeting: Meeting) -> None:
    store, other, threads = meeting
    chain(store)
    columns = "datasetid, dataid, jobid, locktype, status"
    other.execute(f"insert into datastatus ({columns}) values ('product', '1', 'make', 'OUT', 'FAILED')".encode())
    said = threads.submit(store.hold, "product", ["1"])
    waits(said)
    other.commit()
    [held] = said.result(timeout=60)
    assert (held.before, held.after) == ("FAILED", "HOLD")
    assert store.breaches() == []


@pytest.mark.postgres
@pytest.mark.parametrize("verb", ["hold", "announce"])
def test_what_is_typed_before_a_verb_gets_hold_of_the_chunk_comes_first(postgres_url: str, verb: str) -> None:
    with (
        opendataflow.open(postgres_url, create=True) as store,
        psycopg.connect(postgres_url, options="-c search_path=dataflow") as other,
        psycopg.connect(postgres_url, options="-c search_path=dataflow") as person,
        ThreadPoolExecutor(1) as threads,
    ):
        chain(store)
        store.announce("raw", ["1"])
        run = claim_one(store, "make")
        if verb == "announce":  # it begins, and waits before it looks
            other.execute("select pg_advisory_xact_lock(hashtextextended('product', 727105))")
        else:
            person.execute("select 1 from datastatus where datasetid = 'product' for update")
        said = threads.submit(getattr(store, verb), "product", ["1"])
        waits(said)
        person.execute("delete from datastatus where datasetid = 'product' and dataid = '1' and locktype = 'OUT'")
        person.commit()
        other.rollback()
        said.result(timeout=60)
        fold_in(store)
        assert [each.status for each in store.views.runs() if each.runid == run.runid] == ["LOST"]
        assert store.breaches() == []


@pytest.mark.postgres
def test_a_run_that_begins_while_its_chunk_is_taken_away_is_over(meeting: Meeting) -> None:
    store, other, threads = meeting
    chain(store)
    store.announce("raw", ["1"])
    produce(store, "make", "1")
    # As a claim does, which nobody else sees before its commit.
    ((runid,),) = other.execute(
        "insert into run (jobid, dataid, epoch, status, owner, lease, lease_until, forced) "
        "values ('make', '1', 2, 'RUNNING', 'hand', 60, lease_now() + 60, true) returning runid"
    ).fetchall()
    other.execute(
        "update datastatus set status = 'RUNNING', epoch = 2, runid = %s, seal = seal + 1 where datasetid = 'product'",
        [runid],
    )
    said = threads.submit(store.resubmit, "product", ["1"], force=True)
    waits(said)
    other.commit()
    said.result(timeout=60)
    assert [each.status for each in store.views.runs() if each.runid == runid] == ["LOST"]


@pytest.mark.postgres
def test_a_hold_that_is_typed_stays_when_the_input_comes_out_the_same_meanwhile(meeting: Meeting) -> None:
    store, person, threads = meeting
    chain(store, options={"on_new_version": "rerun"})
    first, second = ({"1": Manifest(fingerprint=letter)} for letter in "ab")
    store.announce("raw", ["1"], manifests=first)
    produce(store, "make", "1")
    store.announce("raw", ["1"], manifests=second)
    assert status(store, "product", "1") == "RESUBMIT"
    person.execute("update datastatus set status = 'HOLD' where datasetid = 'product' and locktype = 'OUT'")
    said = threads.submit(store.announce, "raw", ["1"], manifests=first)
    waits(said)
    person.commit()
    said.result(timeout=60)
    assert status(store, "product", "1") == "HOLD"
    fold_in(store)
    assert store.views.unfit_notes(9) == []


@pytest.mark.postgres
@pytest.mark.parametrize("how", ["update datastatus set status = 'HOLD'", "delete from datastatus"])
def test_a_run_that_is_rescued_while_somebody_takes_its_chunk_away_has_one_end(meeting: Meeting, how: str) -> None:
    store, person, threads = meeting
    chain(store)
    store.announce("raw", ["1"])
    run = claim_one(store, "make")
    store.dml(f"update run set lease_until = 1 where runid = {run.runid}")
    person.execute(f"{how} where datasetid = 'product' and locktype = 'OUT'".encode())
    said = threads.submit(store.claim, "use")
    waits(said)
    person.commit()
    assert said.result(timeout=60) == []
    fold_in(store)
    assert [kind for kind in kinds(store, "product", "1") if kind in ("lost", "rescued")] == ["lost"]
    assert store.breaches() == []


@pytest.mark.postgres
def test_a_verb_on_many_chunks_comes_to_its_end_while_somebody_types_on_them(postgres_url: str) -> None:
    with (
        opendataflow.open(postgres_url, create=True) as store,
        psycopg.connect(postgres_url, options="-c search_path=dataflow", autocommit=True) as person,
        ThreadPoolExecutor(1) as threads,
    ):
        chain(store)
        dataids = [str(number) for number in range(2000)]
        store.announce("raw", dataids)
        said = threads.submit(store.hold, "raw", dataids)
        while not said.done():
            person.execute("update datastatus set status = 'READY' where datasetid = 'raw' and dataid = '7'")
        assert len(said.result()) == len(dataids)
