"""Lineage: which version was made from which, in both directions, and what stands now."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ..model import IGNORE
from ..shapes import NamedTuple
from . import links, records
from .backend import Transaction
from .inputs import ChunkId
from .links import Above, Descendant, Mark, Recalled, StaleChunk
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


MOST_STALE = 100_000


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

    def inputs_now(self, chunks: Iterable[ChunkId]) -> list[Above]:
        """What the current versions of these chunks were made from, one hop up."""
        asked = compact(list(chunks))
        return self._fetch(Above._make, "inputs_now_given", chunks=asked) if asked != "[]" else []

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

    # Stale and recalled ------------------------------------------------------------------------------------------

    def stale(self, n: int = MOST_STALE) -> list[StaleChunk]:
        """The chunks whose current version was made from what is no longer current, at whatever distance, at most n.

        Outputs of jobs that ignore new versions are not among them, nor what was made from those alone.
        """

        def work(tx: Transaction) -> list[StaleChunk]:
            if not tx.value("stale_count", most=1):
                return []
            jobs = self._seen(tx).jobs.values()
            ignoring = sorted(name for job in jobs if job.on_new_version == IGNORE for name in job.outputs)
            return tx.fetch(links.stale_chunk, "stale_chunks", ignoring=compact(ignoring), n=n)

        return self._do(work, reading=True)

    def has_stale(self, n: int = 1) -> bool:
        """Whether there are so many marks of versions that were made from what is no longer current."""
        return int(self._value("stale_count", most=n)) >= n

    def stale_marks(self, chunks: Iterable[ChunkId]) -> list[Mark]:
        """Why these chunks are stale themselves; not those that are so only because of something further upstream."""
        asked = compact(list(chunks))
        return self._fetch(Mark._make, "stale_marks_given", chunks=asked) if asked != "[]" else []

    def recalled(self, chunks: Iterable[ChunkId]) -> list[Recalled]:
        """The versions of these chunks that somebody called back."""
        return self._fetch(links.recalled, "recalled_given", chunks=compact(list(chunks)))

    def descendants(self, datasetid: str, dataid: str, n: int) -> list[Descendant]:
        """What stands now and was made from any version of a chunk, and from that, at most n; each once for each input."""
        return self._fetch(links.descendant, "descendants", datasetid=datasetid, dataid=dataid, n=n)
