"""Runs a script or any executable, unchanged, for one claimed chunk, and leaves none of its processes behind.

One thread and one selector: output is redacted, logged and shown as it arrives, the heartbeat ticks, and a timeout, a
signal, a cancel or a lost lease ends the whole tree: TERM, a grace, KILL. The script leads a session of its own. On
Linux we adopt what it orphans, so that a daemon that left the session is still found.
"""

from __future__ import annotations

import errno
import os
import re
import select
import selectors
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from opendataflow.errors import BadConfig, JobFailed
from opendataflow.secrets import child_environment

if TYPE_CHECKING:
    from opendataflow.run.logs import LogFile

LINGER = 2.0  # what is left after a script ended by itself may still finish in this time
SHORT_GRACE = 5.0  # for left-overs, and for a lost lease: its successor may be at work already
KILL_WAIT = 5.0  # a killed process that is still there then hangs in the kernel
STALL = 2.0  # a terminal that takes nothing for this long gets nothing until it does

_READ = 65536
_ECHO_PENDING = 256 * 1024
_TAIL_BYTES = 4096
_TAIL_LINES = 8
_PR_SET_CHILD_SUBREAPER = 36
_MARKER = "ODF_RUN"
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_NOT_TEXT = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[^\S \t\n]|[\x00-\x08\x0e-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a launch ended; `tail` is the last few lines of its output, redacted, for the reason of a failure.

    Neither exit code nor signal: the process could not even be killed. `cancelled` and `timed_out` are right whatever
    the exit code is, since a script may answer TERM with exit 0.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    cancelled: bool
    seconds: float
    tail: str

    @property
    def ok(self) -> bool:
        """Whether the job did its work."""
        return self.exit_code == 0 and not self.timed_out and not self.cancelled

    def __str__(self) -> str:
        if self.signal is not None:
            how = f"ended by signal {self.signal} ({_signal_name(self.signal)})"
        elif self.exit_code is not None:
            how = f"exit code {self.exit_code}"
        else:
            how = "cannot be ended"
        why = "cancelled, " if self.cancelled else "timed out, " if self.timed_out else ""
        return f"{why}{how} after {self.seconds:.3f} s"


def launch(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | os.PathLike[str],
    log: LogFile,
    timeout: float | None = None,
    grace: float = 10.0,
    tick: Callable[[], None] | None = None,
    every: float = 10.0,
    echo: bool = True,
    stdin: int | None = None,
    cancel: threading.Event | None = None,
) -> Ended:
    """Run a command to its end and tell how it ended; without `stdin` its input is empty.

    What `tick` raises ends the command and is raised again when it is gone.
    """
    log.begin(argv, cwd)
    try:
        where = _check_folder(cwd)
        _check_words(argv)
        # A second wall: whatever the caller put together, nothing that leads to the key goes to a script.
        environment = _check_environment(child_environment(env))
        command, executable = _find(argv, environment, where)
        with _Signals() as signals, _adopting_orphans():
            return _Launch(
                lambda **pipes: _start(command, executable, environment, where, stdin, pipes),
                marker=environment.get(_MARKER),
                log=log,
                signals=signals,
                cancel=cancel,
                tick=tick,
                every=every,
                timeout=timeout,
                grace=grace,
                echo=echo,
            ).run()
    except BaseException as error:
        log.end(f"{type(error).__name__}: {error}")
        raise


class _Launch:
    """One command from its start to the end of its last process."""

    def __init__(
        self,
        start: Callable[..., subprocess.Popen[bytes]],
        *,
        marker: str | None,
        log: LogFile,
        signals: _Signals,
        cancel: threading.Event | None,
        tick: Callable[[], None] | None,
        every: float,
        timeout: float | None,
        grace: float,
        echo: bool,
    ) -> None:
        self.log, self.signals, self.cancel, self.tick, self.every, self.grace = log, signals, cancel, tick, every, grace
        self.timed_out = self.cancelled = False
        self.raised: BaseException | None = None
        self.status: int | None = None
        self.tail = bytearray()
        alone = threading.active_count() == 1 and not _has_children()
        self.started = self.now = time.monotonic()
        self.selector = selectors.DefaultSelector()
        self.process = start(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.tree = _Tree(self.process.pid, marker, alone)
        self.deadline = None if timeout is None else self.started + timeout
        self.next_tick = None if tick is None else self.started + every
        self.look_after, self.next_look = 0.5, self.started + 0.5
        self.pidfd = _pidfd(self.process.pid)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.streams = [
            _Stream(self.process.stdout.fileno(), self, sys.stdout if echo else None),
            _Stream(self.process.stderr.fileno(), self, sys.stderr if echo else None),
        ]
        if self.pidfd is not None:
            self.selector.register(self.pidfd, selectors.EVENT_READ)
        if signals.wake is not None:
            self.selector.register(signals.wake, selectors.EVENT_READ)

    def run(self) -> Ended:
        try:
            while self.status is None and not self.must_stop():
                self.pump(60.0)
            seconds = time.monotonic() - self.started
            if self.status is not None and not self.must_stop():
                self.linger()
            self.end_all()
            if self.status is not None:
                self.process.returncode = self.status
            self.finish_output()
        except BaseException:
            # Whatever broke in here, nothing may go on running unwatched.
            self.tree.signal_all(signal.SIGKILL)
            raise
        finally:
            self.close()
        code = self.status
        ended = Ended(
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            timed_out=self.timed_out,
            cancelled=self.cancelled,
            seconds=seconds,
            tail=_last_lines(bytes(self.tail)),
        )
        if self.raised is not None:
            raise self.raised
        self.log.end(str(ended))
        return ended

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
        for due in (self.deadline if self.status is None else None, self.next_tick, self.next_look):
            if due is not None and due < until:
                until = due
        if self.cancel is not None:
            until = min(until, self.now + 0.1)
        if self.pidfd is None and self.status is None:
            until = min(until, self.now + 0.02)
        if any(stream.echo.waits for stream in self.streams):
            until = min(until, self.now + 0.1)
        for key, _ in self.selector.select(max(until - self.now, 0.0)):
            if isinstance(key.data, _Stream):
                key.data.receive()
            elif isinstance(key.data, _Echo):
                key.data.drain()
            elif key.fd == self.signals.wake:
                self.signals.quiet()
            elif key.fd == self.pidfd:
                self.selector.unregister(key.fd)
        self.now = time.monotonic()
        for stream in self.streams:
            stream.balance(self.now)
        if self.status is None:
            self.status = self.exit_status()
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
        """The exit code, or minus the signal, once it ended; it stays a zombie so that its number stays its own."""
        try:
            if sys.platform == "darwin" or not hasattr(os, "waitid"):
                pid, status = os.waitpid(self.process.pid, os.WNOHANG)
                return os.waitstatus_to_exitcode(status) if pid else None
            ended = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            raise JobFailed(
                "how the command ended is not known: something else in this process took its exit status",
                hint="SIGCHLD must not be ignored, and nobody else may wait for all children.",
            ) from None
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def linger(self) -> None:
        """Let what the script started finish by itself, such as a `tee`; a daemon would hold us for ever."""
        until = self.now + LINGER
        pause = 0.002
        while (self.reading() or self.tree.look()) and self.now < until and not self.must_stop():
            self.pump(min(pause, max(until - self.now, 0.0)))
            pause = min(pause * 2, 0.05)

    def end_all(self) -> None:
        """End every process of this launch that still lives."""
        asked = self.cancelled or self.timed_out or self.raised is not None
        left = self.tree.look()
        if self.status is not None and not left:
            return
        grace = self.grace
        if not asked or self.raised is not None:
            grace = min(grace, SHORT_GRACE)
        if not asked:
            for process in left:
                self.log.note(f"left-over process {process.pid} ({process.name}) is ended")
        self.tree.signal_all(signal.SIGTERM)
        if not self.wait_gone(grace, impatient=True):
            for process in self.tree.look():
                self.log.note(f"process {process.pid} ({process.name}) ignores TERM and is killed")
            self.tree.signal_all(signal.SIGKILL)
            if not self.wait_gone(KILL_WAIT, again=True):
                for process in self.tree.look():
                    self.log.note(f"process {process.pid} ({process.name}) cannot be ended")

    def wait_gone(self, longest: float, *, impatient: bool = False, again: bool = False) -> bool:
        """Whether everything was gone in this time; a second Ctrl-C cuts it short."""
        begun = self.signals.count
        until = time.monotonic() + longest
        pause = 0.002
        while self.status is None or self.tree.look():
            if self.now >= until or (impatient and self.signals.count > max(begun, 1)):
                return False
            self.pump(min(pause, max(until - self.now, 0.0)))
            pause = min(pause * 2, 0.05)
            if again:  # a process may have forked between our look and its death
                self.tree.signal_all(signal.SIGKILL)
        return True

    def reading(self) -> bool:
        return any(not stream.ended for stream in self.streams)

    def finish_output(self) -> None:
        """Take what is still in the pipes, and wait for a reader of our own output that is merely slow."""
        until = time.monotonic() + 0.5
        while self.reading() and (any(stream.echo.full for stream in self.streams) or self.now < until):
            self.pump(0.05)
            if self.cancelled or self.signals.count:
                break
        if self.reading():
            self.log.note("a process that is not ours keeps the output open; what it prints from now on is not logged")
        for stream in self.streams:
            stream.finish()
        begun = self.signals.count
        while any(stream.echo.waits for stream in self.streams):
            if self.signals.count > begun or self.cancelled or self.raised is not None:
                break
            self.pump(0.1)
        self.must_stop()

    def close(self) -> None:
        for stream in self.streams:
            stream.close()
        self.selector.close()
        if self.pidfd is not None:
            os.close(self.pidfd)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        if self.status is not None:
            with suppress(ChildProcessError):
                os.waitpid(self.process.pid, 0)
            self.process.returncode = self.status
        self.tree.forget()


class _Stream:
    """One of the two outputs on its way from the pipe to the log and to ours."""

    def __init__(self, source: int, owner: _Launch, target: Any) -> None:
        self.source, self.owner = source, owner
        self.redactor = owner.log.redactor()
        self.echo = _Echo(target, owner.selector)
        self.ended = self.paused = False
        os.set_blocking(source, False)
        owner.selector.register(source, selectors.EVENT_READ, self)

    def receive(self) -> None:
        try:
            data = os.read(self.source, _READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self.show(self.redactor.feed(data))
        else:
            self.finish()

    def show(self, data: bytes) -> None:
        if not data:
            return
        self.owner.log.write(data)
        tail = self.owner.tail
        tail += data[-_TAIL_BYTES:]
        del tail[:-_TAIL_BYTES]
        self.echo.put(data)

    def balance(self, now: float) -> None:
        """Read no faster than our own output is read, as if the script wrote to it directly."""
        self.echo.notice_stall(now)
        if not self.ended and self.echo.full != self.paused:
            self.paused = not self.paused
            if self.paused:
                self.owner.selector.unregister(self.source)
            else:
                self.owner.selector.register(self.source, selectors.EVENT_READ, self)

    def finish(self) -> None:
        if not self.ended:
            self.ended = True
            if not self.paused:
                self.owner.selector.unregister(self.source)
            self.show(self.redactor.flush())

    def close(self) -> None:
        self.echo.close()


class _Echo:
    """Our own stdout or stderr, which may be slow, stuck, closed or not a file at all, and never blocks us.

    A slow pipe or terminal slows the script down, as it would without us. A terminal that is stuck does not: after two
    seconds the output goes past it.
    """

    def __init__(self, target: Any, selector: selectors.BaseSelector) -> None:
        self.selector = selector
        self.pending = bytearray()
        self.stuck_since: float | None = None
        self.left_out = 0
        self.registered = False
        self.handle: int | None = None
        self.sink: Callable[[bytes], object] | None = None
        self.direct = self.terminal = False
        self.piece = select.PIPE_BUF
        if target is not None:
            self.open(target)

    def open(self, target: Any) -> None:
        try:
            target.flush()
            number = target.fileno()
        except (AttributeError, OSError, ValueError):
            self.sink = _sink(target)
            return
        try:
            mode = os.fstat(number).st_mode
            self.terminal = os.isatty(number)
            self.direct = not (self.terminal or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))
            self.handle = _second_opening(number) if self.terminal else None
            if self.handle is not None:
                self.piece = _READ
            else:
                # Its own number: a selector takes each only once, and stdout and stderr may be the same.
                self.handle = os.dup(number)
                self.piece = 256 if self.terminal else select.PIPE_BUF
            self.poll = select.poll()
            self.poll.register(self.handle, select.POLLOUT)
        except OSError:
            self.close()

    @property
    def waits(self) -> bool:
        return bool(self.pending)

    @property
    def full(self) -> bool:
        return len(self.pending) > _ECHO_PENDING

    def put(self, data: bytes) -> None:
        if self.sink is not None:
            try:
                self.sink(data)
            except Exception:  # whatever stands in for our stdout, its trouble is not the job's
                self.sink = None
        elif self.handle is not None:
            if self.left_out:
                self.left_out += len(data)
            else:
                self.pending += data
            self.drain()

    def drain(self) -> None:
        """Write what can be written without waiting."""
        if self.handle is None:
            return
        try:
            while (self.pending or self.left_out) and (self.direct or self.poll.poll(0)):
                if not self.pending:
                    self.pending += f"\n… {self.left_out} bytes not shown here; the log has them …\n".encode()
                    self.left_out = 0
                count = os.write(self.handle, self.pending[: self.piece])
                del self.pending[:count]
                self.stuck_since = None
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        if bool(self.pending or self.left_out) != self.registered:
            self.registered = not self.registered
            if self.registered:
                self.selector.register(self.handle, selectors.EVENT_WRITE, self)
            else:
                self.selector.unregister(self.handle)

    def notice_stall(self, now: float) -> None:
        if not self.pending:
            self.stuck_since = None
        elif self.stuck_since is None:
            self.stuck_since = now
        elif self.terminal and now - self.stuck_since > STALL:
            self.left_out += len(self.pending)
            self.pending.clear()

    def close(self) -> None:
        if self.handle is not None:
            if self.registered:
                self.selector.unregister(self.handle)
            os.close(self.handle)
        self.handle, self.registered = None, False
        self.pending.clear()
        self.left_out = 0


class _Process(NamedTuple):
    pid: int
    name: str
    state: str
    parent: int
    group: int
    session: int
    started: int


class _Tree:
    """The living processes of one launch, known by evidence only: a stranger must never be hit.

    Evidence is: it descends from the script or from another of ours; it is in the script's session or group; it was
    seen descending earlier; it carries this run's id in its environment. If we were without threads and children before,
    every child there is is ours.
    """

    leaders: set[int] = set()  # noqa: RUF012 - of all launches in this process

    def __init__(self, leader: int, marker: str | None, alone: bool) -> None:
        self.leader, self.alone = leader, alone
        self.marker = None if not marker else f"{_MARKER}={marker}".encode("utf-8", "surrogateescape")
        self.seen: set[tuple[int, int]] = set()
        self.leaders.add(leader)

    def look(self) -> list[_Process]:
        """Those of ours that live, the script itself included; reaps those of the adopted that have died."""
        me = os.getpid()
        # Only our own zombie left, or nothing at all: the usual case, and it costs no walk.
        if self.alone and not _has_living_children(self.leader):
            return []
        table = _processes()
        children: dict[int, list[_Process]] = {}
        for process in table.values():
            children.setdefault(process.parent, []).append(process)
        if sys.platform == "linux":
            found = [process for process in children.get(me, ()) if self.is_ours(process, me)]
            if not _adopters.works:
                found += [process for process in table.values() if process.parent != me and self.is_ours(process, me)]
        else:
            found = []
        living: dict[int, _Process] = {}
        while found:
            process = found.pop()
            if process.pid in living or process.pid == me:
                continue
            found += children.get(process.pid, ())
            if process.state not in "ZX":
                living[process.pid] = process
                self.seen.add((process.pid, process.started))
            elif process.parent == me and process.pid not in self.leaders:
                with suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)
        self.reap_strays(children.get(me, ()), me)
        return list(living.values())

    def is_ours(self, process: _Process, me: int) -> bool:
        if process.pid == self.leader:
            return True
        if process.pid in self.leaders:
            return False
        if self.leader in (process.session, process.group) or (process.pid, process.started) in self.seen:
            return True
        if process.parent == me and self.alone and threading.active_count() == 1:
            return True
        return self.marker is not None and process.state not in "ZX" and self.marker in _environment_of(process.pid)

    def reap_strays(self, mine: Iterable[_Process], me: int) -> None:
        """Reap dead orphans, or a long-lived worker would collect them.

        Whom we started ourselves is in our session or leads its own, so nobody but us waits for any other.
        """
        own = os.getsid(0)
        for process in mine:
            if process.state == "Z" and process.session not in (own, process.pid) and process.pid not in self.leaders:
                with suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to every process of ours once, and wake those that are stopped so that they notice."""
        living = self.look()
        # The script's number is its own until close() reaps it, so the group cannot be a stranger's.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.leader, number)
        for process in living:
            if process.group != self.leader:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process.pid, number)
        if number != signal.SIGKILL:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.leader, signal.SIGCONT)
            for process in living:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process.pid, signal.SIGCONT)

    def forget(self) -> None:
        self.leaders.discard(self.leader)


class _Signals:
    """Counts the signals that ask us to stop, in the main thread; elsewhere there are none."""

    def __init__(self) -> None:
        self.count = 0
        self.wake: int | None = None
        self.ring: int | None = None
        self.before: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        if threading.current_thread() is not threading.main_thread():
            if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
                raise BadConfig("SIGCHLD is ignored in this process, so no exit status can be learnt")
            return self
        self.wake, self.ring = os.pipe()
        os.set_blocking(self.ring, False)
        os.set_blocking(self.wake, False)
        try:
            for number in _STOP_SIGNALS:
                # Whoever ignores a signal (nohup, a shell's &) has a reason; None is a handler we could not put back.
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self.before[number] = signal.signal(number, self.note)
            if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:  # or the kernel would throw the exit status away
                self.before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if signal.getsignal(signal.SIGPIPE) == signal.SIG_DFL:  # or a closed pipe would end us and not only the echo
                self.before[signal.SIGPIPE] = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
        for handle in (self.wake, self.ring):
            if handle is not None:
                os.close(handle)

    def note(self, _number: int, _frame: object) -> None:
        self.count += 1
        if self.ring is not None:
            with suppress(OSError):
                os.write(self.ring, b"!")

    def quiet(self) -> None:
        if self.wake is not None:
            with suppress(OSError):
                os.read(self.wake, 64)


class _Adopters:
    """How many launches want orphans to become our children instead of init's."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.works = False


_adopters = _Adopters()


@contextmanager
def _adopting_orphans() -> Iterator[None]:
    with _adopters.lock:
        if _adopters.count == 0:
            _adopters.works = _set_subreaper(True)
        _adopters.count += 1
    try:
        yield
    finally:
        with _adopters.lock:
            _adopters.count -= 1
            if _adopters.count == 0 and _adopters.works:
                _set_subreaper(False)


def _set_subreaper(on: bool) -> bool:
    if sys.platform != "linux":
        return False
    try:
        import ctypes  # takes milliseconds, and nothing else needs it

        return int(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)) == 0
    except (ImportError, OSError, AttributeError):
        return False
