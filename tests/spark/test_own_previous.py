"""A job that reads its own previous chunk: the first one finds no rows, with the columns that are known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from tests.support.shell import Answer

PROJECT = """
[environment.dev]
roots = ["./data"]

[spark]
master = "local[2]"

[dataset.booked]
location = "booked/{dataid}.csv"
partition = "day"
schema = "amount INT"

[dataset.balance]
location = "balance/{dataid}"
partition = { type = "day", start = "2013-01-01" }
schema = "total BIGINT"

[dataset.trend]
location = "trend/{dataid}"
partition = { type = "day", start = "2013-01-01" }

[job.balance]
reads = ["booked", { dataset = "balance", mapping = "lag 1" }]
writes = ["balance"]

[job.trend]
reads = ["balance", { dataset = "trend", mapping = "lag 1" }]
writes = ["trend"]
"""
SQL = """
SELECT coalesce((SELECT sum(total) FROM balance), 0) + sum(amount) AS total FROM booked
"""
CODE = """
from opendataflow import job


@job
def trend(balance, trend, chunk):
    assert chunk.inputs["trend"] == () or chunk.dataid != "2013-01-01"
    return balance.select("total").union(trend)
"""


def prepare(tmp_path: Path, project: str) -> None:
    (tmp_path / "dataflow.toml").write_text(project)
    (tmp_path / "jobs").mkdir(exist_ok=True)
    (tmp_path / "jobs/balance.sql").write_text(SQL)
    (tmp_path / "jobs/trend.py").write_text(CODE)
    (tmp_path / "data/booked").mkdir(parents=True, exist_ok=True)
    for number in (1, 2, 3):
        (tmp_path / f"data/booked/2013-01-0{number}.csv").write_text(f"amount\n{10**number}\n")


def test_the_first_chunk_finds_no_rows_before_it(
    desk: Callable[..., Answer], tmp_path: Path, spark: SparkSession
) -> None:
    prepare(tmp_path, PROJECT)
    assert "note" not in desk("apply", "--yes").err
    desk("ready", "booked", "2013-01-01..2013-01-03")
    answer = desk("drain", code=1)
    assert "declare them: [dataset.trend] schema" in answer.out, "nobody knows its columns yet"
    totals = spark.read.parquet(*(str(tmp_path / f"data/balance/2013-01-0{n}/v000001") for n in (1, 2, 3)))
    assert sorted(row.total for row in totals.collect()) == [10, 110, 1110]
    prepare(tmp_path, PROJECT.replace("[job.balance]", 'schema = "total BIGINT"\n\n[job.balance]'))
    desk("apply", "--yes")
    desk("resubmit", "trend", "--failed", "--yes")
    desk("drain")
    rows = spark.read.parquet(str(tmp_path / "data/trend/2013-01-03/v000001")).collect()
    assert sorted(row.total for row in rows) == [10, 110, 1110]


def test_without_a_beginning_apply_and_why_say_that_it_is_needed(desk: Callable[..., Answer], tmp_path: Path) -> None:
    prepare(tmp_path, PROJECT.replace(', start = "2013-01-01"', ""))
    needed = "[dataset.balance] partition = { …, start = … }"
    assert needed in desk("apply", "--yes").err
    desk("ready", "booked", "2013-01-01")
    assert needed in desk("why", "balance").out
    assert needed in desk("why", "balance", "2013-01-01").out
