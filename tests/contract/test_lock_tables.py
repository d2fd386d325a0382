"""Both lock tables of the protocol, row by row, as a person meets them who types SQL."""

from __future__ import annotations

import pytest

from opendataflow import Store
from opendataflow.errors import UsageError
from tests.support.flows import chain, change, claim_one, dataset, following, in_status, job, produce, put, status

OUT_ROWS = [  # status, others may read, may be produced
    (None, False, True),
    ("RUNNING", False, False),
    ("READY", True, False),
    ("FAILED", False, False),
    ("RESUBMIT", False, True),
    ("HOLD", False, False),
    ("PENDING", False, False),
    ("COMPLETE", True, False),
    ("ERROR", False, False),
    ("RERUN", False, True),
    ("ready", True, False),
    ("complete", True, False),
    ("Rerun", False, True),
    ("hold", False, False),
]
STORED = {"COMPLETE": "READY", "ERROR": "FAILED", "RERUN": "RESUBMIT"}
IN_ROWS = [  # status, output says RESUBMIT, the same job may take it
    (None, False, True),
    (None, True, True),
    ("RUNNING", False, False),
    ("RUNNING", True, False),
    ("DONE", False, False),
    ("DONE", True, True),
    ("FAILED", False, True),
    ("FAILED", True, True),
    ("ERROR", True, True),
    ("error", False, True),
    ("done", False, False),
]


@pytest.mark.parametrize(("word", "may_read", "may_produce"), OUT_ROWS)
def test_a_row_of_the_out_table_typed_as_an_insert(
    store: Store, word: str | None, may_read: bool, may_produce: bool
) -> None:
    chain(store)
    put(store, "raw", "1", "READY")
    if word is not None:
        put(store, "product", "1", word)
        assert status(store, "product", "1") == STORED.get(word.upper(), word.upper())
    assert [claim.dataid for claim in store.claim("use")] == (["1"] if may_read else [])
    assert [claim.dataid for claim in store.claim("make")] == (["1"] if may_produce else [])


@pytest.mark.parametrize(("word", "may_read", "may_produce"), OUT_ROWS[1:])
def test_a_row_of_the_out_table_typed_as_an_update(store: Store, word: str, may_read: bool, may_produce: bool) -> None:
    chain(store)
    put(store, "raw", "1", "READY")
    produce(store, "make", "1")
    change(store, "product", "1", word)
    assert status(store, "product", "1") == STORED.get(word.upper(), word.upper())
    assert [claim.dataid for claim in store.claim("use")] == (["1"] if may_read else [])
    assert [claim.dataid for claim in store.claim("make")] == (["1"] if may_produce else [])


@pytest.mark.parametrize("word", ["RUNNING", "READY", "FAILED", "RESUBMIT", "HOLD", "PENDING"])
def test_a_deleted_out_row_is_a_chunk_that_was_never_produced(store: Store, word: str) -> None:
    chain(store)
    put(store, "raw", "1", "READY")
    put(store, "product", "1", word)
    store.claim("use")
    store.dml("delete from datastatus where datasetid = 'product'")
    assert store.claim("use") == []
    assert claim_one(store, "make").dataid == "1"


@pytest.mark.parametrize(("word", "resubmit", "may_take"), IN_ROWS)
def test_a_row_of_the_in_table(store: Store, word: str | None, resubmit: bool, may_take: bool) -> None:
    chain(store)
    store.register([dataset("other")], [job("reader", "raw", writes="other")])
    put(store, "raw", "1", "READY")
    if word is not None:
        put(store, "raw", "1", word, jobid="make", locktype="IN")
        assert in_status(store, "raw", "1", "make") == {"ERROR": "FAILED"}.get(word.upper(), word.upper())
    if resubmit:
        put(store, "product", "1", "RESUBMIT", jobid="make")
    assert [claim.dataid for claim in store.claim("make")] == (["1"] if may_take else [])
    assert claim_one(store, "reader").dataid == "1", "an IN row locks its own job only"


def test_a_deleted_in_row_lets_its_job_take_the_chunk_again(store: Store) -> None:
    chain(store)
    put(store, "raw", "1", "READY")
    put(store, "raw", "1", "DONE", jobid="make", locktype="IN")
    assert store.claim("make") == []
    store.dml("delete from datastatus where locktype = 'IN'")
    assert claim_one(store, "make").dataid == "1"


def test_a_run_locks_its_chunks_and_leaves_them_done(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    assert (status(store, "product", "1"), in_status(store, "raw", "1", "make")) == ("RUNNING", "RUNNING")
    assert store.claim("make") == []
    assert store.claim("use") == []
    store.commit(claim)
    assert (status(store, "product", "1"), in_status(store, "raw", "1", "make")) == ("READY", "DONE")
    assert status(store, "raw", "1") == "READY", "reading changes nothing for the others"
    assert store.claim("make") == []


def test_a_failed_run_releases_its_read_lock_and_waits_for_resubmit(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    assert store.fail(claim_one(store, "make"), detail="no such table", exit_code=3) == "FAILED"
    assert (status(store, "product", "1"), in_status(store, "raw", "1", "make")) == ("FAILED", "FAILED")
    assert store.claim("make") == []
    change(store, "product", "1", "RESUBMIT")
    again = claim_one(store, "make")
    assert (again.dataid, again.epoch, again.was_resubmit) == ("1", 2, True)


def test_a_job_may_read_a_chunk_of_the_dataset_that_it_writes(store: Store) -> None:
    store.register(
        [dataset("raw"), dataset("balance", start="1")], [job("book", "raw", "balance lag", writes="balance")]
    )
    store.announce("raw", ["1", "2"])
    produce(store, "book", "1")
    claim = claim_one(store, "book")
    assert claim.dataid == "2"
    assert (status(store, "balance", "1"), in_status(store, "balance", "1", "book")) == ("READY", "RUNNING")


def test_an_input_that_stops_being_ready_takes_the_candidate_away(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    assert following(store, "make") == ["1"]
    change(store, "raw", "1", "HOLD")
    assert following(store, "make") == []
    assert store.claim("make") == []
    change(store, "raw", "1", "READY")
    assert claim_one(store, "make").dataid == "1"


REFUSED = {
    "an unknown status": "insert into datastatus (datasetid, dataid, jobid, locktype, status) "
    "values ('raw', '2', 'j', 'OUT', 'FINISHED')",
    "a status of the other table": "insert into datastatus (datasetid, dataid, jobid, locktype, status) "
    "values ('raw', '2', 'j', 'OUT', 'DONE')",
    "an IN row that is READY": "insert into datastatus (datasetid, dataid, jobid, locktype, status) "
    "values ('raw', '2', 'j', 'IN', 'READY')",
    "an IN row that is RESUBMIT": "insert into datastatus (datasetid, dataid, jobid, locktype, status) "
    "values ('raw', '2', 'j', 'IN', 'RERUN')",
    "no status": "insert into datastatus (datasetid, dataid, jobid, locktype, status) "
    "values ('raw', '2', 'j', 'OUT', null)",
    "an empty status": "update datastatus set status = ''",
    "an unknown status by the view": "update job_status set status = 'RESTART'",
    "an unknown status by update": "update datastatus set status = 'OK' where dataid = '1'",
    "an unknown lock type": "insert into datastatus (datasetid, dataid, jobid, locktype, status) "
    "values ('raw', '2', 'j', 'INPUT', 'RUNNING')",
    "a lock type in lower case": "insert into datastatus (datasetid, dataid, jobid, locktype, status) "
    "values ('raw', '2', 'j', 'out', 'READY')",
    "a second OUT row of a chunk": "insert into datastatus (datasetid, dataid, jobid, locktype, status) "
    "values ('product', '1', 'another', 'OUT', 'READY')",
    "the same row twice": "insert into datastatus (datasetid, dataid, jobid, locktype, status) "
    "values ('raw', '1', 'make', 'IN', 'DONE')",
    "a dataset that does not exist": "insert into datastatus (datasetid, dataid, jobid, locktype, status) "
    "values ('nosuch', '1', 'j', 'OUT', 'READY')",
    "a row moved to a dataset that does not exist": "update datastatus set datasetid = 'nosuch' where datasetid = 'product'",
    "a dataset that goes while it has chunks": "delete from dataset where datasetid = 'raw'",
    "an input without a dataset": "insert into job (jobid, itemtype) values ('j', 'IN')",
    "a second producer": "insert into job (jobid, itemtype, datasetid) values ('j', 'OUT', 'product')",
    "a dataid with a blank": "insert into datastatus (datasetid, dataid, jobid, locktype, status) "
    "values ('raw', 'a b', 'j', 'OUT', 'READY')",
    "a dataid that climbs": "insert into datastatus (datasetid, dataid, jobid, locktype, status) "
    "values ('raw', '../up', 'j', 'OUT', 'READY')",
    "an empty dataid": "insert into datastatus (datasetid, dataid, jobid, locktype, status) "
    "values ('raw', '', 'j', 'OUT', 'READY')",
    "no dataid": "insert into datastatus (datasetid, dataid, jobid, locktype, status) "
    "values ('raw', null, 'j', 'OUT', 'READY')",
    "a dataset with a quote": "insert into dataset (datasetid) values ('bob''s')",
    "a job with a slash": "insert into job (jobid, itemtype, datasetid) values ('a/b', 'IN', 'raw')",
    "a pool with a negative limit": "insert into pool (poolid, slots) values ('p', -1)",
    "history that is changed": "update event set why = 'never happened'",
    "history that is deleted": "delete from event",
}


@pytest.mark.parametrize("what", REFUSED)
def test_the_database_itself_refuses(store: Store, what: str) -> None:
    chain(store)
    store.announce("raw", ["1"])
    produce(store, "make", "1")
    before = store.sql("select * from datastatus order by 1, 2, 3, 4")
    with pytest.raises(UsageError):
        store.dml(REFUSED[what])
    assert store.sql("select * from datastatus order by 1, 2, 3, 4") == before
    assert claim_one(store, "use").dataid == "1", "the store works on as if nothing had been typed"
