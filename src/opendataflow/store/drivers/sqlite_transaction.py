"""Run the named queries of one transaction on a SQLite file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, ClassVar

import apsw

from ...errors import StoreReadOnly
from . import queries
from .base import Row, Transaction, as_text, misread


@cache
def _statements() -> dict[str, tuple[str, ...]]:
    # One by one: SQLite caches only single statements.
    return {name: tuple(part.strip() for part in sql.split(";\n")) for name, sql in queries.load("sqlite").items()}


def _fetched(execute: Any, statement: str, parameters: Any) -> list[Row]:
    """The rows of a statement, even if some text is not UTF-8."""
    cursor = execute(statement, parameters)
    try:
        rows: list[Row] = cursor.fetchall()
        return rows
    except UnicodeDecodeError:
        if not cursor.is_readonly:
            raise
    width = len(execute(statement, parameters).get_description())
    return list(fetched_by_bytes(execute, statement, parameters, width))


def fetched_by_bytes(execute: Any, statement: str, parameters: Any, width: int) -> Iterator[Row]:
    """The rows of a query with U+FFFD for bytes that are not UTF-8, which SQLite stores without checking."""
    names = [f"column{n}" for n in range(width)]
    values = ", ".join(f"case typeof({name}) when 'text' then cast({name} as blob) else {name} end" for name in names)
    single = statement.rstrip("; \n")  # the line break ends a trailing comment
    query = f"with answer ({', '.join(names)}) as ({single}\n) select {values} from answer"
    return map(as_text, execute(query, parameters))


class SqliteTransaction(Transaction):
    """The named queries of an open transaction on a SQLite file."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._execute: Any = connection.execute
        self._many: Any = connection.executemany
        self._named = _statements()

    def rows(self, query: str, /, **parameters: Any) -> list[Row]:
        rows: list[Row] = []  # at most one statement of a query returns rows
        parameters = self.redacted(parameters)
        try:
            for statement in self._named[query]:
                rows += _fetched(self._execute, statement, parameters)
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
        return fetched_by_bytes(self._execute, f"select * from {table}", {}, len(self.columns(table)))

    def fill(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        places = ", ".join("?" * len(columns))
        self._many(f"insert into {table} ({', '.join(columns)}) values ({places})", rows)

    def lock(self, query: str, /, **parameters: Any) -> None:
        """A no-op: a write transaction locks the whole file."""


class SqliteLook(SqliteTransaction):
    """A read-only transaction that decodes blobs as text: no column of the schema holds blobs.

    SQLite says of each statement whether it only reads. (`pragma query_only` would compile all statements again.)
    """

    _that_read: ClassVar[set[str]] = set()  # queries that were found to only read

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__(connection)
        self._connection = connection

    def rows(self, query: str, /, **parameters: Any) -> list[Row]:
        if query not in self._that_read:
            if not all(self._only_reads(statement, self.redacted(parameters)) for statement in self._named[query]):
                raise StoreReadOnly(f"query {query} writes, and a look only reads")
            self._that_read.add(query)
        rows = super().rows(query, **parameters)
        return [as_text(row) if bytes in map(type, row) else row for row in rows]

    def run(self, query: str, /, **parameters: Any) -> None:
        self.rows(query, **parameters)

    def _only_reads(self, statement: str, parameters: Any) -> bool:
        """Whether a statement writes nothing; asked of SQLite before it runs."""
        found: list[bool] = []

        def see(prepared: apsw.Cursor, *_: Any) -> bool:
            found.append(prepared.is_readonly)
            return False  # ends it before its first step

        cursor = self._connection.cursor()
        cursor.exec_trace = see
        with suppress(apsw.ExecTraceAbort, apsw.SQLError):  # what is wrong with it, it says when it runs
            cursor.execute(statement, parameters)
        return all(found)
