"""Finds and ends the processes that a script started."""

from __future__ import annotations

import os
import signal
import time
from _blake2 import blake2b  # hashlib would load OpenSSL
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from re import fullmatch
from typing import NamedTuple

MARKER = "ODF_LAUNCH"  # environment variable of a script; the name of its reaper process has the same value

GRACE = 2.0  # for processes of an earlier attempt, while its successor waits
_EPOCHS = 1 << 16  # epochs that a mark distinguishes
_SUCCESSORS = 1 << 8  # most attempts that may have taken a chunk over while one was suspended
_STOP_WAIT = 1.0  # seconds to stop all processes of a tree; those of other users cannot be stopped


class Process(NamedTuple):
    """What /proc says about one process."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    session: int
    started: int = 0  # ticks since boot; distinguishes processes that reuse a pid

    @property
    def lives(self) -> bool:
        """Whether the process is alive and not a zombie."""
        return self.state not in "ZX"


class AttemptMark(NamedTuple):
    """The mark of one attempt: a part that all attempts of the chunk share, and the low bits of the epoch."""

    chunk: str
    epoch: int

    def __str__(self) -> str:
        """At most 15 characters, the limit of process names."""
        return f"{self.chunk}{self.epoch % _EPOCHS:04x}"

    def is_of_predecessor(self, other: str) -> bool:
        """Whether a mark belongs to another attempt of the same chunk that is not a successor of this one."""
        chunk, epoch = other[: len(self.chunk)], other[len(self.chunk) :]
        if chunk != self.chunk or not fullmatch("[0-9a-f]{4}", epoch):
            return False
        ahead = (int(epoch, 16) - self.epoch) % _EPOCHS
        return ahead > _SUCCESSORS  # SQL may have changed the epoch: every other mark counts as earlier


def mark_of(store: str, jobid: str, dataid: str, epoch: int) -> AttemptMark:
    """The mark of one attempt of a chunk."""
    chunk = "\0".join((store, jobid, dataid)).encode("utf-8", "surrogateescape")
    digest = b2a_base64(blake2b(chunk, digest_size=6).digest(), newline=False).decode()
    return AttemptMark("odf" + digest.replace("+", "-").replace("/", "_"), epoch)


def marked(table: Mapping[int, Process], has: Callable[[str], bool]) -> list[Process]:
    """The living processes with a matching mark, by name or environment."""
    return [
        process
        for process in table.values()
        if process.lives and (has(process.name) or any(map(has, _marks_of(process.pid))))
    ]


def _marks_of(pid: int) -> list[str]:
    begin = f"{MARKER}=".encode()
    return [item[len(begin) :].decode("utf-8", "replace") for item in environment_of(pid) if item.startswith(begin)]


def with_descendants(table: Mapping[int, Process], roots: Iterable[Process]) -> list[Process]:
    """The living processes among these and their descendants, parents first; without this process and its ancestors."""
    children: dict[int, list[Process]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process)
    found: dict[int, Process] = {}
    unvisited, spared = list(roots), _ancestry(table, os.getpid())
    while unvisited:
        process = unvisited.pop()
        if process.pid not in found and process.pid not in spared:
            found[process.pid] = process
            unvisited += children.get(process.pid, ())
    living = (process for process in found.values() if process.lives)
    return sorted(living, key=lambda process: len(_ancestry(table, process.pid)))


def with_orphans(table: Mapping[int, Process], roots: Iterable[Process], known: dict[int, int]) -> list[Process]:
    """The living processes among these and their descendants, including descendants found earlier whose parent ended since.

    `known` maps the pids that were found so far to the start of their process.
    """
    orphans = [process for process in table.values() if known.get(process.pid) == process.started]
    living = with_descendants(table, [*roots, *orphans])
    known.update((process.pid, process.started) for process in living)
    return living


def terminate_topmost(living: Iterable[Process], terminated: set[int]) -> None:
    """Send TERM once to each process whose parent is not among them. Call repeatedly until none is alive.

    A shell whose child ends first continues with its next command, even with a trap. Therefore a child gets TERM only after
    its parent has ended, and a parent that stays is killed together with its child (kill_tree).
    """
    living = list(living)
    pids = {process.pid for process in living}
    for process in living:
        if process.parent not in pids and process.pid not in terminated:
            terminated.add(process.pid)
            _send(process, signal.SIGTERM)
            _send(process, signal.SIGCONT)  # a stopped process receives TERM only after CONT


def kill_tree(look: Callable[[], list[Process]]) -> None:
    """Stop all processes, including new ones, then kill them, so that no parent continues after the end of its child."""
    stopped: dict[int, Process] = {}
    until = time.monotonic() + _STOP_WAIT
    while True:
        living = look()
        running = [each for each in living if each.pid not in stopped or each.state not in "TtD"]
        if not running or time.monotonic() > until:
            break
        for process in running:
            stopped[process.pid] = process
            _send(process, signal.SIGSTOP)
        time.sleep(0.001)
    for process in living:
        _send(process, signal.SIGKILL)


def _send(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process.pid, number)


def end_predecessors(mark: AttemptMark, note: Callable[[str], object]) -> None:
    """End processes of earlier attempts of a chunk on this host: TERM, a grace period, KILL."""
    has = mark.is_of_predecessor
    known: dict[int, int] = {}

    def look() -> list[Process]:
        table = processes()
        return with_orphans(table, marked(table, has), known)

    def scripts() -> list[Process]:
        # Reapers exit after their scripts, so they are ended only if nothing else is left.
        living = look()
        return [process for process in living if not has(process.name)] or living

    if not (living := look()):
        return
    for process in living:
        note(f"process {process.pid} ({process.name}) of an earlier attempt is ended")
    _end(scripts)
    for process in look():
        note(f"process {process.pid} ({process.name}) of an earlier attempt cannot be ended")


def _end(look: Callable[[], list[Process]]) -> None:
    """TERM, a grace period, KILL."""
    terminated: set[int] = set()
    until = time.monotonic() + GRACE
    while (living := look()) and time.monotonic() < until:
        terminate_topmost(living, terminated)
        time.sleep(0.02)
    until = time.monotonic() + GRACE
    while look() and time.monotonic() < until:
        kill_tree(look)  # repeatedly: processes may have forked, and reapers remain
        time.sleep(0.02)


def below() -> list[Process]:
    """The living descendants of this process, parents first."""
    table, me = processes(), os.getpid()
    return with_descendants(table, [process for process in table.values() if process.parent == me])


def end_below(spared: str) -> None:
    """End the descendants of this process, except those with this name: TERM, a grace period, KILL."""
    known: dict[int, int] = {}  # this process is no subreaper: the children of one that ends are no longer below it

    def look() -> list[Process]:
        return [process for process in with_orphans(processes(), below(), known) if process.name != spared]

    _end(look)


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
            numbers = map(int, (*fields[1:4], fields[19]))
            table[int(entry)] = Process(int(entry), name, fields[0].decode(), *numbers)
    return table


def environment_of(pid: int) -> list[bytes]:
    """The NAME=value pairs that a process was started with, if they are readable."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def _ancestry(table: Mapping[int, Process], pid: int) -> set[int]:
    """The pids of a process and its ancestors."""
    line: set[int] = set()
    while pid and pid not in line:
        line.add(pid)
        pid = table[pid].parent if pid in table else 0
    return line
