"""sql and dml: the door for people who think in SQL."""

from __future__ import annotations

import time
from pathlib import Path

import psycopg
import pytest

import opendataflow
from opendataflow import Store
from opendataflow.errors import TimedOut, UsageError
from tests.support.flows import chain, drain, dump, following, produce, status
from tests.support.odf import Odf
from tests.support.shell import Shell


@pytest.fixture
def flow(store: Store) -> Store:
    """raw 1–3 → make → product."""
    chain(store)
    store.announce("raw", ["1", "2", "3"])
    drain(store, "make")
    return store


def test_sql_answers_in_a_table_or_in_json(flow: Store, odf: Odf):
    statement = "select dataid, status from job_status order by dataid"
    assert odf("sql", statement).out.splitlines() == [
        "dataid  status",
        "------  ------",
        *(f"{n}       READY" for n in "123"),
        "3 rows",
    ]
    assert odf("sql", "--json", statement).data[0] == {"dataid": "1", "status": "READY"}
    assert odf("sql", "--json", stdin=statement).data[2]["dataid"] == "3"
    assert odf("sql", "select dataid from job_status where dataid = 'none'").out == "dataid\n------\n0 rows\n"


@pytest.mark.parametrize(
    "statement",
    [
        "delete from event",
        "update datastatus set status = 'FAILED'",
        "with x as (select 1) insert into pool (poolid) select 'p' from x",
        "select 1; delete from candidate",
        "commit; delete from candidate",
        "rollback; delete from candidate",
        "pragma query_only = off; delete from candidate",
        "set transaction read write; delete from candidate",
        "attach database '/tmp/odf-should-not-be.db' as x",
        "drop table candidate",
        "selec 1",
        "",
    ],
)
def test_sql_cannot_write(flow: Store, odf: Odf, statement: str):
    before = dump(flow)
    assert odf("sql", statement, code=2).err.startswith("USAGE")
    assert dump(flow) == before


def test_dml_changes_and_counts(flow: Store, odf: Odf):
    statement = "UPDATE job_status SET status = 'RESUBMIT' WHERE dataid = '2'"
    before = dump(flow)
    assert odf("dml", "--dry-run", statement).out == "1 row would change\n"
    assert dump(flow) == before
    assert odf("dml", statement).out == "1 row changed\n"
    assert status(flow, "product", "2") == "RESUBMIT"
    assert following(flow, "make") == ["2"]


@pytest.mark.parametrize(
    "statement",
    [
        "update datastatus set status = 'NONSENSE'",
        "insert into datastatus (datasetid, dataid, jobid, locktype, status) values ('no', '1', 'j', 'OUT', 'READY')",
        "nonsense",
    ],
)
def test_dml_that_the_store_refuses_changes_nothing(flow: Store, odf: Odf, statement: str):
    before = dump(flow)
    assert odf("dml", statement, code=2).err.startswith(("USAGE", "UNKNOWN_STATUS"))
    assert dump(flow) == before


TABLES_CHANGED = {
    "drop table run": "DROP TABLE",
    "drop table event": "DROP TABLE",
    "alter table datastatus drop column epoch": "ALTER TABLE",
    "create table mine (a text)": "CREATE TABLE",
    "drop trigger event_is_never_deleted": "DROP TRIGGER",
    "delete from candidate; drop view job_status": "DROP VIEW",
    "delete from candidate; commit; drop table run": "",
    "pragma foreign_keys = off": "PRAGMA",
    "attach database 'other.db' as other": "ATTACH",
}


@pytest.mark.parametrize("statement", TABLES_CHANGED)
def test_dml_changes_rows_and_never_tables(flow: Store, odf: Odf, statement: str, tmp_path: Path):
    before = dump(flow)
    err = odf("dml", statement, code=2).err
    assert err.startswith("USAGE")
    if flow.url.startswith("sqlite"):
        assert f"{TABLES_CHANGED[statement]} " in err
    assert dump(flow) == before
    assert not (tmp_path / "other.db").exists()


@pytest.mark.postgres
@pytest.mark.parametrize(
    "statement",
    ["truncate datastatus", "drop table event cascade", "do $$ begin drop table run; end $$", "/* */ commit"],
)
def test_nor_does_it_on_a_server(postgres_url: str, statement: str):
    with opendataflow.open(postgres_url, create=True) as store:
        chain(store)
        before = dump(store)
        with pytest.raises(UsageError, match="is refused"):
            store.dml(statement)
        assert dump(store) == before


ORIGINAL = [
    "insert into dataset values ('bobin', 'localhost', 'dataflow', 'testdata', 'bobdata', 'etl', '')",
    "INSERT INTO dataset VALUES ('bobout', 'localhost', 'dataflow', 'testdata', 'bobdata', 'etl', '')",
    "insert into job values ('loadbob', 'IN', 'bobin', null, now())",
    "insert into job values ('loadbob', 'OUT', 'bobout', null, now())",
    "insert into datastatus values ('bobin', 'fakejob', '1.0', 'OUT', 'READY', now())",
]


@pytest.mark.parametrize("how", ["one by one", "in one go"])
def test_inserts_of_the_original_without_names_of_columns_mean_what_they_say(store: Store, odf: Odf, how: str):
    if how == "one by one":
        assert [odf("dml", statement).out for statement in ORIGINAL] == ["1 row changed\n"] * len(ORIGINAL)
    else:
        assert odf("dml", stdin=";\n".join(ORIGINAL)).out == "5 rows changed\n"
    chunk = store.views.chunk("bobin", "1.0")
    assert chunk is not None
    assert (chunk.status, chunk.jobid) == ("READY", "fakejob")
    assert store.catalogue().dataset("bobout").username == "etl"
    assert [claim.dataid for claim in store.claim("loadbob")] == ["1.0"]


SLOW = {
    "sqlite": "with recursive n (x) as (select 1 union all select x + 1 from n) select count(*) from n",
    "postgresql": "select pg_sleep(60)",
}


def test_a_statement_is_ended_after_its_time(flow: Store, odf: Odf, store_url: str):
    started = time.monotonic()
    answer = odf("sql", "--timeout", "0.5", SLOW[store_url.partition(":")[0]], code=TimedOut.exit_code)
    assert answer.err.startswith("TIMED_OUT")
    assert "--timeout" in answer.err
    assert time.monotonic() - started < 55
    with pytest.raises(TimedOut):
        flow.sql(SLOW[store_url.partition(":")[0]], timeout=0.2)
    assert flow.sql("select count(*) from event")[1], "the connection goes on"
    assert [claim.dataid for claim in flow.claim("make", dataid="3", force=True)] == ["3"], "without a limit"


@pytest.mark.postgres
def test_nobody_waits_for_a_lock_longer_than_that(postgres_url: str):
    with opendataflow.open(postgres_url, create=True) as store, psycopg.connect(postgres_url) as holder:
        holder.execute("lock table dataflow.event in access exclusive mode")
        with pytest.raises(TimedOut):
            store.sql("select count(*) from event", timeout=0.3)


@pytest.mark.fault(22)
@pytest.mark.postgres
@pytest.mark.parametrize(
    "statement",
    [
        "copy (select 1) to program 'touch /tmp/odf-should-not-be'",
        "copy event to '/tmp/odf-should-not-be'",
        "do $$ begin perform 1; end $$",
        "call something()",
        "set role postgres",
        "listen x",
        "load '$libdir/plpgsql'",
        "lock table event",
        "begin",
        "declare c cursor for select 1",
        "/* select */ copy (select 1) to stdout",
        "/* -- */ copy (select 1) to stdout /*\n */ select 1",
        "/* /* */ select 1 */ copy (select 1) to stdout",
        "-- select\ncopy (select 1) to stdout",
        "--\rcopy (select 1) to stdout",
        "/* select 1",
        "selectcopy 1",
        ";select 1",
    ],
)
def test_postgresql_runs_only_what_begins_like_a_question(postgres_url: str, statement: str):
    with opendataflow.open(postgres_url, create=True) as store, pytest.raises(UsageError):
        store.sql(statement)


@pytest.mark.postgres
@pytest.mark.parametrize(
    "statement",
    [
        "select 1",
        "(select 1)",
        " ((SELECT 1))",
        "-- why\nselect 1",
        "/* a /* b */ -- c */ select 1",
        "with x as (select 1) select * from x",
        "values (1)",
        "show search_path",
        "explain select * from event",
    ],
)
def test_and_every_question(postgres_url: str, statement: str):
    with opendataflow.open(postgres_url, create=True) as store:
        assert store.sql(statement)[1]


@pytest.mark.postgres
def test_a_superuser_is_refused_unless_told(tmp_path: Path, postgres_url: str):
    opendataflow.open(postgres_url, create=True).close()
    odf = Odf(tmp_path, postgres_url)
    files = "select pg_read_file('/etc/passwd')"
    answer = odf("sql", files, code=2, ODF_AS_SUPERUSER="")
    assert answer.err.startswith("USAGE")
    assert "--as-superuser" in answer.err
    assert "root:" not in answer.out + answer.err
    assert "root:" in odf("sql", "--as-superuser", files, ODF_AS_SUPERUSER="").out
    assert odf("sql", "select 1", ODF_AS_SUPERUSER="1").out
    role = "reader_" + postgres_url[-6:]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"create role {role} login; grant usage on schema dataflow to {role}".encode())
        connection.execute(f"grant select on all tables in schema dataflow to {role}".encode())
        reader = Odf(tmp_path, postgres_url.replace("postgres@", f"{role}@"))
        assert reader("sql", "select count(*) from event", ODF_AS_SUPERUSER="").out
        assert reader("sql", files, code=2, ODF_AS_SUPERUSER="").err.startswith("STORE_READ_ONLY")
        connection.execute(f"drop owned by {role}; drop role {role}".encode())


def test_a_status_that_there_is_not_is_refused_with_those_that_there_are(flow: Store, odf: Odf) -> None:
    refused = odf("dml", "update datastatus set status = 'DONEE'", code=2).err
    assert refused.startswith("UNKNOWN_STATUS")
    assert "RUNNING, READY, FAILED, RESUBMIT, HOLD, PENDING" in refused


ESCAPES = {
    "update dataset set format = format; --x\rcommit; drop table dataflow.log_tail": "COMMIT",
    "select E'\\''; commit; drop table dataflow.log_tail; --'": "COMMIT",
    "copy dataset to program 'id'": "COPY",
    "create table dataflow.evil as select 1 as a": "CREATE TABLE",
    "select 1 as a into dataflow.evil": "SELECT",
    "select $a$ ; $a$; /* /* ; */ */ drop table dataflow.log_tail": "DROP TABLE",
}


@pytest.mark.parametrize("statement", ESCAPES)
def test_nothing_hides_behind_a_change_of_rows(postgres_url: str, statement: str, tmp_path: Path) -> None:
    with opendataflow.open(postgres_url, create=True) as store:
        with pytest.raises(UsageError, match=f"^{ESCAPES[statement]} is refused"):
            store.dml(statement)
        _, tables = store.sql("select tablename from pg_tables where schemaname = 'dataflow'")
        names = {name for (name,) in tables}
        assert ("log_tail" in names, "evil" in names) == (True, False)
        assert store.dml("select 'a;b'; update dataset set format = 'csv;' where datasetid = 'no'; -- done;") == 0


def test_what_the_tables_refuse_is_told_of_the_statement_and_not_of_a_row(odf: Odf) -> None:
    odf("migrate")
    odf("dml", "insert into dataset (datasetid) values ('raw')")
    answer = odf("dml", "insert into dataset (datasetid) values ('raw')", code=2)
    assert answer.err.startswith("USAGE: the store refused the statement")


@pytest.mark.parametrize(
    "statement",
    [
        "update datastatus set epoch = 9223372036854775807, status = 'RESUBMIT' where datasetid = 'product'",
        "update datastatus set version = 9223372036854775807 where datasetid = 'product'",
        "update run set epoch = 9223372036854775807",
        "insert into datastatus (datasetid, jobid, dataid, locktype, status, epoch) "
        "values ('product', 'make', '9', 'OUT', 'RESUBMIT', 1000000000000001)",
        "update datastatus set seal = 9223372036854775807 where datasetid = 'product'",
        "update datastatus set seal = seal + 1, epoch = 9223372036854775807 where datasetid = 'product'",
        "insert into datastatus (datasetid, jobid, dataid, locktype, status, epoch, seal) "
        "values ('product', 'make', '9', 'OUT', 'RESUBMIT', 9223372036854775807, 1)",
    ],
)
def test_an_epoch_that_could_not_be_raised_is_refused(flow: Store, odf: Odf, statement: str) -> None:
    before = dump(flow)
    refused = odf("dml", statement, code=2).err
    assert refused.startswith("USAGE: the store refused the statement")
    assert "at most 1000000000000000" in refused
    assert dump(flow) == before


@pytest.mark.parametrize(
    "statement",
    [
        "delete from meta",
        "delete from meta where name = 'revision'",
        "update meta set name = 'mine' where name = 'revision'",
        "update meta set value = 'x' where name = 'revision'",
        "update meta set value = '0' where name = 'revision'",
    ],
)
def test_the_counter_of_the_definitions_stays(flow: Store, odf: Odf, statement: str) -> None:
    before = dump(flow)
    refused = odf("dml", statement, code=2).err
    assert refused.startswith("USAGE: the store refused the statement")
    assert "the revision in meta" in refused
    assert dump(flow) == before


def test_the_largest_epoch_that_is_not_refused_can_be_raised(flow: Store, odf: Odf) -> None:
    odf(
        "dml",
        "update datastatus set epoch = 1000000000000000, status = 'RESUBMIT' where datasetid = 'product' and dataid = '1'",
    )
    assert produce(flow, "make").epoch == 1_000_000_000_000_001
    odf("dml", "update job_status set status = 'RESUBMIT' where datasetid = 'product' and dataid = '1'")
    assert produce(flow, "make").epoch == 1_000_000_000_000_002


@pytest.mark.parametrize(
    "statement",
    [
        "update job_status set status = 'RESUBMIT' where dataid = '2025-11-12'",
        "update meta set value = 1",
        "update dataset set options = '{}'",
        "delete from datastatus",
        "insert into dataset (datasetid) select jobid from job",
    ],
)
def test_dml_in_a_wrong_folder_says_so_and_leaves_nothing(home: Shell, statement: str) -> None:
    assert home.odf("dml", statement, code=2).err.startswith("STORE_MISSING")
    assert list(home.folder.iterdir()) == []


def test_only_an_insert_that_succeeds_makes_a_store(home: Shell) -> None:
    assert "nosuch" in home.odf("dml", "insert into nosuch values (1)", code=2).err
    assert (
        "2 rows would change" in home.odf("dml", "--dry-run", "insert into dataset (datasetid) values ('a'), ('b')").out
    )
    assert list(home.folder.iterdir()) == []
    assert "1 row changed" in home.odf("dml", "/* first */ INSERT INTO dataset (datasetid) VALUES ('a')").out
    assert home.odf("sql", "select datasetid from dataset where datasetid = 'a'", "--json").data == [{"datasetid": "a"}]
