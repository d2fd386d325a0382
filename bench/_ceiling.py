"""The minimal ceiling: three plain tables and the fewest statements that claim and commit a chunk, in a database of their own.

Claim = pick and lock the first, mark it, upsert OUT and IN, insert the event. Commit = update both, delete, insert the
consumer's candidate, insert the event. That is all: no five questions, no fencing, no lineage, nobody who may type SQL.
Driver, durability (WAL with synchronous=FULL, fsync) and one transaction each are those of the store. Parameters are plain and
statements prepared; on PostgreSQL each transaction is one statement, because every round trip costs, and SQLite has none.
"""

from __future__ import annotations

from typing import Any

import apsw
import psycopg
from psycopg.pq import ExecStatus

_TABLES = """
    create table frontier (jobid text not null, dataid text not null, sort_key text not null, state text not null,
        primary key (jobid, dataid));
    create index frontier_in_order on frontier (jobid, sort_key) where state = 'CLAIMABLE';
    create table status (datasetid text not null, dataid text not null, jobid text not null, locktype text not null,
        status text not null, modified {time}, primary key (datasetid, dataid, jobid, locktype));
    create table event (eventid {number} primary key, at {time}, kind text not null, datasetid text, dataid text,
        jobid text, after text);
    insert into frontier (jobid, dataid, sort_key, state) select 'load', {key}, {key}, 'CLAIMABLE' from {numbers};
    insert into status (datasetid, dataid, jobid, locktype, status) select 'raw', {key}, 'outside', 'OUT', 'READY' from {numbers};
"""

_SQLITE_TAKE = """
    update frontier set state = 'TAKEN'
    where jobid = ?1
      and dataid = (select dataid from frontier where jobid = ?1 and state = 'CLAIMABLE' order by sort_key limit 1)
    returning dataid, sort_key
"""
_SQLITE_LOCK = """
    insert into status (datasetid, dataid, jobid, locktype, status) values (?1, ?3, ?4, 'OUT', 'RUNNING'), (?2, ?3, ?4, 'IN', 'RUNNING')
    on conflict (datasetid, dataid, jobid, locktype) do update set status = excluded.status, modified = excluded.modified
"""
_SQLITE_END = """
    update status set status = ?, modified = current_timestamp where datasetid = ? and dataid = ? and jobid = ? and locktype = ?
"""
_SQLITE_DROP = "delete from frontier where jobid = ? and dataid = ?"
_SQLITE_HAND_ON = "insert into frontier (jobid, dataid, sort_key, state) values (?, ?, ?, 'CLAIMABLE')"
_SQLITE_TELL = "insert into event (kind, datasetid, dataid, jobid, after) values (?, ?, ?, ?, ?)"

_POSTGRES_CLAIM = b"""
    with taken as (
        update frontier set state = 'TAKEN'
        where jobid = $1
          and dataid = (select dataid from frontier where jobid = $1 and state = 'CLAIMABLE' order by sort_key limit 1
                        for update skip locked)
        returning dataid, sort_key),
    locks as (
        insert into status (datasetid, dataid, jobid, locktype, status)
        select datasetid, dataid, $1, locktype, 'RUNNING' from taken, (values ($2, 'OUT'), ($3, 'IN')) item (datasetid, locktype)
        on conflict (datasetid, dataid, jobid, locktype) do update set status = excluded.status, modified = excluded.modified),
    told as (
        insert into event (kind, datasetid, dataid, jobid, after) select 'claimed', $2, dataid, $1, 'RUNNING' from taken)
    select dataid, sort_key from taken
"""
_POSTGRES_COMMIT = b"""
    with output as (
        update status set status = 'READY', modified = now()
        where datasetid = $2 and dataid = $4 and jobid = $1 and locktype = 'OUT'),
    input as (
        update status set status = 'DONE', modified = now()
        where datasetid = $3 and dataid = $4 and jobid = $1 and locktype = 'IN'),
    dropped as (
        delete from frontier where jobid = $1 and dataid = $4),
    handed_on as (
        insert into frontier (jobid, dataid, sort_key, state) values ($6, $4, $5, 'CLAIMABLE'))
    insert into event (kind, datasetid, dataid, jobid, after) values ('published', $2, $4, $1, 'READY')
"""


class SqliteCeiling:
    """The minimal claim and commit in a SQLite file."""

    def __init__(self, path: str) -> None:
        self._connection = apsw.Connection(path)
        self._connection.set_busy_timeout(60_000)
        self._connection.execute(
            "pragma journal_mode = wal; pragma synchronous = full; pragma cache_size = -64000"
        ).fetchall()

    def fill(self, chunks: int) -> None:
        """Make the tables, and chunks that can be claimed."""
        numbers = (
            f"(with recursive n (i) as (select 1 union all select i + 1 from n where i < {chunks}) select i from n)"
        )
        time = "text not null default current_timestamp"
        made = _TABLES.format(time=time, number="integer", key="printf('%018d', i)", numbers=numbers)
        self._connection.execute(f"begin; {made}; commit").fetchall()

    def run(self) -> None:
        """One claim and its commit."""
        execute: Any = self._connection.execute
        execute("begin immediate")
        ((dataid, key),) = execute(_SQLITE_TAKE, ("load",)).fetchall()
        execute(_SQLITE_LOCK, ("clean", "raw", dataid, "load"))
        execute(_SQLITE_TELL, ("claimed", "clean", dataid, "load", "RUNNING"))
        execute("commit")
        execute("begin immediate")
        execute(_SQLITE_END, ("READY", "clean", dataid, "load", "OUT"))
        execute(_SQLITE_END, ("DONE", "raw", dataid, "load", "IN"))
        execute(_SQLITE_DROP, ("load", dataid))
        execute(_SQLITE_HAND_ON, ("sum", dataid, key))
        execute(_SQLITE_TELL, ("published", "clean", dataid, "load", "READY"))
        execute("commit")


class PostgresCeiling:
    """The minimal claim and commit in a PostgreSQL database."""

    def __init__(self, url: str) -> None:
        self._psycopg = psycopg.connect(url, autocommit=True)
        self._connection = self._psycopg.pgconn
        self._is_prepared = False

    def fill(self, chunks: int) -> None:
        """Make the tables, and chunks that can be claimed."""
        time, number = "timestamptz not null default now()", "bigint generated always as identity"
        key, numbers = "lpad(i::text, 18, '0')", f"generate_series(1, {chunks}) i"
        self._psycopg.execute(_TABLES.format(time=time, number=number, key=key, numbers=numbers).encode())
        self._psycopg.execute("vacuum analyze")

    def run(self) -> None:
        """One claim and its commit."""
        if not self._is_prepared:
            self._connection.prepare(b"claim", _POSTGRES_CLAIM)
            self._connection.prepare(b"commit", _POSTGRES_COMMIT)
            self._is_prepared = True
        taken = self._execute(b"claim", b"load", b"clean", b"raw")
        dataid, key = taken.get_value(0, 0), taken.get_value(0, 1)
        self._execute(b"commit", b"load", b"clean", b"raw", dataid, key, b"sum")

    def _execute(self, name: bytes, *values: bytes | None) -> Any:
        result = self._connection.exec_prepared(name, values)
        if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
            raise RuntimeError(result.error_message.decode())
        return result


def ceiling(address: str) -> SqliteCeiling | PostgresCeiling:
    """The ceiling at the address of a database of its own."""
    path = address.removeprefix("sqlite:///")
    return PostgresCeiling(address) if path == address else SqliteCeiling(path)
