"""The tree of a launch: the processes that a script started, whatever they did since, and how they are ended."""

from __future__ import annotations

import os
import signal
import time
from _blake2 import blake2b  # as hashlib takes it, which loads OpenSSL
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from re import fullmatch

from ...shapes import NamedTuple

MARKER = "ODF_LAUNCH"  # in the environment of a script; the process that watches it has the same for a name

GRACE = 2.0  # for what an attempt left that is over: its successor waits
_EPOCHS = 1 << 16  # as many epochs as a mark tells apart
_SUCCESSORS = 1 << 8  # as many attempts may have taken a chunk over while one of them stood still
_STOP_WAIT = 1.0  # until all processes of a tree are stopped; one of another user cannot be


class Process(NamedTuple):
    """What /proc says about one process."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    session: int

    @property
    def lives(self) -> bool:
        """Whether it is more than an entry that nobody has read yet."""
        return self.state not in "ZX"


class Mark(NamedTuple):
    """The mark of one attempt of a chunk: what all of its attempts share, and the end of the epoch."""

    chunk: str
    epoch: int

    def __str__(self) -> str:
        """No longer than the name of a process may be: 15 characters."""
        return f"{self.chunk}{self.epoch % _EPOCHS:04x}"

    def is_of_predecessor(self, other: str) -> bool:
        """Whether this is the mark of another attempt of the same chunk, and not of one that took the chunk over from us."""
        chunk, epoch = other[: len(self.chunk)], other[len(self.chunk) :]
        if chunk != self.chunk or not fullmatch("[0-9a-f]{4}", epoch):
            return False
        ahead = (int(epoch, 16) - self.epoch) % _EPOCHS
        return ahead > _SUCCESSORS  # the epoch may have been changed by SQL: anything else was there before us


def mark_of(store: str, jobid: str, dataid: str, epoch: int) -> Mark:
    """The mark of one attempt of a chunk."""
    chunk = "\0".join((store, jobid, dataid)).encode("utf-8", "surrogateescape")
    digest = b2a_base64(blake2b(chunk, digest_size=6).digest(), newline=False).decode()
    return Mark("odf" + digest.replace("+", "-").replace("/", "_"), epoch)


def marked(table: Mapping[int, Process], has: Callable[[str], bool]) -> list[Process]:
    """Those whose mark is one of these, as their name or in their environment."""
    return [
        process
        for process in table.values()
        if process.lives and (has(process.name) or any(map(has, _marks_of(process.pid))))
    ]


def _marks_of(pid: int) -> list[str]:
    begin = f"{MARKER}=".encode()
    return [item[len(begin) :].decode("utf-8", "replace") for item in environment_of(pid) if item.startswith(begin)]


def with_descendants(table: Mapping[int, Process], roots: Iterable[Process]) -> list[Process]:
    """These processes and everything below them that lives, each parent before its children; never ourselves or those above us."""
    children: dict[int, list[Process]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process)
    found: dict[int, Process] = {}
    unvisited, spared = list(roots), _line_of(table, os.getpid())
    while unvisited:
        process = unvisited.pop()
        if process.pid not in found and process.pid not in spared:
            found[process.pid] = process
            unvisited += children.get(process.pid, ())
    living = (process for process in found.values() if process.lives)
    return sorted(living, key=lambda process: len(_line_of(table, process.pid)))


def signal_tree(look: Callable[[], list[Process]], number: signal.Signals) -> None:
    """Stop all of these, and what they start meanwhile, before any of them gets the signal: parents first, then all go on.

    A shell whose child is ended before the shell itself would go on with its next command.
    """
    stopped: dict[int, Process] = {}
    until = time.monotonic() + _STOP_WAIT
    while True:
        living = look()
        moving = [each for each in living if each.pid not in stopped or each.state not in "TtD"]
        if not moving or time.monotonic() > until:
            break
        for process in moving:
            stopped[process.pid] = process
            _send(process, signal.SIGSTOP)
        time.sleep(0.001)
    for process in living:
        _send(process, number)
    # Each has its signal before it can do anything. A parent that ends before a stopped child of another process group
    # goes on would have the kernel send that child a SIGHUP.
    for process in reversed(living):
        _send(process, signal.SIGCONT)


def _send(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process.pid, number)


def end_predecessors(mark: Mark, note: Callable[[str], object]) -> None:
    """End what earlier attempts of a chunk left running on this host: TERM, a grace, KILL."""
    has = mark.is_of_predecessor

    def look() -> list[Process]:
        table = processes()
        return with_descendants(table, marked(table, has))

    def scripts() -> list[Process]:
        # Those that watch end by themselves after what they watch: until then nothing of it can get lost.
        living = look()
        return [process for process in living if not has(process.name)] or living

    living = look()
    for process in living:
        note(f"process {process.pid} ({process.name}) of an earlier attempt is ended")
    for number in (signal.SIGTERM, signal.SIGKILL):
        if living:
            signal_tree(scripts, number)
        until = time.monotonic() + GRACE  # from now on: on a busy machine it may take longer to send a signal
        while living and time.monotonic() < until:
            time.sleep(0.02)
            living = look()
            if living and (number == signal.SIGKILL or all(has(process.name) for process in living)):
                signal_tree(scripts, number)  # what forked as it was killed; then those that watch
    for process in living:
        note(f"process {process.pid} ({process.name}) of an earlier attempt cannot be ended")


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
        if fields := rest.split(None, 5):
            name = head.partition(b" (")[2].decode("utf-8", "replace")
            table[int(entry)] = Process(int(entry), name, fields[0].decode(), *map(int, fields[1:4]))
    return table


def environment_of(pid: int) -> list[bytes]:
    """The NAME=value pairs that a process was started with, as far as we may see them."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def _line_of(table: Mapping[int, Process], pid: int) -> set[int]:
    """A process and all those above it."""
    line: set[int] = set()
    while pid and pid not in line:
        line.add(pid)
        pid = table[pid].parent if pid in table else 0
    return line
