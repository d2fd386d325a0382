"""The signals that ask us to stop, while a command runs."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from typing import Any

from ...errors import BadConfig

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Signals:
    """Counts the signals that ask us to stop, in the main thread; elsewhere there are none."""

    def __init__(self) -> None:
        self.count = self.interrupts = self.terms = 0
        self.first = ""  # the name of the first one
        self.wake: int | None = None
        self.ring: int | None = None
        self.before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
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
        self.terms += number == signal.SIGTERM
        self.first = self.first or signal.Signals(number).name
        if self.ring is not None:
            with suppress(OSError):
                os.write(self.ring, b"!")

    def quiet(self) -> None:
        if self.wake is not None:
            with suppress(OSError):
                os.read(self.wake, 64)
