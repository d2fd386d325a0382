"""Run the statements of one PostgreSQL transaction in a pipeline, sent together until a result is needed."""

from __future__ import annotations

import json
import select
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from itertools import count
from typing import Any

from psycopg import Connection, errors, pq

from . import queries
from .base import PendingRows, Row, Transaction, lacks
from .postgres_schema import DEFAULT, rendered

# Converters from PostgreSQL's text format; other types stay text.
_FROM_TEXT: dict[int, Callable[[bytes], Any]] = {
    16: lambda raw: raw == b"t",
    20: int,
    21: int,
    23: int,
    701: float,
    1184: lambda raw: datetime.fromisoformat(raw.decode()),
}
_text = bytes.decode
_NUMBERS = count()  # of prepared statements: unique per connection
_DRAIN_TIMEOUT = 1000  # milliseconds to wait for results after an interrupt
_GOOD = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
_UNDEFINED = (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction)

Prepared = dict[bytes, bytes]  # prepared statements of a connection, and their names


class _QueuedStatement:
    """A queued statement with its parameters, and its result once received."""

    __slots__ = ("result", "sql", "texts")

    def __init__(self, sql: bytes, texts: Sequence[bytes | None] = ()) -> None:
        self.sql = sql
        self.texts: Any = texts
        self.result: Any = None


class PostgresTransaction(Transaction):
    """Runs prepared statements directly through libpq, because psycopg's cursors cost more than a claim's dozen statements.

    Statements without a needed result are queued until a result is read or the transaction ends; then all are sent in
    one round trip.
    """

    def __init__(
        self, connection: Connection[Any], prepared: Prepared, begin: Sequence[bytes] = (), schema: str = DEFAULT
    ) -> None:
        self._connection = connection.pgconn
        self._schema = schema
        self._psycopg = connection
        self._prepared = prepared
        self._begin = [_QueuedStatement(sql) for sql in begin]
        self._waiting: list[_QueuedStatement] = list(self._begin)

    def send(self, query: str, /, **parameters: Any) -> PendingRows:
        query_sent = self._queue(query, parameters)
        return lambda: self._rows_of(query_sent)

    def rows(self, query: str, /, **parameters: Any) -> list[Row]:
        return self._rows_of(self._queue(query, parameters))

    def run(self, query: str, /, **parameters: Any) -> None:
        self._queue(query, parameters)

    def lock(self, query: str, /, **parameters: Any) -> None:
        self._queue(query, parameters)

    def columns(self, table: str) -> list[str]:
        self.sync()
        found = self._psycopg.execute(f"select * from {table} limit 0".encode())
        return [column.name for column in found.description or ()]

    def everything(self, table: str) -> Iterator[Row]:
        self.sync()
        with self._psycopg.cursor(f"all_of_{table}") as cursor:
            cursor.execute(f"select * from {table}".encode())
            yield from cursor

    def fill(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        listed = ", ".join(columns)
        objects = json.dumps([dict(zip(columns, row, strict=True)) for row in rows])
        self.sync()
        self._psycopg.execute("set local timezone = 'UTC'")  # exported timestamps are in UTC
        self._psycopg.execute(
            f"insert into {table} ({listed}) overriding system value"
            f" select {listed} from json_populate_recordset(null::{table}, %s)".encode(),
            [objects],
        )

    def renumber(self) -> None:
        for sequence, column, name in self.rows("numbered_columns"):
            self._psycopg.execute(
                f"select setval('{sequence}', greatest((select max({column}) from {name}), 1))".encode()
            )

    def number(self) -> str:
        """The transaction id; empty for a read-only or unused transaction."""
        if len(self._begin) < 2 or self._waiting == self._begin:
            return ""
        found: bytes = self._result_of(self._begin[-1]).get_value(0, 0)
        return found.decode()

    def end(self, statement: bytes) -> None:
        """Commit or roll back, together with queued statements."""
        if self._waiting != self._begin:
            self._waiting.append(_QueuedStatement(statement))
            self.sync()

    def give_up(self) -> None:
        """Roll back, unless the server has done so."""
        if self._waiting[:1] != self._begin[:1]:
            with suppress(errors.Error):
                run_now(self._connection, b"rollback")

    def _queue(self, query: str, parameters: dict[str, Any]) -> _QueuedStatement:
        sql, names = _numbered(query, self._schema)
        parameters = self.redacted(parameters)
        values = [parameters[name] for name in names]
        query_sent = _QueuedStatement(sql, [None if value is None else str(value).encode() for value in values])
        self._waiting.append(query_sent)
        return query_sent

    def _result_of(self, query_sent: _QueuedStatement) -> Any:
        if query_sent.result is None:
            self.sync()
        return query_sent.result

    def _rows_of(self, query_sent: _QueuedStatement) -> list[Row]:
        result = self._result_of(query_sent)
        n = result.ntuples
        if not n:
            return []
        columns = [_FROM_TEXT.get(result.ftype(column), _text) for column in range(result.nfields)]
        get = result.get_value
        return [
            tuple(
                [None if (raw := get(row, column)) is None else convert(raw) for column, convert in enumerate(columns)]
            )
            for row in range(n)
        ]

    def sync(self) -> None:
        """Send queued statements and wait for them."""
        waiting, self._waiting = self._waiting, []
        if len(waiting) == 1 and waiting[0].sql in self._prepared:
            self._send_one(waiting[0])
        elif waiting:
            self._send(waiting)

    def _send_one(self, query_sent: _QueuedStatement) -> None:
        connection = self._connection
        try:
            connection.send_query_prepared(self._prepared[query_sent.sql], query_sent.texts)
            [result] = _answers(connection)
        except BaseException:
            if connection.status == pq.ConnStatus.OK and not _has_answered(connection):
                connection.finish()  # interrupted: the next statement would receive this result
            raise
        query_sent.result = check(result)

    def _send(self, waiting: Sequence[_QueuedStatement]) -> None:
        connection, prepared = self._connection, self._prepared
        sent: list[_QueuedStatement | tuple[bytes, bytes]] = []
        new: Prepared = {}
        connection.enter_pipeline_mode()
        try:
            for query_sent in waiting:
                name = prepared.get(query_sent.sql) or new.get(query_sent.sql)
                if name is None:
                    name = new[query_sent.sql] = b"%s_%d" % (query_sent.sql.split(maxsplit=1)[0], next(_NUMBERS))
                    connection.send_prepare(name, query_sent.sql)
                    sent.append((query_sent.sql, name))
                connection.send_query_prepared(name, query_sent.texts)
                sent.append(query_sent)
            connection.pipeline_sync()
            results = _answers(connection)
        finally:
            if connection.status == pq.ConnStatus.OK and not _has_answered(connection):
                connection.finish()  # the state of the pipeline is unknown: reconnect
        for what, result in zip(sent, results, strict=True):
            if result.status not in _GOOD:
                check(result)
            if isinstance(what, _QueuedStatement):
                what.result = result
            else:
                prepared[what[0]] = what[1]


def run_now(connection: Any, sql: bytes) -> None:
    """Run statements without parameters, outside a pipeline."""
    connection.send_query(sql)
    for result in _answers(connection):
        check(result)


def columns_of(connection: Any, sql: bytes) -> list[str]:
    """The columns of a statement's answer, without running it, outside of any pipeline."""
    connection.send_prepare(b"", sql)
    for result in _answers(connection):
        check(result)
    connection.send_describe_prepared(b"")
    (described,) = map(check, _answers(connection))
    return [described.fname(column).decode() for column in range(described.nfields)]


def _answers(connection: Any) -> list[Any]:
    """All results of the sent statements."""
    results: list[Any] = []
    try:
        _receive(connection, results)
    except errors.Error:
        raise
    except BaseException:
        # After an interrupt, drain the results so that the connection stays usable; close it if the server is silent.
        if connection.status == pq.ConnStatus.OK and not _has_answered(connection):
            try:
                _receive(connection, results, _DRAIN_TIMEOUT)
            except TimeoutError:
                connection.finish()
        raise
    return results


def _receive(connection: Any, results: list[Any], longest: int | None = None) -> None:
    """Receive all results of the sent statements; TimeoutError after `longest` milliseconds of silence."""
    is_pipeline = connection.pipeline_status != pq.PipelineStatus.OFF
    poll = select.poll()
    poll.register(connection.socket, select.POLLIN | select.POLLOUT if connection.flush() else select.POLLIN)
    while True:
        # By poll: libpq would wait while holding the GIL, which blocks other threads, even one that holds the awaited lock,
        # and Ctrl-C. Data that does not fit into the buffers is sent while results arrive.
        while connection.is_busy():
            if not poll.poll(longest):
                raise TimeoutError
            connection.consume_input()
            if not connection.flush():
                poll.modify(connection.socket, select.POLLIN)
        result = connection.get_result()
        if result is None:
            if connection.status != pq.ConnStatus.OK:
                raise errors.OperationalError(connection.get_error_message())
            if not is_pipeline:
                return
        elif result.status == pq.ExecStatus.PIPELINE_SYNC:
            return
        else:
            results.append(result)


def _has_answered(connection: Any) -> bool:
    """Whether all results were received; leaves the pipeline, if there was one."""
    if connection.pipeline_status != pq.PipelineStatus.OFF:
        try:
            connection.exit_pipeline_mode()
        except errors.Error:
            return False
    return bool(connection.transaction_status != pq.TransactionStatus.ACTIVE)


def check(result: Any) -> Any:
    """The result, or raise its error."""
    if result.status not in _GOOD:
        error = errors.error_from_result(result)
        if isinstance(error, _UNDEFINED):
            raise lacks(first_line(error)) from error
        raise error
    return result


def first_line(error: Exception) -> str:
    """The first line of an error message."""
    return str(error).strip().partition("\n")[0]


@cache
def _numbered(query: str, schema: str) -> tuple[bytes, tuple[str, ...]]:
    return queries.to_numbered(rendered(queries.load("postgres")[query], schema))
