"""Drains that somebody starts again whenever they are killed, as a machine's service manager does."""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from opendataflow.errors import StoreUnreachable
from tests.support.shell import ODF, Shell


class Drain(NamedTuple):
    """One process, and the file with what it says."""

    process: subprocess.Popen[bytes]
    said: Path


class Crew:
    """As many drains as there are to be, until each of them has found nothing left to do."""

    def __init__(
        self, shell: Shell, count: int, *arguments: str, at: Callable[[], str] = lambda: "", code: int = 0
    ) -> None:
        self._shell, self._arguments, self._at, self._code = shell, arguments, at, code
        self._started = 0
        self.killed: list[int] = []
        self._working = [self._start() for _ in range(count)]

    def _start(self) -> Drain:
        fault = {"ODF_FAULT": at} if (at := self._at()) else {}
        path = self._shell.folder.parent / f"{self._shell.folder.name}.said.{self._started}"
        self._started += 1
        with path.open("wb") as said:  # a file: nobody reads a pipe while they work
            process = subprocess.Popen(
                [*ODF, "drain", *self._arguments],
                cwd=self._shell.folder,
                env={**self._shell.environment, **fault},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
        return Drain(process, path)

    def tend(self) -> bool:
        """Start again who was killed; whether anybody is still at work."""
        for number, (process, path) in enumerate(self._working):
            code, said = process.poll(), path.read_text()
            assert "Traceback" not in said, said
            if code == -signal.SIGKILL:
                self.killed.append(process.pid)
            elif not (code == StoreUnreachable.exit_code and "run " not in said):  # the store was away when it started
                assert code in (None, self._code), (code, said)
                continue
            self._working[number] = self._start()
        return any(process.returncode is None for process, _ in self._working)

    def kill_one(self, chance: random.Random) -> None:
        """Kill one of those at work."""
        if at_work := [process for process, _ in self._working if process.poll() is None]:
            chance.choice(at_work).kill()

    def close(self) -> None:
        """End whoever is still at work."""
        for process, _ in self._working:
            process.kill()
            process.wait()
