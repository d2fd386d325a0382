"""Every chunk has a session of its own: neither views nor settings nor cached rows of another one reach it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from opendataflow.errors import BadConfig
from opendataflow.spark.own import own_session, session_for_copies
from opendataflow.spark.session import cancel, chunk_context
from tests.support.shell import Answer

DAYS = [f"2013-01-{day:02d}" for day in range(1, 9)]
PROJECT = """
[environment.dev]
roots = ["./data"]

[spark]
master = "local[2]"

[dataset.raw]
location = "raw/{dataid}.csv"
partition = "day"
schema = "day STRING"

[dataset.views]
location = "views/{dataid}"
partition = "day"

[job.views]
reads = ["raw"]
writes = ["views"]
spark = { "spark.sql.shuffle.partitions" = 3, sql.ansi.enabled = false }
"""
# Each chunk waits until others run beside it, between naming its rows and reading them by that name.
CODE = """
import time
from pyspark.sql import SparkSession
from opendataflow import job


@job
def views(raw, spark, chunk):
    spark.conf.set("spark.sql.test.day", chunk.dataid)
    raw.cache().createOrReplaceTempView("t")
    SparkSession.builder.getOrCreate().range(1).selectExpr(f"'{chunk.dataid}' AS day").createOrReplaceTempView("u")
    raw.count()
    time.sleep(0.5)
    seen = spark.conf.get("spark.sql.test.day")
    settings = spark.conf.get("spark.sql.shuffle.partitions"), spark.conf.get("spark.sql.ansi.enabled")
    return SparkSession.active().sql(
        f"SELECT t.day, u.day AS other, '{seen}' AS conf, '{settings[0]} {settings[1]}' AS settings FROM t CROSS JOIN u"
    )
"""


def test_chunks_that_run_side_by_side_share_neither_views_nor_settings_nor_caches(
    desk: Callable[..., Answer], tmp_path: Path, spark: SparkSession
) -> None:
    (tmp_path / "dataflow.toml").write_text(PROJECT)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/views.py").write_text(CODE)
    (tmp_path / "data/raw").mkdir(parents=True)
    for day in DAYS:
        (tmp_path / f"data/raw/{day}.csv").write_text(f"day\n{day}\n")
    desk("apply", "--yes")
    desk("ready", "raw", f"{DAYS[0]}..{DAYS[-1]}")
    desk("drain", "--workers", "4")
    for day in DAYS:
        rows = spark.read.parquet(str(tmp_path / f"data/views/{day}/v000001")).collect()
        assert [tuple(row) for row in rows] == [(day, day, day, "3 false")]
    assert _caches(spark).isEmpty(), "what a chunk cached is released when it ends"
    assert not spark.catalog.tableExists("t")
    assert spark.conf.get("spark.sql.test.day", None) is None


def test_a_table_that_was_cached_by_sql_is_released_as_well(spark: SparkSession) -> None:
    with own_session(spark) as own:
        own.sql("CACHE TABLE kept AS SELECT 1 AS a")
        own.range(2).persist().count()
        assert _caches(spark).numCachedEntries() == 2
    assert _caches(spark).isEmpty()


def test_copies_share_a_session_that_nobody_else_has(spark: SparkSession) -> None:
    with session_for_copies(spark) as one, session_for_copies(spark) as other, own_session(spark) as own:
        assert one is other
        assert one is not spark
        own.range(1).createOrReplaceTempView("mine")
        spark.range(1).createOrReplaceTempView("ours")
        assert one.catalog.listTables() == []
        spark.catalog.dropTempView("ours")


def test_work_in_an_own_session_carries_the_tag_and_the_pool_of_its_run(spark: SparkSession) -> None:
    with own_session(spark) as own, chunk_context(own, "odf-9", "pool"):
        assert list(own.sparkContext.getJobTags()) == ["odf-9"]
        assert own.sparkContext.getLocalProperty("spark.scheduler.pool") == "pool"
        assert SparkSession.getActiveSession() is own
        cancel(own, "odf-9")
    assert SparkSession.builder.getOrCreate() is spark
    assert not spark.sparkContext.getJobTags()


@pytest.mark.parametrize("name", ["spark.sql.warehouse.dir", "spark.sql.no such thing"])
def test_what_belongs_to_the_application_cannot_be_set_for_a_job(spark: SparkSession, name: str) -> None:
    settings: dict[str, Any] = {name: "x"}
    with pytest.raises(BadConfig, match="spark"), own_session(spark, settings, "job views"):
        pytest.fail("it began")


def _caches(spark: SparkSession) -> Any:
    return spark._jsparkSession.sharedState().cacheManager()
