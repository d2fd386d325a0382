"""Bring an export of the schema before over, in a SQLite database that is removed afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from tempfile import TemporaryDirectory
from typing import Any

import apsw

from ..drivers import migrate, queries
from ..drivers.sqlite_transaction import SqliteTransaction
from .export import dump, tables


def brought_over(parts: Iterable[Any], schema: int) -> Iterator[str]:
    """The lines of the export as this version writes it: a store of the schema before is brought over by the same SQL."""
    with TemporaryDirectory(prefix="odf-import-") as folder, closing(apsw.Connection(f"{folder}/store.db")) as scratch:
        scratch.execute("pragma journal_mode = off; pragma synchronous = off").fetchall()
        with scratch:
            scratch.execute(queries.schema("sqlite"))
            for kind, name in scratch.execute("select type, name from sqlite_master").fetchall():
                if kind in ("view", "trigger"):
                    scratch.execute(f"drop {kind} if exists {name}")  # with its view, a trigger is gone too
            scratch.execute("delete from dataset; delete from meta")
            tx = SqliteTransaction(scratch)
            for table, columns, rows in tables(parts):
                if rows:
                    tx.fill(table, columns, rows)
                else:
                    _make_room(scratch, table, columns, tx.columns(table))
            scratch.execute(migrate.from_before("sqlite"))
            yield from dump(tx, schema)


def _make_room(scratch: apsw.Connection, table: str, columns: Sequence[str], known: Sequence[str]) -> None:
    """Add what the schema before had and this one lacks."""
    if not known:
        scratch.execute(f"create table {table} ({', '.join(columns)})")
        return
    for name in columns:
        if name not in known:
            scratch.execute(f"alter table {table} add column {name}")
