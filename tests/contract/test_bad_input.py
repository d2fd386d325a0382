"""What cannot be right is refused by name, at every door of the store, with nothing written."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import opendataflow
from opendataflow import Dataset, Job, Manifest, Pool, Store
from opendataflow.errors import (
    BadDataid,
    BadId,
    SchemaChanged,
    SchemaNewer,
    SchemaOlder,
    StoreMissing,
    StoreReadOnly,
    StoreTaken,
    StoreUnreachable,
    UnknownDataset,
    UnknownJob,
    UsageError,
)
from opendataflow.model import Receipt
from tests.support.flows import chain, claim_one, dump, fold_in

BAD_IDS = {
    "empty": "",
    "quote": "bob's",
    "double quote": 'say "x"',
    "newline": "a\nb",
    "trailing newline": "a\n",
    "climbing": "../etc/passwd",
    "slash": "a/b",
    "NUL": "a\0b",
    "10,000 characters": "a" * 10_000,
    "129 characters": "a" * 129,
    "right to left": "\u202ebob",
    "hebrew": "שלום",
    "leading dash": "-rf",
    "leading dot": ".hidden",
    "blank": "a b",
    "semicolon": "a;drop table job",
    "shell": "$(id)",
    "percent": "%s",
    "full-width digit": "１",
}


def refuses(call: Callable[[str], object], text: str) -> bool:
    """Whether the call says no, by a name and not by accident."""
    try:
        call(text)
    except UsageError:
        return True
    return False


@pytest.mark.fault(20)
def test_an_id_outside_the_grammar_is_refused_at_every_door(store: Store) -> None:
    store.register([Dataset("raw"), Dataset("product")], [Job("make", (opendataflow.Input("raw"),), ("product",))])
    fold_in(store)
    before = dump(store)
    doors: dict[str, Callable[[str], object]] = {
        "dataset": lambda bad: store.register([Dataset(bad)]),
        "job": lambda bad: store.register(jobs=[Job(bad, (), ("raw",))]),
        "pool": lambda bad: store.register(pools=[Pool(bad, 1)]),
        "announce": lambda bad: store.announce("raw", ["ok", bad]),
        "announce a dataset": lambda bad: store.announce(bad, ["1"]),
        "claim a job": lambda bad: store.claim(bad),
        "claim": lambda bad: store.claim("make", dataid=bad),
        "force": lambda bad: store.claim("make", dataid=bad, force=True),
        "resubmit": lambda bad: store.resubmit("product", [bad]),
        "hold": lambda bad: store.hold("product", [bad]),
        "release": lambda bad: store.release("product", [bad]),
        "fail": lambda bad: store.fail_chunks("product", [bad]),
        "forget": lambda bad: store.forget("product", [bad]),
        "steer a dataset": lambda bad: store.hold(bad, ["1"]),
        "refuse": lambda bad: store.refuse(Receipt(bad, "1")),
        "next": lambda bad: store.views.next_dataids(bad),
    }
    for what, bad in BAD_IDS.items():
        for door, call in doors.items():
            assert refuses(call, bad), f"{door} let {what} in"
    assert dump(store) == before


@pytest.mark.fault(20)
def test_an_id_outside_the_grammar_cannot_be_typed_either(store: Store) -> None:
    store.register([Dataset("raw")])
    before = dump(store)
    fine = {"datasetid": "raw", "dataid": "1", "jobid": "me", "locktype": "OUT", "status": "READY"}
    for what, bad in BAD_IDS.items():
        if "\0" in bad:
            continue  # it cannot be typed; see below
        for column in ("datasetid", "dataid", "jobid"):
            quoted = ", ".join("'{}'".format(value.replace("'", "''")) for value in (fine | {column: bad}).values())
            statement = f"insert into datastatus ({', '.join(fine)}) values ({quoted})"
            assert refuses(store.dml, statement), f"{column} may have {what}"
        for table, column in (("dataset", "datasetid"), ("pool", "poolid"), ("jobrule", "jobid")):
            statement = "insert into {} ({}) values ('{}')".format(table, column, bad.replace("'", "''"))
            assert refuses(store.dml, statement), f"{table} may have {what}"
    assert dump(store) == before


@pytest.mark.fault(20)
@pytest.mark.parametrize(
    "expression",
    ["'a' || char(0) || 'b'", "'a' || chr(0) || 'b'", "replace('aaaaaaaaaa', 'a', 'aaaaaaaaaaaaaaaaaaaaaaaa')"],
)
def test_an_id_that_is_computed_is_checked_too(store: Store, expression: str) -> None:
    store.register([Dataset("raw")])
    with pytest.raises(UsageError):
        store.dml(
            "insert into datastatus (datasetid, dataid, jobid, locktype, status) "
            f"values ('raw', {expression}, 'me', 'OUT', 'READY')"
        )
    assert store.views.status_counts() == {}


MALFORMED = {
    "day": ["2025-02-29", "20250101", "2025-1-1", "2025-01-01T00", "today"],
    "hour": ["2025-01-01T24", "2025-01-01", "2025-01-01T5"],
    "month": ["2025-13", "2025-1", "202501"],
    "year": ["25", "0000", "20255"],
    "number": ["-1", "1.0", "01", "1e3", "1_000"],
    "range": ["0", "01", "x"],
}


@pytest.mark.parametrize("partition", MALFORMED)
def test_a_dataid_that_is_malformed_for_its_type_is_refused(store: Store, partition: str) -> None:
    chain(store, partition=partition)
    fold_in(store)
    before = dump(store)
    for bad in MALFORMED[partition]:
        for call in (store.announce, store.resubmit, store.hold, store.fail_chunks, store.forget):
            with pytest.raises((BadDataid, BadId)):
                call("raw", [bad])
        with pytest.raises((BadDataid, BadId)):
            store.claim("make", dataid=bad)
    assert dump(store) == before


def test_unknown_names_are_named(store: Store) -> None:
    chain(store)
    for call in (store.claim, store.views.next_dataids):
        with pytest.raises(UnknownJob):
            call("nosuch")
    with pytest.raises(UnknownJob):
        store.views.receipts("nosuch", "1")
    with pytest.raises(UnknownJob):
        store.refuse(Receipt("nosuch", "1"))
    for steer in (store.announce, store.resubmit, store.hold, store.release, store.fail_chunks, store.forget):
        with pytest.raises(UnknownDataset):
            steer("nosuch", ["1"])


def test_a_nearby_name_is_offered(store: Store) -> None:
    chain(store)
    with pytest.raises(UnknownJob) as caught:
        store.claim("mkae")
    assert "make" in caught.value.hint


def test_a_claim_that_makes_no_sense_is_refused(store: Store) -> None:
    chain(store)
    with pytest.raises(UsageError):
        store.claim("make", n=0)
    with pytest.raises(UsageError):
        store.claim("make", force=True)


@pytest.mark.fault(22)
def test_text_is_only_text(store: Store) -> None:
    """Quotes, line ends and the database's own words inside free text come back as they went in."""
    chain(store)
    nasty = "it's\n%s :name %(x)s \\ \"; drop table job; -- \u202e ☃"
    store.announce("raw", ["1"], why=nasty, manifests={"1": Manifest(location=nasty, extra={"x": nasty})})
    claim = claim_one(store, "make", owner=nasty)
    store.fail(claim, detail=nasty)
    assert store.views.run(claim.runid).detail == nasty
    assert store.views.run(claim.runid).owner == nasty
    assert store.views.events("raw", "1")[0].why == nasty
    published = store.views.manifest("raw", "1")
    assert published is not None
    assert (published.manifest.location, published.manifest.extra) == (nasty, {"x": nasty})


# Stores that are not there, or not what they should be ---------------------------------------------------------------


def test_a_store_that_does_not_exist_is_missing(store_url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreMissing):
        opendataflow.open(store_url)
    assert list(tmp_path.iterdir()) == [], "looking creates nothing"


@pytest.mark.postgres
def test_a_database_that_does_not_exist_is_missing(postgres_url: str) -> None:
    with pytest.raises(StoreMissing):
        opendataflow.open(postgres_url + "_nosuch", create=True)


def test_a_server_that_does_not_answer_is_unreachable() -> None:
    with pytest.raises(StoreUnreachable):
        opendataflow.open("postgresql://postgres@127.0.0.1:1/x")


@pytest.mark.parametrize("url", ["", "sqlite://", "sqlite:///", "mysql://x/y", "/tmp/x.db", "postgresql:", "file:x"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        opendataflow.open(url, create=True)


def test_a_file_that_is_not_sqlite_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("Buy milk.\n" * 1000)
    for create in (False, True):
        with pytest.raises(StoreMissing):
            opendataflow.open(f"sqlite:///{file}", create=create)
    assert file.read_text() == "Buy milk.\n" * 1000


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    for create in (False, True):
        with pytest.raises(StoreMissing):
            opendataflow.open(f"sqlite:///{tmp_path}", create=create)


@pytest.mark.parametrize(
    "tables", [["job"], ["migration"], [f"t{n}" for n in range(9)]], ids=["job", "migration", "nine"]
)
def test_a_database_of_somebody_else_is_refused_and_left_alone(store_url: str, tables: list[str]) -> None:
    make(store_url, tables)
    before = Path(store_url.removeprefix("sqlite:///")).read_bytes() if store_url.startswith("sqlite") else b""
    for create in (False, True):
        with pytest.raises(StoreTaken, match=tables[0]):
            opendataflow.open(store_url, create=create)
    if before:
        assert Path(store_url.removeprefix("sqlite:///")).read_bytes() == before


def make(store_url: str, tables: list[str]) -> None:
    """Make tables where the store's would be, as another program did."""
    statements = [f"create table {name} (id integer, name text)" for name in tables]
    if store_url.startswith("sqlite"):
        with closing(sqlite3.connect(store_url.removeprefix("sqlite:///"))) as file:
            for statement in statements:
                file.execute(statement)
    else:
        with psycopg.connect(store_url, autocommit=True) as connection:
            for statement in ["create schema dataflow", "set search_path = dataflow", *statements]:
                connection.execute(statement.encode())


@pytest.mark.parametrize("content", [b"x", b"Buy milk.\n" * 60, b"SQLite format 3\0" + b"\xff" * 8000])
def test_what_is_no_database_at_all_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "store.db"
    file.write_bytes(content)
    for create in (False, True):
        with pytest.raises(StoreMissing):
            opendataflow.open(f"sqlite:///{file}", create=create)
    assert file.read_bytes() == content


@pytest.mark.postgres
def test_tables_beside_the_schema_are_nobodys_business(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("create table job (id integer)")
        connection.execute("create schema dataflow")
    with opendataflow.open(postgres_url, create=True) as store:
        chain(store)


def test_an_empty_file_has_no_tables_yet(tmp_path: Path) -> None:
    (tmp_path / "x.db").touch()
    with pytest.raises(StoreMissing):
        opendataflow.open(f"sqlite:///{tmp_path}/x.db")


def test_a_store_that_turns_read_only_says_so(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    if store.url.startswith("sqlite"):
        store._backend._connection.execute("pragma query_only = on")  # type: ignore[attr-defined]
    else:
        store._backend._connection.execute("set default_transaction_read_only = on")  # type: ignore[attr-defined]
    with pytest.raises(StoreReadOnly):
        store.claim("make")
    with pytest.raises(StoreReadOnly):
        store.announce("raw", ["2"])
    assert [chunk.dataid for chunk in store.views.chunks("raw")] == ["1"], "reading goes on"


@pytest.mark.postgres
def test_a_role_without_rights_is_told_so(postgres_url: str) -> None:
    with opendataflow.open(postgres_url, create=True) as store:
        chain(store)
        role = "stranger_" + postgres_url[-6:]
        store.dml(f"create role {role} login")
    try:
        with pytest.raises(StoreReadOnly):
            opendataflow.open(postgres_url.replace("postgres@", f"{role}@")).claim("make")
    finally:
        with opendataflow.open(postgres_url) as store:
            store.dml(f"drop role {role}")


@pytest.mark.fault(25)
def test_a_password_is_never_shown() -> None:
    with pytest.raises(StoreUnreachable) as caught:
        opendataflow.open("postgresql://etl:s3cret@127.0.0.1:1/x")
    assert "s3cret" not in str(caught.value)


# Schema --------------------------------------------------------------------------------------------------------------


def test_a_store_is_created_once_and_opened_ever_after(store: Store, store_url: str) -> None:
    chain(store)
    before = dump(store)
    opendataflow.open(store_url, create=True).close()
    with opendataflow.open(store_url) as again:
        assert again.migrate(dry_run=True) == []
        assert again.migrate() == []
    assert dump(store) == before


def test_an_older_schema_is_named(store: Store, store_url: str) -> None:
    store.dml("update migration set number = 11")
    for create in (False, True):
        with pytest.raises(SchemaOlder, match="schema 11") as refused:
            opendataflow.open(store_url, create=create)
        assert "odf export store.jsonl" in refused.value.hint
        assert "odf import store.jsonl --store" in refused.value.hint
    with opendataflow.open(store_url, check=False) as unchecked:
        for dry_run in (True, False):
            with pytest.raises(SchemaOlder):
                unchecked.migrate(dry_run=dry_run)


def test_a_newer_schema_is_named(store: Store, store_url: str) -> None:
    store.dml("insert into migration (number, name, checksum, applied) values (9999, 'future', 'x', now())")
    for create in (False, True):
        with pytest.raises(SchemaNewer):
            opendataflow.open(store_url, create=create)


def test_a_changed_migration_is_named(store: Store, store_url: str) -> None:
    for change in ("checksum = 'tampered'", "number = 12"):  # of 12, all migrations up to it are known
        store.dml(f"update migration set {change}")
        for create in (False, True):
            with pytest.raises(SchemaChanged):
                opendataflow.open(store_url, create=create)


def test_definitions_that_were_typed_wrong_are_named(store: Store) -> None:
    from opendataflow.errors import BadDefinition

    chain(store)
    store.dml("update dataset set partition = 'weekly' where datasetid = 'raw'")
    with pytest.raises(BadDefinition):
        store.claim("make")
    store.dml("update dataset set partition = '{not json' where datasetid = 'raw'")
    with pytest.raises(BadDefinition):
        store.claim("make")
    store.dml("update dataset set partition = 'number' where datasetid = 'raw'")
    store.dml("update job set itemvalue = 'sideways' where itemtype = 'IN' and jobid = 'make'")
    with pytest.raises(BadDefinition, match="sideways"):
        store.claim("make")
    store.dml("update job set itemvalue = null where itemtype = 'IN' and jobid = 'make'")
    store.announce("raw", ["1"])
    assert claim_one(store, "make").dataid == "1"
