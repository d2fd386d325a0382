"""Spark jobs whose code hangs: the run ends, its slot goes on, and the drain or RunJob ends with all of its processes."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from opendataflow.run.process.process_tree import processes, with_descendants
from tests.acceptance.test_stopping import until
from tests.support.shell import Shell, statuses

pytestmark = pytest.mark.spark

_PROJECT = """
[spark]
"spark.master" = "local[2]"
[dataset.raw]
[dataset.made]
location = "made/{dataid}"
format = "parquet"
[job.make]
reads = ["raw"]
writes = ["made"]
lease = "3s"
"""
_JOB = """
import os, subprocess, threading, time
from pathlib import Path

from opendataflow import job


def hang(x):
    Path("begun").touch()
    while True:
        time.sleep(1)


@job(reads="raw", writes="made")
def make(chunk, spark):
    frame = spark.range(4)
    if chunk.dataid == "1":
        WHERE
    return frame
"""
_IN_DRIVER = "threading.Thread(target=hang, args=(0,)).start(); hang(0)"
_IN_CHILD = "subprocess.Popen(['sh', '-c', 'sleep 1000 & wait']); time.sleep(0.5); hang(0)"
_IN_WORKER = "frame.rdd.map(hang).count()"
_STUBBORN = """while True:
            try:
                hang(0)
            except BaseException:
                pass"""


def _drain(tmp_path: Path, where: str, timeout: str = "", *words: str) -> tuple[Shell, subprocess.Popen[str]]:
    return _start(tmp_path, where, timeout, "drain", "--workers", "1", *words)


def _start(tmp_path: Path, where: str, timeout: str, *words: str) -> tuple[Shell, subprocess.Popen[str]]:
    home = Shell(tmp_path)
    home.write("dataflow.toml", _PROJECT + timeout)
    home.write("jobs/make.py", _JOB.replace("WHERE", where))
    home.odf("apply", "--yes")
    home.odf("ready", "raw", "1")
    process = home.start(*words)
    until((tmp_path / "begun").exists, process)
    return home, process


def _below(process: subprocess.Popen[str]) -> list[int]:
    table = processes()
    return [each.pid for each in with_descendants(table, [table[process.pid]])]


def _is_gone(pids: list[int]) -> bool:
    table = processes()
    return not any(pid in table and table[pid].lives for pid in pids)


@pytest.mark.parametrize("where", [_IN_DRIVER, _IN_WORKER], ids=["driver", "worker"])
@pytest.mark.parametrize("way", ["cancel", "timeout"])
def test_a_job_that_hangs_gives_its_slot_back_when_it_is_cancelled_or_too_slow(
    tmp_path: Path, where: str, way: str
) -> None:
    home, drain = _drain(tmp_path, where, 'timeout = "15s"\n' if way == "timeout" else "", "--follow")
    home.odf("ready", "raw", "2")
    if way == "cancel":
        home.odf("cancel", "make", "1")
    until(lambda: statuses(home).get(("made", "2")) == "READY", drain)
    assert statuses(home)["made", "1"] == "FAILED"
    pids = _below(drain)
    drain.send_signal(signal.SIGTERM)
    _, err = drain.communicate(timeout=240)
    assert drain.returncode == 130
    if where == _IN_DRIVER:
        assert "hangs at make.py:" in err
    until(lambda: _is_gone(pids))


@pytest.mark.parametrize("where", [_IN_DRIVER, _IN_CHILD, _IN_WORKER], ids=["driver", "child", "worker"])
@pytest.mark.parametrize("signals", [1, 2])
def test_a_drain_with_a_job_that_hangs_ends_after_a_signal(tmp_path: Path, where: str, signals: int) -> None:
    home, drain = _drain(tmp_path, where, "", "--grace", "0" if signals == 1 else "1000")
    pids = _below(drain)
    drain.send_signal(signal.SIGINT)
    if signals == 2:
        assert drain.stderr is not None
        until(lambda: "a second signal ends them" in drain.stderr.readline(), drain)  # type: ignore[union-attr]
        drain.send_signal(signal.SIGINT)
    _, err = drain.communicate(timeout=240)
    assert drain.returncode == 130
    assert statuses(home)["made", "1"] == "RESUBMIT", err
    until(lambda: _is_gone(pids))


@pytest.mark.parametrize("where", [_STUBBORN, _IN_CHILD, _IN_WORKER], ids=["driver", "child", "worker"])
@pytest.mark.parametrize(
    ("way", "code", "status"), [("cancel", 16, "FAILED"), ("timeout", 1, "FAILED"), ("signal", 130, "RESUBMIT")]
)
def test_runjob_of_a_job_that_hangs_ends_when_it_is_cancelled_stopped_or_too_slow(
    tmp_path: Path, where: str, way: str, code: int, status: str
) -> None:
    home, run = _start(tmp_path, where, 'timeout = "30s"\n' if way == "timeout" else "", "run", "make", "--dataid", "1")
    pids = _below(run)
    if way == "cancel":
        home.odf("cancel", "make", "1")
    elif way == "signal":
        run.send_signal(signal.SIGTERM)
    _, err = run.communicate(timeout=120)
    assert run.returncode == code, err
    assert statuses(home)["made", "1"] == status, err
    if where == _STUBBORN:
        assert "hangs at make.py:" in err
    until(lambda: _is_gone(pids))
