"""The tree of a launch: the processes that a script started, whatever they did since, and how they are ended."""

from __future__ import annotations

import os
import signal
import time
from _blake2 import blake2b  # as hashlib takes it, which loads OpenSSL
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress

from ...shapes import NamedTuple

MARKER = "ODF_LAUNCH"  # in the environment of a script; the process that watches it has the same for a name

GRACE = 2.0  # for what an attempt left that is over: its successor waits


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


def mark_of(store: str, jobid: str, dataid: str, epoch: int) -> str:
    """The mark of one attempt of a chunk, no longer than the name of a process may be."""
    attempt = "\0".join((store, jobid, dataid, str(epoch)))
    return "odf" + blake2b(attempt.encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()


def marked(table: Mapping[int, Process], marks: Collection[str]) -> list[Process]:
    """Those that carry one of these marks, as their name or in their environment."""
    wanted = {f"{MARKER}={mark}".encode() for mark in marks}
    return [
        process
        for process in table.values()
        if process.lives and (process.name in marks or not wanted.isdisjoint(environment_of(process.pid)))
    ]


def with_descendants(table: Mapping[int, Process], roots: Iterable[Process]) -> list[Process]:
    """These processes and everything below them that lives, ourselves and those above us never."""
    children: dict[int, list[Process]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process)
    found: dict[int, Process] = {}
    unvisited, spared = list(roots), _above(table)
    while unvisited:
        process = unvisited.pop()
        if process.pid not in found and process.pid not in spared:
            found[process.pid] = process
            unvisited += children.get(process.pid, ())
    return [process for process in found.values() if process.lives]


def signal_each(living: Iterable[Process], number: signal.Signals) -> None:
    """Send a signal to each of these once, and wake those that are stopped so that they notice."""
    for sent in (number, signal.SIGCONT):
        for process in living:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, sent)


def end_marked(marks: Collection[str], note: Callable[[str], object]) -> None:
    """End what attempts with these marks left running on this host: TERM, a grace, KILL."""

    def look() -> list[Process]:
        table = processes()
        return with_descendants(table, marked(table, marks))

    living = look()
    for process in living:
        note(f"process {process.pid} ({process.name}) of an earlier attempt is ended")
    for number in (signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + GRACE
        while living and time.monotonic() < until:
            # Those that watch end by themselves after what they watch: until then nothing of it can get lost.
            signal_each([process for process in living if process.name not in marks] or living, number)
            time.sleep(0.02)
            living = look()
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


def _above(table: Mapping[int, Process]) -> set[int]:
    above, pid = set(), os.getpid()
    while pid and pid not in above:
        above.add(pid)
        pid = table[pid].parent if pid in table else 0
    return above
