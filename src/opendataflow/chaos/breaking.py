"""Breaking: how each fault is done to a worker of the storm, and when it is over."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

from ..errors import LeaseLost
from ..insight.words import count
from ..model import READY
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
    STALL,
    Fault,
)
from .proxy import Line
from .storm import Lane, Steps, Storm
from .struck import Hit, Struck
from .workers import Worker, send, work_of

_LONGEST_FREEZE = 4 * LEASE  # whoever holds the store's own lock meanwhile may not stop it for ever
_STALL = 1.5 * LEASE
_MOMENT = 0.3  # seconds in which a COMMIT comes to its end
_LONGEST_RUN = 8 * LEASE  # until somebody who was woken up has noticed what he lost
_TRIES = 5  # to meet a script before it has ended


class Breaking(Storm):
    """A storm with all its faults."""

    def _live(self, lane: Lane) -> Steps:
        """Fault after fault; then a worker that nobody breaks."""
        ways = {
            KILL_WORKER: self._kill_worker,
            KILL_SCRIPT: self._kill_script,
            FREEZE_WORKER: self._freeze,
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
            self._kill_besides(lane)  # nobody watches it later
        lane.is_idle = True
        while True:
            self._keep_alive(lane)
            yield

    def _planned_of(self, lane: Lane) -> int:
        """How many faults of its plan have struck a lane."""
        return sum(each.is_planned and each.lane == lane.number for each in self.struck)

    def _kill_worker(self, lane: Lane, fault: Fault) -> Steps:
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

    def _kill_script(self, lane: Lane, fault: Fault) -> Steps:
        for _ in range(_TRIES):
            yield from self._arrives(lane, fault)
            worker = lane.worker
            if worker is None or not worker.has_arrived:
                return
            hands = {(hit.jobid, hit.dataid): hit for hit in self._hands(lane)}
            found = [(each.pid, hands[work]) for each in worker.below() if (work := work_of(each.pid)) in hands]
            if found:
                pid, hit = found[0]
                send(pid, signal.SIGKILL)
                self._note(lane, fault, [hit])
            worker.go_on()
            if found:
                return

    def _freeze(self, lane: Lane, fault: Fault) -> Steps:
        yield from self._arrives(lane, fault)
        frozen = lane.worker
        if frozen is None or not frozen.has_arrived:
            return
        frozen.freeze()
        struck = self._note(lane, fault)
        frozen.go_on()
        # Somebody has to take over, also where there is no other lane.
        stand_in = Lane(lane.number, (), lane.words, lane.url)
        until = self.now + _LONGEST_FREEZE
        while struck.is_open and self.now < until:
            self._keep_alive(stand_in)
            yield
        was_replaced = not struck.is_open and bool(struck.hits)
        frozen.signal(signal.SIGCONT)
        until = self.now + _LONGEST_RUN
        while was_replaced and self.now < until and frozen.lives and not _refused(frozen, struck.hits):
            yield
        if was_replaced:
            refused = _refused(frozen, struck.hits)
            struck.note = "refused LEASE_LOST when it woke up" if refused else "nobody heard that it was refused"
            struck.is_refused, struck.woke = refused, self.now
            self._tell(struck)
        lane.worker = frozen
        if stand_in.worker is not None and stand_in.worker.lives:
            self._kill_besides(stand_in)

    def _damage(self, lane: Lane, fault: Fault) -> Steps:
        """A byte of what is published changes; who reads it next must say so, and a RESUBMIT heals it."""
        while self._strikes and not self._choose():
            self._keep_alive(lane)
            yield
        dataid = self._choose()
        if not dataid:
            return
        self._reserved.add(dataid)
        published = self._store.manifest("made", dataid)
        assert published is not None
        path = Path(published.manifest.location)
        before = max((event.eventid for event in self._store.receipts("use", dataid)), default=0)
        flip(path)
        self._store.resubmit("used", [dataid], why="odf chaos: reads a file that was damaged")
        self.again += 1
        struck = self._note(lane, fault, [Hit("make", dataid, 0), Hit("use", dataid, 0)])
        struck.is_held = True  # it heals when somebody has been refused
        refused = ""
        while not refused and self.now < self._settings.seconds * 0.8:
            self._keep_alive(lane)
            yield
            refused = self._refusal(dataid, path, before)
        was_read = self._is_made("used", dataid)
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
        chunk = self._store.chunk(datasetid, dataid)
        return chunk is not None and chunk.status == READY

    def _choose(self) -> str:
        busy = self._reserved | {hit.dataid for each in self.struck if each.is_open for hit in each.watched}
        return next((dataid for dataid in self._arrived if dataid not in busy and self._is_ready(dataid)), "")

    def _refusal(self, dataid: str, path: Path, after: int) -> str:
        """How a job was refused that was to read the damaged file, if it was and the file was named."""
        for event in self._store.receipts("use", dataid, after=after):
            if event.kind == "refused" and path.name in f"{event.why}":
                return str(event.after)
        return ""

    def _cut(self, lane: Lane, fault: Fault) -> Steps:
        yield from self._on_the_line(lane, fault, lambda line: line.cut())

    def _lose_answer(self, lane: Lane, fault: Fault) -> Steps:
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

    def _stall(self, lane: Lane, fault: Fault) -> Steps:
        yield from self._on_the_line(lane, fault, lambda line: line.stall())
        until = self.now + _STALL
        while self.now < until:
            yield
        if lane.line is not None:
            lane.line.go_on()

    def _on_the_line(
        self, lane: Lane, fault: Fault, breaks: Callable[[Line], None]
    ) -> Generator[None, None, Struck | None]:
        assert lane.line is not None
        yield from self._arrives(lane, fault)
        if lane.worker is None or not lane.worker.has_arrived:
            return None
        hits = self._hands(lane)
        breaks(lane.line)
        struck = self._note(lane, fault, hits)
        lane.worker.go_on()
        return struck

    def _kill_spark(self, lane: Lane, fault: Fault) -> Steps:
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


def _refused(worker: Worker, hits: Sequence[Hit]) -> bool:
    """Whether a worker said of one of these runs that it had lost it."""
    lines = [line for line in worker.said.splitlines() if LeaseLost.name in line]
    return any(line.startswith(f"run {hit.runid}:") for line in lines for hit in hits)


def flip(path: Path) -> None:
    """Change one byte of a file, and nothing that a listing shows."""
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    with path.open("r+b") as file:  # the same file: not another one in its place
        file.write(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
