"""Runs a command and ends all processes that it started.

One thread and one selector: output is redacted, logged and shown as it arrives, the heartbeat ticks, and a timeout, a
signal, a cancel or a lost lease ends the process tree, parents first: TERM, a grace period, KILL. The script leads a new
session. On Linux a reaper adopts its orphans, finds daemons that left the session, and ends them all when this process dies.
"""

from __future__ import annotations

import selectors
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ... import faults
from ...errors import BadConfig, JobFailed
from ...pause import pause
from .command import Command, Program
from .process_end import ProcessEnd, last_lines
from .signals import Signals
from .streams import Echo, Stream

if TYPE_CHECKING:
    from .logs import LogFile

LINGER = 2.0  # seconds in which remaining processes may finish after the script ended
SHORT_GRACE = 5.0  # for remaining processes and lost leases, whose successor may be running already
KILL_WAIT = 5.0  # a process that survives KILL for so long hangs in the kernel


class Terms(NamedTuple):
    """The limits of a launch: timeout, grace period, heartbeat, cancel event, and whether output is shown."""

    timeout: float | None = None
    grace: float = 10.0
    tick: Callable[[], object] | None = None
    every: float = 10.0
    cancel: threading.Event | None = None
    echo: bool = True


def launch(command: Command, log: LogFile, terms: Terms) -> ProcessEnd:
    """Run a command until its last process has ended.

    An exception of the heartbeat ends the command and is raised again afterwards.
    """
    log.begin(command.words(), command.cwd)
    try:
        program = command.program()
        with Signals() as signals:
            if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:  # threads cannot change signal handlers
                raise BadConfig("SIGCHLD is ignored in this process, so exit codes are unavailable")
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
        self.selector = selectors.DefaultSelector()
        try:
            self.started = self.now = time.monotonic()
            self.child = program.start()
        except BaseException:
            self.selector.close()
            raise
        faults.point("spawned")
        self.ended = self.started
        self.deadline = None if terms.timeout is None else self.started + terms.timeout
        self.next_tick = None if terms.tick is None else self.started + terms.every

    def run(self) -> ProcessEnd:
        try:
            self.open()
            while self.status is None and not self.must_stop():
                self.pump(60.0)
            if self.status is None or self.must_stop() or not self.gone_soon():
                self.end_all()
            self.finish_output()
        except BaseException:
            # No process may continue unsupervised.
            self.kill_now()
            raise
        finally:
            self.close()
        if self.raised is not None:
            raise self.raised
        code = self.status
        ended = ProcessEnd(
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            timed_out=self.timed_out,
            cancelled=self.cancelled,
            seconds=self.ended - self.started,
            tail=last_lines(bytes(self.tail)),
            stopped_by=self.signals.first,
        )
        self.log.end(str(ended))
        return ended

    def open(self) -> None:
        for pipe, target in ((self.child.stdout, sys.stdout), (self.child.stderr, sys.stderr)):
            shown = target if self.shown else None
            self.streams.append(Stream(pipe, self.selector, self.log, self.tail, shown))
        if self.child.report is not None:
            self.selector.register(self.child.report, selectors.EVENT_READ)
        if self.signals.wake is not None:
            self.selector.register(self.signals.wake, selectors.EVENT_READ)
        self.now = time.monotonic()
        self.poll()  # the report of a short script may already contain its end

    def must_stop(self) -> bool:
        """Whether the command must end now: a signal, a cancel, a timeout or an error."""
        stop = bool(self.signals.count) or (self.cancel is not None and self.cancel.is_set())
        if self.status is None:  # a script that ended by itself was neither cancelled nor timed out
            self.cancelled = self.cancelled or stop
            self.timed_out = self.timed_out or (self.deadline is not None and not stop and self.now >= self.deadline)
        return stop or self.timed_out or self.raised is not None

    def pump(self, longest: float) -> None:
        """Wait for the next event, and handle it."""
        self.now = time.monotonic()
        until = self.now + longest
        for due in (None if self.status is not None else self.deadline, self.next_tick):
            if due is not None and due < until:
                until = due
        if self.cancel is not None:
            until = min(until, self.now + 0.1)
        if self.child.report is None and self.status is None:
            until = min(until, self.now + 0.02)
        if any(stream.echo.waits for stream in self.streams):
            until = min(until, self.now + 0.1)
        for key, _ in self.selector.select(max(until - self.now, 0.0)):
            if isinstance(key.data, Stream):
                key.data.receive()
            elif isinstance(key.data, Echo):
                key.data.drain()
            elif key.fd == self.signals.wake:
                self.signals.drain()
        self.now = time.monotonic()
        for stream in self.streams:
            stream.balance(self.now)
        self.poll()
        if self.next_tick is not None and self.tick is not None and self.now >= self.next_tick:
            try:
                self.tick()
                self.next_tick = time.monotonic() + self.every
            except BaseException as error:
                self.raised, self.next_tick = error, None

    def poll(self) -> None:
        """Update the status of the script and of its process tree."""
        if self.child.is_over:
            return
        self.child.poll()
        if self.status is None:
            self.status, self.ended = self.child.status, self.now
        if self.child.is_over:
            if self.child.report is not None:
                with suppress(KeyError):
                    self.selector.unregister(self.child.report)
            if self.status is None and self.raised is None:
                self.raised = JobFailed("the exit code is unknown: the reaper process of the command was killed")

    def gone_soon(self) -> bool:
        """Whether the remaining processes, such as a `tee`, finish within LINGER."""
        until = self.now + LINGER
        pause = 0.002
        while self.reading() or not self.child.is_gone():
            if self.now >= until or self.must_stop():
                return self.child.is_gone()
            self.pump(pause)
            pause = min(pause * 2, 0.05)
            if self.blocked():
                until = self.now + LINGER
        return True

    def end_all(self) -> None:
        """End every remaining process of this launch."""
        stop = self.cancelled or self.timed_out or self.raised is not None
        grace, self.deadline = self.grace, None
        if not stop or self.raised is not None:
            grace = min(grace, SHORT_GRACE)
        if not stop:
            for process in self.child.living():
                self.log.note(f"left-over process {process.pid} ({process.name}) is ended")
        if not self.wait_gone(grace):
            for process in self.child.living():
                self.log.note(f"process {process.pid} ({process.name}) still runs after TERM and is killed")
            if not self.wait_gone(KILL_WAIT, killing=True):
                for process in self.child.living():
                    self.log.note(f"process {process.pid} ({process.name}) cannot be ended")

    def wait_gone(self, longest: float, *, killing: bool = False) -> bool:
        """Whether all processes ended within this time; a second Ctrl-C shortens it."""
        until = time.monotonic() + longest
        pause = 0.002
        while not self.child.is_gone():
            if self.now >= until or (self.signals.interrupts > 1 and not killing):
                return False
            if killing:  # repeatedly: a process may have forked meanwhile
                self.child.kill()
            else:
                self.child.terminate()
            self.pump(pause)
            pause = min(pause * 2, 0.05)
        return True

    def kill_now(self) -> None:
        until = time.monotonic() + KILL_WAIT
        while not self.child.is_gone() and time.monotonic() < until:
            self.child.kill()
            pause(0.005)
            self.poll()

    def reading(self) -> bool:
        return any(not stream.ended for stream in self.streams)

    def blocked(self) -> bool:
        return any(stream.echo.full for stream in self.streams)

    def finish_output(self) -> None:
        """Read the rest of the pipes, and wait for slow readers of this program's output."""
        until = time.monotonic() + 0.5
        while self.reading():
            if self.now >= until:
                if not self.blocked():
                    self.log.note("an unknown process keeps the output open; its further output is not logged")
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

    def close(self) -> None:
        self.stop_showing()
        self.selector.close()
        self.child.close()
