"""Spark jobs as people run them: a project, `odf apply`, `odf ready`, `odf drain`, and everything that goes wrong."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.shell import Shell, statuses

pytestmark = [pytest.mark.spark, pytest.mark.slow]

HEAD = """
[project]
name = "flights"

[environment.dev]
roots = ["./data"]

[spark]
master = "local[2]"
"spark.sql.shuffle.partitions" = 2
"""
FLOW = (
    HEAD
    + """
[dataset.raw]                       # somebody else writes these
location = "raw/{dataid}.csv"
partition = { type = "day", column = "day" }
schema = "id INT, day DATE, carrier STRING, delay INT"

[dataset.clean]
location = "clean/{dataid}"
format = "parquet"
partition = { type = "day", column = "day", start = "2013-01-29", end = "2013-01-31" }
checks = { not_null = ["id"], accepted = { carrier = ["AA", "UA"] }, span = true }

[dataset.by_carrier]
location = "by_carrier/{dataid}"
partition = { type = "day", start = "2013-01-29", end = "2013-01-31" }

[dataset.lake]                      # a copy for people with spreadsheets
location = "lake/{dataid}"
format = "csv"
partition = "day"

[dataset.month]
location = "month/{dataid}"
partition = "month"

[dataset.report]                    # a script writes it
location = "report/{dataid}.txt"
partition = "month"

[dataset.late]
location = "late/{dataid}"
partition = "day"
quarantine = { max = 1 }
checks = { range = { delay = { min = 0 } } }

[dataset.rates_raw]
location = "rates_raw/{dataid}.csv"
partition = "day"

[dataset.rates]
location = "rates/{dataid}"
partition = "day"
repeats = false

[job.by_carrier]
reads = ["clean"]
writes = ["by_carrier"]

[job.to_lake]
copy = { from = "clean", to = "lake", columns = ["id", "carrier"], rename = { carrier = "airline" } }

[job.month]
reads = [{ dataset = "by_carrier", mapping = "rollup" }]
writes = ["month"]

[job.report]
reads = ["month"]
writes = ["report"]

[job.rates]
copy = { from = "rates_raw", to = "rates" }
"""
)
FUNCTIONS = """
from opendataflow import job


@job(reads="raw", writes="clean")
def clean(raw, chunk):
    chunk.log.info("cleaning %s", chunk.dataid)
    return raw.where("delay IS NOT NULL")


@job(reads="raw", writes="late")
def late(raw):
    return raw
"""


@pytest.fixture
def home(tmp_path: Path) -> Shell:
    """An empty folder with the embedded store."""
    return Shell(tmp_path)


DAYS = ("2013-01-29", "2013-01-30", "2013-01-31")


def raw(day: str, *rows: str) -> str:
    return "id,day,carrier,delay\n" + "".join(f"{row.replace(' ', f',{day},')}\n" for row in rows)


def make_flow(home: Shell) -> None:
    home.write("dataflow.toml", FLOW)
    home.write("jobs/flights.py", FUNCTIONS)
    home.write(
        "jobs/by_carrier.sql",
        "-- one row for each carrier\nSELECT carrier, count(*) AS flights, :dataid AS day FROM clean GROUP BY carrier;",
    )
    home.write(
        "jobs/month.py",
        "from opendataflow import job\n\n@job\ndef month(by_carrier):\n"
        "    return by_carrier.groupBy('carrier').sum('flights').withColumnRenamed('sum(flights)', 'flights')\n",
    )
    home.script(
        "jobs/report.sh",
        'mkdir -p "${report_location%/*}"; ls "$month_location" | grep -c parquet > "$report_location"',
    )
    home.write("data/raw/2013-01-29.csv", raw("2013-01-29", "1 AA,5", "2 UA,-3", "3 AA,"))
    home.write("data/raw/2013-01-30.csv", raw("2013-01-30", "4 AA,5", "5 UA,7"))
    home.write("data/raw/2013-01-31.csv", raw("2013-01-31", "6 AA,5", "7 XX,7", "8 ZZ,9"))
    # Yesterday's rows once more, in another order: not the same bytes, but the same data.
    home.write("data/rates_raw/2013-01-29.csv", "code,rate\nEUR,1\nUSD,2\n")
    home.write("data/rates_raw/2013-01-30.csv", "code,rate\nUSD,2\nEUR,1\n")


def rows(folder: Path) -> list[dict[str, Any]]:
    """What lies in the parquet files of a folder, read without Spark."""
    from pyarrow.parquet import read_table

    found: list[dict[str, Any]] = read_table(folder).to_pylist()
    return found


def carriers(home: Shell, version: int, day: str = "2013-01-30") -> dict[str, int]:
    return {row["carrier"]: row["flights"] for row in rows(home.folder / f"data/by_carrier/{day}/v{version:06d}")}


def published(home: Shell) -> list[tuple[str, str, int]]:
    found = home.odf("sql", "select datasetid, dataid, version from data_manifest", "--json").data
    return sorted((row["datasetid"], row["dataid"], row["version"]) for row in found)


def version_folders(home: Shell) -> set[str]:
    data = home.folder / "data"
    return {str(path.relative_to(data)) for path in data.glob("*/*/v[0-9]*")}


@pytest.mark.timeout(1800)
def test_a_flow_of_all_forms_of_jobs_and_what_goes_wrong_in_it(home: Shell) -> None:
    make_flow(home)
    assert "odf apply" in home.odf("run", "clean", code=2).err, "declared in the code, but not registered yet"
    plan = home.odf("apply", "--yes").out
    assert "+ job clean" in plan
    assert "+ job to_lake" in plan
    home.odf("ready", "raw", "2013-01-29..2013-01-31")
    home.odf("ready", "rates_raw", "2013-01-29..2013-01-30")

    # All that can be done is done; a failed check and yesterday's content stop only what depends on them.
    told = home.odf("drain", "--workers", "4", code=None)
    found = statuses(home)
    done = ("clean", "by_carrier", "lake")
    assert {found[name, day] for name in done for day in DAYS[:2]} == {"READY"}, told.err
    assert found["clean", "2013-01-31"] == "FAILED"
    assert ("by_carrier", "2013-01-31") not in found
    assert ("month", "2013-01") not in found
    failed = home.odf("runs", "clean", "--json").data[0]
    assert failed["outcome"] == "NOT_VALIDATED"
    assert "accepted(carrier): violations 2" in failed["detail"]
    assert ("clean", "2013-01-31", 1) not in published(home), "nothing of it is visible"
    assert "clean/2013-01-31/v000001" in version_folders(home), "but somebody can look at it"
    assert "cleaning 2013-01-31" in home.odf("log", str(failed["runid"])).out

    rates = {day: found["rates", day] for day in DAYS[:2]}
    assert sorted(rates.values()) == ["FAILED", "READY"]
    wrong = home.odf("runs", "rates", "--json").data
    assert [run["outcome"] for run in wrong if run["status"] == "FAILED"] == ["WRONG_DATA"]
    assert any(day in str(run["detail"]) for run in wrong for day in DAYS[:2] if rates[day] == "READY")

    # Bad rows are kept aside with what is wrong with them; rows without a delay break no rule about it.
    assert found["late", "2013-01-29"] == "READY"
    assert found["late__rejected", "2013-01-29"] == "READY"
    assert [row["id"] for row in rows(home.folder / "data/late/2013-01-29/v000001")] == [1, 3]
    aside = rows(home.folder / "data/late__rejected/2013-01-29/v000001")
    assert [(row["id"], row["delay"]) for row in aside] == [(2, -3)]
    assert "range" in aside[0]["rejected_because"]
    rejected = "late: 1 of 3 rows rejected (max 1): range(delay)=1"
    assert f"late 2013-01-29: READY; {rejected}" in told.err
    run = next(run for run in home.odf("runs", "late", "--json").data if run["dataid"] == "2013-01-29")
    assert run["detail"] == rejected
    assert rejected in home.odf("log", str(run["runid"])).out
    assert ["late", "2013-01-29", "WARNED", rejected[6:]] in home.odf("status", "late", "--json").data["reasons"]
    assert f"run {run['runid']} of late rejected" in home.odf("explain", "late__rejected", "2013-01-29").out
    assert "airline" in next((home.folder / "data/lake/2013-01-29/v000001").glob("*.csv")).read_text()

    # Mended and resubmitted, the ordinary call resumes: function, SQL, copy, rollup, script.
    home.write("data/raw/2013-01-31.csv", raw("2013-01-31", "6 AA,5", "7 UA,7"))
    home.write("data/raw/2013-01-30.csv", raw("2013-01-30", "4 AA,5", "5 UA,7", "9 UA,8"))
    home.odf("ready", "raw", "2013-01-30..2013-01-31")
    home.odf("resubmit", "clean", "2013-01-30..2013-01-31", "--yes")
    home.odf("resubmit", "by_carrier", "2013-01-30")
    home.odf("drain", "--workers", "4", code=1)  # rates is still FAILED
    found = statuses(home)
    assert {found[name, day] for name in done for day in DAYS} == {"READY"}
    assert (found["month", "2013-01"], found["report", "2013-01"]) == ("READY", "READY")
    assert {row["carrier"]: row["flights"] for row in rows(home.folder / "data/month/2013-01/v000001")} == {
        "AA": 3,
        "UA": 4,
    }
    reported = int((home.folder / "data/report/2013-01.txt").read_text())
    assert reported == len(list((home.folder / "data/month/2013-01/v000001").glob("*.parquet")))
    assert carriers(home, 1) == {"AA": 1, "UA": 1}
    assert carriers(home, 2) == {"AA": 1, "UA": 2}

    # A published file that was cut is noticed before anybody reads it, and what was cut cannot be gone back to.
    victim = next((home.folder / "data/clean/2013-01-29/v000001").glob("*.parquet"))
    os.truncate(victim, 100)
    home.odf("resubmit", "by_carrier", "2013-01-29")
    refused = home.odf("run", "by_carrier", "--dataid", "2013-01-29", code=13)
    assert victim.name in refused.err
    assert statuses(home)["by_carrier", "2013-01-29"] == "RESUBMIT"

    # Back to the version before: who is resubmitted reads the old rows.
    home.odf("rollback", "rates", "2013-01-29", code=2)
    would = home.odf("rollback", "clean", "2013-01-30", "--dry-run", "--json").data["changed"]
    assert would == [{"datasetid": "clean", "dataid": "2013-01-30", "before": 2, "after": 1}]
    home.odf("rollback", "clean", "2013-01-30", "--why", "the ninth flight was cancelled")
    assert "rolled back" in home.odf("explain", "clean", "2013-01-30").out
    home.odf("resubmit", "by_carrier", "2013-01-30")
    home.odf("run", "by_carrier", "--dataid", "2013-01-30")
    assert carriers(home, 3) == {"AA": 1, "UA": 1}

    # Vacuum: the failed attempts go, two versions of each chunk and the current one stay.
    planned = home.odf("vacuum", "--dry-run", "--json").data["removed"]
    assert {(stray["what"], stray["number"]) for stray in planned} == {("attempt", 1), ("version", 1)}
    before = version_folders(home)
    home.odf("vacuum", code=2)  # nobody there to ask
    assert version_folders(home) == before
    home.odf("vacuum", "--yes")
    gone = {"by_carrier/2013-01-30/v000001", "clean/2013-01-31/v000001"}
    gone |= {f"rates/{day}/v000001" for day in DAYS[:2] if rates[day] == "FAILED"}
    assert before - version_folders(home) == gone
    assert home.odf("vacuum", "--yes", "--json").data["removed"] == []
    assert "vacuum" in home.odf("rollback", "by_carrier", "2013-01-30", "--to", "1", code=2).err


SLOW = (
    HEAD.replace("local[2]", "local[4]")  # one that sleeps has a location of its own
    + """
[dataset.numbers]
partition = "number"

[dataset.squares]
location = "squares/{dataid}"
partition = "number"

[dataset.sums]
location = "sums/{dataid}"
partition = "number"

[job.squares]
reads = ["numbers"]
writes = ["squares"]
lease = 3
retries = 3
backoff = 0

[job.sums]
reads = ["squares"]
writes = ["sums"]
lease = 3
retries = 3
backoff = 0
"""
)
# Two first attempts are slow while they write, so that they are killed with half a folder on disk.
SQUARES = """
from opendataflow import job

@job
def squares(spark, chunk):
    slow = 60_000 if chunk.epoch == 1 and chunk.dataid in ("2", "3") else 1
    wait = f"reflect('java.lang.Thread', 'sleep', {slow}L)"
    n = f"id * id + 100 * {chunk.dataid} AS n"
    return spark.range(0, 3, 1, 1).selectExpr(n, f"CASE WHEN id = 0 THEN {wait} END AS waited")
"""


@pytest.mark.timeout(1800)
def test_a_drain_that_is_killed_in_the_middle_is_finished_by_the_next_one(home: Shell) -> None:
    home.write("dataflow.toml", SLOW)
    home.write("jobs/squares.py", SQUARES)
    home.write("jobs/sums.sql", "SELECT sum(n) AS total FROM squares")
    home.odf("apply", "--yes")
    numbers = [str(number) for number in range(1, 7)]
    home.odf("ready", "numbers", *numbers)
    first = home.start("drain", "--workers", "4")
    try:
        until = time.monotonic() + 120
        while time.monotonic() < until and first.poll() is None:
            half = {"squares/2/v000001", "squares/3/v000001"} <= version_folders(home)
            if half and "READY" in [status for key, status in statuses(home).items() if key[0] == "squares"]:
                break
            time.sleep(0.3)
        else:
            pytest.fail(f"nothing to kill: {first.poll()}")
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.communicate()
    left = version_folders(home)
    assert "RUNNING" in statuses(home).values()
    home.odf("drain", "--workers", "4")
    assert statuses(home) == {
        **{("numbers", each): "READY" for each in numbers},
        **{(name, each): "READY" for name in ("squares", "sums") for each in numbers},
    }
    # Each chunk was published by exactly one attempt, and each consumer read what stands.
    versions = [(name, dataid) for name, dataid, _ in published(home) if name != "numbers"]
    assert len(versions) == len(set(versions)) == 12
    totals = {row["total"] for each in numbers for row in rows(next((home.folder / f"data/sums/{each}").iterdir()))}
    assert totals == {5 + 300 * number for number in range(1, 7)}
    runs = home.odf("sql", "select jobid, dataid, epoch, status from run", "--json").data
    assert {run["status"] for run in runs} == {"READY", "LOST"}

    # What the killed attempts left goes, and nothing else.
    home.odf("vacuum", "--yes")
    locations = home.odf("sql", "select location from data_manifest where datasetid <> 'numbers'", "--json").data
    assert version_folders(home) == {row["location"] for row in locations}
    assert left - version_folders(home), "the killed attempts had left something"
