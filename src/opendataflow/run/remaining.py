"""What is left to do for a drain: which jobs are worth asking for a chunk, and whether any chunk may still come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from ..model import Catalogue, Job
from ..model.calendar import comes_by_clock
from ..store import Store
from .drained import Drained


class Remaining:
    """The jobs of a drain, chosen anew whenever definitions change."""

    def __init__(self, store: Store, choose: Callable[[Catalogue], Sequence[str]]) -> None:
        self._store, self._choose = store, choose
        self._catalogue: Catalogue | None = None
        self._order: list[str] = []
        self._leases: dict[int, float | None] = {}

    def chosen(self) -> list[Job]:
        """All jobs of the drain."""
        catalogue = self._store.catalogue()
        return [catalogue.job(jobid) for jobid in self._choose(catalogue)]

    def worth_asking(self) -> list[str]:
        """The jobs to ask for, later ones first: what is on its way is finished before more is begun."""
        catalogue = self._store.known
        if catalogue is not self._catalogue:
            chosen = set(self._choose(catalogue))
            self._catalogue = catalogue
            # A paused job is not waited for; a drain that follows takes it up once it is resumed.
            self._order = [
                each for each in reversed(catalogue.order()) if each in chosen and each not in catalogue.paused
            ]
        if len(self._order) < 2:
            return self._order
        stirring = self._store.claimable_jobs()
        if "" in stirring:
            return self._order
        return [each for each in self._order if each in stirring or _waits_for_clock(catalogue, each)]

    def leave_out(self, jobid: str) -> None:
        """Nothing of this job can be claimed."""
        self._order = [each for each in self._order if each != jobid]

    def is_any(self, drained: Drained) -> bool:
        """Whether a chunk can be claimed, now or soon, or may be orphaned elsewhere."""
        if not self._order:
            return False
        if self._store.claimable_jobs() & {"", *self._order}:
            return True  # a limit holds it back, or another process looks at it right now
        # A chunk that failed and is tried again is waited for; one that was refused is not.
        refused = Counter(each.jobid for each in drained.failures if each.is_refused)
        deferred = self._store.deferred_counts()
        return any(deferred.get(each, 0) > refused[each] for each in self._order) or self._may_be_orphaned()

    def _may_be_orphaned(self) -> bool:
        """Whether a chunk runs elsewhere that gave no sign of life since we first saw it: its lease may be about to end."""
        now = self._store.clock()
        silent = False
        for run in self._store.running():
            if run.jobid in self._order and run.lease_until is not None:
                first = self._leases.setdefault(run.runid, run.lease_until)
                # A lease that is far longer than its job's belongs to a handshake by hand.
                job = self._store.known.jobs.get(run.jobid)
                by_hand = job is not None and run.lease_until - now > 2 * job.lease
                silent = silent or (run.lease_until == first and not by_hand)
        return silent


def _waits_for_clock(catalogue: Catalogue, jobid: str) -> bool:
    """Whether a claim may have to announce the current day, or a period that is over, first."""
    return any(comes_by_clock(catalogue.dataset(item.datasetid)) for item in catalogue.jobs[jobid].inputs)
