"""The drain: many chunks of many jobs, in data order, several at once, until nothing is left to claim."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..errors import JobFailed, LeaseLost
from ..model import READY, Catalogue
from ..store import Claim, Store
from .script import Result
from .worker import Worker

_POLL = 0.5


@dataclass
class Drained:
    """What a drain did."""

    results: list[Result] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def outcomes(self) -> Counter[str]:
        """How many chunks ended how."""
        return Counter(result.outcome for result in self.results)

    @property
    def failures(self) -> list[Result]:
        """Everything that is not READY, and that no successor took over."""
        return [result for result in self.results if result.outcome not in (READY, LeaseLost.name)]


class Drain:
    """Threads that claim and run, each chunk by one of them; the store keeps them, and other drains, apart."""

    def __init__(
        self,
        store: Store,
        worker: Worker,
        jobids: Sequence[str],
        *,
        workers: int,
        follow: bool = False,
        on_result: Callable[[Result], None] = lambda result: None,
    ) -> None:
        self._store, self._worker = store, worker
        self._wanted = tuple(jobids)
        self._workers, self._follow, self._on_result = workers, follow, on_result
        self._lock = threading.Lock()
        self._running = 0
        self._finished = 0
        self._refused: Counter[str] = Counter()
        self._drained = Drained()
        self._stop = worker.cancelled
        self._broken: list[BaseException] = []

    def run(self) -> Drained:
        """Work until nothing is claimable and nothing runs here any more; with follow, until stopped."""
        start = time.monotonic()
        self._start_spark()
        threads = [
            threading.Thread(target=self._loop, name=f"drain-{number}", daemon=True) for number in range(self._workers)
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.2)
        except BaseException:
            # Ctrl-C: what runs is ended and recorded, then the threads go.
            self._stop.set()
            for thread in threads:
                thread.join(60)
            raise
        if self._broken:
            raise self._broken[0]
        self._drained.seconds = time.monotonic() - start
        return self._drained

    def _start_spark(self) -> None:
        """Before anything is claimed: where Spark cannot start, no chunk is to blame."""
        catalogue = self._store.catalogue()
        jobs = [catalogue.job(jobid) for jobid in self._wanted]
        if any(self._store.claimable(job.jobid, 1) and self._worker.needs_spark(job) for job in jobs):
            self._worker.spark()

    def _loop(self) -> None:
        try:
            while not self._stop.is_set() and not self._broken:
                seen = self._finished
                found = self._claim()
                if found is None:
                    if self._is_over(seen):
                        return
                    self._stop.wait(_POLL)
                    continue
                catalogue, claim = found
                try:
                    result = self._worker.run(catalogue, claim)
                finally:
                    with self._lock:
                        self._running -= 1
                        self._finished += 1
                with self._lock:
                    self._drained.results.append(result)
                    if result.receipt is not None:
                        self._refused[claim.jobid] += 1
                self._on_result(result)
                if result.outcome != READY and self._worker.lost_spark() and not self._broken:
                    # What runs as a process goes on to its end; nothing more is claimed.
                    self._broken.append(JobFailed("Spark died", hint="was its memory enough? Then: odf drain"))
        except BaseException as error:
            self._broken.append(error)
            self._stop.set()

    def _claim(self) -> tuple[Catalogue, Claim] | None:
        catalogue = self._store.catalogue()
        # Later jobs first: what is on its way is finished before more is begun, so that results come early.
        for jobid in reversed([each for each in catalogue.order() if each in self._wanted]):
            with self._lock:
                self._running += 1
            claims = self._store.claim(jobid)
            if claims:
                return catalogue, claims[0]
            with self._lock:
                self._running -= 1
        return None

    def _is_over(self, seen: int) -> bool:
        if self._follow:
            return False
        with self._lock:
            if self._running or self._finished != seen:
                return False  # what ended since we looked may have made more to do
        waiting = self._store.candidate_counts()
        # A chunk that failed and is tried again is waited for; one that was refused is not.
        return not any(
            counts.get("CLAIMABLE", 0) == 0 and counts.get("DEFERRED", 0) > self._refused[jobid]
            for jobid, counts in waiting.items()
            if jobid in self._wanted
        )
