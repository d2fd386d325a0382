"""Breaking: how each fault is done to a worker of the storm, and when it is over."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..errors import LeaseLost
from ..files.versions import VERSIONED
from ..insight.words import count
from ..model import READY
from ..project import location_of
from .plan import (
    ANY_MOMENT,
    CUT,
    DAMAGE_FILE,
    FREEZE_WORKER,
    KILL_SCRIPT,
    KILL_SPARK,
    KILL_WORKER,
    LEASE,
    LOSE_ANSWER,
    SETTLING,
    STALL,
    TAKE_CHUNK,
    Fault,
)
from .proxy import ProxyLine
from .storm import OUTPUTS, Steps, Storm, WorkerLane
from .struck import Struck, StruckRun
from .workers import ChaosWorker, send, work_of

_LONGEST_FREEZE = 4 * LEASE  # a worker frozen with the store's own lock must not stop chaos for ever
_STALL = 1.5 * LEASE
_MOMENT = 0.3  # seconds in which a COMMIT comes to its end
_LONGEST_RUN = 8 * LEASE  # until a worker that woke up has noticed that it lost its chunk


class HungScript(NamedTuple):
    """A script that hangs, and the run that it belongs to."""

    pid: int
    hit: StruckRun

    @property
    def lives(self) -> bool:
        return work_of(self.pid) == (self.hit.jobid, self.hit.dataid)


Listing = list[tuple[str, int, int, int]]


class Breaking(Storm):
    """A storm with all its faults."""

    def _live(self, lane: WorkerLane) -> Steps:
        """Fault after fault; then a worker without a fault."""
        ways = {
            KILL_WORKER: self._kill_worker,
            KILL_SCRIPT: self._kill_script,
            FREEZE_WORKER: self._freeze,
            TAKE_CHUNK: self._take_chunk,
            DAMAGE_FILE: self._damage,
            CUT: self._cut,
            STALL: self._stall,
            LOSE_ANSWER: self._lose_answer,
            KILL_SPARK: self._kill_spark,
        }
        for fault in lane.faults:
            before = self._planned_of(lane)
            if self._strikes:
                yield from ways[fault.kind](lane, fault)
            if self._planned_of(lane) == before:
                self.missed.append((lane.number, fault))
        if lane.worker is not None and lane.worker.is_armed and lane.worker.lives:
            self._kill_besides(lane)  # no later step watches it
        lane.is_idle = True
        while True:
            self._keep_alive(lane)
            yield

    def _planned_of(self, lane: WorkerLane) -> int:
        """How many faults of its plan have struck a lane."""
        return sum(each.is_planned and each.lane == lane.number for each in self.struck)

    def _kill_worker(self, lane: WorkerLane, fault: Fault) -> Steps:
        if fault.where == ANY_MOMENT:
            self._keep_alive(lane)
            until = self.now + self._dice.uniform(0.5, 2.5)
            while self.now < until or (not self._hands_seen(lane) and self._strikes):
                self._keep_alive(lane)
                yield
            self._kill_now(lane, fault)
            return
        worker = self._armed(lane, fault, held=False)
        while worker.lives and self._strikes:
            yield
        if not worker.lives:
            self._note(lane, fault)

    def _hung(self, lane: WorkerLane, fault: Fault) -> Generator[None, None, tuple[ChaosWorker, HungScript] | None]:
        """Until the lane's worker waits at its point and its script hangs, in the middle of its output."""
        while worker := (yield from self._arrives(lane, fault, hangs=True)):
            while worker.lives:
                hands = {(hit.jobid, hit.dataid): hit for hit in self._hands(lane)}
                for each in worker.hanging():
                    if hit := hands.get(work_of(each.pid)):
                        return worker, HungScript(each.pid, hit)
                yield
        return None

    def _reached(
        self, lane: WorkerLane, fault: Fault
    ) -> Generator[None, None, tuple[ChaosWorker, HungScript | None] | None]:
        """Until the lane's worker waits at its point, with a script that hangs where it is in the middle of its output."""
        if fault.where == "spawned":
            return (yield from self._hung(lane, fault))
        worker = yield from self._arrives(lane, fault)
        return (worker, None) if worker else None

    def _kill_script(self, lane: WorkerLane, fault: Fault) -> Steps:
        if found := (yield from self._hung(lane, fault)):
            worker, script = found
            send(script.pid, signal.SIGKILL)
            self._note(lane, fault, [script.hit])
            worker.go_on()

    def _freeze(self, lane: WorkerLane, fault: Fault) -> Steps:
        if not (found := (yield from self._reached(lane, fault))):
            return
        frozen, script = found
        frozen.freeze()
        while self._store.is_write_locked():  # a frozen thread may hold the lock: chaos would wait for it too
            frozen.signal(signal.SIGCONT)
            yield
            frozen.freeze()
        struck = self._note(lane, fault)
        frozen.go_on()
        if fault.where == SETTLING and lane.line is not None:
            lane.line.cut()  # the server undoes the commit, and the files are still to be moved
        chunks = {hit.dataid for hit in struck.hits}
        self._reserved |= chunks
        # Another worker has to take over, also where there is no other lane.
        stand_in = WorkerLane(lane.number, (), lane.words, lane.url)
        until = self.now + _LONGEST_FREEZE
        while struck.is_open and self.now < until:
            self._keep_alive(stand_in)
            yield
        was_replaced = not struck.is_open and bool(struck.hits)
        if was_replaced and script is not None:
            struck.is_ended = not script.lives
        published = self._listing(struck.hits)
        frozen.signal(signal.SIGCONT)
        if was_replaced:
            yield from self._is_refused(frozen, struck, published)
            struck.woke = self.now
            self._tell(struck)
        self._reserved -= chunks
        lane.worker = frozen
        if stand_in.worker is not None and stand_in.worker.lives:
            self._kill_besides(stand_in)

    def _take_chunk(self, lane: WorkerLane, fault: Fault) -> Steps:
        """A run loses its chunk and has no successor: it ends its own script, and what it made replaces nothing."""
        if not (found := (yield from self._reached(lane, fault))):
            return
        worker, script = found
        hits = [script.hit] if script else self._hands(lane)
        struck = self._note(lane, fault, hits)
        struck.is_held = True  # it heals when the worker has been refused
        chunks = {hit.dataid for hit in hits}
        self._reserved |= chunks
        for hit in hits:
            self._store.cancel(hit.runid, why="odf chaos: takes its chunk away")
        published = self._listing(hits)
        worker.go_on()
        if hits:
            yield from self._is_refused(worker, struck, published, script)
        struck.is_held = False
        for hit in hits:
            self.again += len(self._store.resubmit(OUTPUTS[hit.jobid], [hit.dataid], why="odf chaos: heals it"))
        self._reserved -= chunks
        self._next_look = 0.0

    def _is_refused(
        self, worker: ChaosWorker, struck: Struck, published: Listing, script: HungScript | None = None
    ) -> Generator[None, None, None]:
        """Until a worker that lost its chunks was refused: it replaced nothing, and has ended its script."""
        until = self.now + _LONGEST_RUN
        while self.now < until and worker.lives and not _lines(worker, struck.hits):
            yield
        is_replaced = self._listing(struck.hits) != published
        struck.is_refused = _refused(worker, struck.hits) and not is_replaced
        struck.note = "refused LEASE_LOST" if struck.is_refused else "the worker was not refused"
        if is_replaced:
            struck.note = "the worker replaced published files"
        if script is not None:
            struck.is_ended = not script.lives
            if script.lives:
                send(script.pid, signal.SIGKILL)  # the flow goes on

    def _listing(self, hits: Sequence[StruckRun]) -> Listing:
        """What lies at the locations of what these runs make: which files, not what is in them."""
        found: Listing = []
        catalogue = self._store.catalogue()
        for hit in hits:
            dataset = catalogue.dataset(OUTPUTS[hit.jobid])
            location = ""
            if published := self._store.views.manifest(dataset.datasetid, hit.dataid):
                location = published.manifest.location
            elif dataset.options.get("layout") != VERSIONED:
                location = location_of(self._project.environment, dataset, hit.dataid)
            for path in sorted([Path(location), *Path(location).rglob("*")] if location else []):
                with suppress(OSError):
                    facts = path.stat()
                    found.append((str(path), facts.st_ino, facts.st_size, facts.st_mtime_ns))
        return found

    def _damage(self, lane: WorkerLane, fault: Fault) -> Steps:
        """A byte of what is published changes; who reads it next must say so, and a RESUBMIT heals it."""
        while self._strikes and not self._choose():
            self._keep_alive(lane)
            yield
        dataid = self._choose()
        if not dataid:
            return
        self._reserved.add(dataid)
        published = self._store.views.manifest("made", dataid)
        assert published is not None
        path = Path(published.manifest.location)
        before = max((event.eventid for event in self._store.views.receipts("use", dataid)), default=0)
        flip(path)
        self._store.resubmit("used", [dataid], why="odf chaos: reads a file that was damaged")
        self.again += 1
        struck = self._note(lane, fault, [StruckRun("make", dataid, 0), StruckRun("use", dataid, 0)])
        struck.is_held = True  # it heals when a reader has been refused
        refused, was_read = "", False
        while not refused and not was_read and self.now < self._settings.seconds * 0.8:
            self._keep_alive(lane)
            yield
            was_read = self._is_made("used", dataid)
            refused = self._refusal(dataid, path, before)
        struck.is_refused = bool(refused) if refused or was_read else None  # who never read it need not have noticed
        struck.note = f"refused {refused} by name" if refused else "nobody noticed" if was_read else "nobody read it"
        struck.is_held = False
        for name in ("made", "used"):
            self.again += len(self._store.resubmit(name, [dataid], why="odf chaos: heals what was damaged"))
        self._next_look = 0.0
        while struck.is_open and self.now < self._settings.seconds:
            self._keep_alive(lane)
            yield
        self._reserved.discard(dataid)

    def _is_made(self, datasetid: str, dataid: str) -> bool:
        chunk = self._store.views.chunk(datasetid, dataid)
        return chunk is not None and chunk.status == READY

    def _choose(self) -> str:
        busy = self._reserved | {hit.dataid for each in self.struck if each.is_open for hit in each.watched}
        return next((dataid for dataid in self._arrived if dataid not in busy and self._is_ready(dataid)), "")

    def _refusal(self, dataid: str, path: Path, after: int) -> str:
        """How a job was refused that was to read the damaged file, if it was and the file was named."""
        for event in self._store.views.receipts("use", dataid, after=after):
            if event.kind == "refused" and path.name in f"{event.why}":
                return str(event.after)
        return ""

    def _cut(self, lane: WorkerLane, fault: Fault) -> Steps:
        yield from self._on_the_line(lane, fault, lambda line: line.cut())

    def _lose_answer(self, lane: WorkerLane, fault: Fault) -> Steps:
        struck = yield from self._on_the_line(lane, fault, lambda line: line.lose_answers())
        line, until = lane.line, self.now + LEASE
        if line is None or struck is None:
            return
        while not line.lost and self.now < until:
            yield
        until = self.now + _MOMENT  # an answer to another question may have been the first
        while self.now < until:
            yield
        struck.note = f"{count(line.lost, 'answer')} lost"
        line.cut()

    def _stall(self, lane: WorkerLane, fault: Fault) -> Steps:
        yield from self._on_the_line(lane, fault, lambda line: line.stall())
        until = self.now + _STALL
        while self.now < until:
            yield
        if lane.line is not None:
            lane.line.go_on()

    def _on_the_line(
        self, lane: WorkerLane, fault: Fault, breaks: Callable[[ProxyLine], None]
    ) -> Generator[None, None, Struck | None]:
        assert lane.line is not None
        worker = yield from self._arrives(lane, fault)
        if worker is None:
            return None
        hits = self._hands(lane)
        breaks(lane.line)
        struck = self._note(lane, fault, hits)
        worker.go_on()
        return struck

    def _kill_spark(self, lane: WorkerLane, fault: Fault) -> Steps:
        found: list[int] = []
        while self._strikes and not found:
            worker = self._keep_alive(lane)
            if self._hands_seen(lane):  # it may have a chunk and no Java yet
                found = [each.pid for each in worker.below() if each.name == "java"]
            if not found:
                yield
        hits = self._hands(lane)
        for pid in found:
            send(pid, signal.SIGKILL)
        if found:
            self._note(lane, fault, hits)


def _refused(worker: ChaosWorker, hits: Sequence[StruckRun]) -> bool:
    """Whether a worker said of one of these runs that it had lost it."""
    return any(LeaseLost.name in line for line in _lines(worker, hits))


def _lines(worker: ChaosWorker, hits: Sequence[StruckRun]) -> list[str]:
    """What a worker said of how these runs ended."""
    return [
        line for line in worker.said.splitlines() for hit in hits if line.startswith(f"run {hit.runid}: {hit.jobid} ")
    ]


def flip(path: Path) -> None:
    """Change one byte of a file, and nothing that a listing shows."""
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    with path.open("r+b") as file:  # the same file: not another one in its place
        file.write(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
