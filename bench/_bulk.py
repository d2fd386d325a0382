"""The bare side of announcing: what a good engineer would write by hand to put the same rows into the same tables.

One transaction with one set-based insert for each kind of row: the OUT rows, the events, and the candidates of both consumers,
from a list of dataids that is sent once. The tables are copies of the store's, with its columns, primary keys and indexes but
without triggers and foreign keys (and, on PostgreSQL, without checks); nobody looks whether a chunk is there already.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import apsw
import psycopg

TABLES = ("datastatus", "event", "candidate")

_ROWS = """
    insert into datastatus (datasetid, dataid, jobid, locktype, status, epoch, version, sort_key, seal)
        select 'src', dataid, 'outside', 'OUT', 'READY', 1, 1, sort_key, 1 from arriving;
    insert into event (kind, datasetid, dataid, jobid, epoch, after, who)
        select 'announced', 'src', dataid, 'outside', 1, 'READY', 'somebody@somewhere:1' from arriving;
    insert into candidate (jobid, dataid, sort_key, state, inputs)
        select 'a', dataid, sort_key, 'CLAIMABLE', '[["src","' || dataid || '"]]' from arriving;
    insert into candidate (jobid, dataid, sort_key, state, inputs)
        select 'b', dataid, sort_key, 'CLAIMABLE', '[["src","' || dataid || '"]]' from arriving;
"""


def announce_into_sqlite(store: str, dataids: Sequence[str]) -> float:
    """The seconds of the bare inserts, into a file of their own beside a store."""
    connection = apsw.Connection(f"{store}.bare")
    connection.execute("pragma journal_mode = wal; pragma synchronous = full; pragma cache_size = -64000").fetchall()
    connection.execute("attach ? as store", (store,))
    definitions = (
        "select sql from store.sqlite_schema where sql is not null and type in ('table', 'index') and tbl_name = ?"
    )
    for table in TABLES:
        for (definition,) in connection.execute(definitions, (table,)).fetchall():
            connection.execute(str(definition))
    connection.execute("detach store")
    connection.execute("pragma temp_store = memory")
    start = time.perf_counter()
    connection.execute("begin immediate")
    arriving = (
        "create temp table arriving as select value as dataid, printf('%018d', value) as sort_key from json_each(?)"
    )
    connection.execute(arriving, (json.dumps(dataids),))
    connection.execute(_ROWS)
    connection.execute("commit")
    spent = time.perf_counter() - start
    connection.close()
    return spent


def announce_into_postgres(url: str, dataids: Sequence[str]) -> float:
    """The seconds of the bare inserts, into a schema of their own in the database of a store."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create schema bare; set search_path = bare")
        for table in TABLES:
            copied = "including defaults including identity including indexes including storage"
            connection.execute(f"create table {table} (like dataflow.{table} {copied})".encode())
        start = time.perf_counter()
        with connection.transaction():
            connection.execute("create temp table arriving (dataid text, sort_key text) on commit drop")
            arriving = "insert into arriving select dataid, lpad(dataid, 18, '0') from unnest(%s::text[]) dataid"
            connection.execute(arriving, (list(dataids),))
            connection.execute(_ROWS.encode())
        return time.perf_counter() - start


def copied(url: str, statements: str) -> float:
    """The seconds of bare statements on copies of a store's tables, with its status rows, in one transaction."""
    if url.startswith("sqlite:///"):
        return _copied_sqlite(url.removeprefix("sqlite:///"), statements)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("drop schema if exists bare cascade; create schema bare; set search_path = bare")
        for table in (*TABLES, "data_manifest"):
            kept = "including defaults including identity including indexes including storage"
            connection.execute(f"create table {table} (like dataflow.{table} {kept})".encode())
        connection.execute("insert into datastatus select * from dataflow.datastatus")
        start = time.perf_counter()
        with connection.transaction():
            connection.execute(statements.encode())
        return time.perf_counter() - start


def _copied_sqlite(store: str, statements: str) -> float:
    Path(f"{store}.bare").unlink(missing_ok=True)
    connection = apsw.Connection(f"{store}.bare")
    connection.execute("pragma journal_mode = wal; pragma synchronous = full; pragma cache_size = -64000").fetchall()
    connection.execute("attach ? as store", (store,))
    definitions = (
        "select sql from store.sqlite_schema where sql is not null and type in ('table', 'index') and tbl_name = ?"
    )
    for table in (*TABLES, "data_manifest"):
        for (definition,) in connection.execute(definitions, (table,)).fetchall():
            connection.execute(str(definition))
    connection.execute("insert into datastatus select * from store.datastatus; detach store")
    start = time.perf_counter()
    connection.execute(f"begin immediate; {statements}; commit").fetchall()
    spent = time.perf_counter() - start
    connection.close()
    return spent
