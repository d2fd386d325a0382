"""Connect to a store in PostgreSQL, in schema dataflow unless the address names another."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import psycopg
from psycopg import errors, pq
from psycopg.conninfo import conninfo_to_dict

from ...errors import StoreMissing, StoreReadOnly, StoreUnreachable, UsageError
from ...tokens import NOT_UNDERSTOOD, shown_address
from . import postgres_schema
from .base import (
    ENCRYPTED,
    Backend,
    ConnectionLost,
    Migration,
    Retry,
    Row,
    Transaction,
    Unreadable,
    bounded,
    damaged,
    lacks,
    no_space,
    not_encrypted,
    too_big,
    too_many_locks,
    took_too_long,
)
from .postgres_transaction import PostgresTransaction, Prepared, columns_of, first_line, run_now
from .user_sql import changes_no_tables, first_word, kind_of, statements

_KNOWS_REQUIRE_AUTH = 160000  # supported from libpq 16 on
# The first words of typed read-only statements; COPY, DO, CALL and SET have effects outside their transaction.
_READS = ("select", "with", "values", "show", "explain")
# The command tags of statements that `execute` allows: changes of rows, roles and rights.
_CHANGES_ROWS = {
    "INSERT",
    "UPDATE",
    "DELETE",
    "MERGE",
    "SELECT",
    "GRANT",
    "REVOKE",
    "CREATE ROLE",
    "ALTER ROLE",
    "DROP ROLE",
}
_MAY_BEGIN = _CHANGES_ROWS | {"WITH", "VALUES", "TABLE"}
# SQLSTATEs for a connection that is lost or refused for now.
_GONE = {
    "25P03": "idle_in_transaction_session_timeout",
    "25P04": "transaction_timeout",
    "53300": "too_many_connections",
    "57P01": "admin_shutdown",
    "57P02": "crash_shutdown",
    "57P03": "cannot_connect_now",
    "57P04": "database_dropped",
    "57P05": "idle_session_timeout",
}
_GONE_CLASS = "08"  # connection_exception, with all its kinds
# The same from psycopg and libpq without a SQLSTATE; subclasses of these are mistakes of the caller.
_GONE_WITHOUT_CODE = (errors.DatabaseError, errors.OperationalError, errors.InterfaceError, errors.InternalError)
_BEGIN_WRITING = (
    b"begin",
    b"select pg_current_xact_id()",  # used to look up whether an interrupted commit succeeded
)
_BEGIN_READING = (b"begin isolation level repeatable read, read only",)
# The program's queries look up a few rows by key. These settings keep their plans the same at any table size, whatever the
# statistics.
_PLANNER = {
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
_SET_PLANNER = "".join(f" set {name} = {value};" for name, value in _PLANNER.items()).encode()
_PLANNER_OF_OWNER = "; ".join(f"set local {name} to default" for name in _PLANNER).encode()  # for typed statements
_DAMAGED = ("XX001", "XX002")  # data_corrupted, index_corrupted
# Both sides notice a dead peer within a minute; otherwise it would hold its locks for hours.
_CONNECT = 10.0  # connection timeout in seconds
_SILENCE = {"keepalives_idle": 20, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}


class PostgresBackend(Backend):
    """A connection to PostgreSQL."""

    dialect = "postgres"

    def __init__(self, url: str, *, password: str | None = None) -> None:
        self.url = url
        self._address, self.schema = postgres_schema.split(url)
        self._password = password
        self._prepared: Prepared = {}
        self._patience = _CONNECT
        self._connect()

    def _connect(self) -> None:
        extra: dict[str, Any] = {}
        try:
            given = conninfo_to_dict(self._address)
            if self._password is not None and "password" not in given:
                given["password"] = extra["password"] = self._password
            if given.get("password") and "require_auth" not in given and pq.version() >= _KNOWS_REQUIRE_AUTH:
                extra["require_auth"] = "scram-sha-256"  # refuses password methods in clear text
            extra = {name: value for name, value in _SILENCE.items() if name not in given} | extra
            extra |= {"application_name": "opendataflow", "connect_timeout": max(1, int(self._patience))}
            self._connection = psycopg.connect(self._address, autocommit=True, **extra)
            run_now(
                self._connection.pgconn,
                # No other schema: functions created there could shadow those of the program.
                f'set search_path = "{self.schema}", pg_temp;'.encode()
                + _SET_PLANNER
                # A frozen process answers keepalives, and would hold its locks until it is resumed.
                + b" select set_config('idle_in_transaction_session_timeout', '60s', false)"
                b" where current_setting('idle_in_transaction_session_timeout') = '0';"
                b" set tcp_keepalives_idle = 20; set tcp_keepalives_interval = 10; set tcp_keepalives_count = 3;"
                b" set tcp_user_timeout = 60000",  # keepalives are not sent while data is unacknowledged
            )
        except (errors.ProgrammingError, UnicodeError) as error:
            # libpq repeats the text after the colon, which may be part of a password.
            why = "it is not UTF-8" if isinstance(error, UnicodeError) else first_line(error).partition(": ")[0]
            raise UsageError(
                f"the store address is malformed: {why}",
                hint="The form is postgresql://user@host:5432/database.",
            ) from None
        except errors.Error as error:
            if isinstance(error, errors.InvalidCatalogName) or "does not exist" in str(error):
                raise StoreMissing(
                    f"there is no store at {self.shown_url}{self._told(error)}",
                    hint="Create the database and role first, then: odf migrate",
                ) from None
            raise StoreUnreachable(
                f"the store {self.shown_url} cannot be reached{self._told(error)}",
                hint="Check that the server is running, and the host, user and password.",
            ) from None

    @property
    def shown_url(self) -> str:
        """The address without a password."""
        return shown_address(self.url)

    def _told(self, error: errors.Error) -> str:
        """The message of libpq, unless the address is malformed: then it may repeat part of a password."""
        return f": {first_line(error)}" if self.shown_url != NOT_UNDERSTOOD else ""

    def _translate(self, error: errors.Error, transaction: str = "") -> None:
        """Raise the program's error for an error of the driver, if there is one; `transaction` is being committed."""
        if isinstance(error, (errors.DeadlockDetected, errors.SerializationFailure)):
            raise Retry from error
        if isinstance(error, errors.CheckViolation) and error.diag.constraint_name == ENCRYPTED:
            raise not_encrypted() from None  # the server's message repeats the row
        if isinstance(error, errors.ReadOnlySqlTransaction):
            raise StoreReadOnly(
                f"the store {self.shown_url} is read-only",
                hint="The server may be a standby. Point --store at the primary.",
            ) from error
        if isinstance(error, errors.InsufficientPrivilege):
            raise StoreReadOnly(
                f"the store {self.shown_url} refuses this role: {first_line(error)}",
                hint="Use another role, or have the owner grant the right: docs/how-to/harden.md",
            ) from error
        if isinstance(error, errors.DiskFull):
            raise no_space(self.shown_url) from error
        if isinstance(error, errors.OutOfMemory) and "max_locks_per_transaction" in str(error):
            raise too_many_locks(self.shown_url) from error
        if is_gone(error):
            raise ConnectionLost(first_line(error), transaction) from error
        is_of_a_row = isinstance(error, (errors.DataError, errors.IntegrityError)) and error.sqlstate
        if is_of_a_row and not isinstance(error, errors.InvalidParameterValue):
            raise Unreadable(first_line(error)) from error
        if error.sqlstate in _DAMAGED:
            raise damaged(self.shown_url, first_line(error)) from error

    def reconnect(self) -> None:
        """Replace a broken connection."""
        self._connection.close()
        self._prepared = {}
        self._connect()

    def interrupt(self, patience: float) -> None:
        self._patience = patience
        with suppress(errors.Error, OSError), socket.socket(fileno=os.dup(self._connection.fileno())) as same:
            same.shutdown(socket.SHUT_RDWR)  # from another thread: the waiting call fails with an error

    def was_committed(self, transaction: str) -> bool:
        """Look up the transaction in the server, which keeps the outcome of recent transactions across a crash."""
        try:
            with self.reading() as reading:
                status = reading.value("transaction_status", transaction=transaction)
        except errors.InvalidParameterValue:
            return False  # the server crashed before it wrote any part of it
        if status == "in progress":
            raise ConnectionLost("the server has not noticed yet that the last connection broke")
        return bool(status == "committed")

    @contextmanager
    def _transaction(self, *begin: bytes, force_rollback: bool = False) -> Iterator[PostgresTransaction]:
        transaction = PostgresTransaction(self._connection, self._prepared, begin, self.schema)
        number = ""
        try:
            yield transaction
            number = transaction.number()
            transaction.end(b"commit" if number and not force_rollback else b"rollback")
        except BaseException as error:
            transaction.give_up()
            if isinstance(error, errors.Error):
                self._translate(error, number)
            raise

    def writing(self) -> AbstractContextManager[Transaction]:
        return self._transaction(*_BEGIN_WRITING)

    def reading(self) -> AbstractContextManager[Transaction]:
        return self._transaction(*_BEGIN_READING)

    def migrate(self, step: Migration) -> None:
        connection = self._connection
        try:
            with connection.transaction():
                transaction = PostgresTransaction(connection, {}, schema=self.schema)
                transaction.run("schema")
                transaction.run("migration_lock")
                if not transaction.has_applied(step):
                    connection.execute(postgres_schema.rendered(step.sql, self.schema).encode())
                    transaction.run("migration_put", number=step.number, name=step.name, checksum=step.checksum)
                    transaction.sync()
        except errors.Error as error:
            self._translate(error)
            if isinstance(error, errors.ProgrammingError):
                raise lacks(first_line(error)) from None
            raise

    def server(self) -> tuple[str, str, int, str]:
        """The server of this connection: the host name used, its address, its port, and the password used."""
        made = self._connection.pgconn
        host = made.host.decode()
        is_socket = host.startswith(("/", "@"))
        password = made.password.decode() if made.used_password else ""
        at = host if is_socket else made.hostaddr.decode()
        return "" if is_socket else host, at, int(made.port), password

    @property
    def database(self) -> str:  # type: ignore[override]
        """The server's name and version."""
        return f"PostgreSQL {self._connection.info.parameter_status('server_version')}"

    def another(self) -> PostgresBackend:
        return PostgresBackend(self.url, password=self._password)

    def open_schemas(self) -> list[str]:
        with self.reading() as transaction:
            return list(transaction.values("open_schemas"))

    def has_schema(self) -> bool:
        with self.reading() as transaction:
            return bool(transaction.value("has_schema"))

    def select(self, sql: str, *, timeout: float, as_superuser: bool) -> tuple[list[str], list[Row]]:
        if first_word(sql) not in _READS:
            raise UsageError(
                "a read-only statement begins with one of: " + ", ".join(word.upper() for word in _READS),
                hint="To change the store, use: odf dml",
            )
        if not as_superuser and self._connection.info.parameter_status("is_superuser") == "on":
            raise UsageError(
                f"{self._connection.info.user} is a superuser of the server, and can read and run whatever the server can",
                hint="Use a role that owns only the store, or allow it: --as-superuser",
            )
        try:
            with self._transaction(b"begin read only") as transaction:
                transaction.sync()
                milliseconds = max(1, int(timeout * 1000))
                self._connection.execute(
                    f"set local statement_timeout = {milliseconds}; set local lock_timeout = {milliseconds};".encode()
                    + _PLANNER_OF_OWNER
                )
                with self._connection.cursor() as cursor:
                    # The extended protocol accepts a single statement, so none can end the transaction first.
                    rows = bounded(cursor.stream(sql.encode()))
                    names = [column.name for column in cursor.description or ()]  # none where there are no rows
                    return names or columns_of(self._connection.pgconn, sql.encode()), rows
        except ConnectionLost as lost:
            if "out of memory" in str(lost):  # from libpq, without a SQLSTATE
                raise too_big() from None
            raise
        except StoreReadOnly as refused:
            if isinstance(refused.__cause__, errors.InsufficientPrivilege):
                raise
            raise UsageError("this statement writes, and sql is read-only", hint="Use: odf dml") from None
        except errors.QueryCanceled:
            raise took_too_long(timeout) from None
        except errors.LockNotAvailable:
            raise took_too_long(timeout, "waited for a lock") from None
        except (MemoryError, errors.OutOfMemory, errors.ProgramLimitExceeded):
            raise too_big() from None
        except errors.Error as error:
            raise UsageError(f"the statement is wrong: {first_line(error)}") from None

    def execute(self, sql: str, *, dry_run: bool = False) -> int:
        parts = list(statements(sql))
        for part in parts:
            kind = kind_of(part)
            if kind not in _MAY_BEGIN:
                raise changes_no_tables(kind or "it")
        n = 0
        try:
            with self._transaction(*_BEGIN_WRITING, force_rollback=dry_run) as transaction:
                transaction.sync()
                self._connection.execute(_PLANNER_OF_OWNER)
                # Prepared: the server accepts a single statement, so none can hide another.
                n = sum(_rows_changed(self._connection.execute(part.encode(), prepare=True)) for part in parts)
        except ConnectionLost as lost:
            lost.answer = n
            raise
        except errors.Error as error:
            raise UsageError(f"the store refused the statement: {first_line(error)}") from None
        finally:
            if self._connection.pgconn.status == pq.ConnStatus.OK:
                # psycopg drops all prepared statements of the connection when it sees a rollback, which the statement may contain.
                # This rollback makes it forget the program's own names as well.
                self._prepared.clear()
                with suppress(errors.Error):
                    self._connection.execute("begin; rollback")
        return n

    def close(self) -> None:
        self._connection.close()


def _rows_changed(cursor: Any) -> int:
    """The number of changed rows; UsageError if the statement changed more than rows."""
    command = str(cursor.statusmessage or "").rstrip("0123456789 ")
    if command not in _CHANGES_ROWS or (
        command == "SELECT" and cursor.description is None
    ):  # SELECT INTO creates a table
        raise changes_no_tables(command or "it")
    return 0 if command == "SELECT" else max(cursor.rowcount, 0)


def is_gone(error: errors.Error) -> bool:
    """Whether an error means that the connection is gone."""
    if error.sqlstate is None:
        return type(error) in _GONE_WITHOUT_CODE
    return error.sqlstate in _GONE or error.sqlstate.startswith(_GONE_CLASS)
