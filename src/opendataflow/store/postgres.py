"""PostgreSQL: the store of a team, in schema dataflow unless its address names another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from ..errors import SchemaChanged, StoreMissing, StoreReadOnly, StoreUnreachable, UsageError
from ..tokens import NOT_UNDERSTOOD, shown_address
from . import schemas
from .backend import (
    ENCRYPTED,
    Applied,
    Backend,
    ConnectionLost,
    Migration,
    Retry,
    Row,
    Transaction,
    Unreadable,
    damaged,
    lacks,
    no_space,
    not_encrypted,
    too_big,
    too_many_locks,
    took_too_long,
)
from .libpq import connect, errors, parameters, pq
from .pipeline import PostgresTransaction, Prepared, first_line, run_now
from .typed import changes_no_tables, first_word, kind_of, statements

_KNOWS_REQUIRE_AUTH = 160000  # libpq before 16 does not
# What a person's read-only statement begins with; COPY, DO, CALL, SET and the like reach beyond their transaction.
_READS = ("select", "with", "values", "show", "explain")
# What the server may say of a statement that a person changes the store with: of rows, or of who may see and change them.
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
# How the server says that the connection is gone, or not to be had right now. Whatever else it says, it says to go on.
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
# How psycopg and libpq say the same, without a code; the classes below these mean a mistake of the caller.
_GONE_WITHOUT_CODE = (errors.DatabaseError, errors.OperationalError, errors.InterfaceError, errors.InternalError)
_BEGIN_WRITING = (
    b"begin",
    b"select pg_current_xact_id()",  # the number by which a commit that was not answered is asked for
)
_BEGIN_READING = (b"begin isolation level repeatable read, read only",)
_DAMAGED = ("XX001", "XX002")  # data_corrupted, index_corrupted
# A peer that fell silent is noticed in a minute, on both sides: otherwise it holds its locks for hours.
_CONNECT = 10.0  # seconds for a connection to be made
_SILENCE = {"keepalives_idle": 20, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}


class PostgresBackend(Backend):
    """A connection to PostgreSQL."""

    dialect = "postgres"

    def __init__(self, url: str, *, password: str | None = None) -> None:
        self.url = url
        self._address, self.schema = schemas.split(url)
        self._password = password
        self._prepared: Prepared = {}
        self._patience = _CONNECT
        self._connect()

    def _connect(self) -> None:
        extra: dict[str, Any] = {}
        try:
            given = parameters(self._address)
            if self._password is not None and "password" not in given:
                given["password"] = extra["password"] = self._password
            if given.get("password") and "require_auth" not in given and pq.version() >= _KNOWS_REQUIRE_AUTH:
                extra["require_auth"] = "scram-sha-256"  # whatever the server asks for: no password in clear text
            extra = {name: value for name, value in _SILENCE.items() if name not in given} | extra
            self._connection = connect(self._address, patience=self._patience, application_name="opendataflow", **extra)
            # Every query of ours looks up a handful of rows by their keys. Telling the planner so once keeps its plans the
            # same at ten chunks and at ten million, whatever its statistics say and however old they are.
            run_now(
                self._connection.pgconn,
                # Nothing else: a role that may create functions in another schema could shadow ours.
                f'set search_path = "{self.schema}", pg_temp;'.encode()
                + b" set jit = off; set plan_cache_mode = force_generic_plan;"
                b" set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off;"
                # A process that is frozen answers keepalives, and would hold its locks until it is thawed.
                b" select set_config('idle_in_transaction_session_timeout', '60s', false)"
                b" where current_setting('idle_in_transaction_session_timeout') = '0';"
                b" set tcp_keepalives_idle = 20; set tcp_keepalives_interval = 10; set tcp_keepalives_count = 3;"
                b" set tcp_user_timeout = 60000",  # for as long as an answer is on its way, nobody sends keepalives
            )
        except errors.ProgrammingError as error:
            raise UsageError(
                # libpq repeats what it does not understand behind the colon; it may be a piece of a password.
                f"the store's address is not understood: {first_line(error).partition(': ')[0]}",
                hint="It looks like postgresql://user@host:5432/database.",
            ) from None
        except errors.Error as error:
            if isinstance(error, errors.InvalidCatalogName) or "does not exist" in str(error):
                raise StoreMissing(
                    f"there is no store at {self.shown_url}{self._told(error)}",
                    hint="Create the database and role first, then: odf migrate",
                ) from None
            raise StoreUnreachable(
                f"the store {self.shown_url} cannot be reached{self._told(error)}",
                hint="Is the server up, and are host, user and password right?",
            ) from None

    @property
    def shown_url(self) -> str:
        """The address without a password."""
        return shown_address(self.url)

    def _told(self, error: errors.Error) -> str:
        """What libpq says, except of an address that we do not understand: it may repeat a piece of a password."""
        return f": {first_line(error)}" if self.shown_url != NOT_UNDERSTOOD else ""

    def _translate(self, error: errors.Error, transaction: str = "") -> None:
        """Raise an error of ours for one of the driver, where there is one; transaction is the one that is being committed."""
        if isinstance(error, (errors.DeadlockDetected, errors.SerializationFailure)):
            raise Retry from error
        if isinstance(error, errors.CheckViolation) and error.diag.constraint_name == ENCRYPTED:
            raise not_encrypted() from None  # the server's own words repeat the row
        if isinstance(error, errors.ReadOnlySqlTransaction):
            raise StoreReadOnly(
                f"the store {self.shown_url} is read-only", hint="Is this a standby? Point --store at the primary."
            ) from error
        if isinstance(error, errors.InsufficientPrivilege):
            raise StoreReadOnly(
                f"the store {self.shown_url} refuses this role: {first_line(error)}",
                hint="Use a role that may, or have its owner grant the right; docs/how-to/harden.md has roles for all.",
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
        """A fresh connection after the old one broke."""
        self._connection.close()
        self._prepared = {}
        self._connect()

    def interrupt(self, patience: float) -> None:
        self._patience = patience
        self._connection.shut()

    def was_committed(self, transaction: str) -> bool:
        """The server remembers how each recent transaction ended, also across its own crash."""
        try:
            with self.reading() as reading:
                status = reading.value("transaction_status", transaction=transaction)
        except errors.InvalidParameterValue:
            return False  # the server crashed before it wrote down anything of it
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

    def migrate(self, steps: Sequence[Migration]) -> None:
        try:
            self._migrate(steps)
        except errors.Error as error:
            self._translate(error)
            raise

    def _migrate(self, steps: Sequence[Migration]) -> None:
        connection = self._connection.psycopg
        with connection.transaction():
            transaction = PostgresTransaction(self._connection, {}, schema=self.schema)
            transaction.run("schema")
            transaction.run("migration_lock")
            transaction.run("migration_table")
            done = {step.number for step in transaction.fetch(Applied._make, "migrations")}
            for step in steps:
                if step.number not in done:
                    try:
                        connection.execute(schemas.rendered(step.sql, self.schema).encode())
                    except errors.RaiseException as refused:
                        hint = "Drop them, run odf migrate, and create them again."
                        raise SchemaChanged(f"nothing was migrated: {first_line(refused)}", hint=hint) from None
                    except errors.ProgrammingError as error:
                        raise lacks(first_line(error)) from None
                    transaction.run("migration_put", number=step.number, name=step.name, checksum=step.checksum)
            transaction.sync()

    def server(self) -> tuple[str, str, int, str]:
        """The server that the connection led to: the name that it was asked by, where it is, its port, and the password used."""
        made = self._connection.pgconn
        host = made.host.decode()
        is_socket = host.startswith(("/", "@"))
        password = made.password.decode() if made.used_password else ""
        at = host if is_socket else made.hostaddr.decode()
        return "" if is_socket else host, at, int(made.port), password

    @property
    def database(self) -> str:  # type: ignore[override]
        """What the server calls itself."""
        return f"PostgreSQL {self._connection.psycopg.info.parameter_status('server_version')}"

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
                "this statement does not begin like one that reads: " + ", ".join(word.upper() for word in _READS),
                hint="To change the store, use: odf dml",
            )
        if not as_superuser and self._connection.psycopg.info.parameter_status("is_superuser") == "on":
            raise UsageError(
                f"{self._connection.psycopg.info.user} is a superuser of the server, and can read and run whatever the server can",
                hint="Use a role that owns no more than the store, or say: --as-superuser",
            )
        try:
            with self._transaction(b"begin read only") as transaction:
                transaction.sync()
                milliseconds = max(1, int(timeout * 1000))
                self._connection.psycopg.execute(
                    f"set local statement_timeout = {milliseconds}; set local lock_timeout = {milliseconds}".encode()
                )
                cursor = self._connection.psycopg.execute(
                    sql.encode(), prepare=True
                )  # prepared: one statement, so that none can end the transaction first
                return [
                    column.name for column in cursor.description or ()
                ], cursor.fetchall() if cursor.description else []
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
                # Prepared: the server itself takes only one statement at a time, so that none hides another.
                n = sum(_rows_changed(self._connection.psycopg.execute(part.encode(), prepare=True)) for part in parts)
        except ConnectionLost as lost:
            lost.answer = n
            raise
        except errors.Error as error:
            raise UsageError(f"the store refused it: {first_line(error)}") from None
        finally:
            if self._connection.pgconn.status == pq.ConnStatus.OK:
                # When psycopg sees a rollback, and a person may have typed one, it drops all prepared statements of the
                # connection, ours with its own: so it sees one now.
                self._prepared.clear()
                with suppress(errors.Error):
                    self._connection.psycopg.execute("begin; rollback")
        return n

    def close(self) -> None:
        self._connection.close()


def _rows_changed(cursor: Any) -> int:
    """How many rows a statement changed; UsageError when it changed more than rows."""
    said = str(cursor.statusmessage or "").rstrip("0123456789 ")
    if said not in _CHANGES_ROWS or (said == "SELECT" and cursor.description is None):  # SELECT INTO makes a table
        raise changes_no_tables(said or "it")
    return 0 if said == "SELECT" else max(cursor.rowcount, 0)


def is_gone(error: errors.Error) -> bool:
    """Whether an error means that the connection is gone: the one table of all the ways in which that is said."""
    if error.sqlstate is None:
        return type(error) in _GONE_WITHOUT_CODE
    return error.sqlstate in _GONE or error.sqlstate.startswith(_GONE_CLASS)
