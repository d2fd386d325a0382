"""Lineage: which version was made from which, in both directions, and what stands now."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from . import records
from .inputs import ChunkId
from .records import Current, Link
from .rows import compact
from .session import Session

VersionId = tuple[str, str, int]


class Made(NamedTuple):
    """One version: which job and run published it, or who announced it, and when."""

    datasetid: str
    dataid: str
    version: int
    jobid: str | None
    runid: int | None
    at: datetime | None
    who: str | None


class Lineage(Session):
    """What was really consumed, as rows; nothing here asks what is declared."""

    def links_from(self, chunks: Iterable[ChunkId]) -> list[Link]:
        """What was ever made from any version of these chunks, one hop down."""
        asked = compact(list(chunks))
        return self._fetch(records.link, "links_from_given", chunks=asked) if asked != "[]" else []

    def links_into(self, versions: Iterable[VersionId]) -> list[Link]:
        """What these versions were made from, one hop up."""
        asked = compact(list(versions))
        return self._fetch(records.link, "links_into_given", versions=asked) if asked != "[]" else []

    def current(self, chunks: Iterable[ChunkId]) -> dict[ChunkId, Current]:
        """What these chunks are now, without those that were never produced."""
        asked = compact(list(chunks))
        rows = self._fetch(records.current, "current_given", chunks=asked) if asked != "[]" else []
        return {(row.datasetid, row.dataid): row for row in rows}

    def made_of(self, versions: Iterable[VersionId], n: int) -> list[Link]:
        """What was made from exactly these versions, one hop down: of each at most n, those with the last dataids."""
        asked = compact(list(versions))
        return self._fetch(records.link, "links_of_versions", versions=asked, n=n) if asked != "[]" else []

    def made(self, versions: Iterable[VersionId]) -> dict[VersionId, Made]:
        """Who made these versions when, without those of which nothing is known."""
        asked = compact(list(versions))
        rows = self._fetch(Made._make, "versions_made", versions=asked) if asked != "[]" else []
        return {row[:3]: row._replace(at=records.moment(row.at)) for row in rows}
