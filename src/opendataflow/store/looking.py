"""Looking: bounded answers for people, so that a look at a million chunks costs what a look at a thousand does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..model import Limit
from ..shapes import NamedTuple
from . import in_line, limits, records
from .announcing import Ends
from .backend import Transaction
from .records import Deferred, Event, Position, Remarked, Sample
from .rows import JobCount, PoolNow, SpanCounts, Status, compact
from .session import Session

_LOOK_BACK = 100_000  # events or runs
_MOST_LISTED = 1000


class Unsettled(NamedTuple):
    """A chunk that is not READY."""

    datasetid: str
    dataid: str
    status: str


class ChunkStatus(NamedTuple):
    """A chunk and its status."""

    datasetid: str
    dataid: str
    status: str


class Looking(Session):
    """What is going on, as far as a person wants to know it."""

    def clock(self) -> float:
        """The clock that leases and deferred candidates are measured by, in seconds since 1970."""
        return float(self._value("lease_clock"))

    def not_encrypted(self) -> list[str]:
        """The datasets whose password is in plain text, from before the database refused that."""
        return self._values("datasets_not_encrypted")

    def unfit_notes(self, n: int) -> list[Event]:
        """The last notes of a change by SQL that never was, newest first: somebody wrote them by hand."""
        return self._fetch(records.event, "unfit_notes", n=n)

    # Chunks ------------------------------------------------------------------------------------------------------

    def chunks_between(self, datasetid: str, from_key: str, to_key: str, n: int) -> list[Position]:
        """At most n chunks between two positions in the order."""
        return self._fetch(Position._make, "chunks_between", datasetid=datasetid, from_key=from_key, to_key=to_key, n=n)

    def newest_dataids(self, datasetid: str, from_key: str, to_key: str, n: int) -> list[str]:
        """At most n dataids between two positions in the order, the last ones first."""
        page: dict[str, Any] = {"datasetid": datasetid, "from_key": from_key, "to_key": to_key, "n": n}
        return self._values("dataids_newest", **page)

    def span_counts(self, spans: Sequence[tuple[str, str, str]], most: int) -> list[dict[str, int]]:
        """For each (datasetid, first key, last key): how many chunks in all (under "") and by status other than READY.

        Counting stops at most.
        """
        rows = self._fetch(SpanCounts._make, "span_counts", spans=compact(spans), most=most)
        return [{"": row.chunks, **row.by_status()} for row in rows]

    def ends_given(self, spans: Sequence[tuple[str, str, str]]) -> list[Ends]:
        """For each (datasetid, first key, last key): the first and the last dataid."""
        return self._fetch(Ends._make, "ends_given", spans=compact(spans)) if spans else []

    def span_chunks(self, spans: Sequence[tuple[str, str, str]], most: int) -> list[int]:
        """For each (datasetid, first key, last key): how many chunks, whatever their status; counting stops at most."""
        return self._values("span_chunks", spans=compact(spans), most=most) if spans else []

    def chunks_within(self, spans: Sequence[tuple[str, str, str]], most: int) -> list[ChunkStatus]:
        """At most so many chunks of these spans: (datasetid, first key, last key)."""
        return self._fetch(ChunkStatus._make, "chunks_within", spans=compact(spans), most=most) if spans else []

    def chunks_of_dataid(self, dataid: str, n: int) -> list[ChunkStatus]:
        """At most n chunks with this dataid, whatever their dataset."""
        return self._fetch(ChunkStatus._make, "chunks_of_dataid", dataid=dataid, n=n)

    def unsettled_between(self, spans: Sequence[tuple[str, str, str]], most: int) -> list[Unsettled]:
        """At most so many chunks that are not READY, in these spans: (datasetid, first key, last key)."""
        return self._fetch(Unsettled._make, "unsettled_between", spans=compact(spans), most=most) if spans else []

    def given_chunks(self, chunks: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """The statuses of these chunks, without those that were never produced."""
        rows = self._fetch(Status._make, "statuses_given", chunks=compact(chunks)) if chunks else []
        return {(row.datasetid, row.dataid): str(row.status) for row in rows}

    def refusals(
        self, jobid: str = "", dataid: str = "", *, look_back: int = _LOOK_BACK, n: int = _MOST_LISTED
    ) -> list[Event]:
        """Chunks whose last delivery or attempt was refused for what the data is, newest first, among the last events."""
        return self._fetch(records.event, "refusals", jobid=jobid, dataid=dataid, look_back=look_back, n=n)

    def remarked(self, look_back: int = _LOOK_BACK, n: int = _MOST_LISTED) -> list[Remarked]:
        """READY chunks that were published with a remark, newest first, among the last runs."""
        return self._fetch(Remarked._make, "runs_remarked", look_back=look_back, n=n)

    # Candidates --------------------------------------------------------------------------------------------------

    def claimable(self, jobid: str, most: int) -> int:
        """How many chunks a job could take now; counting stops at most."""
        return int(self._value("claimable_count", jobid=jobid, most=most))

    def unread(self, jobid: str, most: int) -> int:
        """How many READY chunks of its inputs a job has not read, by its rows alone; counting stops at most."""
        return int(self._value("unread_count", jobid=jobid, most=most))

    def claimable_jobs(self) -> set[str]:
        """Every job that has something to claim, whatever limits say; with an empty name while a claim has to look first."""
        return set(self._values("jobs_claimable"))

    def first_in_line(self, jobid: str) -> str | None:
        """The first chunk of a job, in its order, that is not done; of very many only some are looked at."""

        def work(tx: Transaction) -> str | None:
            catalogue = self._seen(tx)
            return in_line.first_in_line(tx, catalogue, catalogue.job(jobid))

        return self._do(work, reading=True)

    def candidates_sample(self, jobid: str, n: int) -> list[Sample]:
        """At most n candidates of a job, whatever their state."""
        return self._fetch(records.sample, "candidates_sample", jobid=jobid, n=n)

    def deferred(self, jobid: str, n: int) -> list[Deferred]:
        """The deferred candidates of a job, the next one first."""
        return self._fetch(Deferred._make, "candidates_deferred_page", jobid=jobid, n=n)

    def deferred_counts(self) -> dict[str, int]:
        """How many chunks of each job wait until they are tried again."""
        return dict(self._fetch(JobCount._make, "deferred_counts"))

    # Limits ------------------------------------------------------------------------------------------------------

    def limits(self, jobid: str) -> list[Limit]:
        """The limits on running chunks that a job is under now, with their use."""

        def work(tx: Transaction) -> list[Limit]:
            catalogue = self._seen(tx)
            return limits.of_job(tx, catalogue, catalogue.job(jobid), lock=False)

        return self._do(work, reading=True)

    def slots_taken(self, poolid: str) -> int:
        """How many chunks run in a pool now, on all machines."""
        return int(self._value("slots_taken", pool=poolid))

    def pool_now(self, poolid: str) -> tuple[int | None, tuple[float, int | None] | None]:
        """How many slots a pool has by its hours at this moment, and when (seconds since 1970) that changes to how many."""
        pool = self._first(PoolNow._make, "pool_row", pool=poolid)
        return (limits.slots_now(poolid, pool), limits.next_change(poolid, pool)) if pool else (None, None)

    def readers_running(self, datasetid: str) -> int:
        """How many chunks run now, on all machines, that read a dataset."""
        return int(self._value("readers_running", datasetid=datasetid))
