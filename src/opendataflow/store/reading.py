"""Reading: chunks, runs, events and manifests as they are stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..errors import UnknownRun
from ..model import READY, RUNNING, Facts, canonical
from . import facts, records
from .backend import Transaction
from .records import Chunk, Event, InputRow, ManifestRow, Published, Run
from .rows import Attempt, StateCount, StatusCount
from .session import Session

_PAGE = 10_000
_PAGE_OF_SPAN = 256  # of what lies between two positions, which is mostly little
_RECENT_RUNS = 20_000


class Reading(Session):
    """What is stored, one fact or one page at a time."""

    def facts(self, jobid: str, dataid: str) -> Facts:
        """Everything in the store that decides whether a job may run for this dataid: what `model.decide` takes."""

        def work(tx: Transaction) -> Facts:
            catalogue = self._seen(tx)
            return facts.of_chunk(tx, catalogue, catalogue.job(jobid), dataid)

        return self._do(work, reading=True)

    # Chunks ------------------------------------------------------------------------------------------------------

    def chunk(self, datasetid: str, dataid: str) -> Chunk | None:
        """One chunk as a product; None when it was never produced."""
        return self._first(records.chunk, "chunk", datasetid=datasetid, dataid=dataid)

    def chunks(
        self, datasetid: str, *, status: str | None = None, after: Chunk | None = None, n: int = 1000
    ) -> list[Chunk]:
        """A page of a dataset's chunks in the order of their dataids; pass the last one as `after` for the next page."""
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

    def whole_chunks_between(self, datasetid: str, from_key: str, to_key: str) -> Iterator[Chunk]:
        """Every chunk between two positions in the order, both included, page by page."""
        page: dict[str, Any] = {"after_key": from_key, "after_dataid": ""}
        while found := self._fetch(records.chunk, "chunks_page", datasetid=datasetid, n=_PAGE_OF_SPAN, **page):
            yield from (chunk for chunk in found if chunk.sort_key <= to_key)
            if found[-1].sort_key > to_key:
                return
            page = {"after_key": found[-1].sort_key, "after_dataid": found[-1].dataid}

    def status_counts(self) -> dict[str, dict[str, int]]:
        """How many chunks of each dataset have each status."""
        return _table(self._fetch(StatusCount._make, "status_counts"))

    def input_row(self, datasetid: str, dataid: str, jobid: str) -> InputRow | None:
        """One job's relation to one chunk."""
        return self._first(records.input_row, "inputs_of_job", datasetid=datasetid, dataid=dataid, jobid=jobid)

    def readers(self, datasetid: str, dataid: str) -> list[InputRow]:
        """Every job's relation to one chunk."""
        return self._fetch(records.input_row, "readers_of_chunk", datasetid=datasetid, dataid=dataid)

    # Candidates --------------------------------------------------------------------------------------------------

    def next_dataids(self, jobid: str, n: int = 10) -> list[str]:
        """What the job would take next, in order; fold_in first where changes from outside have to count."""

        def work(tx: Transaction) -> list[str]:
            self._seen(tx).job(jobid)
            return tx.values("candidates_page", jobid=jobid, n=n)

        return self._do(work, reading=True)

    def candidate_counts(self) -> dict[str, dict[str, int]]:
        """How many chunks each job could take now (CLAIMABLE), later (DEFERRED), or when more inputs are READY (WAITING)."""
        return _table(self._fetch(StateCount._make, "candidate_counts"))

    # Runs --------------------------------------------------------------------------------------------------------

    def run(self, runid: int) -> Run:
        """One attempt, or UnknownRun."""
        run = self._first(records.run, "run_row", runid=runid)
        if run is None:
            raise UnknownRun(f"there is no run {runid}", hint="See: odf runs")
        return run

    def identity(self) -> str:
        """What tells this store from every other, however its address is spelled."""
        if not self._identity:
            self._identity = str(self._value("meta_get", name="identity") or self.url)
        return self._identity

    def log_tail(self, runid: int) -> str | None:
        """The last lines of a run's log, if its project keeps them."""
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
        # A busy job has its newest attempts among the newest of all; the attempts of a rare one are few.
        newest = min(self._newest_run() + 1, edge)
        recent: dict[str, Any] = {"jobid": jobid, "before": newest, "floor": newest - _RECENT_RUNS, "n": n}
        runs = self._fetch(records.run, "runs_of_job_recent", **recent)
        return runs if len(runs) == n else self._fetch(records.run, "runs_of_job_page", jobid=jobid, before=edge, n=n)

    def failed_runs(
        self, *, jobid: str | None = None, before: int | None = None, n: int = 20, look_back: int = 100_000
    ) -> list[Run]:
        """Attempts that did not end well, newest first, among the last look_back ones."""
        edge = self._newest_run() + 1 if before is None else before
        page = {"before": edge, "floor": edge - look_back, "n": look_back if jobid else n}
        runs = self._fetch(records.run, "runs_failed_page", **page)
        return [run for run in runs if jobid is None or run.jobid == jobid][:n]

    def _newest_run(self) -> int:
        return int(self._value("newest_run") or 0)

    def running(self) -> list[Run]:
        """What runs now, on all machines."""
        return self._fetch(records.run, "runs_running")

    def expired(self) -> list[Run]:
        """Attempts whose lease ran out and that nobody has ended yet."""
        return self._fetch(records.run, "runs_over")

    def holds(self, runid: int) -> bool:
        """Whether a run still holds its chunk: its lease is not over, and nobody changed the status."""
        run = self.run(runid)
        if run.status != RUNNING or self._value("run_is_over", runid=runid):
            return False
        chunks = (self.chunk(name, run.dataid) for name in self.catalogue().job(run.jobid).outputs)
        return all(chunk is not None and chunk.status == RUNNING and chunk.runid == runid for chunk in chunks)

    def unpublished_attempts(self, after: int = 0) -> Iterator[Attempt]:
        """Every attempt after this run that failed or lost its chunk, oldest first."""
        while page := self._fetch(Attempt._make, "attempts_unpublished_page", after=after, n=_PAGE):
            yield from (
                Attempt(row.runid, row.jobid, row.dataid, row.epoch, records.moment(row.started)) for row in page
            )
            after = page[-1].runid

    # History -----------------------------------------------------------------------------------------------------

    def events(
        self, datasetid: str | None = None, dataid: str | None = None, *, after: int = 0, n: int = 1000
    ) -> list[Event]:
        """History, oldest first, of one chunk or of everything; pass the last eventid as `after` for the next page."""
        if datasetid is None:
            return self._fetch(records.event, "events_page", after=after, n=n)
        return self._fetch(records.event, "events_of_chunk_page", datasetid=datasetid, dataid=dataid, after=after, n=n)

    def last_events(self, datasetid: str, dataid: str, n: int = 100) -> list[Event]:
        """The last events of one chunk, newest first."""
        return self._fetch(records.event, "events_of_chunk_newest", datasetid=datasetid, dataid=dataid, n=n)

    def receipts(self, jobid: str, dataid: str, *, after: int = 0, n: int = 1000) -> list[Event]:
        """The stored answers to the five questions for (jobid, dataid), oldest first."""
        job = self.catalogue().job(jobid)
        return [event for event in self.events(job.outputs[0], dataid, after=after, n=n) if event.receipt is not None]

    # Manifests ---------------------------------------------------------------------------------------------------

    def manifest(self, datasetid: str, dataid: str, version: int | None = None) -> Published | None:
        """DataLoc: where a chunk is and what it was when it was published; the newest version unless one is named."""
        if version is None:
            chunk = self.chunk(datasetid, dataid)
            if chunk is None:
                return None
            version = chunk.version
        published = self._first(records.published, "manifest", datasetid=datasetid, dataid=dataid, version=version)
        return published and self._found(published)

    def manifests(self, datasetid: str, dataid: str) -> list[Published]:
        """All manifests of a chunk, newest first."""
        versions = self._fetch(records.published, "manifests_of_chunk", datasetid=datasetid, dataid=dataid)
        return list(map(self._found, versions))

    def removed_versions(self, datasetid: str, dataid: str) -> set[int]:
        """The versions of a chunk whose files odf vacuum removed."""
        return set(self._values("vacuumed_versions", datasetid=datasetid, dataid=dataid))

    def all_published(self, datasetid: str, from_key: str = "", to_key: str | None = None) -> Iterator[Published]:
        """The manifests of the current versions of READY chunks, in order, page by page; all, or between two positions."""
        key, dataid, n = from_key, "", _PAGE if to_key is None else _PAGE_OF_SPAN
        while page := self._fetch(
            ManifestRow._make, "published_page", datasetid=datasetid, after_key=key, after_dataid=dataid, n=n
        ):
            inside = [row for row in page if to_key is None or row.sort_key <= to_key]
            yield from map(self._found, map(records.published, inside))
            if len(inside) < len(page):
                return
            key, dataid = page[-1].sort_key, page[-1].dataid

    def vacuumed_until(self) -> int:
        """The run up to which the last whole vacuum left nothing of attempts that published nothing."""
        return int(self._value("meta_get", name="vacuumed until run") or 0)

    def dataids_with_versions(self, datasetid: str, more_than: int) -> list[str]:
        """The chunks of a dataset that have more versions than this whose files were not removed."""
        return self._values("dataids_with_versions", datasetid=datasetid, n=more_than)

    def locations_in_use(self, datasetid: str) -> list[str]:
        """Where the current versions of a dataset's chunks lie, and those that are being read."""
        current = map(self.roots().found, self._values("locations_in_use", datasetid=datasetid))
        read = {item for run in self.running() for item in run.inputs if item.datasetid == datasetid}
        versions = [self.manifest(*item) for item in sorted(read)]
        return [*current, *(each.manifest.location for each in versions if each and each.manifest.location)]

    def _found(self, published: Published) -> Published:
        """A version with the location that its manifest means."""
        return published._replace(manifest=published.manifest.at(self.roots().found))


def _table(counts: Iterable[StatusCount | StateCount]) -> dict[str, dict[str, int]]:
    table: dict[str, dict[str, int]] = {}
    for name, kind, n in counts:
        table.setdefault(name, {})[kind] = n
    return table
