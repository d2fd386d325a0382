"""Handles stop signals while a command runs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# Seconds in which signals count as one request: a closed terminal sends SIGHUP twice, systemd SIGTERM and SIGHUP.
_TOGETHER = 0.3


class Signals:
    """Counts stop signals, in the main thread only, and calls `on_signal` for each."""

    def __init__(self, on_signal: Callable[[], None] = lambda: None) -> None:
        self.on_signal = on_signal
        self.count = self.interrupts = self.terms = 0
        self.first = ""  # the name of the first signal
        self.first_at = 0.0
        self.is_repeated = False  # whether a signal came more than _TOGETHER after the first
        self.wake: int | None = None
        self.ring: int | None = None
        self.before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is not threading.main_thread():
            return self
        self.wake, self.ring = os.pipe()
        os.set_blocking(self.ring, False)
        os.set_blocking(self.wake, False)
        try:
            for number in _STOP_SIGNALS:
                # Keep ignored signals ignored (nohup, a shell's &); a handler None could not be restored.
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self.before[number] = signal.signal(number, self.receive)
            if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:  # otherwise the kernel discards exit codes
                self.before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if signal.getsignal(signal.SIGPIPE) == signal.SIG_DFL:  # otherwise a closed output pipe ends this process
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

    @property
    def is_urgent(self) -> bool:
        """Whether a second request came: any later signal, or a second SIGINT or SIGTERM at any time."""
        return self.is_repeated or self.interrupts > 1 or self.terms > 1

    def receive(self, number: int, _frame: object) -> None:
        self.count += 1
        self.interrupts += number == signal.SIGINT
        self.terms += number == signal.SIGTERM
        now = time.monotonic()
        if not self.first:
            self.first, self.first_at = signal.Signals(number).name, now
        self.is_repeated |= now - self.first_at > _TOGETHER
        if self.ring is not None:
            with suppress(OSError):
                os.write(self.ring, b"!")
        self.on_signal()

    def drain(self) -> None:
        if self.wake is not None:
            with suppress(OSError):
                os.read(self.wake, 64)
