"""The author's first tutorial: bobin, bobout and the job loadbob, typed as SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing

import psycopg
import pytest

from opendataflow import Store
from opendataflow.errors import UsageError
from tests.support.flows import claim_one, in_status, kinds, produce, status

TUTORIAL = [
    "insert into dataset (datasetid) values ('bobin')",
    "insert into dataset (datasetid) values ('bobout')",
    "insert into job (datasetid,itemtype,jobid) values ('bobin','IN','loadbob')",
    "insert into job (datasetid,itemtype,jobid) values ('bobout','OUT','loadbob')",
    "insert into datastatus (dataid,datasetid,jobid,locktype,modified,status) "
    "values ('1.0','bobin','fakejob','OUT',now(),'READY')",
]

# What odf, SQLite and PostgreSQL call a statement that a constraint or a trigger forbids.
REFUSALS = (UsageError, sqlite3.IntegrityError, psycopg.IntegrityError, psycopg.errors.RaiseException)

Type = Callable[[str], int]


@pytest.fixture(params=["odf dml", "plain client"])
def type_sql(request: pytest.FixtureRequest, store: Store, store_url: str) -> Iterator[Type]:
    """Types one statement into odf, or into the client that comes with the database."""
    if request.param == "odf dml":
        yield store.dml
    elif store_url.startswith("sqlite"):
        with closing(sqlite3.connect(store_url.removeprefix("sqlite:///"), isolation_level=None)) as client:
            yield lambda statement: client.execute(statement.replace("now()", "CURRENT_TIMESTAMP")).rowcount
    else:
        with psycopg.connect(store_url, autocommit=True) as connection:
            yield lambda statement: connection.execute(statement.encode()).rowcount


@pytest.fixture
def bob(store: Store, type_sql: Type) -> Type:
    """The tutorial, typed; further statements go through the same client."""
    for statement in TUTORIAL:
        type_sql(statement)
    return type_sql


def test_the_happy_path(store: Store, bob: Type) -> None:
    claim = claim_one(store, "loadbob")
    assert (claim.dataid, claim.outputs, [tuple(item) for item in claim.inputs]) == (
        "1.0",
        ("bobout",),
        [("bobin", "1.0", 0)],
    )
    assert status(store, "bobout", "1.0") == "RUNNING"
    store.commit(claim, exit_code=0)
    assert status(store, "bobout", "1.0") == "READY"
    assert in_status(store, "bobin", "1.0", "loadbob") == "DONE"
    assert store.claim("loadbob") == [], "a chunk is processed once"
    assert kinds(store, "bobout", "1.0") == ["claimed", "published"]
    assert kinds(store, "bobin", "1.0") == ["sql"]


def test_the_next_chunk_is_found_when_it_is_there(store: Store, bob: Type) -> None:
    produce(store, "loadbob", "1.0")
    bob(TUTORIAL[-1].replace("1.0", "1.2"))
    bob(TUTORIAL[-1].replace("1.0", "1.10"))
    assert [produce(store, "loadbob").dataid for _ in range(2)] == ["1.2", "1.10"]


def test_a_dependent_job_waits_for_its_predecessor(store: Store, bob: Type) -> None:
    bob("insert into dataset (datasetid) values ('bobreport')")
    bob("insert into job (datasetid,itemtype,jobid) values ('bobout','IN','reportbob')")
    bob("insert into job (datasetid,itemtype,jobid) values ('bobreport','OUT','reportbob')")
    assert store.claim("reportbob") == []
    claim = claim_one(store, "loadbob")
    assert store.claim("reportbob") == [], "a chunk that is being produced is read by nobody"
    store.commit(claim)
    produce(store, "reportbob", "1.0")
    assert status(store, "bobreport", "1.0") == "READY"


def test_a_job_fails_and_is_restarted_by_one_word(store: Store, bob: Type) -> None:
    store.fail(claim_one(store, "loadbob"), detail="exit status 1", exit_code=1)
    assert (status(store, "bobout", "1.0"), in_status(store, "bobin", "1.0", "loadbob")) == ("FAILED", "FAILED")
    assert store.claim("loadbob") == [], "it stays failed until somebody says otherwise"
    assert (
        bob("update datastatus set status='RESUBMIT' where datasetid='bobout' and dataid='1.0' and locktype='OUT'") == 1
    )
    produce(store, "loadbob", "1.0")
    assert status(store, "bobout", "1.0") == "READY"
    assert [run.status for run in store.views.runs(jobid="loadbob")] == ["READY", "FAILED"]
    assert kinds(store, "bobout", "1.0") == ["claimed", "failed", "sql", "claimed", "published"]


def test_the_previous_job_failed_and_nobody_noticed(store: Store, bob: Type) -> None:
    bob("insert into dataset (datasetid) values ('bobreport')")
    bob("insert into job (datasetid,itemtype,jobid) values ('bobout','IN','reportbob')")
    bob("insert into job (datasetid,itemtype,jobid) values ('bobreport','OUT','reportbob')")
    produce(store, "loadbob", "1.0")
    produce(store, "reportbob", "1.0")
    bob("update job_status set status='RERUN' where datasetid in ('bobout', 'bobreport') and dataid='1.0'")
    assert status(store, "bobout", "1.0") == "RESUBMIT"
    assert store.claim("reportbob") == [], "the report waits for its input to be right again"
    produce(store, "loadbob", "1.0")
    second = produce(store, "reportbob", "1.0")
    assert [tuple(item) for item in second.inputs] == [("bobout", "1.0", 2)]
    consumed = store.views.input_row("bobout", "1.0", "reportbob")
    assert consumed is not None
    assert consumed.version == 2


def test_only_the_previous_job_is_run_again_when_only_that_is_asked_for(store: Store, bob: Type) -> None:
    bob("insert into dataset (datasetid) values ('bobreport')")
    bob("insert into job (datasetid,itemtype,jobid) values ('bobout','IN','reportbob')")
    bob("insert into job (datasetid,itemtype,jobid) values ('bobreport','OUT','reportbob')")
    produce(store, "loadbob", "1.0")
    produce(store, "reportbob", "1.0")
    bob("update datastatus set status='RERUN' where datasetid='bobout' and locktype='OUT'")
    produce(store, "loadbob", "1.0")
    assert store.claim("reportbob") == [], "it consumed this chunk: its row says so, with the version"
    chunk, consumed = store.views.chunk("bobout", "1.0"), store.views.input_row("bobout", "1.0", "reportbob")
    assert chunk is not None
    assert consumed is not None
    assert (chunk.version, consumed.version) == (2, 1)


def test_a_chunk_is_set_aside_and_given_free_by_its_status(store: Store, bob: Type) -> None:
    bob("update datastatus set status='hold' where datasetid='bobin'")
    assert store.claim("loadbob") == []
    bob("update datastatus set status='complete' where datasetid='bobin'")
    assert status(store, "bobin", "1.0") == "READY"
    produce(store, "loadbob", "1.0")


def test_a_person_takes_a_chunk_away_from_a_running_job(store: Store, bob: Type) -> None:
    claim_one(store, "loadbob")
    bob("update job_status set status='RESUBMIT' where jobid='loadbob'")
    assert claim_one(store, "loadbob").epoch == 2
    assert [run.status for run in store.views.runs(jobid="loadbob")] == ["RUNNING", "LOST"]


@pytest.mark.parametrize(
    "statement",
    [
        "insert into datastatus (dataid,datasetid,jobid,locktype,status) values ('2','bobin','fakejob','OUT','FINISHED')",
        "insert into datastatus (dataid,datasetid,jobid,locktype,status) values ('2','bobin','fakejob','BOTH','READY')",
        "insert into datastatus (dataid,datasetid,jobid,locktype,status) values ('2','nosuch','fakejob','OUT','READY')",
        "insert into datastatus (dataid,datasetid,jobid,locktype,status) values ('1.0','bobin','twin','OUT','READY')",
        "insert into datastatus (dataid,datasetid,jobid,locktype,status) values ('../x','bobin','fakejob','OUT','READY')",
        "insert into job (datasetid,itemtype,jobid) values ('bobout','OUT','twin')",
        "update datastatus set datasetid = 'nosuch' where datasetid = 'bobout'",
        "update dataset set datasetid = 'nosuch' where datasetid = 'bobout'",
        "delete from dataset where datasetid = 'bobin'",
        "update job_status set status = 'RESTART'",
        "update datastatus set status = 'RESTART'",
        "update datastatus set dataid = 'a b'",
        "delete from event",
    ],
)
def test_what_makes_no_sense_is_refused_in_every_client(store: Store, bob: Type, statement: str) -> None:
    produce(store, "loadbob", "1.0")
    before = store.sql("select * from datastatus order by datasetid, locktype")
    with pytest.raises(REFUSALS):
        bob(statement)
    assert store.sql("select * from datastatus order by datasetid, locktype") == before
