"""The queries of one transaction on a SQLite file, and what they give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import apsw

from . import queries
from .backend import Row, Transaction, as_text, misread


@cache
def _statements() -> dict[str, tuple[str, ...]]:
    # One by one, because only single statements are kept compiled.
    return {name: tuple(part.strip() for part in sql.split(";\n")) for name, sql in queries.load("sqlite").items()}


class SqliteTransaction(Transaction):
    """The named queries of one open transaction on a SQLite file."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._execute: Any = connection.execute
        self._many: Any = connection.executemany
        self._named = _statements()

    def rows(self, query: str, /, **parameters: Any) -> list[Row]:
        rows: list[Row] = []  # of the statements of a query one at most returns some
        parameters = self.redacted(parameters)
        try:
            for statement in self._named[query]:
                rows += self._execute(statement, parameters).fetchall()
            return rows
        except apsw.SQLError as error:
            raise misread(str(error)) or error from error

    def run(self, query: str, /, **parameters: Any) -> None:
        parameters = self.redacted(parameters)
        try:
            for statement in self._named[query]:
                self._execute(statement, parameters).fetchall()
        except apsw.SQLError as error:
            raise misread(str(error)) or error from error

    def columns(self, table: str) -> list[str]:
        return [str(name) for (name,) in self._execute("select name from pragma_table_info(?)", (table,))]

    def everything(self, table: str) -> Iterator[Row]:
        return iter(self._execute(f"select * from {table}"))

    def fill(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        places = ", ".join("?" * len(columns))
        self._many(f"insert into {table} ({', '.join(columns)}) values ({places})", rows)

    def lock(self, query: str, /, **parameters: Any) -> None:
        """Nothing to do: a writing transaction is alone in its file."""


class SqliteLook(SqliteTransaction):
    """Whoever looks sees bytes that somebody wrote into a column as text: no column of ours is for any."""

    def rows(self, query: str, /, **parameters: Any) -> list[Row]:
        rows = super().rows(query, **parameters)
        return [as_text(row) if bytes in map(type, row) else row for row in rows]
