"""A RunJob that is killed or frozen: its script ends, or harms nobody; what is published is its successor's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.shell import Shell

PROJECT = """
[environment.dev]
roots = ["./data"]

[dataset.raw]
partition = "number"

[dataset.out]
location = "out/{dataid}.csv"
partition = "number"

[job.load]
reads = ["raw"]
writes = ["out"]
lease = "1s"
"""

# Its first attempt writes for ever, also from a daemon that left session, group and environment.
SCRIPT = """
if [ "$ODF_ATTEMPT" = 1 ]; then
  env -i setsid "$(command -v bash)" -c 'while :; do echo garbage >>"$0"; sleep 0.05; done' "$out_location" >/dev/null 2>&1 &
  echo $! >daemon; echo $$ >script
  while :; do echo garbage >>"$out_location"; sleep 0.05; done
fi
odf_check() { "$PYTHON" -m opendataflow check-lease; }
odf_check
echo "good $ODF_ATTEMPT" >"$out_LOCATION"
"""


def until(condition: Callable[[], object], longest: float = 30.0) -> None:
    deadline = time.monotonic() + longest
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def begun(shell: Shell) -> tuple[subprocess.Popen[str], list[int]]:
    """A first attempt that is at work, and the processes that it started."""
    shell.write("dataflow.toml", PROJECT)
    shell.script("jobs/load.sh", SCRIPT)
    shell.extra["PYTHON"] = sys.executable
    shell.odf("apply", "--yes")
    shell.odf("ready", "raw", "1")
    first = shell.start("run", "jobs/load.sh")
    names = [shell.folder / name for name in ("daemon", "script")]
    until(lambda: all(path.exists() and path.read_text().strip() for path in names))
    return first, [int(path.read_text()) for path in names]


def succeed(shell: Shell) -> None:
    """The lease of the first attempt runs out, and a second one does the work."""
    until(lambda: shell.odf("rescue", "--dry-run", "--json").data)
    shell.odf("rescue")
    shell.odf("resubmit", "out", "1")
    shell.runjob("jobs/load.sh")
    assert (shell.folder / "data/out/1.csv").read_text() == "good 2\n"
    assert os.listdir(shell.folder / "data/out") == ["1.csv"]


def test_after_kill_9_of_runjob_nothing_of_its_script_lives_on(shell: Shell) -> None:
    first, pids = begun(shell)
    first.kill()
    first.communicate()
    until(lambda: not any(map(alive, pids)))
    assert not (shell.folder / "data/out/1.csv").exists()
    succeed(shell)
    shell.odf("check-lease", "1", code=16)


def test_a_successor_ends_the_script_of_a_frozen_runjob_before_it_starts(home: Shell) -> None:
    first, pids = begun(home)
    first.send_signal(signal.SIGSTOP)
    time.sleep(1.1)
    assert all(map(alive, pids))
    succeed(home)
    assert not any(map(alive, pids))
    assert "of an earlier attempt is ended" in home.odf("log", "2").out
    first.send_signal(signal.SIGCONT)
    _, said = first.communicate(timeout=30)
    assert (first.returncode, "LEASE_LOST" in said) == (16, True)
    assert (home.folder / "data/out/1.csv").read_text() == "good 2\n"
    home.odf("check-lease", "2", code=16)
    home.odf("check-lease", code=2)
    assert home.odf("explain", "out", "1").code == 0


def test_where_a_script_starts(home: Shell) -> None:
    project = PROJECT.replace("[dataset.out]", "[dataset.out]\nrepeats = true")
    home.write("dataflow.toml", project + '\n[job.named]\nreads = ["raw"]\nfolder = "work"\n')
    home.script("jobs/load.sh", 'pwd >"$out_location"')
    home.script("jobs/named.sh", "pwd")
    (home.folder / "work").mkdir()
    home.odf("apply", "--yes")
    home.odf("ready", "raw", "1..4")
    elsewhere = Shell(home.folder / "work")
    out = home.folder / "data" / "out"
    home.runjob("jobs/load.sh")
    elsewhere.runjob("../jobs/load.sh")
    elsewhere.runjob("load")
    assert [Path((out / f"{day}.csv").read_text().strip()).name for day in (1, 2, 3)] == [
        home.folder.name,
        "work",
        home.folder.name,
    ]
    home.odf("drain", "load")
    assert (out / "4.csv").read_text().strip() == str(home.folder)
    assert home.runjob("jobs/named.sh").out.strip() == str(home.folder / "work")


@pytest.mark.parametrize("left", ["of the version before", "by a failed attempt", "by somebody"])
def test_what_lay_there_before_the_script_started_is_not_its_output(home: Shell, left: str) -> None:
    home.write(
        "dataflow.toml",
        '[dataset.raw]\n[dataset.out]\nlocation = "out/{dataid}.txt"\n[job.make]\nreads = ["raw"]\nwrites = ["out"]\n',
    )
    home.script(
        "jobs/make.sh",
        'if [ -e fail ]; then mkdir -p out; echo half > out/$dataid.txt; exit 1; fi; echo whole > "$out_location"',
    )
    home.odf("apply", "--yes")
    home.odf("ready", "raw", "1")
    if left == "by somebody":
        home.write("out/1.txt", "old")
    elif left == "by a failed attempt":
        home.write("fail", "")
        home.odf("run", "make", code=1)
        home.odf("resubmit", "out", "1")
    else:
        home.odf("run", "make")
        home.odf("resubmit", "out", "1")
    home.script("jobs/make.sh", "exit 0")
    refused = home.odf("run", "make", code=13)
    assert "the script wrote nothing" in refused.err
    home.script("jobs/make.sh", "echo again > out/$dataid.txt")
    home.odf("resubmit", "out", "1")
    home.odf("run", "make")
    assert home.odf("head", "out", "1").out == "again\n"
