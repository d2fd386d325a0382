"""Lineage: which version was made from which, in both directions, and what stands now."""

from __future__ import annotations

from collections.abc import Iterable

from . import records
from .inputs import ChunkId
from .records import Current, Link
from .rows import compact
from .session import Session


class Lineage(Session):
    """What was really consumed, as rows; nothing here asks what is declared."""

    def links_from(self, chunks: Iterable[ChunkId]) -> list[Link]:
        """What was ever made from any version of these chunks, one hop down."""
        asked = compact(list(chunks))
        return self._fetch(records.link, "links_from_given", chunks=asked) if asked != "[]" else []

    def links_into(self, versions: Iterable[tuple[str, str, int]]) -> list[Link]:
        """What these versions were made from, one hop up."""
        asked = compact(list(versions))
        return self._fetch(records.link, "links_into_given", versions=asked) if asked != "[]" else []

    def current(self, chunks: Iterable[ChunkId]) -> dict[ChunkId, Current]:
        """What these chunks are now, without those that were never produced."""
        asked = compact(list(chunks))
        rows = self._fetch(records.current, "current_given", chunks=asked) if asked != "[]" else []
        return {(row.datasetid, row.dataid): row for row in rows}
