"""Copies the output of a script from its pipes to the log and to this program's output, which may be slow or stuck."""

from __future__ import annotations

import os
import select
import selectors
import stat
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .logs import LogFile

STALL = 2.0  # seconds without progress after which output to a terminal is skipped

_READ = 65536
_ECHO_PENDING = 256 * 1024
_TAIL_BYTES = 4096


class Stream:
    """Copies stdout or stderr of a script from its pipe to the log and to this program's output."""

    def __init__(
        self, source: int, selector: selectors.BaseSelector, log: LogFile, tail: bytearray, target: Any
    ) -> None:
        self.source, self.selector, self.log, self.tail = source, selector, log, tail
        self.redactor = log.redactor()
        self.echo = Echo(target, selector)
        self.ended = self.paused = False
        os.set_blocking(source, False)
        selector.register(source, selectors.EVENT_READ, self)

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
        self.log.write(data)
        self.tail += data[-_TAIL_BYTES:]
        del self.tail[:-_TAIL_BYTES]
        self.echo.put(data)

    def balance(self, now: float) -> None:
        """Read no faster than this program's output is consumed, as if the script wrote to it directly."""
        self.echo.notice_stall(now)
        if not self.ended and self.echo.full != self.paused:
            self.paused = not self.paused
            if self.paused:
                self.selector.unregister(self.source)
            else:
                self.selector.register(self.source, selectors.EVENT_READ, self)

    def finish(self) -> None:
        if not self.ended:
            self.ended = True
            if not self.paused:
                self.selector.unregister(self.source)
            self.show(self.redactor.flush())


class Echo:
    """Non-blocking output to stdout or stderr, which may be slow, stuck, closed or not a file.

    A slow pipe or terminal slows the script down, as with direct output. Output to a stuck terminal is skipped after two
    seconds.
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
                # Duplicated: a selector accepts each descriptor once, and stdout and stderr may be the same.
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
            except Exception:  # errors of a replaced sys.stdout do not fail the job
                self.sink = None
        elif self.handle is not None:
            if self.left_out:
                self.left_out += len(data)
            else:
                self.pending += data
            self.drain()

    def drain(self) -> None:
        """Write as much as possible without blocking."""
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


def _second_opening(number: int) -> int | None:
    """The same terminal, opened again, so that O_NONBLOCK does not affect other processes."""
    if sys.platform != "linux":
        return None
    try:
        return os.open(f"/proc/self/fd/{number}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None


def _sink(target: Any) -> Callable[[bytes], object]:
    """A write function for a replaced sys.stdout, as in a notebook or a test."""
    buffer = getattr(target, "buffer", None)

    def put(data: bytes) -> None:
        if buffer is not None:
            buffer.write(data)
        else:
            target.write(data.decode("utf-8", "replace"))
        target.flush()

    return put
