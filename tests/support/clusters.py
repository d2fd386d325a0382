"""Spark elsewhere: a standalone master with two workers, and a Connect server, as processes on loopback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.ports import free_port

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
EXECUTOR = "CoarseGrainedExecutorBackend"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
PATIENCE = 120


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """The address of a master with two workers of one core each."""
    url = f"spark://127.0.0.1:{free_port()}"
    host, port = url.removeprefix("spark://").split(":")
    begun: list[subprocess.Popen[bytes]] = []
    try:
        begun.append(_java(folder, "master", [MASTER, "--host", host, "--port", port, "--webui-port", "0"]))
        _wait_for(folder / "master.log", "New state: ALIVE")
        for number in (1, 2):
            options = ["--cores", "1", "--memory", "1g", "--host", host, "--webui-port", "0"]
            options += ["--work-dir", str(folder / f"work-{number}")]
            begun.append(_java(folder, f"worker-{number}", [WORKER, *options, url]))
        for number in (1, 2):
            _wait_for(folder / f"worker-{number}.log", "Successfully registered with master")
        yield url
    finally:
        _end(begun)


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """The address of a Spark Connect server."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.port": port,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": folder / "warehouse",
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    command = ["org.apache.spark.deploy.SparkSubmit", "--class", CONNECT, *options, "spark-internal"]
    server = _java(folder, "connect", command)
    try:
        _wait_for(folder / "connect.log", "Spark Connect server started at")
        yield f"sc://127.0.0.1:{port}"
    finally:
        _end([server])


def executors(folder: Path) -> list[int]:
    """The processes that run tasks for the cluster whose logs and work are in this folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command, where = (entry / "cmdline").read_bytes().decode(), os.readlink(entry / "cwd")
            except OSError:
                continue
            if EXECUTOR in command and Path(where).is_relative_to(folder):
                found.append(int(entry.name))
    return found


def ancestors(pid: int) -> list[int]:
    """The processes that a process descends from."""
    found = []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(pid)
    return found


def _java(folder: Path, name: str, command: list[str]) -> subprocess.Popen[bytes]:
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(home),
    }
    with open(folder / f"{name}.log", "wb") as log:
        return subprocess.Popen(
            [str(home / "bin" / "spark-class"), *command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait_for(log: Path, words: str) -> None:
    until = time.monotonic() + PATIENCE
    while not re.search(words, log.read_text(errors="replace")):
        assert time.monotonic() < until, log.read_text(errors="replace")[-3000:]
        time.sleep(0.2)


def _end(begun: list[subprocess.Popen[bytes]]) -> None:
    for process in reversed(begun):
        process.terminate()
    for process in reversed(begun):
        try:
            process.wait(240)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
