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
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
_PF_FORKNOEXEC = 0x40
_MARKER = "ODF_RUN"
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_COLOURS_AND_TITLES = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"
_NOT_TEXT = re.compile(_COLOURS_AND_TITLES + r"|[^\S \t\n]|[\0-\x08\x0e-\x1f\x7f-\x9f]")


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
    argv: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str],
    cwd: str | os.PathLike[str],
    log: LogFile,
    timeout: float | None = None,
    grace: float = 10.0,
    tick: Callable[[], object] | None = None,
    every: float = 10.0,
    echo: bool = True,
    stdin: int | None = None,
    cancel: threading.Event | None = None,
) -> Ended:
    """Run a command to its end and tell how it ended; without `stdin` its input is empty.

    What `tick` raises ends the command and is raised again when it is gone.
    """
    words = [argv] if isinstance(argv, str) else [os.fspath(word) for word in argv]
    log.begin(words, cwd)
    try:
        where = _check_folder(cwd)
        _check_words(words)
        # A second wall: whatever the caller put together, nothing that leads to the key goes to a script.
        environment = _check_environment(child_environment(env))
        command, executable = _find(words, environment, where)
        with _Signals() as signals, _adopting_orphans():
            return _Launch(
                lambda: _start(command, executable, environment, where, stdin),
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
        start: Callable[[], subprocess.Popen[bytes]],
        *,
        marker: str | None,
        log: LogFile,
        signals: _Signals,
        cancel: threading.Event | None,
        tick: Callable[[], object] | None,
        every: float,
        timeout: float | None,
        grace: float,
        echo: bool,
    ) -> None:
        self.log, self.signals, self.cancel, self.tick = log, signals, cancel, tick
        self.every, self.grace, self.shown = every, grace, echo
        self.timed_out = self.cancelled = False
        self.raised: BaseException | None = None
        self.status: int | None = None
        self.tail = bytearray()
        self.streams: list[_Stream] = []
        self.pidfd: int | None = None
        alone = threading.active_count() == 1 and not _has_children()
        self.selector = selectors.DefaultSelector()
        try:
            self.started = self.now = time.monotonic()
            self.process = start()
        except BaseException:
            self.selector.close()
            raise
        self.tree = _Tree(self.process.pid, marker, alone)
        self.ended = self.started
        self.deadline = None if timeout is None else self.started + timeout
        self.next_tick = None if tick is None else self.started + every
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
            tail=_last_lines(bytes(self.tail)),
        )
        self.log.end(str(ended))
        return ended

    def open(self) -> None:
        for pipe, target in ((self.process.stdout, sys.stdout), (self.process.stderr, sys.stderr)):
            assert pipe is not None
            self.streams.append(_Stream(pipe.fileno(), self, target if self.shown else None))
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
            if isinstance(key.data, _Stream):
                key.data.receive()
            elif isinstance(key.data, _Echo):
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
                time.sleep(0.005)
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
    executed: bool
    started: int


class _Tree:
    """The living processes of one launch, known by evidence only: a stranger must never be hit.

    Evidence is: it descends from the script or from another of ours; it is in the script's session or group; it was
    seen descending earlier; it carries this run's id in its environment. If we had neither threads nor children before,
    every child that we have now is ours.
    """

    leaders: set[int] = set()  # noqa: RUF012 - of all launches in this process

    def __init__(self, leader: int, marker: str | None, alone: bool) -> None:
        self.leader, self.alone, self.reaped = leader, alone, False
        self.marker = None if not marker else f"{_MARKER}={marker}".encode("utf-8", "surrogateescape")
        self.seen: set[tuple[int, int]] = set()
        self.sessions = {leader}
        self.leaders.add(leader)

    def look(self) -> list[_Process]:
        """Those of ours that live, the script itself included; reaps those of the adopted that have died."""
        if sys.platform != "linux":
            return self.look_for_group()
        # The usual end costs no walk through all processes.
        if self.alone and self.reaped and not _has_children():
            return []
        me = os.getpid()
        for _ in range(10):
            living, passing = self.walk(me)
            if living or not passing:
                break
        return living

    def walk(self, me: int) -> tuple[list[_Process], bool]:
        """The living of ours, and whether one of the dead was just about to become our child."""
        table = _processes()
        children: dict[int, list[_Process]] = {}
        for process in table.values():
            children.setdefault(process.parent, []).append(process)
        # If we cannot adopt, orphans are init's children, and ours must be sought among all.
        candidates = list(children.get(me, ()) if _adopters.works else table.values())
        ours: dict[int, _Process] = {}
        found = [process for process in candidates if self.is_ours(process, me)]
        while found:
            process = found.pop()
            if process.pid not in ours and process.pid != me:
                ours[process.pid] = process
                found += children.get(process.pid, ())
        living = [process for process in ours.values() if process.state not in "ZX"]
        self.seen.update((process.pid, process.started) for process in living)
        self.sessions.update(process.session for process in living)
        self.reap(children.get(me, ()), ours)
        passing = any(process.parent != me for process in ours.values() if process.state in "ZX")
        return living, passing and _adopters.works

    def reap(self, children: Iterable[_Process], ours: Mapping[int, _Process]) -> None:
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

    def look_for_group(self) -> list[_Process]:
        try:
            os.killpg(self.leader, 0)
        except (ProcessLookupError, PermissionError):
            return []
        return [_Process(self.leader, "the process group", "R", os.getpid(), self.leader, self.leader, True, 0)]

    def is_ours(self, process: _Process, me: int) -> bool:
        if process.pid == self.leader:
            return True
        if process.pid in self.leaders:
            return False
        if self.leader in (process.session, process.group) or (process.pid, process.started) in self.seen:
            return True
        if process.parent == me and self.alone and threading.active_count() == 1 and process.session != os.getsid(0):
            return True
        return self.marker is not None and process.state not in "ZX" and self.marker in _environment_of(process.pid)

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


class _Signals:
    """Counts the signals that ask us to stop, in the main thread; elsewhere there are none."""

    def __init__(self) -> None:
        self.count = self.interrupts = 0
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
            if signal.getsignal(signal.SIGPIPE) == signal.SIG_DFL:  # or a closed pipe would end us, not only the echo
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

    def note(self, number: int, _frame: object) -> None:
        self.count += 1
        self.interrupts += number == signal.SIGINT
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
        self.works = self.before = False


_adopters = _Adopters()


@contextmanager
def _adopting_orphans() -> Iterator[None]:
    with _adopters.lock:
        if _adopters.count == 0:
            _adopters.before = _is_subreaper()
            _adopters.works = _adopters.before or _set_subreaper(True)
        _adopters.count += 1
    try:
        yield
    finally:
        with _adopters.lock:
            _adopters.count -= 1
            if _adopters.count == 0 and _adopters.works and not _adopters.before:
                _set_subreaper(False)


def _is_subreaper() -> bool:
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


def _has_children() -> bool:
    """Whether this process has any child, dead or alive; True where that cannot be told without reaping one."""
    if sys.platform != "linux":
        return True
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _processes() -> dict[int, _Process]:
    found: dict[int, _Process] = {}
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
            found[pid] = _Process(pid, name, fields[0].decode(), parent, group, session, executed, int(fields[19]))
    return found


def _environment_of(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None  # an old kernel or another system: we look often instead


def _second_opening(number: int) -> int | None:
    """The same terminal opened once more: not to block on it must not change it for everybody who has it open."""
    if sys.platform != "linux":
        return None
    try:
        return os.open(f"/proc/self/fd/{number}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None


def _sink(target: Any) -> Callable[[bytes], object]:
    """How to write to something that stands in for our stdout, as in a notebook or a test."""
    buffer = getattr(target, "buffer", None)

    def put(data: bytes) -> None:
        if buffer is not None:
            buffer.write(data)
        else:
            target.write(data.decode("utf-8", "replace"))
        target.flush()

    return put


def _check_folder(cwd: str | os.PathLike[str]) -> Path:
    path = Path(cwd)
    if not path.is_dir():
        raise BadConfig(f"the working directory {path} does not exist or is not a directory")
    return path


def _check_words(argv: Sequence[str]) -> None:
    if not argv or not argv[0]:
        raise BadConfig("there is no command to run")
    for word in argv:
        if "\0" in word:
            raise BadConfig("a word of the command line holds a NUL character")
        _check_encodable(word, "a word of the command line")


def _check_environment(env: dict[str, str]) -> dict[str, str]:
    for name, value in env.items():
        # Never the value itself: it may be a password.
        if not name or "=" in name or "\0" in name:
            raise BadConfig(f"{name!r} cannot be the name of an environment variable")
        if "\0" in value:
            raise BadConfig(f"the environment variable {name} holds a NUL character")
        _check_encodable(name, f"the name of the environment variable {name!r}")
        _check_encodable(value, f"the environment variable {name}")
    return env


def _check_encodable(text: str, what: str) -> None:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        pass
    else:
        return
    raise BadConfig(f"{what} holds characters that no program can be given")  # out here: no value in a traceback


def _find(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> tuple[list[str], str]:
    """The words to run, and the file to execute."""
    name = argv[0]
    path = _locate(name, env, cwd)
    if path is None:
        raise BadConfig(f"there is no command {name!r}", hint=f"It is neither on the PATH nor a file in {cwd}.")
    full = cwd / path
    if full.is_dir():
        raise BadConfig(f"{name} is a directory, not a command")
    if not full.exists():
        raise BadConfig(f"there is no file {name}", hint=f"It was looked for in {cwd}.")
    if os.access(full, os.X_OK):
        return list(argv), path
    interpreter = _named_interpreter(full) or _usual_interpreter(path, env, cwd)
    if interpreter is None:
        raise BadConfig(f"{name} is not executable", hint=f"chmod +x {full}, or name it .sh or .py.")
    return [*interpreter, path, *argv[1:]], interpreter[0]


def _locate(name: str, env: Mapping[str, str], cwd: Path) -> str | None:
    if "/" in name:
        return f"./{name}" if name.startswith("-") else name
    here = cwd / name
    # A script is a file of the project; what has no such suffix is a command, and must not be shadowed by a stray file.
    if name.endswith((".sh", ".py")) and here.is_file():
        return f"./{name}"
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        full = cwd / folder / name
        if full.is_file() and os.access(full, os.X_OK):
            return str(full)
    return f"./{name}" if here.is_file() else None


def _named_interpreter(path: Path) -> list[str] | None:
    """What the first line of a script asks for, read as the kernel reads it."""
    try:
        with open(path, "rb") as file:
            first = file.readline(512)
    except OSError as error:
        raise BadConfig(f"{path} cannot be read: {error.strerror}") from None
    words = first[2:].strip().split(None, 1) if first.startswith(b"#!") else []
    return [os.fsdecode(word) for word in words] or None


def _usual_interpreter(path: str, env: Mapping[str, str], cwd: Path) -> list[str] | None:
    if path.endswith(".py"):
        return [sys.executable]
    if path.endswith(".sh"):
        return [_shell(env, cwd)]
    return None


def _shell(env: Mapping[str, str], cwd: Path) -> str:
    return _locate("bash", env, cwd) or "/bin/sh"


def _start(
    command: list[str], executable: str, env: dict[str, str], cwd: Path, stdin: int | None
) -> subprocess.Popen[bytes]:
    def start(words: list[str], file: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            words,
            executable=file,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )

    try:
        try:
            return start(command, executable)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
        # No format the kernel knows and no first line that names an interpreter: what a shell would do.
        interpreter = _usual_interpreter(executable, env, cwd) or [_shell(env, cwd)]
        return start([*interpreter, executable, *command[1:]], interpreter[0])
    except OSError as error:
        raise _not_started(command[0], executable, cwd, error) from None


def _not_started(name: str, executable: str, cwd: Path, error: OSError) -> BadConfig | JobFailed:
    if error.errno == errno.E2BIG:
        return BadConfig(f"{name} cannot be started: its arguments and environment are too large for the system")
    if error.errno == errno.ENOENT and (cwd / executable).exists():
        wanted = _named_interpreter(cwd / executable)
        return BadConfig(f"{name} cannot be started: its interpreter {wanted[0] if wanted else ''} does not exist")
    if error.errno in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG):
        return BadConfig(f"{name} cannot be started: {error.strerror}")
    # Too many processes or files, too little memory, a file being written: another time it may work.
    return JobFailed(f"{name} cannot be started: {error.strerror}")


def _last_lines(data: bytes) -> str:
    text = data.decode("utf-8", "replace").replace("\r", "\n")
    lines = [line.rstrip() for line in _NOT_TEXT.sub("", text).split("\n")]
    return "\n".join([line for line in lines if line][-_TAIL_LINES:])


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "no name"
