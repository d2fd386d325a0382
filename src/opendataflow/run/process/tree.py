"""The tree of a launch: its living processes, whoever started them, and how orphans come to us instead of to init."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

MARKER = "ODF_RUN"

_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
_PF_FORKNOEXEC = 0x40


class Process(NamedTuple):
    """What /proc says about one process."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    session: int
    executed: bool
    started: int


class Tree:
    """The living processes of one launch, known by evidence only: a stranger must never be hit.

    Evidence is: it descends from the script or from another of ours; it is in the script's session or group; it was
    seen descending earlier; it carries this run's id in its environment. If we had no children before and start no other
    command meanwhile, every child that we have now is ours.
    """

    leaders: set[int] = set()  # noqa: RUF012 - of all launches in this process

    def __init__(self, leader: int, marker: str | None, alone: bool) -> None:
        self.leader, self.alone, self.reaped = leader, alone, False
        self.marker = None if not marker else f"{MARKER}={marker}".encode("utf-8", "surrogateescape")
        self.seen: set[tuple[int, int]] = set()
        self.sessions = {leader}
        self.leaders.add(leader)

    def look(self) -> list[Process]:
        """Those of ours that live, the script itself included; reaps those of the adopted that have died."""
        if sys.platform != "linux":
            return self.look_for_group()
        # The usual end costs no walk through all processes.
        if self.alone and self.reaped and not has_children():
            return []
        me = os.getpid()
        for _ in range(10):
            living, passing = self.walk(me)
            if living or not passing:
                break
        return living

    def walk(self, me: int) -> tuple[list[Process], bool]:
        """The living of ours, and whether one of the dead was just about to become our child."""
        table = processes()
        children: dict[int, list[Process]] = {}
        for process in table.values():
            children.setdefault(process.parent, []).append(process)
        # If we cannot adopt, orphans are init's children, and ours must be sought among all.
        candidates = list(children.get(me, ()) if _adopters.works else table.values())
        ours: dict[int, Process] = {}
        unvisited = [process for process in candidates if self.is_ours(process, me)]
        while unvisited:
            process = unvisited.pop()
            if process.pid not in ours and process.pid != me:
                ours[process.pid] = process
                unvisited += children.get(process.pid, ())
        living = [process for process in ours.values() if process.state not in "ZX"]
        self.seen.update((process.pid, process.started) for process in living)
        self.sessions.update(process.session for process in living)
        self.reap(children.get(me, ()), ours)
        passing = any(process.parent != me for process in ours.values() if process.state in "ZX")
        return living, passing and _adopters.works

    def reap(self, children: Iterable[Process], ours: Mapping[int, Process]) -> None:
        """Reap dead orphans, or a long-lived worker would collect them, but nobody's whom somebody else waits for.

        Whom this process started itself is in our session, or leads its own and has executed a program.
        """
        session = os.getsid(0)
        for process in children:
            if process.state == "Z" and process.pid not in self.leaders:
                own_child = process.session == session or (process.session == process.pid and process.executed)
                if process.pid in ours or process.session in self.sessions or not own_child:
                    with suppress(ChildProcessError):
                        os.waitpid(process.pid, os.WNOHANG)

    def look_for_group(self) -> list[Process]:
        try:
            os.killpg(self.leader, 0)
        except (ProcessLookupError, PermissionError):
            return []
        return [Process(self.leader, "the process group", "R", os.getpid(), self.leader, self.leader, True, 0)]

    def is_ours(self, process: Process, me: int) -> bool:
        if process.pid == self.leader:
            return True
        if process.pid in self.leaders:
            return False
        if self.leader in (process.session, process.group) or (process.pid, process.started) in self.seen:
            return True
        if process.parent == me and self.alone and process.session != os.getsid(0):
            return True
        return self.marker is not None and process.state not in "ZX" and self.marker in environment_of(process.pid)

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to every process of ours once, and wake those that are stopped so that they notice."""
        living = self.look()
        # A group that has no member left may be anybody's once the script's number is free again.
        grouped = not self.reaped or any(process.group == self.leader for process in living)
        for sent in (number, signal.SIGCONT):
            if grouped:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.leader, sent)
            for process in living:
                if process.group != self.leader:
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(process.pid, sent)

    def forget(self) -> None:
        self.leaders.discard(self.leader)


class _Adopters:
    """How many launches want orphans to become our children instead of init's."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.works = self.before = False


_adopters = _Adopters()


@contextmanager
def adopting_orphans() -> Iterator[None]:
    """What our descendants orphan becomes our child meanwhile, where the system can."""
    with _adopters.lock:
        if _adopters.count == 0:
            _adopters.before = is_subreaper()
            _adopters.works = _adopters.before or _set_subreaper(True)
        _adopters.count += 1
    try:
        yield
    finally:
        with _adopters.lock:
            _adopters.count -= 1
            if _adopters.count == 0 and _adopters.works and not _adopters.before:
                _set_subreaper(False)


def is_subreaper() -> bool:
    """Whether orphans become our children now."""
    if sys.platform != "linux":
        return False
    import ctypes  # takes milliseconds, and nothing else needs it

    answer = ctypes.c_int(0)
    return _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(answer)) and answer.value != 0


def _set_subreaper(on: bool) -> bool:
    return sys.platform == "linux" and _prctl(_PR_SET_CHILD_SUBREAPER, int(on))


def _prctl(option: int, argument: Any) -> bool:
    import ctypes

    try:
        return int(ctypes.CDLL(None).prctl(option, argument, 0, 0, 0)) == 0
    except (OSError, AttributeError):
        return False


def has_children() -> bool:
    """Whether this process has any child, dead or alive; True where that cannot be told without reaping one."""
    if sys.platform != "linux":
        return True
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def processes() -> dict[int, Process]:
    """All processes of the machine."""
    table: dict[int, Process] = {}
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if not entry.isdecimal():
            continue
        try:
            handle = os.open(f"/proc/{entry}/stat", os.O_RDONLY)
        except OSError:
            continue
        try:
            head, _, rest = os.read(handle, 4096).rpartition(b")")
        except OSError:
            continue
        finally:
            os.close(handle)
        if fields := rest.split(None, 20):
            name = head.partition(b" (")[2].decode("utf-8", "replace")
            parent, group, session = map(int, fields[1:4])
            pid, executed = int(entry), not int(fields[6]) & _PF_FORKNOEXEC
            table[pid] = Process(pid, name, fields[0].decode(), parent, group, session, executed, int(fields[19]))
    return table


def environment_of(pid: int) -> list[bytes]:
    """The NAME=value pairs that a process was started with, as far as we may see them."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []
