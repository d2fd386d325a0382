"""Drains jobs: claims and runs chunks in data order on several threads until none is left."""

from __future__ import annotations

import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from ..errors import BadDefinition, JobFailed, ProjectChanged, StoreUnreachable, UnknownJob
from ..model import READY, Catalogue, Job
from ..store import Claim, Store, Unreadable
from .drain_summary import DrainSummary
from .pending_jobs import PendingJobs
from .process.signals import Signals
from .project_changes import Outdated
from .records import Batch, Result, WaitingBatch, batched
from .slots import HangingThread, Slots
from .worker import Worker

_LONGEST_END = 60.0  # seconds until every thread has ended after the deadline
_SHORT, _LONG = 0.05, 2.0  # first and longest delay between claims that find nothing
_AHEAD = 0.05  # most seconds of work that are claimed ahead for each thread
_MOST_AHEAD = 32  # most chunks that are claimed ahead for each thread
_MOST_TOGETHER = 64  # most chunks that are claimed ahead for all threads, or published together
_COMMIT_DELAY = 0.005  # longest delay for a group commit
_START_WITHIN = 2.0  # longest wait of an admitted chunk for a thread, before it is given back

Step = Callable[[], None]


class _Abandoned(BaseException):
    """Ends a thread that was abandoned as hanging and returned later."""


class Drain:
    """Threads that run chunks; one idle thread claims for all idle threads. The store coordinates several drains.

    Transactions dominate the cost of short chunks, so these are claimed and admitted in batches and published in group
    commits, on a separate connection while the next chunks are claimed.
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
        on_look: Callable[[DrainSummary], None] = lambda drained: None,
        grace: float = 30.0,
    ) -> None:
        self._store, self._worker, self._publishing_worker = store, worker, worker
        outdated = Outdated(worker.project, worker.say) if follow else None
        self._pending = PendingJobs(store, jobids if callable(jobids) else lambda catalogue: jobids, outdated)
        self._workers, self._follow, self._grace = workers, follow, grace
        self._on_result, self._on_look = on_result, on_look
        self._durations: dict[str, float] = {}  # by job: moving average of the seconds of work
        # One lock guards the queues between the steps: claimed, admitted, ended. Idle threads wait on _condition.
        lock = threading.Lock()
        self._condition, self._publisher_condition = threading.Condition(lock), threading.Condition(lock)
        self._claimed: deque[tuple[Catalogue, list[Sequence[Claim]]]] = deque()
        self._admitted: deque[WaitingBatch] = deque()
        self._ended: deque[WaitingBatch] = deque()
        self._idle, self._is_claiming, self._is_closed, self._is_done_claiming = workers, False, False, False
        self._has_short = False  # chunks are claimed ahead: a separate connection for publishing pays off
        self._open = self._finished = 0  # batches
        self._held: dict[int, Claim] = {}  # claims by runid, until their batch has finished
        self.drained, self._publishing = DrainSummary(), threading.Lock()
        self._wakeup, self._stop = threading.Event(), worker.cancelled
        self._slots, self._signals = Slots(), Signals()
        self._deadline = math.inf  # after a signal: running chunks may finish until then
        self._problems: list[BaseException] = []

    def run(self) -> DrainSummary:
        """Work until nothing is claimable and nothing runs here; with `follow`, until stopped."""
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

    def _drain(self) -> DrainSummary:
        start = time.monotonic()
        self._start_spark()
        publisher = Slots()
        with self._signals:
            for number in range(self._workers):
                self._slots.start(f"drain-{number}", partial(self._loop, self._next_step))
            publisher.start("drain-publisher", partial(self._loop, self._publisher_step))
            try:
                self._wait(self._slots)
            except BaseException:
                self._deadline = time.monotonic()
                self._end()
                self._wait(self._slots, look=False)
                raise
            finally:
                with self._condition:
                    self._is_closed = True
                    self._publisher_condition.notify()
            self._wait(publisher)
        self.drained.seconds = time.monotonic() - start
        if self._publishes_apart:
            self._publishing_worker.store.close()
        if self._problems:
            raise self._problems[0]
        if self._signals.count:
            raise KeyboardInterrupt(self._signals.first)
        return self.drained

    def _wait(self, threads: Slots, *, look: bool = True) -> None:
        """Wait for the threads. A first signal stops claiming and starts the grace period; a second signal ends running chunks."""
        signals = self._signals
        while not threads.wait(0.2) and time.monotonic() < self._deadline + _LONGEST_END:
            if look:
                self._on_look(self.drained)
            if signals.count and not self._is_leaving:
                self._leave(signals.first)
            is_time = self._is_leaving and (signals.is_urgent or time.monotonic() >= self._deadline)
            if is_time and not self._stop.is_set():
                self._deadline = time.monotonic()
                self._end()
            for hanging in threads.hanging():
                self._replace(hanging)

    def _leave(self, signal_name: str) -> None:
        """Stop claiming after a signal."""
        self._worker.stopped_by = signal_name
        self._deadline = time.monotonic() + self._grace
        if (n := sum(self.drained.running.values())) and self._grace:
            running = f"{n} running may finish within {self._grace:.0f} s; a second signal ends them"
            self._worker.say(f"{signal_name}: no more chunks are claimed. {running}")
        self._wake()

    def _replace(self, hanging: HangingThread) -> None:
        """End the run of a hanging thread, and start another thread in its slot."""
        if not self._slots.abandon(hanging.thread):
            return
        batch = hanging.batch
        with self._condition:
            self._idle += 1
        self._worker.abandon(hanging)
        self._finish(batch, time.monotonic())
        self._slots.start(hanging.thread.name, partial(self._loop, self._next_step))

    def _start_spark(self) -> None:
        """Start Spark before anything is claimed, so that no chunk fails if it cannot start."""
        views, worker = self._store.views, self._worker
        if any(views.claimable(job.jobid, 1) and worker.needs_spark(job) for job in self._pending.jobs()):
            worker.spark()

    def _end(self) -> None:
        for store in (self._store, self._publishing_worker.store):
            store.end_soon()
        self._stop.set()
        self._wake()

    def _wake(self) -> None:
        self._wakeup.set()
        with self._condition:
            self._condition.notify_all()

    def _loop(self, steps: Callable[[], Step | None]) -> None:
        try:
            while (step := steps()) is not None:
                step()
        except _Abandoned:
            pass  # another thread has replaced this one
        except (StoreUnreachable, ProjectChanged) as error:
            self._problems.append(error)  # stop claiming; running chunks continue
            self._wake()
        except BaseException as error:
            self._problems.append(error)
            self._end()

    # The scheduling of steps -----------------------------------------------------------------------------------------

    def _next_step(self) -> Step | None:
        """Wait for the next step of an idle thread; None at the end of the drain."""
        with self._condition:
            while (step := self._step()) is None and not self._is_ending and not self._is_done_claiming:
                self._condition.wait()
            if step is None:
                return None
            self._idle -= 1
            return partial(self._run_step, step)

    @property
    def _publishes_apart(self) -> bool:
        """Whether the publisher thread has its own connection and publishes while the other threads work."""
        return self._publishing_worker.store is not self._worker.store

    @property
    def _is_ending(self) -> bool:
        return self._stop.is_set() or bool(self._problems) or bool(self._signals.count)

    @property
    def _is_leaving(self) -> bool:
        """Whether a signal has stopped the drain."""
        return self._deadline < math.inf

    def _step(self) -> Step | None:
        if self._is_ending and (self._admitted or self._claimed):
            waiting = [batch for batch, _ in self._admitted]
            waiting += [Batch(claims) for _, groups in self._claimed for claims in groups]
            self._admitted.clear()
            self._claimed.clear()
            return partial(self._give_back, waiting, "the drain ended before the run started")
        if self._admitted:
            return partial(self._run, self._admitted.popleft().batch)
        if self._ended and (not self._publishes_apart or self._is_ending or len(self._ended) >= _MOST_TOGETHER):
            return self._publish
        if self._claimed:
            return partial(self._admit, *self._claimed.popleft())
        if self._is_ending or self._is_done_claiming or self._is_claiming:
            return None
        self._is_claiming = True
        return self._claim_more

    def _run_step(self, step: Step) -> None:
        try:
            step()
        finally:
            with self._condition:
                self._idle += not self._slots.is_abandoned

    def _publisher_step(self) -> Step | None:
        """Wait for the next step of the publisher thread: publish ended batches, give back batches that no thread starts."""
        with self._condition:
            while not self._is_closed:
                now = time.monotonic()
                is_last = self._publishes_apart and not self._admitted
                if self._ended and (is_last or now - self._ended[0].since >= _COMMIT_DELAY):
                    return self._publish
                if self._has_short and self._publishing_worker is self._worker:
                    return self._open_connection
                if self._admitted and now - self._admitted[0].since >= _START_WITHIN:
                    waiting = [self._admitted.popleft().batch]
                    return partial(self._give_back, waiting, "the drain was too busy to start the run")
                self._publisher_condition.wait(_COMMIT_DELAY if self._ended or self._admitted else None)
        return None

    # The steps -------------------------------------------------------------------------------------------------------

    def _claim_more(self) -> None:
        """Claim for all idle threads; while nothing is claimable, retry with increasing delay."""
        pause = _SHORT
        try:
            while not self._is_ending:
                self._wakeup.clear()
                with self._condition:
                    if self._admitted:
                        return
                    finished, idle, held = self._finished, self._idle + 1, list(self._held.values())
                if claimed := self._claim(idle, held):
                    self._enqueue(claimed)
                    return
                if not self._follow and self._is_done(finished) and not self._pending.may_have_work(self.drained):
                    self._is_done_claiming = True
                    return
                self._wakeup.wait(pause * random.uniform(0.75, 1.25))
                pause = min(pause * 2, _LONG)
        finally:
            with self._condition:
                self._is_claiming = False
                self._condition.notify_all()

    def _claim(self, idle: int, held: Sequence[Claim]) -> list[tuple[Catalogue, list[Sequence[Claim]]]]:
        """Claim chunks, shared equally among idle threads and grouped by the batch size of the job."""
        for jobid in self._pending.jobs_to_claim():
            try:
                job = self._store.known.job(jobid)
                claims = self._store.claim(jobid, idle * job.batch * self._batches_ahead(job, idle), held=held)
            except Unreadable as problem:  # reading the definition failed; with `follow`, retry: an operator may fix it
                self.drained.leave_out(jobid, problem, self._worker.say)
                if not self._follow:
                    self._pending.leave_out(jobid)
                continue
            except (UnknownJob, BadDefinition):
                continue  # the definition was removed or broken concurrently
            self.drained.left_out.pop(jobid, None)
            if claims:
                groups: list[Sequence[Claim]] = list(batched(claims, job.batch))
                return [(self._store.known, list(share)) for share in batched(groups, -(-len(groups) // idle))]
        self._store.catalogue()  # reload the definitions, which may have changed
        return []

    def _batches_ahead(self, job: Job, idle: int) -> int:
        """The number of batches to claim for each idle thread; 1 if a pool or reader limit applies, so that others can claim."""
        datasets = self._store.known.datasets
        is_limited = job.pool or any("readers" in datasets[item.datasetid].options for item in job.inputs)
        seconds = self._durations.get(job.jobid)
        if seconds is None or is_limited or job.batch > 1:
            return 1
        return max(1, min(_MOST_AHEAD, _MOST_TOGETHER // idle, int(_AHEAD / max(seconds, 0.001))))

    def _enqueue(self, claimed: Sequence[tuple[Catalogue, list[Sequence[Claim]]]]) -> None:
        with self._condition:
            self._claimed.extend(claimed)
            for _, groups in claimed:
                self._open += len(groups)
                self._held |= {claim.runid: claim for group in groups for claim in group}
                self.drained.running[groups[0][0].jobid] += sum(map(len, groups))

    def _admit(self, catalogue: Catalogue, groups: Sequence[Sequence[Claim]]) -> None:
        batches = self._worker.admit(catalogue, groups)
        now = time.monotonic()
        with self._condition:
            for batch in batches:
                batch.began = now
                (self._ended if batch.is_over else self._admitted).append(WaitingBatch(batch, now))
            self._has_short |= len(self._admitted) > self._workers
            self._condition.notify(len(self._admitted))
            self._publisher_condition.notify()
        if len(batches) > 1:
            self._wakeup.set()  # wakes the claiming thread, which stops while batches are admitted

    def _run(self, batch: Batch) -> None:
        batch.began = time.monotonic()
        self._slots.begin(batch)
        try:
            self._worker.work(batch)
        finally:
            self._slots.end()
            if self._slots.is_abandoned:
                raise _Abandoned
        now, jobid = time.monotonic(), batch.claims[0].jobid
        seconds = now - batch.began
        with self._condition:
            self._durations[jobid] = 0.8 * self._durations.get(jobid, seconds) + 0.2 * seconds
            self._ended.append(WaitingBatch(batch, now))
            if not self._admitted:
                self._publisher_condition.notify()
        if batch.results:
            self._publish()  # a failure must be handled before more work starts

    def _open_connection(self) -> None:
        self._publishing_worker = self._worker.with_new_connection()

    def _publish(self) -> None:
        """Publish ended batches, by one thread at a time, so that others accumulate for the next group commit."""
        with self._publishing:
            ended: list[Batch] = []
            with self._condition:
                room = _MOST_TOGETHER
                while self._ended and (not ended or len(self._ended[0].batch.claims) <= room):
                    ended.append(self._ended.popleft().batch)
                    room -= len(ended[-1].claims)
            if ended:
                self._publishing_worker.end(ended)
        now = time.monotonic()
        for batch in ended:
            results = self._finish(batch, now)
            is_failed = any(result.outcome != READY for result in results)
            if is_failed and self._worker.lost_spark() and not self._problems:  # claim nothing more; scripts continue
                self._problems.append(JobFailed("Spark died", hint="Check its memory. Then continue: odf drain"))

    def _give_back(self, batches: Sequence[Batch], why: str) -> None:
        for batch in batches:
            self._worker.give_back(batch, why)
            self._finish(batch, batch.began)

    def _finish(self, batch: Batch, now: float) -> list[Result]:
        results = [batch.results[runid] for runid in batch.runids if runid in batch.results]
        if batch.problem is not None:  # claim nothing more of the job until definitions change
            self.drained.leave_out(batch.claims[0].jobid, batch.problem, self._worker.say)
            self._pending.leave_out(batch.claims[0].jobid)
        with self._condition:
            self._open -= 1
            self._finished += 1
            for claim in batch.claims:
                self._held.pop(claim.runid, None)
            self.drained.running[batch.claims[0].jobid] -= len(batch.claims)
            for result in results:
                self.drained.count(result, (now - batch.began) / len(results))
        self._wakeup.set()
        for result in results:
            self._on_result(result)
        return results

    def _is_done(self, finished: int) -> bool:
        """Whether nothing runs here, and no batch finished since `finished` was read, which could have made chunks claimable."""
        with self._condition:
            return not self._open and self._finished == finished
