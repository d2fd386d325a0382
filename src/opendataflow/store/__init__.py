"""The only room that speaks SQL: one contract, two databases."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import MissingDependency, UsageError, install_command
from ..tokens import shown_address
from .announcing import OUTSIDE, Ends
from .backend import Backend, Unreadable
from .lineage import Made
from .links import Above, Descendant, Mark, Recalled, StaleChunk
from .looking import ChunkStatus
from .past import Filter, LastChange, Stretch, Told
from .period import Attempted, Deed, FailedChunk, MadeChunk, Stint
from .recalling import Recall
from .records import (
    Announced,
    Applied,
    Change,
    Chunk,
    Claim,
    Current,
    Deferred,
    Event,
    InputRow,
    Link,
    Past,
    Position,
    Published,
    Remarked,
    Rescued,
    RolledBack,
    Run,
    Sample,
    Steered,
)
from .recovery import Postponed, Recovered, Took, Unsettled
from .rows import Attempt
from .sheets import ChunkLine, Columns
from .soundness import Breach
from .store import Store
from .then import ChunkThen

__all__ = [
    "OUTSIDE",
    "Above",
    "Announced",
    "Applied",
    "Attempt",
    "Attempted",
    "Breach",
    "Change",
    "Chunk",
    "ChunkLine",
    "ChunkStatus",
    "ChunkThen",
    "Claim",
    "Columns",
    "Current",
    "Deed",
    "Deferred",
    "Descendant",
    "Ends",
    "Event",
    "FailedChunk",
    "Filter",
    "InputRow",
    "LastChange",
    "Link",
    "Made",
    "MadeChunk",
    "Mark",
    "Past",
    "Position",
    "Postponed",
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
    "Steered",
    "Stint",
    "Store",
    "Stretch",
    "Told",
    "Took",
    "Unreadable",
    "Unsettled",
    "open_store",
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
    """Open the store at sqlite:///path or postgresql://user@host/database; create=True makes what is missing.

    Whoever says its environment, which is asked for before the first write, cannot write into the store of another one.
    """
    backend = _backend(url, create=create, password=password)
    store = Store(backend, who=who, patience=patience, say=say, environment=environment)
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
        from .sqlite import SqliteBackend

        return SqliteBackend(url, url.removeprefix("sqlite:///"), create=create)
    if url.startswith(("postgresql://", "postgres://")):
        try:
            from .postgres import PostgresBackend
        except ImportError:
            raise MissingDependency(
                "a PostgreSQL store needs psycopg", hint=f"Install it: {install_command('postgres')}"
            ) from None
        return PostgresBackend(url, password=password)
    raise UsageError(
        f"{shown_address(url)} is not the address of a store",
        hint="Write sqlite:///dataflow.db or postgresql://user@host/database.",
    )
