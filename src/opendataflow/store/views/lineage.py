"""Read which version was made from which, in both directions, and which versions are stale."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from ...model import IGNORE, Consumed
from .. import records, version_records
from ..drivers.base import Transaction
from ..engine.inputs import ChunkId
from ..records import Current, LineageLink
from ..rows import compact
from ..version_records import Descendant, InputNow, Recalled, StaleChunk, StaleMark
from .view import View

VersionId = tuple[str, str, int]


class PublishedBy(NamedTuple):
    """A version: the job and run that published it, or who announced it, and when."""

    datasetid: str
    dataid: str
    version: int
    jobid: str | None
    runid: int | None
    at: datetime | None
    who: str | None


MOST_STALE = 100_000
_LAST_RUN = 2**62


class LineageViews(View):
    """Recorded lineage; definitions are not used."""

    def links_from(self, chunks: Iterable[ChunkId]) -> list[LineageLink]:
        """All versions that were made from any version of these chunks, one hop downstream."""
        keys = compact(list(chunks))
        return self._fetch(records.link, "links_from_given", chunks=keys) if keys != "[]" else []

    def links_into(self, versions: Iterable[VersionId]) -> list[LineageLink]:
        """The versions that these versions were made from, one hop upstream."""
        keys = compact(list(versions))
        return self._fetch(records.link, "links_into_given", versions=keys) if keys != "[]" else []

    def inputs_of(self, runid: int | None) -> tuple[Consumed, ...]:
        """The versions that a run read, which the versions that it published were made from."""
        return tuple(self._fetch(Consumed._make, "inputs_of_run", runid=runid))

    def inputs_now(self, chunks: Iterable[ChunkId]) -> list[InputNow]:
        """The chunks that the current versions of these chunks were made from, one hop upstream."""
        keys = compact(list(chunks))
        return self._fetch(InputNow._make, "inputs_now_given", chunks=keys) if keys != "[]" else []

    def current(self, chunks: Iterable[ChunkId]) -> dict[ChunkId, Current]:
        """The current state of these chunks; chunks that were never produced are left out."""
        keys = compact(list(chunks))
        rows = self._fetch(records.current, "current_given", chunks=keys) if keys != "[]" else []
        return {(row.datasetid, row.dataid): row for row in rows}

    def made_of(self, versions: Iterable[VersionId], n: int, last: int = _LAST_RUN) -> list[LineageLink]:
        """The versions made from exactly these versions, one hop downstream.

        At most n of each: those of the last runs up to run `last`.
        """
        keys = compact(list(versions))
        return self._fetch(records.link, "links_of_versions", versions=keys, n=n, last=last) if keys != "[]" else []

    def made(self, versions: Iterable[VersionId]) -> dict[VersionId, PublishedBy]:
        """Who made these versions and when; unknown versions are left out."""
        keys = compact(list(versions))
        rows = self._fetch(PublishedBy._make, "versions_made", versions=keys) if keys != "[]" else []
        return {row[:3]: row._replace(at=records.moment(row.at)) for row in rows}

    def stale(self, n: int = MOST_STALE) -> list[StaleChunk]:
        """At most n chunks whose current version is stale, directly or through an input.

        Outputs of jobs that ignore new versions, and what was made only from those, are left out.
        """

        def work(tx: Transaction) -> list[StaleChunk]:
            if not tx.value("stale_count", most=1):
                return []
            jobs = self._store.catalogue_in(tx).jobs.values()
            ignoring = sorted(name for job in jobs if job.on_new_version == IGNORE for name in job.outputs)
            return tx.fetch(version_records.stale_chunk, "stale_chunks", ignoring=compact(ignoring), n=n)

        return self._read(work)

    def has_stale(self, n: int = 1) -> bool:
        """Whether at least n stale marks exist."""
        return int(self._value("stale_count", most=n)) >= n

    def stale_marks(self, chunks: Iterable[ChunkId]) -> list[StaleMark]:
        """Why these chunks are stale themselves; chunks that are stale only through an input are left out."""
        keys = compact(list(chunks))
        return self._fetch(StaleMark._make, "stale_marks_given", chunks=keys) if keys != "[]" else []

    def recalled(self, chunks: Iterable[ChunkId]) -> list[Recalled]:
        """The recalled versions of these chunks."""
        return self._fetch(version_records.recalled, "recalled_given", chunks=compact(list(chunks)))

    def descendants(self, datasetid: str, dataid: str, n: int) -> list[Descendant]:
        """At most n current versions that were made, directly or indirectly, from any version of a chunk; one row per input."""
        return self._fetch(version_records.descendant, "descendants", datasetid=datasetid, dataid=dataid, n=n)
