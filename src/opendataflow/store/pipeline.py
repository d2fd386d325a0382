"""Pipeline: the statements of one PostgreSQL transaction, sent together as long as nobody waits for an answer."""

from __future__ import annotations

import json
import select
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from itertools import count
from typing import Any

from . import queries
from .backend import Answer, Row, Transaction, lacks
from .libpq import Connection, errors, pq
from .schemas import DEFAULT, rendered

# How PostgreSQL's text comes back as Python's values; everything else stays text.
_FROM_TEXT: dict[int, Callable[[bytes], Any]] = {
    16: lambda raw: raw == b"t",
    20: int,
    21: int,
    23: int,
    701: float,
    1184: lambda raw: datetime.fromisoformat(raw.decode()),
}
_text = bytes.decode
_NUMBERS = count()  # of prepared statements: a connection never gets the same name twice
_LAST_MOMENT = 1000  # milliseconds for an answer, when whoever waits for it was interrupted
_GOOD = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
_UNDEFINED = (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction)

Prepared = dict[bytes, bytes]  # the statements that a connection knows, and their names


class _Asked:
    """A statement with its parameters, whose types the server knows, and its result once there is one."""

    __slots__ = ("result", "sql", "texts")

    def __init__(self, sql: bytes, texts: Sequence[bytes | None] = ()) -> None:
        self.sql = sql
        self.texts: Any = texts
        self.result: Any = None


class PostgresTransaction(Transaction):
    """Statements run prepared, straight through libpq: a claim is a dozen of them, and convenience would cost more than they do.

    What is run for its effect waits until somebody wants an answer, or the transaction ends: then everything goes to the
    server at once and costs one round trip.
    """

    def __init__(
        self, connection: Connection, prepared: Prepared, begin: Sequence[bytes] = (), schema: str = DEFAULT
    ) -> None:
        self._connection = connection.pgconn
        self._schema = schema
        self._libpq = connection
        self._prepared = prepared
        self._begin = [_Asked(sql) for sql in begin]
        self._waiting: list[_Asked] = list(self._begin)

    def ask(self, query: str, /, **parameters: Any) -> Answer:
        asked = self._ask(query, parameters)
        return lambda: self._rows_of(asked)

    def rows(self, query: str, /, **parameters: Any) -> list[Row]:
        return self._rows_of(self._ask(query, parameters))

    def run(self, query: str, /, **parameters: Any) -> None:
        self._ask(query, parameters)

    def lock(self, query: str, /, **parameters: Any) -> None:
        self._ask(query, parameters)

    def columns(self, table: str) -> list[str]:
        self.sync()
        found = self._libpq.psycopg.execute(f"select * from {table} limit 0".encode())
        return [column.name for column in found.description or ()]

    def everything(self, table: str) -> Iterator[Row]:
        self.sync()
        with self._libpq.psycopg.cursor(f"all_of_{table}") as cursor:
            cursor.execute(f"select * from {table}".encode())
            yield from cursor

    def fill(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        listed = ", ".join(columns)
        objects = json.dumps([dict(zip(columns, row, strict=True)) for row in rows])
        self.sync()
        self._libpq.psycopg.execute("set local timezone = 'UTC'")  # what the times of an export are
        self._libpq.psycopg.execute(
            f"insert into {table} ({listed}) overriding system value"
            f" select {listed} from json_populate_recordset(null::{table}, %s)".encode(),
            [objects],
        )

    def renumber(self) -> None:
        for sequence, column, name in self.rows("numbered_columns"):
            self._libpq.psycopg.execute(
                f"select setval('{sequence}', greatest((select max({column}) from {name}), 1))".encode()
            )

    # The end -----------------------------------------------------------------------------------------------------

    def number(self) -> str:
        """The number of the transaction; none when it only reads, or nobody asked for anything."""
        if len(self._begin) < 2 or self._waiting == self._begin:
            return ""
        found: bytes = self._result_of(self._begin[-1]).get_value(0, 0)
        return found.decode()

    def end(self, how: bytes) -> None:
        """Commit, or roll back, with what was not sent yet."""
        if self._waiting != self._begin:
            self._waiting.append(_Asked(how))
            self.sync()

    def give_up(self) -> None:
        """Undo everything, if the server has not done so already."""
        if self._waiting[:1] != self._begin[:1]:
            with suppress(errors.Error):
                run_now(self._connection, b"rollback")

    # The way to the server ---------------------------------------------------------------------------------------

    def _ask(self, query: str, parameters: dict[str, Any]) -> _Asked:
        sql, names = _numbered(query, self._schema)
        parameters = self.redacted(parameters)
        values = [parameters[name] for name in names]
        asked = _Asked(sql, [None if value is None else str(value).encode() for value in values])
        self._waiting.append(asked)
        return asked

    def _result_of(self, asked: _Asked) -> Any:
        if asked.result is None:
            self.sync()
        return asked.result

    def _rows_of(self, asked: _Asked) -> list[Row]:
        result = self._result_of(asked)
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
        """Send what waits, and wait until it has happened."""
        waiting, self._waiting = self._waiting, []
        if len(waiting) == 1 and waiting[0].sql in self._prepared:
            self._send_one(waiting[0])
        elif waiting:
            self._send(waiting)

    def _send_one(self, asked: _Asked) -> None:
        connection = self._connection
        try:
            connection.send_query_prepared(self._prepared[asked.sql], asked.texts)
            [result] = _answers(connection)
        except BaseException:
            if connection.status == pq.ConnStatus.OK and not _has_answered(connection):
                connection.finish()  # we were interrupted: whoever comes next would be given this answer
            raise
        asked.result = check(result)

    def _send(self, waiting: Sequence[_Asked]) -> None:
        connection, prepared = self._connection, self._prepared
        sent: list[_Asked | tuple[bytes, bytes]] = []
        new: Prepared = {}
        connection.enter_pipeline_mode()
        try:
            for asked in waiting:
                name = prepared.get(asked.sql) or new.get(asked.sql)
                if name is None:
                    name = new[asked.sql] = b"%s_%d" % (asked.sql.split(maxsplit=1)[0], next(_NUMBERS))
                    connection.send_prepare(name, asked.sql)
                    sent.append((asked.sql, name))
                connection.send_query_prepared(name, asked.texts)
                sent.append(asked)
            connection.pipeline_sync()
            results = _answers(connection)
        finally:
            if connection.status == pq.ConnStatus.OK and not _has_answered(connection):
                connection.finish()  # nobody knows where it is: the next one begins anew
        for what, result in zip(sent, results, strict=True):
            if result.status not in _GOOD:
                check(result)
            if isinstance(what, _Asked):
                what.result = result
            else:
                prepared[what[0]] = what[1]


def run_now(connection: Any, sql: bytes) -> None:
    """Run statements that have no parameters, outside of any pipeline."""
    connection.send_query(sql)
    for result in _answers(connection):
        check(result)


def _answers(connection: Any) -> list[Any]:
    """What the server answers to what was sent."""
    results: list[Any] = []
    try:
        _receive(connection, results)
    except errors.Error:
        raise
    except BaseException:
        # Whoever interrupts us leaves a connection that can be used; or none, where nobody answers.
        if connection.status == pq.ConnStatus.OK and not _has_answered(connection):
            try:
                _receive(connection, results, _LAST_MOMENT)
            except TimeoutError:
                connection.finish()
        raise
    return results


def _receive(connection: Any, results: list[Any], longest: int | None = None) -> None:
    """Everything that the server answers to what was sent; TimeoutError when it is silent for so many milliseconds."""
    is_pipeline = connection.pipeline_status != pq.PipelineStatus.OFF
    poll = select.poll()
    poll.register(connection.socket, select.POLLIN | select.POLLOUT if connection.flush() else select.POLLIN)
    while True:
        # By poll, because libpq would wait with the lock of the interpreter, and a thread that holds what we wait for
        # could not go on; nor could Ctrl-C. What did not fit into the buffers goes out while the first answers come in.
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
    """Whether everything that the server answers was received; then the pipeline, if there was one, is left."""
    if connection.pipeline_status != pq.PipelineStatus.OFF:
        try:
            connection.exit_pipeline_mode()
        except errors.Error:
            return False
    return bool(connection.transaction_status != pq.TransactionStatus.ACTIVE)


def check(result: Any) -> Any:
    """The result, or the error that it is."""
    if result.status not in _GOOD:
        error = errors.error_from_result(result)
        if isinstance(error, _UNDEFINED):
            raise lacks(first_line(error)) from error
        raise error
    return result


def first_line(error: Exception) -> str:
    """What an error says first."""
    return str(error).strip().partition("\n")[0]


@cache
def _numbered(query: str, schema: str) -> tuple[bytes, tuple[str, ...]]:
    return queries.to_numbered(rendered(queries.load("postgres")[query], schema))
