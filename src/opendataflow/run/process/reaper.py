"""Starts a script below a reaper process, on Linux, so that no process of the script outlives this one.

The reaper adopts the script's orphans, so that they stay below it in any session, group or environment. It reports how the
script ended, and exits when no process is left. When this process dies, the reaper ends them all. It is forked, which takes
a millisecond; a separate program would take the start of an interpreter.
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
from typing import Any, NamedTuple, NoReturn

from .process_tree import Process, below, kill_tree, marked, processes, terminate_topmost, with_orphans

_BEGIN = 60.0  # longest start of a script in seconds, from a possibly slow network disk
GRACE = 5.0  # between TERM and KILL after the parent died: a successor may be running already

_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36
_WAKING_SIGNALS = {signal.SIGCHLD, signal.SIGTERM}

Prctl = Callable[[int, Any], bool]


class ParentProcess(NamedTuple):
    """The parent of the reaper, its signal mask, and the prctl function."""

    pid: int
    prctl: Prctl
    mask: set[Any]


class Reaped:
    """A script below its reaper; `report` becomes readable when its status changes."""

    def __init__(self, reaper: int, report: int, stdout: int, stderr: int, mark: str) -> None:
        self.reaper, self.report, self.stdout, self.stderr, self.mark = reaper, report, stdout, stderr, mark
        self.status: int | None = None  # the exit code, or minus the signal
        self.is_over = False  # whether the reaper has ended
        self.pid = self.adopts = 0
        self._buffer = b""
        self._seen: dict[int, int] = {}
        self._terminated: set[int] = set()

    def wait_started(self) -> None:
        """Wait until the script has started; OSError if it cannot."""
        until = time.monotonic() + _BEGIN
        while not self.pid:
            if not select.select([self.report], [], [], 1.0)[0]:
                if time.monotonic() > until:
                    raise OSError(errno.ETIMEDOUT, f"no start within {_BEGIN:.0f} s")
                continue
            self.poll()
            if self.is_over and not self.pid:
                raise OSError(errno.ECHILD, "the reaper process was killed")
        os.set_blocking(self.report, False)

    def poll(self) -> None:
        """Read the reports of the reaper."""
        try:
            data = os.read(self.report, 1024)
        except BlockingIOError:
            return
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            word, *numbers = line.split()
            if word == b"error":
                raise OSError(int(numbers[0]), os.strerror(int(numbers[0])))
            if word == b"begun":
                self.pid, self.adopts = map(int, numbers)
            else:
                self.status = int(numbers[0])
        if not data and not self.is_over:
            self.is_over = True
            with suppress(ChildProcessError):
                os.waitpid(self.reaper, 0)

    def is_gone(self) -> bool:
        """Whether no process of the script is alive. In the usual case this needs no list of all processes."""
        return self.is_over and ((self.status is not None and bool(self.adopts)) or not self.living())

    def living(self) -> list[Process]:
        """The living processes of the script. Without an adopting reaper, they are found by session and mark."""
        table = processes()
        if self.adopts and not self.is_over:
            roots = [process for process in table.values() if process.parent == self.reaper]
        else:
            roots = [each for each in table.values() if self.pid in (each.session, each.group)]
            roots += marked(table, self.mark.__eq__) if self.mark else []
        return [process for process in with_orphans(table, roots, self._seen) if process.pid != self.reaper]

    def terminate(self) -> None:
        """Send TERM to the topmost processes of the script. Call repeatedly until none is alive."""
        terminate_topmost(self.living(), self._terminated)

    def kill(self) -> None:
        """Kill every process of the script."""
        kill_tree(self.living)

    def close(self) -> None:
        """Close the pipes, and kill the reaper if it is still alive."""
        for handle in (self.stdout, self.stderr, self.report):
            os.close(handle)
        if not self.is_over:
            self.is_over = True
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(self.reaper, signal.SIGKILL)
                os.waitpid(self.reaper, 0)


def start(begin: Callable[..., subprocess.Popen[bytes]], stdin: int | None, mark: str) -> Reaped:
    """Start a script below a new reaper; OSError if it cannot be started."""
    prctl = _prctl()  # loaded before the fork, after which as little as possible runs
    out, err, report = os.pipe(), os.pipe(), os.pipe()
    # Block signals: an exception of a Python handler in the child would continue as a second copy of this program.
    above = ParentProcess(os.getpid(), prctl, signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()))
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
        child.wait_started()
    except BaseException:
        child.close()
        raise
    return child


# In the reaper --------------------------------------------------------------------------------------------------------


def _reap(
    begin: Callable[..., Any], stdin: int | None, out: int, err: int, report: int, mark: str, above: ParentProcess
) -> NoReturn:
    """The main function of the reaper, which blocks all signals except those that it waits for."""
    try:
        gc.disable()  # no object of the parent may be finalised here
        handles, prctl = [out, err, report, *([] if stdin is None else [stdin])], above.prctl
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()  # signals to the parent's group must not reach the script
        adopts = prctl(_PR_SET_CHILD_SUBREAPER, 1)
        if mark:
            prctl(_PR_SET_NAME, mark.encode())
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        nowhere = _drop_all_but({0, 1, 2, *handles})

        def prepare() -> None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # if only the reaper is killed
            signal.pthread_sigmask(signal.SIG_SETMASK, above.mask)

        try:
            script = begin(stdout=out, stderr=err, preexec_fn=prepare)
        except OSError as error:
            os.write(report, b"error %d\n" % (error.errno or errno.EIO))
            os._exit(0)
        try:
            with suppress(OSError):  # the parent may be dead already: then the loop ends the script
                os.write(report, b"begun %d %d\n" % (script.pid, adopts))
            for handle in {0, 1, 2, *handles} - {report}:
                os.dup2(nowhere, handle)
            _watch(script.pid, report, above.pid)
        except BaseException:  # any error: no process may survive
            kill_tree(below)
    finally:
        os._exit(0)


def _watch(script: int, report: int, above: int) -> None:
    """Reap until no process is left; after a signal that the parent died, end all processes."""
    kill_at: float | None = None
    terminated: set[int] = set()
    while True:
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == script:
                    with suppress(OSError):
                        os.write(report, b"ended %d\n" % os.waitstatus_to_exitcode(ended[1]))
        except ChildProcessError:
            return
        if kill_at is not None:
            signal.sigtimedwait(_WAKING_SIGNALS, 0.05)
            if time.monotonic() > kill_at:
                kill_tree(below)
            else:
                terminate_topmost(below(), terminated)
        elif os.getppid() != above:
            kill_at = time.monotonic() + GRACE
            terminate_topmost(below(), terminated)
        else:
            signal.sigwait(_WAKING_SIGNALS)


def _drop_all_but(kept: set[int]) -> int:
    """Redirect the parent's open files to /dev/null, so that pipes of other launches can end; returns its handle.

    They are not closed: fork handlers of libraries (Arrow) close their files again, and abort if they are closed already.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in {nowhere, *kept}:
            os.dup2(nowhere, int(name), inheritable=False)
    return nowhere


def _prctl() -> Prctl:
    import ctypes  # lazy: slow to import

    call = ctypes.CDLL(None).prctl
    return lambda option, argument: int(call(option, argument, 0, 0, 0)) == 0
