"""Read chunks, runs, events and manifests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from ...errors import UnknownRun
from ...model import READY, RUNNING, Facts, canonical
from .. import records
from ..drivers.base import Transaction
from ..engine import facts
from ..records import Chunk, Event, InputRow, ManifestRow, Published, Run
from ..rows import ChunkPosition, OrderedDataid, StateCount, StatusCount, UnpublishedAttempt
from .as_of import stamp
from .view import View

_PAGE = 10_000
_PAGE_OF_SPAN = 256  # rows per page between two positions
_RECENT_RUNS = 20_000


class ChunkViews(View):
    """Single records and pages of what is stored."""

    def facts(self, jobid: str, dataid: str) -> Facts:
        """All stored facts that decide whether a job may run for this dataid, for `model.decide`."""

        def work(tx: Transaction) -> Facts:
            catalogue = self._store.catalogue_in(tx)
            return facts.of_chunk(tx, catalogue, catalogue.job(jobid), dataid)

        return self._read(work)

    def chunk(self, datasetid: str, dataid: str) -> Chunk | None:
        """A chunk as a product; None if it was never produced."""
        return self._first(records.chunk, "chunk", datasetid=datasetid, dataid=dataid)

    def chunks(
        self, datasetid: str, *, status: str | None = None, after: Chunk | None = None, n: int = 1000
    ) -> list[Chunk]:
        """A page of a dataset's chunks in order; pass the last one as `after` for the next page."""
        page: dict[str, Any] = {
            "datasetid": datasetid,
            "after_key": after.sort_key if after else "",
            "after_dataid": after.dataid if after else "",
            "n": n,
        }
        if status is None:
            return self._fetch(records.chunk, "chunks_page", **page)
        status = canonical(status)
        if status == READY:
            return self._fetch(records.chunk, "chunks_with_status_page", status=status, **page)
        return self._fetch(records.chunk, "unsettled_page", status=status, **page)

    def all_chunks(self, datasetid: str, *, status: str | None = None) -> Iterator[Chunk]:
        """Every chunk of a dataset, page by page."""
        after: Chunk | None = None
        while page := self.chunks(datasetid, status=status, after=after, n=_PAGE):
            yield from page
            after = page[-1]

    def unheld(self, datasetid: str = "", dataid: str = "") -> list[tuple[str, str]]:
        """RUNNING chunks that no run holds: SQL set them so, and no run will end them."""
        rows = self._fetch(ChunkPosition._make, "chunks_unheld", datasetid=datasetid, dataid=dataid)
        return [(row.datasetid, row.dataid) for row in sorted(rows)]

    def whole_chunks_between(self, datasetid: str, from_key: str, to_key: str) -> Iterator[Chunk]:
        """Every chunk between two positions, both included, page by page."""
        page: dict[str, Any] = {"after_key": from_key, "after_dataid": ""}
        while found := self._fetch(records.chunk, "chunks_page", datasetid=datasetid, n=_PAGE_OF_SPAN, **page):
            yield from (chunk for chunk in found if chunk.sort_key <= to_key)
            if found[-1].sort_key > to_key:
                return
            page = {"after_key": found[-1].sort_key, "after_dataid": found[-1].dataid}

    def status_counts(self) -> dict[str, dict[str, int]]:
        """The number of chunks by dataset and status."""
        return _table(self._fetch(StatusCount._make, "status_counts"))

    def input_row(self, datasetid: str, dataid: str, jobid: str) -> InputRow | None:
        """A job's IN row for a chunk."""
        return self._first(records.input_row, "inputs_of_job", datasetid=datasetid, dataid=dataid, jobid=jobid)

    def readers(self, datasetid: str, dataid: str) -> list[InputRow]:
        """The IN rows of a chunk, of all jobs."""
        return self._fetch(records.input_row, "readers_of_chunk", datasetid=datasetid, dataid=dataid)

    def next_dataids(self, jobid: str, n: int = 10) -> list[str]:
        """The next dataids of a job, in claim order; inside `looking`, with changes by SQL."""

        def work(tx: Transaction) -> list[str]:
            self._store.catalogue_in(tx).job(jobid)
            return [row.dataid for row in tx.fetch(OrderedDataid._make, "candidates_page", jobid=jobid, n=n)]

        return self._read(work)

    def candidate_counts(self) -> dict[str, dict[str, int]]:
        """The number of candidates by job and state: CLAIMABLE now, DEFERRED, or WAITING for inputs."""
        return _table(self._fetch(StateCount._make, "candidate_counts"))

    def run(self, runid: int) -> Run:
        """One attempt; UnknownRun if it does not exist."""
        run = self._first(records.run, "run_row", runid=runid)
        if run is None:
            raise UnknownRun(f"there is no run {runid}", hint="See: odf runs")
        return run

    def log_tail(self, runid: int) -> str | None:
        """The last lines of a run's log, if the project stores them."""
        tail: str | None = self._value("log_tail", runid=runid)
        return tail

    def runs(
        self, *, jobid: str | None = None, dataid: str | None = None, before: int | None = None, n: int = 20
    ) -> list[Run]:
        """Attempts, newest first; pass the last runid as `before` for the next page."""
        edge = 2**62 if before is None else before
        if jobid is None:
            return self._fetch(records.run, "runs_page", before=edge, n=n)
        if dataid is not None:
            runs = self._fetch(records.run, "runs_of_dataid", jobid=jobid, dataid=dataid)
            return [run for run in runs if run.runid < edge][:n]
        # A busy job has runs among the newest of all; a rare job has few runs.
        newest = min(self._newest_run() + 1, edge)
        recent: dict[str, Any] = {"jobid": jobid, "before": newest, "floor": newest - _RECENT_RUNS, "n": n}
        runs = self._fetch(records.run, "runs_of_job_recent", **recent)
        return runs if len(runs) == n else self._fetch(records.run, "runs_of_job_page", jobid=jobid, before=edge, n=n)

    def failed_runs(
        self, *, jobid: str | None = None, before: int | None = None, n: int = 20, look_back: int = 100_000
    ) -> list[Run]:
        """Unsuccessful attempts, newest first, among the last `look_back` attempts."""
        edge = self._newest_run() + 1 if before is None else before
        page = {"before": edge, "floor": edge - look_back, "n": look_back if jobid else n}
        runs = self._fetch(records.run, "runs_failed_page", **page)
        return [run for run in runs if jobid is None or run.jobid == jobid][:n]

    def _newest_run(self) -> int:
        return int(self._value("newest_run") or 0)

    def running(self) -> list[Run]:
        """Attempts that run now, on all machines."""
        return self._fetch(records.run, "runs_running")

    def expired(self) -> list[Run]:
        """Running attempts with an expired lease."""
        return self._fetch(records.run, "runs_over")

    def holds(self, runid: int) -> bool:
        """Whether a run still holds its chunk: the lease is valid and the status unchanged."""
        run = self.run(runid)
        if run.status != RUNNING or self._value("run_is_over", runid=runid):
            return False
        chunks = (self.chunk(name, run.dataid) for name in self._store.catalogue().job(run.jobid).outputs)
        return all(chunk is not None and chunk.status == RUNNING and chunk.runid == runid for chunk in chunks)

    def unpublished_attempts(self, after: int = 0) -> Iterator[UnpublishedAttempt]:
        """Every attempt after this run that failed or lost its chunk, oldest first."""
        while page := self._fetch(UnpublishedAttempt._make, "attempts_unpublished_page", after=after, n=_PAGE):
            yield from (
                UnpublishedAttempt(row.runid, row.jobid, row.dataid, row.epoch, records.moment(row.started))
                for row in page
            )
            after = page[-1].runid

    def newest_run_before(self, moment: datetime) -> int:
        """The id of the newest attempt that began before a moment; 0 for none."""
        return int(self._value("newest_run_before", at=stamp(moment)) or 0)

    def events(
        self, datasetid: str | None = None, dataid: str | None = None, *, after: int = 0, n: int = 1000
    ) -> list[Event]:
        """Events, oldest first, of one chunk or all; pass the last eventid as `after` for the next page."""
        if datasetid is None:
            return self._fetch(records.event, "events_page", after=after, n=n)
        return self._fetch(records.event, "events_of_chunk_page", datasetid=datasetid, dataid=dataid, after=after, n=n)

    def last_events(self, datasetid: str, dataid: str, n: int = 100) -> list[Event]:
        """The last events of one chunk, newest first."""
        return self._fetch(records.event, "events_of_chunk_newest", datasetid=datasetid, dataid=dataid, n=n)

    def receipts(self, jobid: str, dataid: str, *, after: int = 0, n: int = 1000) -> list[Event]:
        """Stored receipts for (jobid, dataid), oldest first."""
        job = self._store.catalogue().job(jobid)
        return [event for event in self.events(job.outputs[0], dataid, after=after, n=n) if event.receipt is not None]

    def manifest(self, datasetid: str, dataid: str, version: int | None = None) -> Published | None:
        """The manifest (DataLoc) of a version of a chunk; by default of the newest version."""
        if version is None:
            chunk = self.chunk(datasetid, dataid)
            if chunk is None:
                return None
            version = chunk.version
        published = self._first(records.published, "manifest", datasetid=datasetid, dataid=dataid, version=version)
        return published and self._store.located(published)

    def manifests(self, datasetid: str, dataid: str) -> list[Published]:
        """All manifests of a chunk, newest first."""
        versions = self._fetch(records.published, "manifests_of_chunk", datasetid=datasetid, dataid=dataid)
        return list(map(self._store.located, versions))

    def removed_versions(self, datasetid: str, dataid: str) -> set[int]:
        """The versions of a chunk whose files `odf vacuum` removed."""
        return set(self._values("vacuumed_versions", datasetid=datasetid, dataid=dataid))

    def all_published(self, datasetid: str, from_key: str = "", to_key: str | None = None) -> Iterator[Published]:
        """The manifests of the current versions of READY chunks, in order, page by page; of all, or between two positions."""
        key, dataid, n = from_key, "", _PAGE if to_key is None else _PAGE_OF_SPAN
        while page := self._fetch(
            ManifestRow._make, "published_page", datasetid=datasetid, after_key=key, after_dataid=dataid, n=n
        ):
            inside = [row for row in page if to_key is None or row.sort_key <= to_key]
            yield from map(self._store.located, map(records.published, inside))
            if len(inside) < len(page):
                return
            key, dataid = page[-1].sort_key, page[-1].dataid

    def vacuumed_until(self) -> int:
        """The run up to which a vacuum has removed all unpublished attempts."""
        return int(self._value("counter", name="vacuumed until run") or 0)

    def dataids_with_versions(self, datasetid: str, more_than: int) -> list[str]:
        """The chunks of a dataset with more than this number of versions whose files still exist."""
        return self._values("dataids_with_versions", datasetid=datasetid, n=more_than)

    def locations_in_use(self, datasetid: str) -> list[str]:
        """The locations of a dataset's current versions and of versions that are being read."""
        current = map(self._store.roots().found, self._values("locations_in_use", datasetid=datasetid))
        read = {item for run in self.running() for item in run.inputs if item.datasetid == datasetid}
        versions = [self.manifest(*item) for item in sorted(read)]
        return [*current, *(each.manifest.location for each in versions if each and each.manifest.location)]


def _table(counts: Iterable[StatusCount | StateCount]) -> dict[str, dict[str, int]]:
    table: dict[str, dict[str, int]] = {}
    for name, kind, n in counts:
        table.setdefault(name, {})[kind] = n
    return table
