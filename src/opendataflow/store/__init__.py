"""Store chunks, runs and history in SQLite or PostgreSQL; the only package that speaks SQL."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import MissingDependency, UsageError, install_command
from ..tokens import redacted_reason, shown_address
from .drivers.base import Backend, Unreadable
from .engine.announcing import FirstAndLast
from .engine.recalling import Recall
from .engine.recover import Recovered
from .engine.transition import OUTSIDE
from .plan_digest import plan_digest
from .records import (
    Announced,
    AppliedProject,
    Change,
    Chunk,
    Claim,
    Current,
    Deferred,
    EarlierChunks,
    Event,
    InputRow,
    LineageLink,
    Position,
    Published,
    Remarked,
    Rescued,
    RolledBack,
    Run,
    Sample,
    Steered,
)
from .rows import UnpublishedAttempt
from .store import Store
from .version_records import Descendant, InputNow, Recalled, StaleChunk, StaleMark

__all__ = [
    "OUTSIDE",
    "Announced",
    "AppliedProject",
    "Change",
    "Chunk",
    "Claim",
    "Current",
    "Deferred",
    "Descendant",
    "EarlierChunks",
    "Event",
    "FirstAndLast",
    "InputNow",
    "InputRow",
    "LineageLink",
    "Position",
    "Published",
    "Recall",
    "Recalled",
    "Recovered",
    "Remarked",
    "Rescued",
    "RolledBack",
    "Run",
    "Sample",
    "StaleChunk",
    "StaleMark",
    "Steered",
    "Store",
    "UnpublishedAttempt",
    "Unreadable",
    "open_store",
    "plan_digest",
]


def open_store(
    url: str,
    *,
    create: bool = False,
    check: bool = True,
    password: str | None = None,
    who: str | None = None,
    patience: float = 60.0,
    say: Callable[[str], None] | None = None,
    environment: Callable[[], str | None] = lambda: None,
) -> Store:
    """Open the store at sqlite:///path or postgresql://user@host/database; with create=True, create missing tables.

    `environment` is called before the first write; the store refuses writes from another environment.
    By default, only values with the form of a secret are redacted; a caller that knows more secrets sets `redact`.
    """
    backend = _backend(url, create=create, password=password)
    store = Store(backend, who=who, patience=patience, say=say, environment=environment)
    store.redact = redacted_reason
    try:
        if create:
            store.create()
        elif check:
            store.check_schema()
    except BaseException:
        store.close()
        raise
    return store


def _backend(url: str, *, create: bool, password: str | None) -> Backend:
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        from .drivers.sqlite import SqliteBackend

        return SqliteBackend(url, url.removeprefix("sqlite:///"), create=create)
    if url.startswith(("postgresql://", "postgres://")):
        try:
            from .drivers.postgres import PostgresBackend
        except ImportError:
            raise MissingDependency(
                "a PostgreSQL store needs psycopg", hint=f"Install it: {install_command('postgres')}"
            ) from None
        return PostgresBackend(url, password=password)
    raise UsageError(
        f"{shown_address(url)} is not a store address",
        hint="Write sqlite:///dataflow.db or postgresql://user@host/database.",
    )
