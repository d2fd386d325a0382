"""Controls a script by its process group, on systems without a reaper (all but Linux)."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress

from .process_tree import Process


class ProcessGroup:
    """A script that leads a process group; its end is polled."""

    report: int | None = None

    def __init__(self, begin: Callable[..., subprocess.Popen[bytes]]) -> None:
        self._process = begin(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self.pid = self._process.pid
        self.stdout, self.stderr = self._process.stdout.fileno(), self._process.stderr.fileno()
        self.status: int | None = None  # the exit code, or minus the signal
        self.is_over = False
        self._terminated_by: list[Callable[[int, int], None]] = []

    def poll(self) -> None:
        """Update the status of the script."""
        self.status = self._process.poll()
        self.is_over = self.status is not None

    def is_gone(self) -> bool:
        """Whether no process of the group is alive."""
        return self.is_over and not self.living()

    def living(self) -> list[Process]:
        """The group, represented as one process, while any of its processes is alive."""
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return []
        return [Process(self.pid, "the process group", "R", os.getpid(), self.pid, self.pid)]

    def terminate(self) -> None:
        """Send TERM once to the leader and, after the leader has ended, once to the group."""
        send = os.killpg if self.is_over else os.kill
        if send not in self._terminated_by:
            self._terminated_by.append(send)
            for number in (signal.SIGTERM, signal.SIGCONT):
                with suppress(ProcessLookupError, PermissionError):
                    send(self.pid, number)

    def kill(self) -> None:
        """Stop the whole group, then kill it, so that no shell continues after the end of its child."""
        for number in (signal.SIGSTOP, signal.SIGKILL):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def close(self) -> None:
        """Close the pipes."""
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
