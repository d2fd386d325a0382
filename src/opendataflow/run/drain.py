"""The drain: many chunks of many jobs, in data order, several at once, until nothing is left to claim."""

from __future__ import annotations

import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from ..errors import BadDefinition, JobFailed, StoreUnreachable, UnknownJob
from ..model import READY, Catalogue, Job
from ..store import Claim, Store, Unreadable
from .drained import Drained
from .parts import Batch, Result, Waiting, in_pieces
from .process.signals import Signals
from .remaining import Remaining
from .slots import Hanging, Slots
from .worker import Worker

_LONGEST_END = 60.0  # until every thread has ended what it does
_SHORT, _LONG = 0.05, 2.0  # between two looks at a store that has nothing: at first, and in the end
_AHEAD = 0.05  # seconds of work that are claimed for each thread at most
_MOST_AHEAD = 32  # chunks for each thread: more together do not get cheaper
_MOST_TOGETHER = 64  # chunks that are claimed ahead for all threads, or published together
_MOMENT = 0.005  # so long what has ended may wait for others, to be published with them
_UNTOUCHED = 2.0  # so long what is claimed may wait for a thread that begins it

Step = Callable[[], None]


class _GivenUp(BaseException):
    """What hung came back after its slot had gone to another thread."""


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
        grace: float = 30.0,
    ) -> None:
        self._store, self._worker, self._publisher = store, worker, worker
        self._left = Remaining(store, jobids if callable(jobids) else lambda catalogue: jobids)
        self._workers, self._follow, self._grace = workers, follow, grace
        self._on_result, self._on_look = on_result, on_look
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
        self._held: dict[int, Claim] = {}  # by runid, until it is over
        self.drained = Drained()
        self._stirred = threading.Event()
        self._stop = worker.cancelled
        self._slots = Slots()
        self._end_at = math.inf  # after a signal: until then what runs may finish
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
        keeper = Slots()
        with Signals() as signals:
            for number in range(self._workers):
                self._slots.start(f"drain-{number}", partial(self._loop, self._next))
            keeper.start("drain-keeper", partial(self._loop, self._kept))
            try:
                self._wait(self._slots, signals)
            except BaseException:
                self._end_at = time.monotonic()
                self._end()
                self._wait(self._slots, signals, look=False)
                raise
            finally:
                with self._door:
                    self._is_closed = True
                    self._keeper.notify()
            self._wait(keeper, signals)
        self.drained.seconds = time.monotonic() - start
        if self._publishes_apart:
            self._publisher.store.close()
        if self._broken:
            raise self._broken[0]
        if signals.count:
            raise KeyboardInterrupt(signals.first)
        return self.drained

    def _wait(self, threads: Slots, signals: Signals, *, look: bool = True) -> None:
        """Until they ended: a signal lets what runs finish for the grace time, a second one ends it, and nothing else is begun."""
        while not threads.wait(0.2) and time.monotonic() < self._end_at + _LONGEST_END:
            if look:
                self._on_look(self.drained)
            if signals.count and not self._is_leaving:
                self._leave(signals.first)
            is_urgent = signals.interrupts > 1 or signals.terms > 1
            if self._is_leaving and (is_urgent or time.monotonic() >= self._end_at) and not self._stop.is_set():
                self._end_at = time.monotonic()
                self._end()
            for hanging in threads.hanging():
                self._replace(hanging)

    def _leave(self, signal_name: str) -> None:
        """Take no more chunks."""
        self._worker.stopped_by = signal_name
        self._end_at = time.monotonic() + self._grace
        if (n := sum(self.drained.running.values())) and self._grace:
            may = f"{n} in work may finish within {self._grace:.0f} s; a second signal ends them"
            self._worker.say(f"{signal_name}: no more chunks are taken. {may}")
        self._wake()

    def _replace(self, hanging: Hanging) -> None:
        """The run of a thread that hangs ends without it, and another thread gets its slot."""
        if not self._slots.give_up(hanging.thread):
            return
        batch = hanging.batch
        self._worker.say(f"{hanging}; its run ends without it")
        self.drained.hanging.append(str(hanging))
        with self._door:
            self._idle += 1
        self._worker.abandon(batch, hanging.where)
        self._over_with(batch, time.monotonic())
        self._slots.start(hanging.thread.name, partial(self._loop, self._next))

    def _start_spark(self) -> None:
        """Before anything is claimed: where Spark cannot start, no chunk is to blame."""
        if any(self._store.claimable(job.jobid, 1) and self._worker.needs_spark(job) for job in self._left.chosen()):
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

    def _loop(self, steps: Callable[[], Step | None]) -> None:
        try:
            while (step := steps()) is not None:
                step()
        except _GivenUp:
            pass  # another thread has the slot
        except StoreUnreachable as error:
            self._broken.append(error)  # nothing more is claimed; what runs goes on to its end
            self._wake()
        except BaseException as error:
            self._broken.append(error)
            self._end()

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
        return self._stop.is_set() or bool(self._broken) or self._is_leaving

    @property
    def _is_leaving(self) -> bool:
        """Whether a signal asked for an end."""
        return self._end_at < math.inf

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
                self._idle += not self._slots.is_given_up

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
                if not self._follow and self._is_done(seen) and not self._left.is_any(self.drained):
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
        for jobid in self._left.worth_asking():
            try:
                job = self._store.known.job(jobid)
                claims = self._store.claim(jobid, free * job.batch * self._ahead(job, free), held=held)
            except Unreadable as problem:
                # Neither its candidates nor its definition are to blame. Who follows asks again: somebody may mend it.
                if jobid not in self.drained.left_out:
                    self._worker.say(f"leaving out {jobid}: {problem.message}")
                self.drained.left_out[jobid] = problem
                if not self._follow:
                    self._left.leave_out(jobid)
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
        self._slots.begin(batch)
        try:
            self._worker.work(batch)
        finally:
            self._slots.end()
            if self._slots.is_given_up:
                raise _GivenUp
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

    def _is_done(self, seen: int) -> bool:
        """Whether nothing runs here, and nothing ended since we looked, which may have made more to do."""
        with self._door:
            return not self._open and self._finished == seen
