"""Read bounded overviews, at a cost independent of the number of chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...errors import UntrustedDefinition
from ...model import Limit
from .. import records
from ..drivers.base import Transaction
from ..engine import first_blocked, limits
from ..engine.announcing import FirstAndLast
from ..records import Deferred, Event, Position, Remarked, Sample
from ..rows import JobCount, PoolNow, SpanCounts, Status, compact
from .view import View

_LOOK_BACK = 100_000  # in events or runs
_MOST_LISTED = 1000


class UnsettledChunk(NamedTuple):
    """A chunk that is not READY."""

    datasetid: str
    dataid: str
    status: str


class ChunkStatus(NamedTuple):
    """A chunk and its status."""

    datasetid: str
    dataid: str
    status: str


class OverviewViews(View):
    """Bounded answers about chunks, candidates and limits."""

    def clock(self) -> float:
        """The clock of leases and deferred candidates, in seconds since 1970."""
        return float(self._value("lease_clock"))

    def not_encrypted(self) -> list[str]:
        """Datasets with a plain-text password, stored before the schema refused that."""
        return self._values("datasets_not_encrypted")

    def unfit_notes(self, n: int) -> list[Event]:
        """The last notes that match no change, newest first: they were inserted by hand."""
        return self._fetch(records.event, "unfit_notes", n=n)

    def chunks_between(self, datasetid: str, from_key: str, to_key: str, n: int) -> list[Position]:
        """At most n chunks between two positions."""
        return self._fetch(Position._make, "chunks_between", datasetid=datasetid, from_key=from_key, to_key=to_key, n=n)

    def newest_dataids(self, datasetid: str, from_key: str, to_key: str, n: int) -> list[str]:
        """At most n dataids between two positions, last first."""
        page: dict[str, Any] = {"datasetid": datasetid, "from_key": from_key, "to_key": to_key, "n": n}
        return self._values("dataids_newest", **page)

    def span_counts(self, spans: Sequence[tuple[str, str, str]], most: int) -> list[dict[str, int]]:
        """For each (datasetid, first key, last key): the number of chunks in total (key "") and by status other than READY.

        Counts up to `most`.
        """
        rows = self._fetch(SpanCounts._make, "span_counts", spans=compact(spans), most=most)
        return [{"": row.chunks, **row.by_status()} for row in rows]

    def ends_given(self, spans: Sequence[tuple[str, str, str]]) -> list[FirstAndLast]:
        """For each (datasetid, first key, last key): the first and last dataid."""
        return self._fetch(FirstAndLast._make, "ends_given", spans=compact(spans)) if spans else []

    def span_chunks(self, spans: Sequence[tuple[str, str, str]], most: int) -> list[int]:
        """For each (datasetid, first key, last key): the number of chunks with any status, counted up to `most`."""
        return self._values("span_chunks", spans=compact(spans), most=most) if spans else []

    def chunks_within(self, spans: Sequence[tuple[str, str, str]], most: int) -> list[ChunkStatus]:
        """At most `most` chunks in these spans: (datasetid, first key, last key)."""
        return self._fetch(ChunkStatus._make, "chunks_within", spans=compact(spans), most=most) if spans else []

    def chunks_of_dataid(self, dataid: str, n: int) -> list[ChunkStatus]:
        """At most n chunks with this dataid, in all datasets."""
        return self._fetch(ChunkStatus._make, "chunks_of_dataid", dataid=dataid, n=n)

    def unsettled_between(self, spans: Sequence[tuple[str, str, str]], most: int) -> list[UnsettledChunk]:
        """At most `most` chunks that are not READY in these spans: (datasetid, first key, last key)."""
        return self._fetch(UnsettledChunk._make, "unsettled_between", spans=compact(spans), most=most) if spans else []

    def given_chunks(self, chunks: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """The statuses of these chunks; chunks that were never produced are left out."""
        rows = self._fetch(Status._make, "statuses_given", chunks=compact(chunks)) if chunks else []
        return {(row.datasetid, row.dataid): str(row.status) for row in rows}

    def refusals(
        self, jobid: str = "", dataid: str = "", *, look_back: int = _LOOK_BACK, n: int = _MOST_LISTED
    ) -> list[Event]:
        """Chunks whose last delivery or attempt was refused because of the data, newest first, among the last events.

        Refusals for untrusted definitions are left out once the caller's project trusts the definition.
        """
        events = self._fetch(records.event, "refusals", jobid=jobid, dataid=dataid, look_back=look_back, n=n)
        untrusted = {event.jobid for event in events if event.after == UntrustedDefinition.name}
        if not untrusted:
            return events
        catalogue = self._store.catalogue()
        over = {
            name for name, job in catalogue.jobs.items() if name in untrusted and self._store.is_trusted(catalogue, job)
        }
        return [event for event in events if event.after != UntrustedDefinition.name or event.jobid not in over]

    def remarked(self, look_back: int = _LOOK_BACK, n: int = _MOST_LISTED) -> list[Remarked]:
        """READY chunks that were published with a remark, newest first, among the last runs."""
        return self._fetch(Remarked._make, "runs_remarked", look_back=look_back, n=n)

    def claimable(self, jobid: str, most: int) -> int:
        """The number of claimable chunks of a job, counted up to `most`."""
        return int(self._value("claimable_count", jobid=jobid, most=most))

    def unread(self, jobid: str, most: int) -> int:
        """The number of READY input chunks that a job has no IN row for, counted up to `most`."""
        return int(self._value("unread_count", jobid=jobid, most=most))

    def claimable_jobs(self) -> set[str]:
        """Jobs with claimable candidates, ignoring limits; includes "" while a claim has work to do first."""
        return set(self._values("jobs_claimable"))

    def first_in_line(self, jobid: str) -> str | None:
        """The first chunk of a job, in order, that is not done; searches a limited number of chunks."""

        def work(tx: Transaction) -> str | None:
            catalogue = self._store.catalogue_in(tx)
            return first_blocked.first_blocked(tx, catalogue, catalogue.job(jobid))

        return self._read(work)

    def candidates_sample(self, jobid: str, n: int) -> list[Sample]:
        """At most n candidates of a job in any state."""
        return self._fetch(records.sample, "candidates_sample", jobid=jobid, n=n)

    def deferred(self, jobid: str, n: int) -> list[Deferred]:
        """The deferred candidates of a job, next one first."""
        return self._fetch(Deferred._make, "candidates_deferred_page", jobid=jobid, n=n)

    def deferred_counts(self) -> dict[str, int]:
        """The number of deferred candidates by job."""
        return dict(self._fetch(JobCount._make, "deferred_counts"))

    def limits(self, jobid: str) -> list[Limit]:
        """The limits on a job's running chunks, with their use."""

        def work(tx: Transaction) -> list[Limit]:
            catalogue = self._store.catalogue_in(tx)
            return limits.of_job(tx, catalogue, catalogue.job(jobid), lock=False)

        return self._read(work)

    def slots_taken(self, poolid: str) -> int:
        """The number of running chunks in a pool, on all machines."""
        return int(self._value("slots_taken", pool=poolid))

    def pool_now(self, poolid: str) -> tuple[int | None, tuple[float, int | None] | None]:
        """The slots of a pool now, and when (seconds since 1970) its hours next change them, to how many."""
        pool = self._first(PoolNow._make, "pool_row", pool=poolid)
        return (limits.slots_now(poolid, pool), limits.next_change(poolid, pool)) if pool else (None, None)

    def readers_running(self, datasetid: str) -> int:
        """The number of running chunks that read a dataset, on all machines."""
        return int(self._value("readers_running", datasetid=datasetid))
