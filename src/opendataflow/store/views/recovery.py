"""Read what an outage left unfinished, and resubmit it in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from .. import records
from ..engine.inputs import ChunkId
from ..engine.repeated_content import known_contents
from ..records import Event
from ..rows import compact
from .view import View

_MOST = 100_000


class UnfinishedChunk(NamedTuple):
    """A chunk that is not READY, with the outcome of its last run."""

    datasetid: str
    dataid: str
    jobid: str
    status: str
    modified: datetime | None
    runid: int | None
    tries: int
    sort_key: str
    run_status: str | None
    outcome: str | None
    detail: str | None
    owner: str | None
    started: datetime | None
    lease_until: float | None


class Postponed(NamedTuple):
    """A candidate that is deferred until a moment of the lease clock."""

    jobid: str
    dataid: str
    not_before: float


class RunDuration(NamedTuple):
    """The duration of one successful run of a job."""

    jobid: str
    seconds: float


class RecoveryViews(View):
    """Chunks of all datasets that are not READY, and what a recovery needs to know of them."""

    def unsettled(self, n: int = _MOST) -> list[UnfinishedChunk]:
        """At most n chunks that are not READY, with the outcome of their last run."""
        rows = self._fetch(UnfinishedChunk._make, "chunks_unsettled", n=n)
        moment = records.moment
        return [row._replace(modified=moment(row.modified), started=moment(row.started)) for row in rows]

    def postponed(self, n: int = _MOST) -> list[Postponed]:
        """At most n deferred candidates of all jobs, next one first."""
        return self._fetch(Postponed._make, "candidates_deferred", n=n)

    def took(self, jobids: Iterable[str], look_back: int, n: int) -> list[RunDuration]:
        """The durations of the last successful runs of these jobs, at most n of each."""
        keys = compact(list(jobids))
        return self._fetch(RunDuration._make, "runs_took_given", jobs=keys, look_back=look_back, n=n)

    def knows_content(self, runid: int | None) -> bool:
        """Whether the content of anything that a run read is known."""
        return bool(known_contents(self._fetch, runid))

    def last_words(self, chunks: Sequence[ChunkId]) -> dict[ChunkId, Event]:
        """The last event of each of these chunks."""
        events = self._fetch(records.event, "last_events_given", chunks=compact(chunks)) if chunks else []
        return {(str(event.datasetid), str(event.dataid)): event for event in events}
