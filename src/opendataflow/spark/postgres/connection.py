"""Connection: how a dataset's server is reached, and how names and values are written into SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from ...errors import BadConfig, BadDefinition, MissingDependency, install_command
from ...model import Dataset
from ...model.definitions.address import split_host
from ...model.definitions.dataset import AUTH
from ...model.definitions.ids import shown
from ...secrets import Hidden, pgpassword
from .problems import connect_error, statement_error, stream_error

DEFAULT_SCHEMA = "public"
_is_timezone = re.compile(r"[A-Za-z0-9_+/:-]+").fullmatch
# The driver else asks for every type of the database, 40 ms each time; we read and load PostgreSQL's own only.
_OWN_TYPES = {"adbc.postgresql.type_resolver_mode": "builtin"}
SCRAM = "scram-sha-256"  # which proves that we know the password without sending it
NOT_IN_CLEAR_TEXT = "!password"  # of PGPASSWORD or ~/.pgpass, which are the worker's own
_NO_FILE = "/dev/null/none"  # cannot exist, and libpq says nothing about it
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


@dataclass(frozen=True, slots=True)
class TableAddress:
    """Where a table is and who we are there. It travels to the tasks inside their pickled code, never as an option,
    for Spark shows options in plans, its UI and its event log."""

    hostname: str
    port: str
    database: str
    username: str
    schema: str
    table: str
    timezone: str
    sslmode: str
    require_auth: str
    password: str | None = field(default=None, repr=False)
    pgpassword: str | None = field(default=None, repr=False)  # for a table that is where psql would look

    def __str__(self) -> str:
        host = f"{self.hostname or 'localhost'}{':' + self.port if self.port else ''}"
        return f"postgresql://{host}/{self.database}"

    @property
    def location(self) -> str:
        """The table's location as messages show it."""
        return f"{self}/{self.schema}.{self.table}"

    @property
    def target(self) -> str:
        """The table as SQL names it."""
        return self.named(self.table)

    def named(self, table: str) -> str:
        """Another table of the same schema as SQL names it."""
        return f"{identifier(self.schema)}.{identifier(table)}"

    def conninfo(self) -> str:
        """What libpq needs to know."""
        always: dict[str, str] = {}
        # Even when empty: what is left out, libpq takes from PGHOST, PGHOSTADDR, PGPORT and the file of PGSERVICE. Only a
        # table that has neither a host nor a password is where psql would look.
        if self.hostname or self.port or self.password:
            always |= {"host": self.hostname, "hostaddr": "", "port": self.port}
            always |= {"password": self.password or "", "passfile": _NO_FILE}
        elif self.pgpassword:
            always |= {"password": self.pgpassword}
        facts = {
            "dbname": self.database,
            "user": self.username,
            # Whatever the server asks for, the password is not sent in clear text.
            "require_auth": self.require_auth,
            "sslmode": self.sslmode,
            "connect_timeout": "10",
            "application_name": "opendataflow",
            "client_encoding": "UTF8",
        }
        given = always | {key: value for key, value in facts.items() if value}
        return " ".join(f"{key}='{_escaped(value)}'" for key, value in given.items())


def address_of(dataset: Dataset, password: str | None) -> TableAddress:
    """How the dataset's table is reached."""
    if not dataset.tablename:
        raise BadDefinition(f"dataset {dataset.datasetid} has no tablename", hint="Name its table: tablename = …")
    options = dataset.options
    host, port = split_host(dataset.hostname, str(options.get("port", "")))
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise BadConfig(f"dataset {dataset.datasetid}: {shown(port)} is not a port")
    sslmode = str(options.get("sslmode", ""))
    if sslmode and sslmode not in SSL_MODES:
        raise BadConfig(
            f"dataset {dataset.datasetid}: there is no sslmode {shown(sslmode)}",
            hint=f"Use one of {', '.join(SSL_MODES)}.",
        )
    timezone = str(options.get("timezone", "UTC"))
    if not _is_timezone(timezone):
        raise BadConfig(
            f"dataset {dataset.datasetid}: there is no timezone {shown(timezone)}",
            hint="Use a name such as Europe/Berlin.",
        )
    names = (
        dataset.hostname,
        dataset.database,
        dataset.username,
        dataset.schemaname,
        dataset.tablename,
        password or "",
    )
    if any("\0" in name for name in names):
        raise BadDefinition(f"dataset {dataset.datasetid}: a NUL character cannot be part of a name")
    return TableAddress(
        host,
        port,
        dataset.database,
        dataset.username,
        dataset.schemaname or DEFAULT_SCHEMA,
        dataset.tablename,
        timezone,
        sslmode,
        _require_auth(dataset, SCRAM if password else "none" if host or port else NOT_IN_CLEAR_TEXT),
        password,
        None if host or port or password else pgpassword(),
    )


def _require_auth(dataset: Dataset, usual: str) -> str:
    """How the server may ask for the password, in libpq's words."""
    if "require_auth" not in dataset.options:
        return usual
    allowed = dataset.options["require_auth"]
    methods = [str(method) for method in allowed] if isinstance(allowed, (list, tuple)) else [str(allowed)]
    unknown = next((method for method in methods if method not in AUTH), None)
    if unknown is not None or not methods:
        raise BadConfig(
            f"dataset {dataset.datasetid}: there is no require_auth {shown(unknown)}",
            hint=f"Use some of {', '.join(AUTH)}.",
        )
    return ",".join(methods)


class Connection:
    """One transaction after another on one connection."""

    def __init__(self, address: TableAddress, raw: Any) -> None:
        self.address = address
        self.raw = raw

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What a query answers."""
        with self.translated(), self.raw.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def row(self, sql: str) -> tuple[Any, ...]:
        """The one row that a query answers."""
        (row,) = self.rows(sql)
        return row

    def value(self, sql: str) -> Any:
        """The one value that a query answers."""
        (value,) = self.row(sql)
        return value

    def run(self, sql: str) -> int:
        """Executes one statement and tells how many rows it changed."""
        with self.translated(), self.raw.cursor() as cursor:
            cursor.execute(sql)
            return int(cursor.rowcount)

    def commit(self) -> None:
        """Makes everything since the last commit visible at once."""
        with self.translated():
            self.raw.commit()

    @contextmanager
    def translated(self) -> Iterator[None]:
        """The driver's errors as ours."""
        import adbc_driver_manager

        try:
            yield
        except adbc_driver_manager.Error as problem:
            raise _without_secret(statement_error(problem, self.address.location), self.address) from None
        except OSError as problem:  # what goes wrong while rows arrive comes through Arrow
            raise _without_secret(stream_error(problem, self.address.location), self.address) from None


@contextmanager
def connected(address: TableAddress, *, read_only: bool = False) -> Iterator[Connection]:
    """A connection until the block ends; what is not committed by then never happened."""
    try:
        import adbc_driver_manager
        import adbc_driver_postgresql.dbapi
    except ImportError as problem:
        raise MissingDependency(
            f"PostgreSQL tables need more packages: {problem}", hint=f"Install them: {install_command('spark')}"
        ) from None
    try:
        raw = adbc_driver_postgresql.dbapi.connect(address.conninfo(), db_kwargs=_OWN_TYPES)
    except adbc_driver_manager.Error as problem:
        raise _without_secret(connect_error(problem, str(address)), address) from None
    try:
        connection = Connection(address, raw)
        connection.rows(_settings(address, read_only))
        connection.commit()
        yield connection
    finally:
        with suppress(Exception):  # when it is broken already, that error has been raised
            raw.close()


def _settings(address: TableAddress, read_only: bool) -> str:
    """What makes the text of a value the same everywhere, and a day of a timestamptz the day that the dataset means."""
    settings = {
        "timezone": address.timezone,
        "datestyle": "ISO, YMD",
        "intervalstyle": "iso_8601",
        "bytea_output": "hex",
        "extra_float_digits": "1",
        "standard_conforming_strings": "on",
        "default_transaction_read_only": "on" if read_only else "off",
        "client_min_messages": "warning",
    }
    calls = (f"set_config({literal(name)}, {literal(value)}, false)" for name, value in settings.items())
    return f"select {', '.join(calls)}"


def _without_secret(problem: Any, address: TableAddress) -> Any:
    """The server repeats what it was sent: a password in it, in whatever form, is redacted."""
    redact = Hidden([address.password or "", address.pgpassword or ""]).redact
    return type(problem)(redact(problem.message), hint=redact(problem.hint))


def identifier(name: str) -> str:
    """A name as SQL takes it literally."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as SQL takes it literally; standard_conforming_strings is on."""
    if "\0" in text:
        raise BadDefinition(f"{shown(text)} holds a NUL character, which PostgreSQL cannot store")
    return "'" + text.replace("'", "''") + "'"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")
