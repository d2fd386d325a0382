"""Runs a script or any executable, unchanged, for one claimed chunk, and leaves none of its processes behind.

One thread and one selector: output is redacted, logged and shown as it arrives, the heartbeat ticks, and a timeout, a
signal, a cancel or a lost lease ends the whole tree: TERM, a grace, KILL. The script leads a session of its own. On
Linux we adopt what it orphans, so that a daemon that left the session is still found.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ...errors import JobFailed
from ...pause import pause
from .command import Command, Program
from .ended import Ended, last_lines
from .signals import Signals
from .streams import Echo, Stream
from .tree import MARKER, Tree, adopting_orphans, has_children

if TYPE_CHECKING:
    from .logs import LogFile

LINGER = 2.0  # what is left after a script ended by itself may still finish in this time
SHORT_GRACE = 5.0  # for left-overs, and for a lost lease: its successor may be at work already
KILL_WAIT = 5.0  # a killed process that is still there then hangs in the kernel


class Terms(NamedTuple):
    """How long a command may run, which heartbeat ticks meanwhile, who may end it, and whether its output is shown."""

    timeout: float | None = None
    grace: float = 10.0
    tick: Callable[[], object] | None = None
    every: float = 10.0
    cancel: threading.Event | None = None
    echo: bool = True
    is_alone: bool = False  # whether no other command runs in this process: then all its orphans are ours


def launch(command: Command, log: LogFile, terms: Terms) -> Ended:
    """Run a command to its end and tell how it ended.

    What the heartbeat raises ends the command and is raised again when it is gone.
    """
    log.begin(command.words(), command.cwd)
    try:
        program = command.program()
        with Signals() as signals, adopting_orphans():
            return _Launch(program, log, terms, signals).run()
    except BaseException as error:
        log.end(f"{type(error).__name__}: {error}")
        raise


class _Launch:
    """One command from its start to the end of its last process."""

    def __init__(self, program: Program, log: LogFile, terms: Terms, signals: Signals) -> None:
        self.log, self.signals, self.cancel, self.tick = log, signals, terms.cancel, terms.tick
        self.every, self.grace, self.shown = terms.every, terms.grace, terms.echo
        self.timed_out = self.cancelled = False
        self.raised: BaseException | None = None
        self.status: int | None = None
        self.tail = bytearray()
        self.streams: list[Stream] = []
        self.pidfd: int | None = None
        alone = terms.is_alone and not has_children()
        self.selector = selectors.DefaultSelector()
        try:
            self.started = self.now = time.monotonic()
            self.process = program.start()
        except BaseException:
            self.selector.close()
            raise
        self.tree = Tree(self.process.pid, program.env.get(MARKER), alone)
        self.ended = self.started
        self.deadline = None if terms.timeout is None else self.started + terms.timeout
        self.next_tick = None if terms.tick is None else self.started + terms.every
        self.look_after, self.next_look = 0.5, self.started + 0.5

    def run(self) -> Ended:
        try:
            self.open()
            while self.status is None and not self.must_stop():
                self.pump(60.0)
            if self.status is None or self.must_stop() or not self.gone_soon():
                self.end_all()
            self.finish_output()
        except BaseException:
            # Whatever broke in here, nothing may go on running unwatched.
            self.kill_now()
            raise
        finally:
            self.close()
        if self.raised is not None:
            raise self.raised
        code = self.status
        ended = Ended(
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            timed_out=self.timed_out,
            cancelled=self.cancelled,
            seconds=self.ended - self.started,
            tail=last_lines(bytes(self.tail)),
        )
        self.log.end(str(ended))
        return ended

    def open(self) -> None:
        for pipe, target in ((self.process.stdout, sys.stdout), (self.process.stderr, sys.stderr)):
            assert pipe is not None
            shown = target if self.shown else None
            self.streams.append(Stream(pipe.fileno(), self.selector, self.log, self.tail, shown))
        self.pidfd = _pidfd(self.process.pid)
        if self.pidfd is not None:
            self.selector.register(self.pidfd, selectors.EVENT_READ)
        if self.signals.wake is not None:
            self.selector.register(self.signals.wake, selectors.EVENT_READ)

    def must_stop(self) -> bool:
        """Whether something has happened by which the command must end now."""
        if self.signals.count or (self.cancel is not None and self.cancel.is_set()):
            self.cancelled = True
        elif self.status is None and self.deadline is not None and self.now >= self.deadline:
            self.timed_out = True
        return self.cancelled or self.timed_out or self.raised is not None

    def pump(self, longest: float) -> None:
        """Wait for one of the things that can happen, and handle it."""
        self.now = time.monotonic()
        until = self.now + longest
        for due in (None if self.status is not None else self.deadline, self.next_tick, self.next_look):
            if due is not None and due < until:
                until = due
        if self.cancel is not None:
            until = min(until, self.now + 0.1)
        if self.pidfd is None and self.status is None:
            until = min(until, self.now + 0.02)
        if any(stream.echo.waits for stream in self.streams):
            until = min(until, self.now + 0.1)
        for key, _ in self.selector.select(max(until - self.now, 0.0)):
            if isinstance(key.data, Stream):
                key.data.receive()
            elif isinstance(key.data, Echo):
                key.data.drain()
            elif key.fd == self.signals.wake:
                self.signals.quiet()
            elif key.fd == self.pidfd:
                self.drop_pidfd()
        self.now = time.monotonic()
        for stream in self.streams:
            stream.balance(self.now)
        if self.status is None:
            self.status = self.exit_status()
            self.ended = self.now
        if self.next_tick is not None and self.tick is not None and self.now >= self.next_tick:
            try:
                self.tick()
                self.next_tick = time.monotonic() + self.every
            except BaseException as error:
                self.raised, self.next_tick = error, None
        if self.now >= self.next_look:
            # Who is a descendant today is known as one tomorrow, when it may be an orphan.
            self.tree.look()
            self.look_after = min(self.look_after * 2, 10.0)
            self.next_look = self.now + self.look_after

    def exit_status(self) -> int | None:
        """The exit code, or minus the signal, once it ended."""
        pid = self.process.pid
        try:
            if self.tree.alone or sys.platform != "linux":
                reaped, status = os.waitpid(pid, os.WNOHANG)
                self.tree.reaped = reaped == pid
                return os.waitstatus_to_exitcode(status) if reaped else None
            # Among other children it stays a zombie until the end, so that nobody else can get its number.
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            self.tree.reaped = True
            raise JobFailed(
                "how the command ended is not known: something else in this process took its exit status",
                hint="SIGCHLD must not be ignored, and nobody else may wait for all children.",
            ) from None
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def gone_soon(self) -> bool:
        """Whether what the script started finishes by itself, such as a `tee`; a daemon would hold us for ever."""
        until = self.now + LINGER
        pause = 0.002
        while self.reading() or self.tree.look():
            if self.now >= until or self.must_stop():
                return not self.tree.look()
            self.pump(pause)
            pause = min(pause * 2, 0.05)
            if self.blocked():
                until = self.now + LINGER
        return True

    def end_all(self) -> None:
        """End every process of this launch that still lives."""
        asked = self.cancelled or self.timed_out or self.raised is not None
        grace, self.deadline = self.grace, None
        if not asked or self.raised is not None:
            grace = min(grace, SHORT_GRACE)
        if not asked:
            for process in self.tree.look():
                self.log.note(f"left-over process {process.pid} ({process.name}) is ended")
        self.tree.signal_all(signal.SIGTERM)
        if not self.wait_gone(grace):
            for process in self.tree.look():
                self.log.note(f"process {process.pid} ({process.name}) ignores TERM and is killed")
            self.tree.signal_all(signal.SIGKILL)
            if not self.wait_gone(KILL_WAIT, killing=True):
                for process in self.tree.look():
                    self.log.note(f"process {process.pid} ({process.name}) cannot be ended")

    def wait_gone(self, longest: float, *, killing: bool = False) -> bool:
        """Whether everything was gone in this time; a second Ctrl-C cuts it short."""
        until = time.monotonic() + longest
        pause = 0.002
        while self.status is None or self.tree.look():
            if self.now >= until or (self.signals.interrupts > 1 and not killing):
                return False
            self.pump(pause)
            pause = min(pause * 2, 0.05)
            if killing:  # a process may have forked between our look and its death
                self.tree.signal_all(signal.SIGKILL)
        return True

    def kill_now(self) -> None:
        with suppress(JobFailed):
            until = time.monotonic() + KILL_WAIT
            while (self.status is None or self.tree.look()) and time.monotonic() < until:
                self.tree.signal_all(signal.SIGKILL)
                pause(0.005)
                if self.status is None:
                    self.status = self.exit_status()

    def reading(self) -> bool:
        return any(not stream.ended for stream in self.streams)

    def blocked(self) -> bool:
        return any(stream.echo.full for stream in self.streams)

    def finish_output(self) -> None:
        """Take what is still in the pipes, and wait for a reader of our own output that is merely slow."""
        until = time.monotonic() + 0.5
        while self.reading():
            if self.now >= until:
                if not self.blocked():
                    self.log.note("an unknown process keeps the output open; what it prints now is not logged")
                    break
                if self.must_stop():
                    self.stop_showing()
                until = self.now + 0.5
            self.pump(0.05)
        for stream in self.streams:
            stream.finish()
        until = time.monotonic() + 0.5
        while any(stream.echo.waits for stream in self.streams):
            self.pump(0.1)
            if self.now >= until and self.must_stop():
                self.stop_showing()

    def stop_showing(self) -> None:
        for stream in self.streams:
            stream.echo.close()

    def drop_pidfd(self) -> None:
        if self.pidfd is not None:
            pidfd, self.pidfd = self.pidfd, None
            with suppress(KeyError):
                self.selector.unregister(pidfd)
            os.close(pidfd)

    def close(self) -> None:
        self.stop_showing()
        self.drop_pidfd()
        self.selector.close()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        if self.status is not None or self.tree.reaped:
            if not self.tree.reaped:
                with suppress(ChildProcessError):
                    os.waitpid(self.process.pid, 0)
            self.process.returncode = self.status if self.status is not None else 1
        self.tree.forget()


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None  # an old kernel or another system: we look often instead
