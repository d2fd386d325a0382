"""The drain: many chunks of many jobs, in data order, several at once, until nothing is left to claim."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial

from ..errors import BadDefinition, JobFailed, StoreUnreachable, UnknownJob
from ..model import READY, Catalogue, Job
from ..store import Claim, Store, Unreadable
from .drained import Drained
from .parts import Batch, Result, Waiting, in_pieces
from .worker import Worker

_SHORT, _LONG = 0.05, 2.0  # between two looks at a store that has nothing: at first, and in the end
_AHEAD = 0.05  # seconds of work that are claimed for each thread at most
_MOST_AHEAD = 32  # chunks for each thread: more together do not get cheaper
_MOST_TOGETHER = 64  # chunks that are claimed ahead for all threads, or published together
_MOMENT = 0.005  # so long what has ended may wait for others, to be published with them
_UNTOUCHED = 2.0  # so long what is claimed may wait for a thread that begins it

Step = Callable[[], None]


class Drain:
    """Threads that run chunks. One that is idle claims for all that are; the store keeps them, and other drains, apart.

    Of an empty chunk the transactions are nearly all of the cost. So short chunks are claimed and admitted several at a
    time, and what ends within a moment is published together: over a connection of its own, while the next ones are claimed.
    """

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
        self._store, self._worker, self._publisher = store, worker, worker
        self._choose = jobids if callable(jobids) else lambda catalogue: jobids
        self._workers, self._follow = workers, follow
        self._on_result, self._on_look = on_result, on_look
        self._catalogue: Catalogue | None = None
        self._order: list[str] = []
        self._took: dict[str, float] = {}  # by job: how long its work takes, on average of late
        # The door, where idle threads wait, guards what goes from step to step: claimed, admitted, ended.
        lock = threading.Lock()
        self._door, self._keeper = threading.Condition(lock), threading.Condition(lock)
        self._claimed: deque[tuple[Catalogue, list[Sequence[Claim]]]] = deque()
        self._admitted: deque[Waiting] = deque()
        self._ended: deque[Waiting] = deque()
        self._idle, self._is_asking, self._is_closed, self._over = workers, False, False, False
        self._has_short = False  # chunks that are claimed ahead: publishing them apart is worth a connection
        self._open = self._finished = 0  # batches
        self._publishing = threading.Lock()
        self._leases: dict[int, float | None] = {}
        self._held: dict[int, Claim] = {}  # by runid, until it is over
        self.drained = Drained()
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
        kept = threading.Event()
        for number, event in enumerate(ended):
            self._start(f"drain-{number}", self._next, event)
        self._start("drain-keeper", self._kept, kept)
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
            with self._door:
                self._is_closed = True
                self._keeper.notify()
            self.drained.seconds = time.monotonic() - start
        kept.wait()
        if self._publishes_apart:
            self._publisher.store.close()
        if self._broken:
            raise self._broken[0]
        return self.drained

    def _start(self, name: str, steps: Callable[[], Step | None], ended: threading.Event) -> None:
        threading.Thread(target=self._loop, args=(steps, ended), name=name, daemon=True).start()

    def _start_spark(self) -> None:
        """Before anything is claimed: where Spark cannot start, no chunk is to blame."""
        catalogue = self._store.catalogue()
        jobs = [catalogue.job(jobid) for jobid in self._choose(catalogue)]
        if any(self._store.claimable(job.jobid, 1) and self._worker.needs_spark(job) for job in jobs):
            self._worker.spark()

    def _end(self) -> None:
        for store in (self._store, self._publisher.store):
            store.end_soon()
        self._stop.set()
        self._wake()

    def _wake(self) -> None:
        self._stirred.set()
        with self._door:
            self._door.notify_all()

    def _loop(self, steps: Callable[[], Step | None], ended: threading.Event) -> None:
        try:
            while (step := steps()) is not None:
                step()
        except StoreUnreachable as error:
            self._broken.append(error)  # nothing more is claimed; what runs goes on to its end
            self._wake()
        except BaseException as error:
            self._broken.append(error)
            self._end()
        finally:
            ended.set()

    # What a thread does next -----------------------------------------------------------------------------------------

    def _next(self) -> Step | None:
        """The next step of a thread that is idle; None when there is none left."""
        with self._door:
            while (step := self._step()) is None and not self._is_ending and not self._over:
                self._door.wait()
            if step is None:
                return None
            self._idle -= 1
            return partial(self._busy, step)

    @property
    def _publishes_apart(self) -> bool:
        """Whether publishing has a connection of its own, so that the keeper does it while threads go on."""
        return self._publisher.store is not self._worker.store

    @property
    def _is_ending(self) -> bool:
        return self._stop.is_set() or bool(self._broken)

    def _step(self) -> Step | None:
        if self._is_ending and (self._admitted or self._claimed):
            waiting = [batch for batch, _ in self._admitted]
            waiting += [Batch(claims) for _, groups in self._claimed for claims in groups]
            self._admitted.clear()
            self._claimed.clear()
            return partial(self._give_back, waiting, "its drain ended before it began")
        if self._admitted:
            return partial(self._run, self._admitted.popleft().batch)
        if self._ended and (not self._publishes_apart or self._is_ending or len(self._ended) >= _MOST_TOGETHER):
            return self._publish
        if self._claimed:
            return partial(self._admit, *self._claimed.popleft())
        if self._is_ending or self._over or self._is_asking:
            return None
        self._is_asking = True
        return self._ask

    def _busy(self, step: Step) -> None:
        try:
            step()
        finally:
            with self._door:
                self._idle += 1

    def _kept(self) -> Step | None:
        """The next step beside the threads: what has ended is published soon, and what none of them begins is given back."""
        with self._door:
            while not self._is_closed:
                now = time.monotonic()
                is_last = self._publishes_apart and not self._admitted
                if self._ended and (is_last or now - self._ended[0].since >= _MOMENT):
                    return self._publish
                if self._has_short and self._publisher is self._worker:
                    return self._part
                if self._admitted and now - self._admitted[0].since >= _UNTOUCHED:
                    return partial(
                        self._give_back, [self._admitted.popleft().batch], "its drain was too busy to begin it"
                    )
                self._keeper.wait(_MOMENT if self._ended or self._admitted else None)
        return None

    # The steps -------------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Claim for all threads that are idle; where there is nothing, wait until there may be."""
        pause = _SHORT
        try:
            while not self._is_ending:
                self._stirred.clear()
                with self._door:
                    if self._admitted:
                        return
                    seen, free, held = self._finished, self._idle + 1, list(self._held.values())
                if claimed := self._claim(free, held):
                    self._take(claimed)
                    return
                if self._is_over(seen):
                    self._over = True
                    return
                self._stirred.wait(pause * random.uniform(0.75, 1.25))
                pause = min(pause * 2, _LONG)
        finally:
            with self._door:
                self._is_asking = False
                self._door.notify_all()

    def _claim(self, free: int, held: Sequence[Claim]) -> list[tuple[Catalogue, list[Sequence[Claim]]]]:
        """Claimed chunks, as many for each thread; those that a job takes together are a group."""
        for jobid in self._worth_asking():
            try:
                job = self._store.known.job(jobid)
                claims = self._store.claim(jobid, free * job.batch * self._ahead(job, free), held=held)
            except Unreadable as problem:
                # Neither its candidates nor its definition are to blame. Who follows asks again: somebody may mend it.
                if jobid not in self.drained.left_out:
                    self._worker.say(f"leaving out {jobid}: {problem.message}")
                self.drained.left_out[jobid] = problem
                if not self._follow:
                    self._order = [each for each in self._order if each != jobid]
                continue
            except (UnknownJob, BadDefinition):
                continue  # somebody removed or broke it just now
            self.drained.left_out.pop(jobid, None)
            if claims:
                groups: list[Sequence[Claim]] = list(in_pieces(claims, job.batch))
                return [(self._store.known, list(share)) for share in in_pieces(groups, -(-len(groups) // free))]
        self._store.catalogue()  # so that a drain with nothing to do learns of new definitions too
        return []

    def _ahead(self, job: Job, free: int) -> int:
        """How many chunks to claim for each free thread: what a limit holds back for others is not taken before it is begun."""
        datasets = self._store.known.datasets
        is_limited = job.pool or any("readers" in datasets[item.datasetid].options for item in job.inputs)
        took = self._took.get(job.jobid)
        if took is None or is_limited or job.batch > 1:
            return 1
        return max(1, min(_MOST_AHEAD, _MOST_TOGETHER // free, int(_AHEAD / max(took, 0.001))))

    def _take(self, claimed: Sequence[tuple[Catalogue, list[Sequence[Claim]]]]) -> None:
        with self._door:
            self._claimed.extend(claimed)
            for _, groups in claimed:
                self._open += len(groups)
                self._held |= {claim.runid: claim for group in groups for claim in group}
                self.drained.running[groups[0][0].jobid] += sum(map(len, groups))

    def _admit(self, catalogue: Catalogue, groups: Sequence[Sequence[Claim]]) -> None:
        batches = self._worker.admit(catalogue, groups)
        now = time.monotonic()
        with self._door:
            for batch in batches:
                batch.began = now
                (self._ended if batch.is_over else self._admitted).append(Waiting(batch, now))
            self._has_short |= len(self._admitted) > self._workers
            self._door.notify(len(self._admitted))
            self._keeper.notify()
        if len(batches) > 1:
            self._stirred.set()  # whoever waits for more in the store finds it here

    def _run(self, batch: Batch) -> None:
        batch.began = time.monotonic()
        self._worker.work(batch)
        now, jobid = time.monotonic(), batch.claims[0].jobid
        took = now - batch.began
        with self._door:
            self._took[jobid] = 0.8 * self._took.get(jobid, took) + 0.2 * took
            self._ended.append(Waiting(batch, now))
            if not self._admitted:
                self._keeper.notify()
        if batch.results:
            self._publish()  # something went wrong: whether more can be begun is to be known first

    def _part(self) -> None:
        self._publisher = self._worker.beside()

    def _publish(self) -> None:
        """Publish what has ended: by one thread at a time, so that what ends meanwhile goes together, too."""
        with self._publishing:
            ended: list[Batch] = []
            with self._door:
                room = _MOST_TOGETHER
                while self._ended and (not ended or len(self._ended[0].batch.claims) <= room):
                    ended.append(self._ended.popleft().batch)
                    room -= len(ended[-1].claims)
            if ended:
                self._publisher.end(ended)
        now = time.monotonic()
        for batch in ended:
            results = self._over_with(batch, now)
            is_bad = any(result.outcome != READY for result in results)
            if is_bad and self._worker.lost_spark() and not self._broken:
                # What runs as a process goes on to its end; nothing more is claimed.
                self._broken.append(
                    JobFailed("Spark died", hint="Did it have enough memory? Then run it again: odf drain")
                )

    def _give_back(self, batches: Sequence[Batch], why: str) -> None:
        for batch in batches:
            self._worker.give_back(batch, why)
            self._over_with(batch, batch.began)

    def _over_with(self, batch: Batch, now: float) -> list[Result]:
        results = [batch.results[runid] for runid in batch.runids if runid in batch.results]
        with self._door:
            self._open -= 1
            self._finished += 1
            for claim in batch.claims:
                self._held.pop(claim.runid, None)
            self.drained.running[batch.claims[0].jobid] -= len(batch.claims)
            for result in results:
                self.drained.count(result, (now - batch.began) / len(results))
        self._stirred.set()
        for result in results:
            self._on_result(result)
        return results

    # What there is to do ---------------------------------------------------------------------------------------------

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
        with self._door:
            if self._open or self._finished != seen:
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
