"""The reaper: a small process between us and a script on Linux, by which nothing that the script starts outlives us.

It adopts whatever the script orphans, so that all of it stays below the reaper, whichever session, group or environment it
chose. It tells how the script ended, and ends itself when nothing is left. When we die, however that happens, it ends
them all. It is forked from us, which costs a millisecond, where a program of its own would cost the start of an interpreter.
"""

from __future__ import annotations

import errno
import gc
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from ...shapes import NamedTuple
from .tree import Process, marked, processes, signal_tree, with_descendants

_BEGIN = 60.0  # seconds until a script runs at the latest: the fork, and its file from a disk that may be far away
GRACE = 5.0  # between TERM and KILL once we are dead: a successor may be at work already

_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36
_WAITED_FOR = {signal.SIGCHLD, signal.SIGTERM}

Prctl = Callable[[int, Any], bool]


class Above(NamedTuple):
    """Who forked the reaper, with its mask of signals, and the call that makes the reaper what it is."""

    pid: int
    prctl: Prctl
    mask: set[Any]


class Reaped:
    """A script below its reaper: `report` is readable when there is news of it."""

    def __init__(self, reaper: int, report: int, stdout: int, stderr: int, mark: str) -> None:
        self.reaper, self.report, self.stdout, self.stderr, self.mark = reaper, report, stdout, stderr, mark
        self.status: int | None = None  # the exit code, or minus the signal
        self.is_over = False  # whether the reaper has ended
        self.pid = self.adopts = 0
        self._heard = b""

    def begun(self) -> None:
        """Wait until the script runs; OSError when it cannot."""
        until = time.monotonic() + _BEGIN
        while not self.pid:
            if not select.select([self.report], [], [], 1.0)[0]:
                if time.monotonic() > until:
                    raise OSError(errno.ETIMEDOUT, f"it did not begin within {_BEGIN:.0f} s")
                continue
            self.hear()
            if self.is_over and not self.pid:
                raise OSError(errno.ECHILD, "the process that watches it was ended")
        os.set_blocking(self.report, False)

    def hear(self) -> None:
        """Take the news from the reaper."""
        try:
            heard = os.read(self.report, 1024)
        except BlockingIOError:
            return
        self._heard += heard
        *lines, self._heard = self._heard.split(b"\n")
        for line in lines:
            word, *numbers = line.split()
            if word == b"error":
                raise OSError(int(numbers[0]), os.strerror(int(numbers[0])))
            if word == b"begun":
                self.pid, self.adopts = map(int, numbers)
            else:
                self.status = int(numbers[0])
        if not heard and not self.is_over:
            self.is_over = True
            with suppress(ChildProcessError):
                os.waitpid(self.reaper, 0)

    def is_gone(self) -> bool:
        """Whether no process of the script lives any more; the usual end costs no walk through all processes."""
        return self.is_over and ((self.status is not None and bool(self.adopts)) or not self.living())

    def living(self) -> list[Process]:
        """Those of the script that live. Without a reaper that adopts, they are known by their session and their mark."""
        table = processes()
        if self.adopts and not self.is_over:
            roots = [process for process in table.values() if process.parent == self.reaper]
        else:
            roots = [each for each in table.values() if self.pid in (each.session, each.group)]
            roots += marked(table, self.mark.__eq__) if self.mark else []
        return [process for process in with_descendants(table, roots) if process.pid != self.reaper]

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to every process of the script."""
        signal_tree(self.living, number)

    def close(self) -> None:
        """Let go of the pipes, and of the reaper if it still holds on."""
        for handle in (self.stdout, self.stderr, self.report):
            os.close(handle)
        if not self.is_over:
            self.is_over = True
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(self.reaper, signal.SIGKILL)
                os.waitpid(self.reaper, 0)


def start(begin: Callable[..., subprocess.Popen[bytes]], stdin: int | None, mark: str) -> Reaped:
    """Have a script begun below a reaper of its own; OSError when it cannot be started."""
    prctl = _prctl()  # loaded here: after the fork as little as possible happens
    out, err, report = os.pipe(), os.pipe(), os.pipe()
    # No handler of ours may run in the child: what it raised would go on as a second one of us.
    above = Above(os.getpid(), prctl, signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()))
    try:
        reaper = os.fork()
        if not reaper:
            _reap(begin, stdin, out[1], err[1], report[1], mark, above)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, above.mask)
    for _, inner in (out, err, report):
        os.close(inner)
    child = Reaped(reaper, report[0], out[0], err[0], mark)
    try:
        child.begun()
    except BaseException:
        child.close()
        raise
    return child


# In the reaper --------------------------------------------------------------------------------------------------------


def _reap(
    begin: Callable[..., Any], stdin: int | None, out: int, err: int, report: int, mark: str, above: Above
) -> NoReturn:
    """The whole life of a reaper. No signal but those that it waits for can disturb it."""
    try:
        gc.disable()  # nothing of our parent's may be finalised here
        handles, prctl = [out, err, report, *([] if stdin is None else [stdin])], above.prctl
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()  # what is sent to our group is meant for us
        adopts = prctl(_PR_SET_CHILD_SUBREAPER, 1)
        if mark:
            prctl(_PR_SET_NAME, mark.encode())
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        nowhere = _drop_all_but({0, 1, 2, *handles})

        def prepare() -> None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # should only the reaper be killed
            signal.pthread_sigmask(signal.SIG_SETMASK, above.mask)

        try:
            script = begin(stdout=out, stderr=err, preexec_fn=prepare)
        except OSError as error:
            os.write(report, b"error %d\n" % (error.errno or errno.EIO))
            os._exit(0)
        try:
            with suppress(OSError):  # we may be dead already: then nobody hears it, and what began has to end
                os.write(report, b"begun %d %d\n" % (script.pid, adopts))
            for handle in {0, 1, 2, *handles} - {report}:
                os.dup2(nowhere, handle)
            _watch(script.pid, report, above.pid)
        except BaseException:  # whatever it is, nothing outlives us
            signal_tree(_below, signal.SIGKILL)
    finally:
        os._exit(0)


def _watch(script: int, report: int, above: int) -> None:
    """Reap until nothing is left; once our parent is dead, which a signal tells, end what there is."""
    kill_at: float | None = None
    while True:
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == script:
                    with suppress(OSError):
                        os.write(report, b"ended %d\n" % os.waitstatus_to_exitcode(ended[1]))
        except ChildProcessError:
            return
        if kill_at is not None:
            signal.sigtimedwait(_WAITED_FOR, 0.05)
            if time.monotonic() > kill_at:
                signal_tree(_below, signal.SIGKILL)
        elif os.getppid() != above:
            kill_at = time.monotonic() + GRACE
            signal_tree(_below, signal.SIGTERM)
        else:
            signal.sigwait(_WAITED_FOR)


def _below() -> list[Process]:
    table, me = processes(), os.getpid()
    return with_descendants(table, [process for process in table.values() if process.parent == me])


def _drop_all_but(kept: set[int]) -> int:
    """Point what the parent has open at /dev/null, which is returned: another launch's pipe, held here, would never end.

    Not closed: the fork handlers of libraries (Arrow's) close their own files once more, and abort where there is none.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in {nowhere, *kept}:
            os.dup2(nowhere, int(name), inheritable=False)
    return nowhere


def _prctl() -> Prctl:
    import ctypes  # takes milliseconds, and nothing else needs it

    call = ctypes.CDLL(None).prctl
    return lambda option, argument: int(call(option, argument, 0, 0, 0)) == 0
