"""Workers: real `odf drain` processes on a scratch, armed to break, and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..pause import pause
from ..run.process.process_tree import Process, environment_of, processes, with_descendants
from .scratch import Scratch

_HANG = "ODF_CHAOS_HANG"  # a file: the first script that removes it hangs
BELONGS = "ODF_CHAOS"  # in the environment of everything that chaos started: the id of its scratch
_GRACE = 5.0  # for those that are asked to end
# The worker dies with chaos, also when that is killed. It stays the same process.
_DIES_WITH_US = """
import ctypes, os, sys
try:
    ctypes.CDLL(None).prctl(1, 9)
except (OSError, AttributeError):
    pass
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass
class ChaosWorker:
    """One process, what it said, and the file by which it tells that it has reached its point."""

    process: subprocess.Popen[bytes]
    log: Path
    at: Path
    is_armed: bool = False  # it has not reached its point yet

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def lives(self) -> bool:
        return self.process.poll() is None

    @property
    def has_arrived(self) -> bool:
        """Whether it waits at its point."""
        return self.at.exists()

    @property
    def said(self) -> str:
        """All that it said so far."""
        with suppress(OSError):
            return self.log.read_text(encoding="utf-8", errors="replace")
        return ""

    def go_on(self) -> None:
        """Let it leave its point."""
        self.is_armed = False
        self.at.unlink(missing_ok=True)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; one that is gone gets none."""
        if self.lives:
            send(self.pid, number)

    def freeze(self) -> None:
        """Stop it, and come back when every thread of it stands still: before that one of them may still go on."""
        self.signal(signal.SIGSTOP)
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def kill(self) -> None:
        """End it at once."""
        self.signal(signal.SIGKILL)
        self.process.wait()
        self.go_on()

    def below(self) -> list[Process]:
        """What it started and what that started, living."""
        table = processes()
        me = table.get(self.pid)
        return [each for each in with_descendants(table, [me] if me else []) if each.pid != self.pid]

    def hanging(self) -> list[Process]:
        """Its scripts that hang."""
        return [each for each in self.below() if each.state == "T" and all(work_of(each.pid))]


class Workers:
    """All processes of one chaos."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self.all: list[ChaosWorker] = []
        scratch.logs.mkdir(mode=0o700, parents=True, exist_ok=True)

    def start(
        self, words: Sequence[str], url: str, *, fault: str = "", held: bool = False, hangs: bool = False
    ) -> ChaosWorker:
        """A worker that dies at its point, or waits there to be broken; its first script may hang."""
        number = len(self.all) + 1
        log, at = self._scratch.logs / f"{number}.log", self._scratch.logs / f"{number}.at"
        extra = {"ODF_FAULT": fault} if fault else {}
        if held:
            extra["ODF_FAULT_FILE"] = str(at)
        if hangs:
            extra[_HANG] = str(at.with_suffix(".hang"))
            at.with_suffix(".hang").touch()
        with log.open("wb") as said:
            process = subprocess.Popen(
                odf(*words),
                cwd=self._scratch.folder,
                env=environment(self._scratch, url) | extra,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,  # Ctrl-C is for chaos, which ends them itself
            )
        self.all.append(ChaosWorker(process, log, at, bool(fault)))
        return self.all[-1]

    def retire(self) -> None:
        """Ask all of them to end, and end those that do not; then whatever else of them is left."""
        for worker in self.all:
            worker.signal(signal.SIGTERM)
            worker.signal(signal.SIGCONT)
            worker.go_on()
        until = time.monotonic() + _GRACE
        while any(worker.lives for worker in self.all) and time.monotonic() < until:
            pause(0.05)
        self.end()

    def end(self) -> None:
        """End all of them now, and everything that they started."""
        for worker in self.all:
            worker.kill()
        mark = f"{BELONGS}={self._scratch.where.id}".encode()
        until = time.monotonic() + _GRACE
        while left := [each for each in processes().values() if each.lives and mark in environment_of(each.pid)]:
            for process in left:
                send(process.pid, signal.SIGKILL)
            if time.monotonic() > until:
                return
            pause(0.02)


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may be gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def work_of(pid: int) -> tuple[str, str]:
    """Job and dataid that a script was started for, as its environment says."""
    said = dict(pair.partition(b"=")[::2] for pair in environment_of(pid))
    return said.get(b"jobid", b"").decode(errors="replace"), said.get(b"dataid", b"").decode(errors="replace")


def environment(scratch: Scratch, url: str) -> dict[str, str]:
    """What a process of the scratch finds in its environment, the key among it, and nothing that selects the user's own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ODF_") or name == "ODF_CONFIG"}
    return kept | {"ODF_STORE": url, "PASSKEY": scratch.key, BELONGS: scratch.where.id}


def odf(*words: str) -> list[str]:
    """A command line of this very installation, which ends with us."""
    command = [sys.executable, "-m", "opendataflow", *words]
    return [sys.executable, "-I", "-S", "-c", _DIES_WITH_US, str(os.getpid()), *command]


def call(scratch: Scratch, *words: str) -> subprocess.CompletedProcess[str]:
    """A command on the scratch, to its end."""
    return subprocess.run(
        odf(*words),
        cwd=scratch.folder,
        env=environment(scratch, scratch.store_url),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
