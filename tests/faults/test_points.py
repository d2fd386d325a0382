"""Fault points: inert unless the environment of the process arms one, and then exactly that one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from opendataflow import faults

PASSES = (
    "from opendataflow import faults; [faults.point('in', step) for step in ('claim', 'commit', 'commit')]; print('on')"
)


def passes(**environ: str) -> subprocess.CompletedProcess[str]:
    """A process that passes three points."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("ODF_")}
    return subprocess.run(
        [sys.executable, "-c", PASSES], env={**known, **environ}, capture_output=True, text=True, timeout=60
    )


def test_nothing_is_armed_here() -> None:
    assert faults.point is faults._pass


@pytest.mark.parametrize("fault", ["", "in commit:3", "before commit", "*:4", "in", "in commit:three"])
def test_a_process_passes_the_points_that_are_not_meant(fault: str) -> None:
    done = passes(ODF_FAULT=fault)
    assert (done.returncode, done.stdout) == ((-signal.SIGKILL, "") if "three" in fault else (0, "on\n"))


@pytest.mark.parametrize("fault", ["in claim", "in commit", "in commit:2", "*:1", "*:3"])
def test_a_process_dies_at_the_point_that_is_meant(fault: str) -> None:
    done = passes(ODF_FAULT=fault)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGKILL, "", "")


def test_a_process_waits_at_its_point_until_its_file_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "at"
    point = faults.armed("in commit", str(file))
    thread = threading.Thread(target=lambda: [point("in", "claim"), point("in", "commit"), point("in", "commit")])
    thread.start()
    while not file.exists():
        time.sleep(0.01)
    assert file.read_text() == f"{os.getpid()} in commit"
    assert thread.is_alive()
    file.unlink()
    thread.join(60)
    assert not file.exists()


def test_what_a_process_starts_inherits_no_fault() -> None:
    code = "import os; from opendataflow import faults; print([name for name in os.environ if name.startswith('ODF_FAULT')])"
    known = {**os.environ, "ODF_FAULT": "never", "ODF_FAULT_FILE": "nowhere"}
    done = subprocess.run([sys.executable, "-c", code], env=known, capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n"
