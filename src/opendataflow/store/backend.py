"""What a database must offer: named queries inside short transactions. Everything else is written once, above it."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from ..errors import BadDefinition, SchemaChanged, StoreDamaged, StoreUnreachable, TimedOut, UsageError
from ..shapes import NamedTuple
from . import schemas

Row = Sequence[Any]
Answer = Callable[[], list[Row]]  # the rows of a query that was asked before

ENCRYPTED = "encryptedpass_is_encrypted"  # the rule of the database that refuses a password in plain text

# What people and programs say: the parameters of queries that hold it, and its names in lists of objects.
_SAID = frozenset(("why", "detail", "events", "runs"))
_SAID_IN_OBJECTS = ("why", "detail")

_T = TypeVar("_T")


def as_text(row: Row) -> Row:
    """A row with what is bytes in it as text."""
    return tuple(value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in row)


class Migration(NamedTuple):
    """One numbered step, as a file of this program."""

    number: int
    name: str
    checksum: str
    sql: str


class Applied(NamedTuple):
    """One migration that a store has."""

    number: int
    name: str
    checksum: str


class Column(NamedTuple):
    """One column of a table; a view has one without a name."""

    relation: str
    column: str


class Transaction(ABC):
    """One open transaction; queries are called by their names, and their rows get names where they are fetched."""

    pairs_locked = 0  # so far: a server has room for some thousand locks
    redact: Callable[[str], str] | None = None  # takes secrets out of what people and programs said

    @abstractmethod
    def rows(self, query: str, /, **parameters: Any) -> list[Row]:
        """Run a named query and return all its rows, without names."""

    @abstractmethod
    def run(self, query: str, /, **parameters: Any) -> None:
        """Run a named query for its effect."""

    def ask(self, query: str, /, **parameters: Any) -> Answer:
        """Run a named query whose rows are wanted later: where each answer has its way to go, several share one."""
        rows = self.rows(query, **parameters)
        return lambda: rows

    def sync(self) -> None:  # noqa: B027  (a file has no way to go)
        """Wait until everything that was run has happened."""

    def fetch(self, make: Callable[[Row], _T], query: str, /, **parameters: Any) -> list[_T]:
        """Run a named query and return what `make` makes of each row."""
        return list(map(make, self.rows(query, **parameters)))

    def asked(self, make: Callable[[Row], _T], query: str, /, **parameters: Any) -> Callable[[], list[_T]]:
        """The same for rows that are wanted later."""
        rows = self.ask(query, **parameters)
        return lambda: list(map(make, rows()))

    def first(self, make: Callable[[Row], _T], query: str, /, **parameters: Any) -> _T | None:
        """The same for the first row, if there is one."""
        rows = self.rows(query, **parameters)
        return make(rows[0]) if rows else None

    def values(self, query: str, /, **parameters: Any) -> list[Any]:
        """Run a named query that has one column and return its values."""
        return [value for (value,) in self.rows(query, **parameters)]

    def value(self, query: str, /, **parameters: Any) -> Any:
        """The same for the first value; None when there is no row."""
        values = self.values(query, **parameters)
        return values[0] if values else None

    def redacted(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """The parameters of a query as they may be stored: what was said without secrets, everything else as it is."""
        if self.redact is None or not (said := _SAID.intersection(parameters)):
            return parameters
        return parameters | {name: _redacted(parameters[name], self.redact) for name in said}

    @abstractmethod
    def lock(self, query: str, /, **parameters: Any) -> None:
        """Run a named lock, which holds until the transaction ends; nothing to do where a writing transaction is alone."""

    @abstractmethod
    def columns(self, table: str) -> list[str]:
        """The names of the columns of a table."""

    @abstractmethod
    def everything(self, table: str) -> Iterator[Row]:
        """All rows of a table, as they are asked for."""

    @abstractmethod
    def fill(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Put rows into a table as they are, numbers included; columns that are not named get their defaults."""

    def renumber(self) -> None:  # noqa: B027  (SQLite counts by itself)
        """Number what comes next after what was filled in."""


def _redacted(value: Any, redact: Callable[[str], str]) -> Any:
    if not isinstance(value, str) or (told := redact(value)) == value:
        return value
    if not value.startswith("[{"):
        return told
    objects = json.loads(value)
    for each in objects:
        each |= {name: redact(each[name]) for name in _SAID_IN_OBJECTS if name in each}
    return json.dumps(objects)


class Backend(ABC):
    """One connection to one database."""

    dialect: str
    database: str  # what it calls itself, with its version
    url: str
    journal_reason = ""  # why its log of writes is not the fast one, where it is not

    @abstractmethod
    def writing(self) -> AbstractContextManager[Transaction]:
        """A transaction that may write; committed at the end of the block, rolled back by an exception."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Transaction]:
        """A transaction that sees one moment and changes nothing."""

    @abstractmethod
    def migrate(self, steps: Sequence[Migration]) -> None:
        """Apply those of these migrations that are not applied yet, all of them or none."""

    @abstractmethod
    def has_schema(self) -> bool:
        """Whether the table of migrations exists."""

    @abstractmethod
    def select(self, sql: str, *, timeout: float, as_superuser: bool) -> tuple[list[str], list[Row]]:
        """A person's own read-only SQL: column names and rows; TimedOut when it takes longer than this many seconds."""

    @abstractmethod
    def execute(self, sql: str, *, dry_run: bool = False) -> int:
        """A person's own SQL that may write: number of rows changed; dry_run undoes it at once."""

    def another(self) -> Backend | None:
        """One more connection, for whoever works at the same time; None where only one can write anyway."""
        return None

    @property
    @abstractmethod
    def shown_url(self) -> str:
        """The address without a password."""

    def reconnect(self) -> None:  # noqa: B027  (a file has nothing to reconnect to)
        """A fresh connection after the old one broke."""

    def interrupt(self, patience: float) -> None:  # noqa: B027  (a file does not fall silent)
        """From another thread: break the connection, so that nobody waits for its answer; a new one may take so long."""

    def was_committed(self, transaction: str) -> bool:
        """Whether a transaction whose commit was not answered is committed; ConnectionLost while it may still be."""
        raise NotImplementedError

    def open_schemas(self) -> list[str]:
        """The schemas near the store's in which every role of the server may create functions; a file has none."""
        return []

    def damage(self) -> list[str]:
        """What the database itself finds wrong with its files, where it can be asked."""
        return []

    def back_up(self, path: Path) -> None:
        """Copy the whole store into a new file, as it is at one moment, while others work."""
        address, schema = schemas.split(self.shown_url)
        raise UsageError(
            f"{self.shown_url} is backed up by its server",
            hint=f"Let it write the store's schema: pg_dump --format=custom --schema={schema} --file={path} {address}",
        )

    @abstractmethod
    def close(self) -> None:
        """Give the connection back."""


def took_too_long(timeout: float, what: str = "ran") -> TimedOut:
    """The error for a person's statement that was ended."""
    return TimedOut(f"the statement {what} longer than {timeout:g} s", hint="Give it more time: --timeout SECONDS")


def too_big() -> UsageError:
    """The error for a person's statement whose text or answer does not fit."""
    return UsageError("the statement or its answer is too big", hint="Ask for less at a time, for instance with LIMIT.")


def not_encrypted() -> BadDefinition:
    """The error for a password that the database refused, without a word of it."""
    return BadDefinition(
        "the encryptedpass of a dataset must be an encrypted password",
        hint="Encrypt it, and store what is printed: odf crypt encrypt --for DATASET",
    )


def lacks(problem: str) -> SchemaChanged:
    """The error for a query of ours that did not find its table or column."""
    return SchemaChanged(
        f"the store is not as odf migrate made it: {problem}",
        hint="Somebody removed or renamed what it needs. See what: odf doctor",
    )


def no_space(url: str) -> StoreUnreachable:
    """The error for a store whose disk is full."""
    return StoreUnreachable(
        f"no space left for the store {url} (NO_SPACE)",
        hint="Free some space, then do it again: nothing was written. Verbs that only look still answer.",
    )


def too_many_locks(url: str) -> StoreUnreachable:
    """The error for a server whose table of locks is full."""
    return StoreUnreachable(
        f"the server of the store {url} has no room for more locks",
        hint="Raise max_locks_per_transaction in its postgresql.conf (64 unless set), restart it, and do it again.",
    )


def damaged(url: str, why: str) -> StoreDamaged:
    """The error for a store that its database cannot read any more."""
    return StoreDamaged(
        f"the store {url} is damaged: {why}",
        hint="Stop the workers, keep its files, and restore a backup: docs/how-to/backup-and-restore.md",
    )


class Unreadable(BadDefinition):
    """A row of the store holds what a query of ours cannot read: somebody wrote it past us."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(
            f"a row of the store holds what cannot be read: {problem}",
            hint="Somebody wrote it by SQL. Look for it, and write it anew: odf sql, odf dml",
        )


def misread(problem: str) -> Unreadable | SchemaChanged | None:
    """The error for what SQLite says of a query of ours, where it is one that somebody else caused."""
    if "no such " in problem or "has no column" in problem:
        return lacks(problem)
    return Unreadable(problem) if "JSON" in problem or "overflow" in problem else None


class Retry(Exception):
    """The transaction lost against another one and may simply be run again."""


class ConnectionLost(Exception):
    """The connection broke; where it broke inside a commit, `transaction` is what to ask about, and `answer` what it did."""

    def __init__(self, why: str, transaction: str = "") -> None:
        super().__init__(why)
        self.transaction = transaction
        self.answer: Any = None
