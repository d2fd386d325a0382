"""PostgreSQL: the store of a team, in schema dataflow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors

from ..errors import StoreMissing, StoreReadOnly, StoreUnreachable, UsageError
from . import queries
from .backend import Backend, ConnectionLost, Migration, Retry, Row, Transaction


class _PostgresTransaction(Transaction):
    def __init__(self, connection: psycopg.Connection[Any], named: dict[str, str]) -> None:
        self._execute = connection.execute
        self._named = named

    def rows(self, query: str, /, **parameters: Any) -> list[Row]:
        return self._execute(self._named[query], parameters).fetchall()

    def batch(self, *calls: tuple[str, dict[str, Any]]) -> list[list[Row]]:
        cursors = [self._execute(self._named[query], parameters) for query, parameters in calls]
        return [cursor.fetchall() if queries.answers(self._named[call[0]]) else [] for call, cursor in zip(calls, cursors, strict=True)]

    def run(self, query: str, /, **parameters: Any) -> None:
        # In a pipeline this only queues the statement: it travels with the next one that wants an answer.
        self._execute(self._named[query], parameters)


class PostgresBackend(Backend):
    """A connection to PostgreSQL; a transaction is one pipeline, so that it costs few round trips."""

    dialect = "postgres"

    def __init__(self, url: str, *, password: str | None = None) -> None:
        self.url = url
        self._password = password
        self._named = {name: queries.to_pyformat(sql) for name, sql in queries.load("postgres").items()}
        self._connection = self._connect()

    def _connect(self) -> psycopg.Connection[Any]:
        extra: dict[str, Any] = {"password": self._password} if self._password is not None else {}
        try:
            connection = psycopg.connect(self.url, autocommit=True, prepare_threshold=2, application_name="opendataflow", connect_timeout=10, **extra)
        except psycopg.ProgrammingError as error:
            raise UsageError(f"the store's address is not understood: {error}", hint="it looks like postgresql://user@host:5432/database") from None
        except psycopg.OperationalError as error:
            if isinstance(error, errors.InvalidCatalogName) or "does not exist" in str(error):
                raise StoreMissing(f"there is no store at {self.shown_url}: {_first_line(error)}", hint="create the database and role first, then: odf migrate") from None
            raise StoreUnreachable(f"the store {self.shown_url} cannot be reached: {_first_line(error)}", hint="is the server up, and are host, user and password right?") from None
        # Every query of ours looks up a handful of rows by their keys. Telling the planner so once keeps its plans the same
        # at ten chunks and at ten million, whatever its statistics say and however old they are.
        connection.execute(
            "set search_path = dataflow, public; set jit = off; set plan_cache_mode = force_generic_plan;"
            " set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off"
        )
        return connection

    @property
    def shown_url(self) -> str:
        """The address without a password."""
        head, at, tail = self.url.rpartition("@")
        scheme, slashes, login = head.partition("://")
        return f"{scheme}{slashes}{login.partition(':')[0]}@{tail}" if at else self.url

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (errors.DeadlockDetected, errors.SerializationFailure) as error:
            raise Retry from error
        except errors.ReadOnlySqlTransaction as error:
            raise StoreReadOnly(f"the store {self.shown_url} is read-only", hint="is this a standby? point --store at the primary") from error
        except errors.InsufficientPrivilege as error:
            raise StoreReadOnly(f"the store {self.shown_url} refuses this role: {_first_line(error)}", hint="grant the role the rights on schema dataflow") from error
        except errors.DiskFull as error:
            raise StoreUnreachable(f"no space left for the store {self.shown_url}", hint="free some space; nothing was written, and the work goes on") from error
        except psycopg.OperationalError as error:
            if self._connection.broken or self._connection.closed:
                raise ConnectionLost(_first_line(error)) from error
            raise

    def reconnect(self) -> None:
        """A fresh connection after the old one broke."""
        self._connection.close()
        self._connection = self._connect()

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        with self._translated():
            connection = self._connection
            try:
                with connection.pipeline():
                    connection.execute("begin")
                    yield _PostgresTransaction(connection, self._named)
                    connection.execute("commit")
            except BaseException:
                self._roll_back()
                raise

    def _roll_back(self) -> None:
        if not (self._connection.closed or self._connection.broken):
            try:
                self._connection.execute("rollback")
            except psycopg.Error:
                self._connection.close()

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        with self._translated():
            self._connection.execute("begin isolation level repeatable read, read only")
            try:
                yield _PostgresTransaction(self._connection, self._named)
            finally:
                self._roll_back()

    def migrate(self, steps: Sequence[Migration]) -> None:
        connection = self._connection
        with self._translated(), connection.transaction():
            transaction = _PostgresTransaction(connection, self._named)
            transaction.run("schema")
            transaction.rows("migration_lock")
            transaction.run("migration_table")
            done = {row[0] for row in transaction.rows("migrations")}
            for step in steps:
                if step.number not in done:
                    connection.execute(step.sql.encode())
                    transaction.run("migration_put", number=step.number, name=step.name, checksum=step.checksum)

    def has_schema(self) -> bool:
        with self._translated():
            found = self._connection.execute("select to_regclass('dataflow.migration') is not null").fetchone()
        return bool(found and found[0])

    def select(self, sql: str) -> tuple[list[str], list[Row]]:
        try:
            with self._translated(), self._connection.transaction():
                self._connection.execute("set transaction read only")
                cursor = self._connection.execute(sql.encode())
                return [column.name for column in cursor.description or ()], cursor.fetchall() if cursor.description else []
        except StoreReadOnly:
            raise UsageError("this statement writes, and sql is read-only", hint="use: odf dml") from None
        except psycopg.Error as error:
            raise UsageError(f"the statement is wrong: {_first_line(error)}") from None

    def execute(self, sql: str) -> int:
        try:
            with self._translated(), self._connection.transaction():
                return max(self._connection.execute(sql.encode()).rowcount, 0)
        except psycopg.Error as error:
            raise UsageError(f"the store refused it: {_first_line(error)}") from None

    def close(self) -> None:
        self._connection.close()


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
