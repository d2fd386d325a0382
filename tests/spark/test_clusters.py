"""Anywhere Spark runs: the same project on a standalone master with two workers, and through Spark Connect."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

import opendataflow
from tests.support.clusters import ancestors, connect_server, executors, standalone
from tests.support.shell import Shell, statuses

pytestmark = [pytest.mark.slow, pytest.mark.postgres, pytest.mark.timeout(1800)]

DAYS = ("2013-01-29", "2013-01-30", "2013-01-31")
PROJECT = """
[project]
name = "anywhere"
jobs = ["jobs"]

[environment.dev]
roots = ["./data"]

[spark]
"spark.sql.shuffle.partitions" = 2
"spark.speculation" = true
"spark.speculation.multiplier" = 1.2
"spark.speculation.quantile" = 0.1
"spark.executor.memory" = "600m"

[dataset.raw]
location = "raw/{dataid}.csv"
partition = { type = "day", column = "day" }
schema = "id INT, day DATE, name STRING"

[dataset.clean]
location = "clean/{dataid}"
partition = { type = "day", column = "day" }
checks = { rows = { min = 1000 }, not_null = ["id"], unique = ["id"], span = true }

[dataset.people]
kind = "table"
format = "postgres"
hostname = "HOST"
database = "DATABASE"
tablename = "people"
username = "postgres"
partition = { type = "day", column = "day" }

[dataset.back]
location = "back/{dataid}"
partition = { type = "day", column = "day" }
checks = { conserves = "people" }

[job.to_table]
copy = { from = "clean", to = "people" }

[job.back]
copy = { from = "people", to = "back" }
"""
# Tasks of the first day say that they have begun, and then take their time: long enough to lose an executor.
CODE = """
import os, time

from opendataflow import job


@job(reads="raw", writes="clean")
def clean(raw, chunk, spark):
    raw.cache().createOrReplaceTempView("t")  # which chunks that run beside it have as well
    folder, is_slow = chunk.env["MARKS"], chunk.dataid == "2013-01-29"

    def slowly(batches):
        if is_slow:
            open(os.path.join(folder, f"{os.getpid()}-{time.monotonic_ns()}"), "w").close()
            time.sleep(6)
        yield from batches

    return spark.table("t").repartition(2).mapInArrow(slowly, raw.schema)
"""


@pytest.fixture
def home(tmp_path: Path, postgres_url: str) -> Shell:
    """The project with three days of rows, and an empty table in a real PostgreSQL."""
    import psycopg

    address, _, database = postgres_url.removeprefix("postgresql://postgres@").partition("/")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("create table people (id int primary key, day date not null, name text)")
    shell = Shell(tmp_path / "project")
    marks = tmp_path / "marks"
    marks.mkdir()
    shell.write("dataflow.toml", PROJECT.replace("HOST", address).replace("DATABASE", database))
    shell.write("jobs/clean.py", CODE.replace('chunk.env["MARKS"]', repr(str(marks))))
    for number, day in enumerate(DAYS):
        lines = (f"{number * 1000 + row},{day},name {row}" for row in range(1000))
        shell.write(f"data/raw/{day}.csv", "id,day,name\n" + "\n".join(lines) + "\n")
    shell.odf("apply", "--yes")
    shell.odf("ready", "raw", f"{DAYS[0]}..{DAYS[-1]}")
    return shell


def all_rows(home: Shell) -> list[int]:
    """The ids in the published files of `back`, read without Spark."""
    from pyarrow.parquet import read_table

    locations = home.odf("sql", "select location from data_manifest where datasetid = 'back'", "--json").data
    tables = (read_table(home.folder / "data" / row["location"]) for row in locations)
    return sorted(number for table in tables for number in table.column("id").to_pylist())


def check_everything_once(home: Shell) -> None:
    found = statuses(home)
    assert {found[name, day] for name in ("clean", "people", "back") for day in DAYS} == {"READY"}
    assert all_rows(home) == list(range(3000))


@pytest.mark.fault(11)
def test_a_standalone_cluster_that_loses_an_executor_in_the_middle(home: Shell, tmp_path: Path, soak: bool) -> None:
    """With speculation, so that tasks of the same rows run side by side, too."""
    kills = 2 if soak else 1  # Spark gives a task up that was lost four times
    killed: list[int] = []
    with standalone(tmp_path) as master:
        drain = home.start("drain", "--master", master, "--workers", "2")
        while len(killed) < kills:
            victim = working_executor(tmp_path, drain, killed)
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)
        out, err = drain.communicate(timeout=400)
        assert drain.returncode == 0, (out, err)
        assert "Traceback" not in err
    assert len(list((tmp_path / "marks").iterdir())) > 2, "what was lost was computed again"
    check_everything_once(home)
    attempts = home.odf("sql", "select max(epoch) as most from run", "--json").data
    assert attempts == [{"most": 1}], "Spark mended it by itself: no chunk was tried twice"
    for dataset in ("clean", "back"):  # every published file is read again; a table has none
        home.odf("audit", dataset)
    with opendataflow.open(f"sqlite:///{home.folder}/dataflow.db") as store:
        assert store.breaches() == []
        check_no_file_twice(home, store)


def working_executor(folder: Path, drain: subprocess.Popen[str], killed: Sequence[int]) -> int:
    """An executor that is in the middle of a task now."""
    until = time.monotonic() + 300
    while True:
        assert drain.poll() is None, drain.communicate()
        assert time.monotonic() < until, "no task of the first day ever began"
        alive = [executor for executor in executors(folder) if executor not in killed]
        for mark in (folder / "marks").iterdir():
            with suppress(OSError):  # that task is over
                above = ancestors(int(mark.name.partition("-")[0]))
                if found := [executor for executor in alive if executor in above]:
                    return found[0]
        time.sleep(0.1)


def check_no_file_twice(home: Shell, store: opendataflow.Store) -> None:
    """A version holds the files that its manifest names, and no rows twice."""
    from pyarrow.parquet import read_table

    for dataset in ("clean", "back"):
        for number, day in enumerate(DAYS):
            version = store.views.manifest(dataset, day, 1)
            assert version is not None
            location = home.folder / "data" / version.manifest.location
            there = sorted(path.relative_to(location).as_posix() for path in location.rglob("*.parquet"))
            assert there == [file.path for file in version.manifest.files]
            ids = read_table(location).column("id").to_pylist()
            assert sorted(ids) == list(range(number * 1000, (number + 1) * 1000))


def test_spark_connect(home: Shell, tmp_path: Path) -> None:
    with connect_server(tmp_path) as master:
        home.odf("drain", "--master", master, "--workers", "2")
        check_everything_once(home)
        same = home.odf("diff", "clean", DAYS[1], "1", "1", "--rows", "1", "--key", "id", "--master", master)
        assert "rows: 0 added, 0 removed, 0 changed, 1,000 unchanged" in same.out
        # What runs there ends when the person who asked for it does.
        for mark in (tmp_path / "marks").iterdir():
            mark.unlink()
        home.odf("resubmit", "clean", DAYS[0], "--yes")
        drain = home.start("drain", "clean", "--master", master, "--grace", "0")
        until = time.monotonic() + 100
        while not list((tmp_path / "marks").iterdir()):
            assert drain.poll() is None, drain.communicate()
            assert time.monotonic() < until
            time.sleep(0.1)
        drain.send_signal(signal.SIGINT)
        out, err = drain.communicate(timeout=240)
        assert drain.returncode == 130, (out, err)
        assert statuses(home)["clean", DAYS[0]] == "RESUBMIT", (out, err)
        running = home.odf("sql", "select count(*) as n from run where status = 'RUNNING'", "--json").data
        assert running == [{"n": 0}]
