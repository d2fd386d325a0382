"""Chunks that run side by side: each way of getting a session gives the chunk's own, or is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.shell import Answer

DAYS = [f"2013-01-{day:02d}" for day in range(1, 5)]
PROJECT = """
[environment.dev]
roots = ["./data"]

[spark]
master = "local[2]"

[dataset.raw]
location = "raw/{dataid}.csv"
partition = "day"
schema = "day STRING"

[dataset.out]
location = "out/{dataid}"
partition = "day"

[job.out]
reads = ["raw"]
writes = ["out"]
"""
# Four chunks meet between naming their rows and reading them by that name.
MEET = """
import threading

_barrier = threading.Barrier(4)


def meet():
    _barrier.wait(600)


def in_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]
"""
EVERY_WAY = """
from meet import in_thread, meet
from opendataflow import job
from pyspark.sql import SparkSession

try:
    import pyspark.pandas as ps
except ImportError:  # PySpark's does not work with every pandas
    ps = None


def name_rows(way, session, dataid):
    session.sql(f"SELECT '{dataid}' AS day").createOrReplaceTempView(f"rows_{way}")
    return session


@job
def out(raw, spark, chunk):
    day = chunk.dataid
    sessions = {
        "parameter": name_rows("parameter", spark, day),
        "active": name_rows("active", SparkSession.active(), day),
        "get_active": name_rows("get_active", SparkSession.getActiveSession(), day),
        "builder": name_rows("builder", SparkSession.builder.appName("mine").getOrCreate(), day),
        "frame": name_rows("frame", raw.sparkSession, day),
        "thread": in_thread(lambda: name_rows("thread", spark, day)),
    }
    raw.createOrReplaceTempView("raw_rows")
    spark.udf.register("own_day", lambda: day)
    meet()
    in_thread(lambda: spark.table("raw_rows").createOrReplaceTempView("rows_in_thread"))
    sessions["in_thread"] = spark
    result = raw if ps is None else ps.sql("SELECT day FROM {raw}", raw=raw.pandas_api()).to_spark()
    for way, session in sessions.items():
        result = result.crossJoin(session.table(f"rows_{way}").withColumnRenamed("day", way))
    return result.selectExpr("*", "own_day() AS udf")
"""
GLOBAL_VIEW = """
from opendataflow import job
from meet import meet


@job
def out(raw, spark):
    raw.createOrReplaceGlobalTempView("g")
    return spark.table("global_temp.g")
"""


def _project(folder: Path, code: str, more: str = "") -> None:
    (folder / "dataflow.toml").write_text(PROJECT + more)
    (folder / "jobs").mkdir()
    (folder / "jobs/meet.py").write_text(MEET)
    (folder / "jobs/out.py").write_text(code)
    (folder / "data/raw").mkdir(parents=True)
    for day in DAYS:
        (folder / f"data/raw/{day}.csv").write_text(f"day\n{day}\n")


def _published(spark: SparkSession, folder: Path) -> dict[str, set[str]]:
    rows = {day: spark.read.parquet(str(folder / f"data/out/{day}/v000001")).collect() for day in DAYS}
    return {day: {value for row in found for value in row} for day, found in rows.items()}


def test_every_way_of_getting_a_session_gives_that_of_the_chunk(
    desk: Callable[..., Answer], tmp_path: Path, spark: SparkSession
) -> None:
    _project(tmp_path, EVERY_WAY)
    desk("apply", "--yes")
    desk("ready", "raw", f"{DAYS[0]}..{DAYS[-1]}")
    desk("drain", "--workers", "4")
    assert _published(spark, tmp_path) == {day: {day} for day in DAYS}


MODULE_LEVEL = """
from opendataflow import job
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()


@job
def out(raw):
    raw.createOrReplaceTempView("t")
    return spark.table("t")
"""
KEPT = """
from opendataflow import job
from pyspark.sql import SparkSession

_spark = {}


@job
def out(raw):
    spark = _spark.setdefault("one", raw.sparkSession)
    raw.createOrReplaceTempView("t")
    return spark.table("t")
"""
KEPT_AND_FAILING = KEPT.replace("return", "raise RuntimeError('no such view')\n    return")


@pytest.mark.parametrize(
    ("code", "way_out"),
    [
        pytest.param(MODULE_LEVEL, "take `spark` as a parameter", id="module level"),
        pytest.param(GLOBAL_VIEW, "concurrency = 1", id="global view"),
        pytest.param(
            GLOBAL_VIEW.replace("raw.createOrReplaceGlobalTempView", "raw.write.saveAsTable"),
            "concurrency = 1",
            id="table without a schema",
        ),
    ],
)
def test_code_that_would_share_rows_between_chunks_is_refused_by_name(
    desk: Callable[..., Answer], tmp_path: Path, code: str, way_out: str
) -> None:
    _project(tmp_path, code)
    desk("apply", "--yes")
    desk("ready", "raw", f"{DAYS[0]}..{DAYS[-1]}")
    answer = desk("run", "out", code=2)
    assert "BAD_JOB" in answer.err
    assert way_out in answer.err


@pytest.mark.parametrize("code", [pytest.param(KEPT, id="succeeds"), pytest.param(KEPT_AND_FAILING, id="fails")])
def test_a_session_that_one_chunk_keeps_for_the_next_is_refused_by_name(
    desk: Callable[..., Answer], tmp_path: Path, code: str
) -> None:
    _project(tmp_path, code)
    desk("apply", "--yes")
    desk("ready", "raw", f"{DAYS[0]}..{DAYS[-1]}")
    desk("drain", "--workers", "4", code=1)
    assert {run["outcome"] for run in desk("runs", "out", "--json").data} == {"BAD_JOB"}


def test_a_job_whose_chunks_run_one_at_a_time_may_use_global_views(
    desk: Callable[..., Answer], tmp_path: Path, spark: SparkSession
) -> None:
    _project(tmp_path, GLOBAL_VIEW, more="concurrency = 1\n")
    desk("apply", "--yes")
    desk("ready", "raw", f"{DAYS[0]}..{DAYS[-1]}")
    desk("drain", "--workers", "4")
    assert _published(spark, tmp_path) == {day: {day} for day in DAYS}
    spark.catalog.dropGlobalTempView("g")
