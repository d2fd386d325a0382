"""Define the contract of a database: named queries inside short transactions."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ...errors import BadDefinition, SchemaChanged, StoreDamaged, StoreUnreachable, TimedOut, UsageError
from ...model.printable import storable
from . import postgres_schema

Row = Sequence[Any]
PendingRows = Callable[[], list[Row]]  # reads the rows of a query that was sent before

ENCRYPTED = "encryptedpass_is_encrypted"  # the check constraint against plain-text passwords

# Query parameters that hold free text (reasons, error details), and the keys of free text in JSON lists.
_SAID = frozenset(("why", "detail", "events", "runs"))
_SAID_IN_OBJECTS = ("why", "detail")

_MAX_RESULT_BYTES = 256 << 20  # bytes of Python objects
_VALUE_OVERHEAD = 50  # overhead per value in bytes

_T = TypeVar("_T")


def as_text(row: Row) -> Row:
    """The row with bytes decoded as text."""
    return tuple(value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in row)


class Migration(NamedTuple):
    """One step to the schema of this program: the whole of it, or what a store of the number before lacks."""

    number: int
    name: str
    checksum: str
    sql: str


class AppliedMigration(NamedTuple):
    """A migration that was applied to a store."""

    number: int
    name: str
    checksum: str


class TableColumn(NamedTuple):
    """A column of a table; without a name for a view."""

    relation: str
    column: str


class Transaction(ABC):
    """An open transaction that runs queries by name."""

    pairs_locked = 0  # limits the number of advisory locks
    redact: Callable[[str], str] | None = None  # removes secrets from free text

    @abstractmethod
    def rows(self, query: str, /, **parameters: Any) -> list[Row]:
        """Run a named query and return its rows as tuples."""

    @abstractmethod
    def run(self, query: str, /, **parameters: Any) -> None:
        """Run a named query without reading rows."""

    def send(self, query: str, /, **parameters: Any) -> PendingRows:
        """Queue a named query whose rows are read later, so that several queries share a round trip."""
        rows = self.rows(query, **parameters)
        return lambda: rows

    def sync(self) -> None:  # noqa: B027  (SQLite has no queue)
        """Send queued queries and wait until they are done."""

    def fetch(self, make: Callable[[Row], _T], query: str, /, **parameters: Any) -> list[_T]:
        """Run a named query and convert each row with `make`."""
        return list(map(make, self.rows(query, **parameters)))

    def fetch_later(self, make: Callable[[Row], _T], query: str, /, **parameters: Any) -> Callable[[], list[_T]]:
        """Like `fetch`, for rows that are read later."""
        rows = self.send(query, **parameters)
        return lambda: list(map(make, rows()))

    def first(self, make: Callable[[Row], _T], query: str, /, **parameters: Any) -> _T | None:
        """Like `fetch`, for the first row; None if there is none."""
        rows = self.rows(query, **parameters)
        return make(rows[0]) if rows else None

    def values(self, query: str, /, **parameters: Any) -> list[Any]:
        """Run a named query with one column and return its values."""
        return [value for (value,) in self.rows(query, **parameters)]

    def value(self, query: str, /, **parameters: Any) -> Any:
        """Like `values`, for the first value; None if there is no row."""
        values = self.values(query, **parameters)
        return values[0] if values else None

    def redacted(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Query parameters as they may be stored: free text without secrets, all text as valid Unicode."""
        if self.redact is not None and (free_text := _SAID.intersection(parameters)):
            parameters = parameters | {name: _redacted(parameters[name], self.redact) for name in free_text}
        return {name: storable(value) if isinstance(value, str) else value for name, value in parameters.items()}

    @abstractmethod
    def lock(self, query: str, /, **parameters: Any) -> None:
        """Run a named lock query; the lock is held until the transaction ends. A no-op on SQLite."""

    @abstractmethod
    def columns(self, table: str) -> list[str]:
        """The column names of a table."""

    @abstractmethod
    def everything(self, table: str) -> Iterator[Row]:
        """All rows of a table, streamed."""

    @abstractmethod
    def fill(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Insert rows with all given values, including ids; columns that are not named get their defaults."""

    def has_applied(self, step: Migration) -> bool:
        """Whether the store has the schema that a migration leads to."""
        return bool(self.value("has_schema")) and step.number in {number for number, *_ in self.rows("migrations")}

    def renumber(self) -> None:  # noqa: B027  (SQLite needs no sequences)
        """Advance the id sequences past the inserted rows."""


def _redacted(value: Any, redact: Callable[[str], str]) -> Any:
    if not isinstance(value, str) or (clean := redact(value)) == value:
        return value
    if not value.startswith("[{"):
        return clean
    objects = json.loads(value)
    for each in objects:
        each |= {name: redact(each[name]) for name in _SAID_IN_OBJECTS if name in each}
    return json.dumps(objects)


class Backend(ABC):
    """A connection to a database."""

    dialect: str
    database: str  # its name and version
    url: str
    journal_reason = ""  # why write-ahead logging is off

    @abstractmethod
    def writing(self) -> AbstractContextManager[Transaction]:
        """A write transaction: commits at the end of the block, rolls back on an exception."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Transaction]:
        """A read-only transaction on one snapshot."""

    @abstractmethod
    def migrate(self, step: Migration) -> None:
        """Apply a migration, unless another process was first; all of it or nothing."""

    @abstractmethod
    def has_schema(self) -> bool:
        """Whether the table of migrations exists."""

    @abstractmethod
    def select(self, sql: str, *, timeout: float, as_superuser: bool) -> tuple[list[str], list[Row]]:
        """Run a typed read-only statement: column names and rows; TimedOut after `timeout` seconds."""

    @abstractmethod
    def execute(self, sql: str, *, dry_run: bool = False) -> int:
        """Run a typed statement that may write: number of changed rows; dry_run rolls back."""

    def another(self) -> Backend | None:
        """A new connection for another thread; None if the database allows only one writer."""
        return None

    @property
    @abstractmethod
    def shown_url(self) -> str:
        """The address without a password."""

    def reconnect(self) -> None:  # noqa: B027  (a file needs no reconnect)
        """Replace a broken connection."""

    @abstractmethod
    def interrupt(self, patience: float) -> None:
        """Abort the current call from another thread; the next call may take `patience` seconds."""

    def was_committed(self, transaction: str) -> bool:
        """Whether a transaction with an unknown outcome was committed; ConnectionLost while it may still be running."""
        raise NotImplementedError

    def is_write_locked(self) -> bool:
        """Whether another process blocks all writers now; False on a server."""
        return False

    def open_schemas(self) -> list[str]:
        """The schemas, of the store's and public, in which every role may create functions; none for a file."""
        return []

    def damage(self) -> list[str]:
        """The problems that the database's integrity check finds, if it has one."""
        return []

    def back_up(self, path: Path) -> None:
        """Copy a snapshot of the whole store into a new file."""
        address, schema = postgres_schema.split(self.shown_url)
        raise UsageError(
            f"{self.shown_url} is backed up by its server",
            hint=f"Dump the schema of the store: pg_dump --format=custom --schema={schema} --file={path} {address}",
        )

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""


def took_too_long(timeout: float, what: str = "ran") -> TimedOut:
    """The error for a typed statement that exceeded its time limit."""
    return TimedOut(f"the statement {what} longer than {timeout:g} s", hint="Raise the time limit: --timeout SECONDS")


def too_big() -> UsageError:
    """The error for a typed statement whose text or result is too big."""
    return UsageError("the statement or its result is too big", hint="Select fewer rows, for instance with LIMIT.")


def bounded(rows: Iterable[Row]) -> list[Row]:
    """The rows of a typed statement; UsageError if they exceed the memory limit."""
    kept, size = [], 0
    for row in rows:
        size += sum(_VALUE_OVERHEAD + (len(value) if isinstance(value, (str, bytes)) else 0) for value in row)
        if size > _MAX_RESULT_BYTES:
            raise too_big()
        kept.append(row)
    return kept


def not_encrypted() -> BadDefinition:
    """The error for a plain-text password; it does not repeat the password."""
    return BadDefinition(
        "the encryptedpass of a dataset must be an encrypted password",
        hint="Encrypt the password and store the output: odf crypt encrypt --for DATASET",
    )


def lacks(problem: str) -> SchemaChanged:
    """The error for a program query that did not find its table or column."""
    return SchemaChanged(
        f"the schema of the store was changed: {problem}",
        hint="A table or column was removed or renamed. See: odf doctor",
    )


def no_space(url: str) -> StoreUnreachable:
    """The error for a full disk."""
    return StoreUnreachable(
        f"no space left for the store {url} (NO_SPACE)",
        hint="Nothing was written. Free some space, then try again. Read-only commands still work.",
    )


def too_many_locks(url: str) -> StoreUnreachable:
    """The error for a full lock table of the server."""
    return StoreUnreachable(
        f"the server of the store {url} has no room for more locks",
        hint="Raise max_locks_per_transaction in postgresql.conf (default 64), restart the server and try again.",
    )


def damaged(url: str, why: str) -> StoreDamaged:
    """The error for a store that the database can no longer read."""
    return StoreDamaged(
        f"the store {url} is damaged: {why}",
        hint="Stop the workers, keep the files and restore a backup: docs/how-to/backup-and-restore.md",
    )


class Unreadable(BadDefinition):
    """A row that a program query cannot read, because it was written by SQL."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(
            f"a row of the store cannot be read: {problem}",
            hint="The row was written by SQL. Find and repair it: odf sql, odf dml",
        )


def misread(problem: str) -> Unreadable | SchemaChanged | None:
    """The error for a SQLite message that a changed schema or a row written by SQL causes; None for others."""
    if "no such " in problem or "has no column" in problem:
        return lacks(problem)
    return Unreadable(problem) if "JSON" in problem or "overflow" in problem else None


class Retry(Exception):
    """The transaction lost a race and can be retried."""


class ConnectionLost(Exception):
    """The connection broke; inside a commit, with the `transaction` to look up and the `answer` of the work."""

    def __init__(self, why: str, transaction: str = "") -> None:
        super().__init__(why)
        self.transaction = transaction
        self.answer: Any = None
