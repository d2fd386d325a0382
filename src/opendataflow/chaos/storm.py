"""Storm: workers drain a scratch flow while faults strike them, and what was hit is watched until it has healed."""

from __future__ import annotations

import random
import time
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field

from ..errors import LeaseLost, StoreUnreachable
from ..model import READY
from ..pause import pause
from ..project import Project
from ..run.arrival import announce
from ..run.worker import Worker
from ..store import Run, Store
from .plan import ANY_MOMENT, KILL_WORKER, LEASE, Fault, Settings
from .proxy import ProxyLine
from .scratch import Scratch, dataids
from .struck import Struck, StruckRun
from .workers import ChaosWorker, Workers

OUTPUTS = {"make": "made", "use": "used", "count": "counted"}
_OF_SCRIPTS = ("made", "used")
_LOOK = 0.2  # seconds between two looks at the store
_STUCK = 8 * LEASE  # without any change, when nothing strikes any more
_CLOCKS = 0.5  # seconds by which a store's two clocks may differ

Steps = Iterator[None]  # of what a lane does, in turns with the others


@dataclass
class WorkerLane:
    """One worker after the other, and the faults that are meant for them."""

    number: int
    faults: Sequence[Fault]
    words: tuple[str, ...]
    url: str
    line: ProxyLine | None = None
    worker: ChaosWorker | None = None
    is_idle: bool = False  # no fault is left


@dataclass
class ScratchState:
    """The scratch at one moment."""

    running: list[Run] = field(default_factory=list)
    statuses: dict[tuple[str, str], str] = field(default_factory=dict)


class Storm:
    """One storm: what struck, what came of it, and how far the flow is."""

    def __init__(
        self, store: Store, project: Project, scratch: Scratch, settings: Settings, tell: Callable[[Struck], None]
    ) -> None:
        self._store, self._project, self._settings, self._tell = store, project, settings, tell
        self.workers = Workers(scratch)
        self.struck: list[Struck] = []
        self.missed: list[tuple[int, Fault]] = []  # what was planned for a lane, and did not strike
        self._dice = random.Random(settings.seed + 1)  # for moments; what strikes is planned
        self._begin = time.monotonic()
        self._arrived: list[str] = []
        self._waiting = dataids(settings.chunks)
        self._reserved: set[str] = set()  # chunks that a fault needs for itself
        self._outputs = [name for name in OUTPUTS.values() if settings.spark or name != "counted"]
        self._seen, self._next_look, self._changed = ScratchState(), 0.0, 0.0
        self._leases: dict[int, float] = {}  # until when each run was last seen to have its chunk
        self._offset = time.time() - time.monotonic()
        self.early: dict[int, str] = {}  # leases that were too short, or ended before their time, by run
        self._lanes: list[WorkerLane] = []
        self.again = 0  # chunks that were had made again, so that there was something to break
        self.seconds = 0.0

    @property
    def now(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._begin

    @property
    def done(self) -> int:
        """Chunks that are whole."""
        return sum(self._is_ready(dataid, self._outputs) for dataid in self._arrived)

    def run(self, lanes: Sequence[WorkerLane]) -> None:
        """Break, drain, and come back when everything is made and healed, or the time is over."""
        self._lanes = list(lanes)
        steps = [self._live(lane) for lane in lanes]
        self._begin = time.monotonic()
        while not self._is_over and not self._is_stuck and self.now < self._settings.seconds:
            self._look()
            self._feed()
            for step in steps:
                next(step)
            pause(0.02)
        self.seconds = self.now
        self.workers.retire()

    @property
    def _is_over(self) -> bool:
        is_calm = all(lane.is_idle for lane in self._lanes) and not any(each.is_open for each in self.struck)
        return is_calm and not self._waiting and self.done == self._settings.chunks and not self._seen.running

    @property
    def _is_stuck(self) -> bool:
        return all(lane.is_idle for lane in self._lanes) and self.now - self._changed > _STUCK * (
            5 if self._settings.spark else 1  # which takes long to start
        )

    @property
    def _strikes(self) -> bool:
        return self.now < self._settings.striking

    # The store -----------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        if time.monotonic() < self._next_look:
            return
        try:
            with self._store.at_once():
                running = self._store.views.running()
                chunks = [chunk for name in self._outputs for chunk in self._store.views.all_chunks(name)]
                clock = self._store.views.clock()
        except StoreUnreachable:
            self._store.views.running()  # our own connection broke: this waits for the server, as workers do
            return
        before = self._seen.statuses
        self._seen = ScratchState(running, {(chunk.datasetid, chunk.dataid): chunk.status for chunk in chunks})
        if before != self._seen.statuses:
            self._changed = self.now
        self._look_at_leases(running, clock)
        self._next_look = time.monotonic() + _LOOK
        at_work = {run.runid for run in running}
        for each in self.struck:
            if each.is_open and not each.is_held and all(self._is_healed(hit, at_work) for hit in each.watched):
                each.recovered = self.now - each.at
                self._tell(each)

    def _look_at_leases(self, running: Sequence[Run], clock: float) -> None:
        """Record leases that were too short or ended early. The clock is read after the runs, so a run that is gone ended before
        it."""
        for runid in self._leases.keys() - {run.runid for run in running}:
            left = self._leases.pop(runid) - clock
            if left > 0 and self._store.views.run(runid).outcome == LeaseLost.name:
                self.early[runid] = f"run {runid} lost its chunk at least {left:.1f} s before its lease was over"
        for run in running:
            self._leases[run.runid] = max(run.lease_until or 0.0, self._leases.get(run.runid, 0.0))
            given = self._leases[run.runid] - (run.started.timestamp() if run.started else 0.0)
            is_stepped = abs(time.time() - time.monotonic() - self._offset) > _CLOCKS
            if given < LEASE - _CLOCKS and not is_stepped:
                self.early[run.runid] = f"run {run.runid} was given a lease of {given:.1f} s, not {LEASE:g} s"

    def _is_healed(self, hit: StruckRun, at_work: set[int]) -> bool:
        return hit.runid not in at_work and self._seen.statuses.get((OUTPUTS[hit.jobid], hit.dataid)) == READY

    def _is_ready(self, dataid: str, outputs: Sequence[str] = _OF_SCRIPTS) -> bool:
        return all(self._seen.statuses.get((name, dataid)) == READY for name in outputs)

    def _feed(self) -> None:
        """Let chunks arrive while there is something to break, and have old ones made again when no new ones are left."""
        are_breaking = self._strikes and not all(lane.is_idle for lane in self._lanes)
        few = 3 * self._settings.workers
        unfinished = sum(not self._is_ready(dataid) for dataid in self._arrived)
        if not are_breaking or (self._waiting and unfinished < few):
            n = few if are_breaking else len(self._waiting)
            new, self._waiting = self._waiting[:n], self._waiting[n:]
            if new:
                hand = Worker(self._store, self._project, None)
                announce(hand, self._store.catalogue().dataset("raw"), new)
                self._arrived += new
                self._next_look = 0.0
        elif unfinished < few // 3:
            busy = self._reserved | {hit.dataid for each in self.struck if each.is_open for hit in each.watched}
            free = [dataid for dataid in self._arrived if dataid not in busy and self._is_ready(dataid)]
            for dataid in self._dice.sample(free, min(len(free), few // 2)):
                self._make_again(dataid)
            self._next_look = 0.0

    def _make_again(self, dataid: str) -> None:
        for name in self._outputs:
            if name not in _OF_SCRIPTS and (self._lanes[-1].is_idle or not self._is_ready(dataid, [name])):
                continue  # Spark is slow: it has enough to do, or enough of it
            self.again += len(self._store.resubmit(name, [dataid], why="odf chaos: something to break"))
            self._seen.statuses[name, dataid] = "RESUBMIT"  # whoever chooses a chunk before the next look

    # The lanes -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def _live(self, lane: WorkerLane) -> Steps:
        """What a lane does, for ever."""

    def _keep_alive(self, lane: WorkerLane) -> ChaosWorker:
        """The worker of a lane, a new one where the last one is gone."""
        if lane.worker is None or not lane.worker.lives:
            lane.worker = self.workers.start(lane.words, lane.url)
        return lane.worker

    def _armed(self, lane: WorkerLane, fault: Fault, *, held: bool, hangs: bool = False) -> ChaosWorker:
        """A new worker that breaks at a point; the last one is dead, or is killed now."""
        if lane.worker is not None and lane.worker.lives:
            self._kill_besides(lane)
        lane.worker = self.workers.start(lane.words, lane.url, fault=fault.where, held=held, hangs=hangs)
        return lane.worker

    def _arrives(
        self, lane: WorkerLane, fault: Fault, *, hangs: bool = False
    ) -> Generator[None, None, ChaosWorker | None]:
        """Until the lane's worker waits at its point, None where it does not; it may die before, then another one is armed."""
        worker = self._armed(lane, fault, held=True, hangs=hangs)
        while not worker.has_arrived and self._strikes:
            if not worker.lives:
                worker = self._armed(lane, fault, held=True, hangs=hangs)
            yield
        return worker if worker.has_arrived else None

    def _note(
        self, lane: WorkerLane, fault: Fault, hits: Sequence[StruckRun] | None = None, *, planned: bool = True
    ) -> Struck:
        """A fault has struck: what the worker had in its hands is what has to heal."""
        found = self._hands(lane) if hits is None else hits
        for earlier in self.struck:
            earlier.is_hit_again_by(found)
        struck = Struck(fault, lane.number, self.now, list(found), planned)
        self.struck.append(struck)
        self._tell(struck)
        return struck

    def _hands(self, lane: WorkerLane) -> list[StruckRun]:
        assert lane.worker is not None
        mine = f":{lane.worker.pid}"
        running = [run for run in self._store.views.running() if run.owner.endswith(mine)]
        return [StruckRun(run.jobid, run.dataid, run.runid) for run in running]

    def _kill_now(self, lane: WorkerLane, fault: Fault) -> None:
        assert lane.worker is not None
        lane.worker.kill()
        self._note(lane, fault)

    def _kill_besides(self, lane: WorkerLane) -> None:
        """A worker is in the way of the plan: one fault more."""
        assert lane.worker is not None
        lane.worker.kill()
        self._note(lane, Fault(KILL_WORKER, ANY_MOMENT), planned=False)

    def _hands_seen(self, lane: WorkerLane) -> bool:
        """Whether it had something in its hands when the store was last looked at."""
        worker = lane.worker
        return worker is not None and any(run.owner.endswith(f":{worker.pid}") for run in self._seen.running)
