"""Selects the jobs that a drain claims from, and decides whether more work may come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from ..model import Catalogue, Job
from ..model.definitions.calendar import comes_by_clock
from ..store import Store
from .drain_summary import DrainSummary
from .project_changes import Outdated


class PendingJobs:
    """The jobs of a drain, selected again whenever definitions change."""

    def __init__(
        self, store: Store, select: Callable[[Catalogue], Sequence[str]], outdated: Outdated | None = None
    ) -> None:
        self._store, self._select, self._outdated = store, select, outdated
        self._catalogue: Catalogue | None = None
        self._order: list[str] = []
        self._leases: dict[int, float | None] = {}

    def jobs(self) -> list[Job]:
        """All jobs of the drain."""
        catalogue = self._store.catalogue()
        return [catalogue.job(jobid) for jobid in self._select(catalogue)]

    def jobs_to_claim(self) -> list[str]:
        """The jobs to claim from, downstream first: chunks in progress finish before new ones start."""
        if self._outdated is not None:
            self._outdated.check()
        catalogue = self._store.known
        if catalogue is not self._catalogue:
            selected = set(self._select(catalogue))
            self._catalogue = catalogue
            # Paused jobs are skipped; with `follow`, a drain includes them again after resume.
            self._order = [
                each for each in reversed(catalogue.order()) if each in selected and each not in catalogue.paused
            ]
        if len(self._order) < 2:
            return self._order
        claimable = self._store.views.claimable_jobs()
        if "" in claimable:
            return self._order
        return [each for each in self._order if each in claimable or _waits_for_clock(catalogue, each)]

    def leave_out(self, jobid: str) -> None:
        """Stop claiming from this job."""
        self._order = [each for each in self._order if each != jobid]

    def may_have_work(self, drained: DrainSummary) -> bool:
        """Whether a chunk is claimable now or soon, or may become claimable when a lease elsewhere expires."""
        if not self._order:
            return False
        if self._store.views.claimable_jobs() & {"", *self._order}:
            return True  # blocked by a limit, or locked by another process
        # Wait for retries of failed chunks, but not for refused chunks.
        refused = Counter(each.jobid for each in drained.failures if each.is_refused)
        deferred = self._store.views.deferred_counts()
        return any(deferred.get(each, 0) > refused[each] for each in self._order) or self._may_be_orphaned()

    def _may_be_orphaned(self) -> bool:
        """Whether a run elsewhere has not extended its lease since it was first seen, and may be dead."""
        now = self._store.views.clock()
        is_silent = False
        for run in self._store.views.running():
            if run.jobid in self._order and run.lease_until is not None:
                first = self._leases.setdefault(run.runid, run.lease_until)
                # A much longer lease than the job's belongs to a manual handshake.
                job = self._store.known.jobs.get(run.jobid)
                by_hand = job is not None and run.lease_until - now > 2 * job.lease
                is_silent = is_silent or (run.lease_until == first and not by_hand)
        return is_silent


def _waits_for_clock(catalogue: Catalogue, jobid: str) -> bool:
    """Whether an input of a job is announced by the clock, at a claim."""
    return any(comes_by_clock(catalogue.dataset(item.datasetid)) for item in catalogue.jobs[jobid].inputs)
