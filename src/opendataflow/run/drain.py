"""The drain: many chunks of many jobs, in data order, several at once, until nothing is left to claim."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence

from ..errors import BadDefinition, JobFailed, StoreUnreachable, UnknownJob
from ..model import READY, Catalogue
from ..store import Claim, Store
from .drained import Drained
from .parts import Result
from .worker import Worker

_SHORT, _LONG = 0.05, 2.0  # between two looks at a store that has nothing: at first, and in the end
_LAST_PATIENCE = 5.0  # with a store that is away, once somebody wants an end


Work = tuple[Catalogue, Sequence[Claim]]


class Drain:
    """Threads that run chunks. One that is idle claims for all that are; the store keeps them, and other drains, apart."""

    def __init__(
        self,
        store: Store,
        worker: Worker,
        jobids: Sequence[str] | Callable[[Catalogue], Sequence[str]],
        *,
        workers: int,
        follow: bool = False,
        on_result: Callable[[Result], None] = lambda result: None,
        on_look: Callable[[Drained], None] = lambda drained: None,
    ) -> None:
        self._store, self._worker = store, worker
        self._choose = jobids if callable(jobids) else lambda catalogue: jobids
        self._workers, self._follow = workers, follow
        self._on_result, self._on_look = on_result, on_look
        self._catalogue: Catalogue | None = None
        self._order: list[str] = []
        self._asking = threading.Lock()
        self._claimed: deque[Work] = deque()
        self._lock = threading.Lock()
        self._running = self._finished = 0
        self._leases: dict[int, float | None] = {}
        self.drained = Drained()
        self._over = False
        self._stirred = threading.Event()
        self._stop = worker.cancelled
        self._broken: list[BaseException] = []

    def run(self) -> Drained:
        """Work until nothing is claimable and nothing runs here any more; with follow, until stopped."""
        teller = self._worker.teller
        if teller is None:
            return self._drain()
        teller.drain_began()
        try:
            drained = self._drain()
        except BaseException as problem:
            teller.drain_ended(problem)
            raise
        teller.drain_ended()
        return drained

    def _drain(self) -> Drained:
        start = time.monotonic()
        self._start_spark()
        # Not joined: Ctrl-C inside a join of Python 3.11 takes a thread that is at work for one that has ended.
        ended = [threading.Event() for _ in range(self._workers)]
        for number, event in enumerate(ended):
            threading.Thread(target=self._loop, args=(event,), name=f"drain-{number}", daemon=True).start()
        try:
            for event in ended:
                while not event.wait(0.2):
                    self._on_look(self.drained)
        except BaseException:
            # Ctrl-C: what runs is ended and recorded, then the threads go.
            self._end()
            for event in ended:
                event.wait(60)
            raise
        finally:
            self.drained.seconds = time.monotonic() - start
        if self._broken:
            raise self._broken[0]
        return self.drained

    def _start_spark(self) -> None:
        """Before anything is claimed: where Spark cannot start, no chunk is to blame."""
        catalogue = self._store.catalogue()
        jobs = [catalogue.job(jobid) for jobid in self._choose(catalogue)]
        if any(self._store.claimable(job.jobid, 1) and self._worker.needs_spark(job) for job in jobs):
            self._worker.spark()

    def _end(self) -> None:
        self._store.patience = min(self._store.patience, _LAST_PATIENCE)
        self._stop.set()
        self._stirred.set()

    def _loop(self, ended: threading.Event) -> None:
        try:
            while (found := self._next()) is not None:
                self._run(*found)
        except StoreUnreachable as error:
            self._broken.append(error)  # nothing more is claimed; what runs goes on to its end
        except BaseException as error:
            self._broken.append(error)
            self._end()
        finally:
            ended.set()

    def _run(self, catalogue: Catalogue, claims: Sequence[Claim]) -> None:
        began = time.monotonic()
        results: list[Result] = []
        try:
            results = self._worker.run(catalogue, claims)
        finally:
            seconds = (time.monotonic() - began) / len(claims)
            with self._lock:
                self._running -= 1
                self._finished += 1
                self.drained.running[claims[0].jobid] -= len(claims)
                for result in results:
                    self.drained.count(result, seconds)
            self._stirred.set()
        for result in results:
            self._on_result(result)
        is_bad = any(result.outcome != READY for result in results)
        if is_bad and self._worker.lost_spark() and not self._broken:
            # What runs as a process goes on to its end; nothing more is claimed.
            self._broken.append(JobFailed("Spark died", hint="Did it have enough memory? Then run it again: odf drain"))

    def _next(self) -> Work | None:
        """The next chunk for an idle thread, or the next few where a job takes several together.

        The first one in asks the store for all that are idle; the others wait at the door.
        """
        with self._asking:
            pause = _SHORT
            while not self._claimed:
                if self._stop.is_set() or self._broken or self._over:
                    return None
                self._stirred.clear()
                with self._lock:
                    seen, free = self._finished, self._workers - self._running
                self._claimed.extend(self._claim(free))
                if self._claimed:
                    break
                if self._is_over(seen):
                    self._over = True
                    return None
                self._stirred.wait(pause * random.uniform(0.75, 1.25))
                pause = min(pause * 2, _LONG)
            catalogue, claims = self._claimed.popleft()
            with self._lock:
                self._running += 1
                self.drained.running[claims[0].jobid] += len(claims)
            return catalogue, claims

    def _claim(self, free: int) -> list[Work]:
        for jobid in self._worth_asking():
            try:
                size = self._store.known.job(jobid).batch
                claims = self._store.claim(jobid, free * size)
            except (UnknownJob, BadDefinition):
                continue  # somebody removed or broke it just now
            if claims:
                return [(self._store.known, claims[first : first + size]) for first in range(0, len(claims), size)]
        self._store.catalogue()  # so that a drain with nothing to do learns of new definitions too
        return []

    def _worth_asking(self) -> list[str]:
        """The jobs to ask for, later ones first: what is on its way is finished before more is begun."""
        catalogue = self._store.known
        if catalogue is not self._catalogue:
            chosen = set(self._choose(catalogue))
            self._catalogue = catalogue
            # What somebody paused is not waited for; a drain that follows takes it up once it is resumed.
            self._order = [
                each for each in reversed(catalogue.order()) if each in chosen and each not in catalogue.paused
            ]
        if len(self._order) < 2:
            return self._order
        stirring = self._store.claimable_jobs()
        if "" in stirring:
            return self._order
        return [each for each in self._order if each in stirring or _reads_today(catalogue, each)]

    def _is_over(self, seen: int) -> bool:
        if self._follow:
            return False
        with self._lock:
            if self._running or self._finished != seen:
                return False  # what ended since we looked may have made more to do
        if not self._order:
            return True
        if self._store.claimable_jobs() & {"", *self._order}:
            return False  # a limit holds it back, or somebody looks at it right now
        # A chunk that failed and is tried again is waited for; one that was refused is not.
        refused = Counter(each.jobid for each in self.drained.failures if each.is_refused)
        deferred = self._store.deferred_counts()
        return not any(deferred.get(each, 0) > refused[each] for each in self._order) and not self._may_be_orphaned()

    def _may_be_orphaned(self) -> bool:
        """Whether a chunk runs elsewhere that gave no sign of life since we first saw it: its lease may be about to end."""
        now = self._store.clock()
        silent = False
        for run in self._store.running():
            if run.jobid in self._order and run.lease_until is not None:
                first = self._leases.setdefault(run.runid, run.lease_until)
                # A lease that is far longer than its job's is somebody's who does the handshake by hand.
                job = self._store.known.jobs.get(run.jobid)
                by_hand = job is not None and run.lease_until - now > 2 * job.lease
                silent = silent or (run.lease_until == first and not by_hand)
        return silent


def _reads_today(catalogue: Catalogue, jobid: str) -> bool:
    """Whether a claim may have to announce the current day first."""
    return any(item.datasetid == "today" for item in catalogue.jobs[jobid].inputs)
