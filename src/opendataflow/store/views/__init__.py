"""What is read: bounded, read-only queries. No run imports them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...model import Catalogue
from .activity import ActivityViews, Attempted, FailedChunk, MadeChunk, OperatorEvent, RunSpan
from .as_of import AsOfViews, ChunkThen
from .chunks import ChunkViews
from .counts import CountViews
from .history import Filter, HistoryLine, HistoryViews, LastChange, Stretch
from .lineage import LineageViews, PublishedBy
from .overview import ChunkStatus, OverviewViews
from .recovery import Postponed, RecoveryViews, RunDuration, UnfinishedChunk
from .sheets import ChunkLine, Columns, SheetViews
from .soundness import Breach

if TYPE_CHECKING:
    from ..store import Store

__all__ = [
    "Attempted",
    "Breach",
    "ChunkLine",
    "ChunkStatus",
    "ChunkThen",
    "Columns",
    "FailedChunk",
    "Filter",
    "HistoryLine",
    "LastChange",
    "MadeChunk",
    "OperatorEvent",
    "Postponed",
    "PublishedBy",
    "RunDuration",
    "RunSpan",
    "Stretch",
    "UnfinishedChunk",
    "Views",
]


class Views(
    ChunkViews,
    OverviewViews,
    LineageViews,
    AsOfViews,
    HistoryViews,
    ActivityViews,
    CountViews,
    RecoveryViews,
    SheetViews,
):
    """Every read-only query of a store."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.store = store

    def catalogue(self) -> Catalogue:
        """All datasets, jobs and pools as they are registered now."""
        return self._store.catalogue()
