"""The group of a script where there is no reaper: elsewhere than on Linux its process group is all that is known."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress

from .tree import Process


class Group:
    """A script that leads a process group; it says nothing of itself, so one has to ask."""

    report: int | None = None

    def __init__(self, begin: Callable[..., subprocess.Popen[bytes]]) -> None:
        self._process = begin(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self.pid = self._process.pid
        self.stdout, self.stderr = self._process.stdout.fileno(), self._process.stderr.fileno()
        self.status: int | None = None  # the exit code, or minus the signal
        self.is_over = False

    def hear(self) -> None:
        """Ask whether the script ended."""
        self.status = self._process.poll()
        self.is_over = self.status is not None

    def is_gone(self) -> bool:
        """Whether no process of the group lives any more."""
        return self.is_over and not self.living()

    def living(self) -> list[Process]:
        """The group as one process, as long as one of it lives."""
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return []
        return [Process(self.pid, "the process group", "R", os.getpid(), self.pid, self.pid)]

    def signal_all(self, number: signal.Signals) -> None:
        """Stop the group before any of it gets the signal, then have it go on: no shell outlives its child."""
        for sent in (signal.SIGSTOP, number, signal.SIGCONT):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, sent)

    def close(self) -> None:
        """Let go of the pipes."""
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
