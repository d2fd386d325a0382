"""A small flow that a test may break: real files, real scripts, one store; and the auditor that must find nothing afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import opendataflow
from opendataflow.chaos.auditor import breaches
from opendataflow.project import load, roots_of
from tests.support.shell import Shell

CANARY = "canary-5f3a9c71"
PATIENCE = 240.0

PROJECT = """
[environment.dev]
roots = ["./data"]

[dataset.raw]
location = "raw/{{dataid}}.csv"
partition = "number"

[dataset.made]
location = "made/{{dataid}}.csv"
partition = "number"

[dataset.used]
location = "used/{{dataid}}"
partition = "number"
layout = "versioned"

[job.make]
reads = ["raw"]
writes = ["made"]
lease = "{lease}"
retries = {retries}
backoff = "0s"

[job.use]
reads = ["made"]
writes = ["used"]
lease = "{lease}"
retries = {retries}
backoff = "0s"
"""

# Writes half, says who it is, waits while it is told to, and writes the rest.
MAKE = """
exec >"$made_location"
echo "made of"
if [ -e hold ]; then
  echo $$ >writing.new; mv writing.new "writing"
  while [ -e hold ]; do sleep 0.05; done
fi
cat "$raw_location"
"""
USE = 'mkdir -p "$used_location"; tr a-z A-Z <"$made_location" >"$used_location/part"; echo "used $dataid" >"$used_location/who"'


def until(condition: Callable[[], object], what: str = "it", longest: float = PATIENCE) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + longest
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether a process is there and not only its remains."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@dataclass
class Flow:
    """raw → make → made → use → used, in one folder, on one store."""

    shell: Shell
    dataids: list[str] = field(default_factory=list)
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.shell.folder

    @property
    def store_url(self) -> str:
        return self.shell.store_url or f"sqlite:///{self.folder}/dataflow.db"

    def prepare(self, chunks: Iterable[int] = (1, 2), *, lease: str = "2s", retries: int = 2) -> None:
        """Write the project, and let these chunks arrive."""
        self.shell.write("dataflow.toml", PROJECT.format(lease=lease, retries=retries))
        self.shell.script("jobs/make.sh", MAKE)
        self.shell.script("jobs/use.sh", USE)
        self.shell.odf("apply", "--yes")
        self.arrive(chunks)

    def arrive(self, chunks: Iterable[int]) -> None:
        """Files come from outside, and are announced."""
        new = [str(number) for number in chunks]
        for dataid in new:
            self.shell.write(f"data/raw/{dataid}.csv", f"row {dataid}\n")
        self.shell.odf("ready", "raw", *new)
        self.dataids += new

    @property
    def golden(self) -> dict[tuple[str, str], bytes]:
        """What every chunk must hold in the end."""
        made = {dataid: f"made of\nrow {dataid}\n" for dataid in self.dataids}
        return {("made", dataid): text.encode() for dataid, text in made.items()} | {
            ("used", dataid): f"{text.upper()}used {dataid}\n".encode() for dataid, text in made.items()
        }

    # Breaking it

    def start(self, *arguments: str, at: str = "", hold: bool = False, **extra: str) -> subprocess.Popen[str]:
        """A command whose process dies at a point, or waits there to be broken."""
        fault = {"ODF_FAULT": at} if at else {}
        if hold:
            fault["ODF_FAULT_FILE"] = str(self.at)
        self.started.append(self.shell.start(*arguments, **{"PASSKEY": CANARY, **fault, **extra}))
        return self.started[-1]

    def close(self) -> None:
        """End whatever a test left running."""
        for process in self.started:
            process.kill()
            process.communicate()

    @property
    def at(self) -> Path:
        """The file that says that a process has reached its point."""
        return self.folder.parent / f"{self.folder.name}.at"

    def reached(self, process: subprocess.Popen[str]) -> int:
        """Wait until a process has reached its point; its process id."""
        until(lambda: self.at.exists() or process.poll() is not None, "the point")
        assert self.at.exists(), process.communicate()
        return int(self.at.read_text().split()[0])

    def go_on(self) -> None:
        """Let a process leave its point."""
        self.at.unlink()

    def hold_script(self) -> Path:
        """The next script of make waits in the middle of its output."""
        path = self.folder / "hold"
        path.touch()
        return path

    def writing(self, process: subprocess.Popen[str]) -> int:
        """Wait until the script is in the middle of its output; its process id."""
        path = self.folder / "writing"
        until(lambda: path.exists() or process.poll() is not None, "the script")
        assert path.exists(), process.communicate()
        return int(path.read_text())

    def release_script(self) -> None:
        """Scripts go on."""
        for name in ("hold", "writing"):
            (self.folder / name).unlink(missing_ok=True)

    # Afterwards

    def outlast(self) -> None:
        """Wait until the leases of those who died have run out."""
        with opendataflow.open(self.store_url) as store:
            until(lambda: store.rescue() is not None and not store.views.running(), "the end of all leases")

    def heal(self) -> None:
        """What the schedule does anyway; nobody does anything by hand."""
        self.release_script()
        self.shell.patience = PATIENCE
        self.shell.odf("drain", PASSKEY=CANARY)

    def audit(self, *, golden: bool = True) -> None:
        """Every promise holds."""
        self.shell.odf("rescue")
        with opendataflow.open(self.store_url) as store:
            project = load(self.folder / "dataflow.toml", None)
            store.roots = lambda: roots_of(project, self.store_url)
            broken = breaches(
                store,
                project,
                golden=self.golden if golden else None,
                secrets=[CANARY.encode()],
            )
            assert broken == []
            assert store.views.running() == []

    def attempts(self) -> int:
        """How many runs began."""
        rows = self.shell.odf("sql", "select count(*) as n from run where outcome <> 'GIVEN_BACK'", "--json").data
        return int(rows[0]["n"])


def freeze(process: subprocess.Popen[str]) -> None:
    """Stop a process of ours; when this comes back every thread of it stands still."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to a process that may be gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
