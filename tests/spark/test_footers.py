"""Footers: columns that are found without Spark's own job are those that Spark finds, or none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.parquet import write_metadata, write_table
from pyspark.sql import SparkSession

from opendataflow.model import Dataset
from opendataflow.spark.footers import schema_in_footer
from opendataflow.spark.reading import read_location

MERGE = "spark.sql.parquet.mergeSchema"


def chunks(**options: object) -> Dataset:
    return Dataset("d", kind="file", format="parquet", location="d/{dataid}", options=dict(options))


@pytest.fixture
def location(spark: SparkSession, tmp_path: Path) -> str:
    query = (
        "SELECT 1 AS id, CAST(2.5 AS DECIMAL(12, 3)) AS `a.b`, DATE'2025-01-01' AS day, TIMESTAMP_NTZ'2025-01-01' AS t,"
        " array(named_struct('x', 1L, 'y', map('k', 2.5D))) AS deep, INTERVAL '1' DAY AS i, 'c' AS s"
    )
    # What is said of a column comes along.
    df = spark.sql(query).withMetadata("s", {"comment": "a text"})
    df.coalesce(1).write.parquet(str(tmp_path / "chunk"))
    return str(tmp_path / "chunk")


@pytest.fixture
def merging(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(MERGE, "true")
    yield
    spark.conf.unset(MERGE)


def test_columns_in_a_footer_are_those_that_spark_finds(spark: SparkSession, location: str) -> None:
    found = schema_in_footer(spark, chunks(), location)
    assert found is not None
    assert read_location(spark, chunks(), location, schema=found).schema == spark.read.parquet(location).schema
    (file,) = Path(location).glob("*.parquet")
    assert schema_in_footer(spark, chunks(), str(file)) == found


def test_only_spark_tells_where_it_would_ask_more_than_the_first_file(
    spark: SparkSession, location: str, tmp_path: Path
) -> None:
    assert schema_in_footer(spark, chunks(options={"mergeSchema": True}), location) is None
    write_metadata(pa.schema([("id", pa.int32())]), f"{location}/_common_metadata")
    assert schema_in_footer(spark, chunks(), location) is None
    parts = str(tmp_path / "parts")
    spark.range(2).selectExpr("id", "id AS day").write.partitionBy("day").parquet(parts)
    assert schema_in_footer(spark, chunks(), parts) is None


@pytest.mark.usefixtures("merging")
def test_only_spark_tells_where_a_session_merges_columns(spark: SparkSession, location: str) -> None:
    assert schema_in_footer(spark, chunks(), location) is None


def test_only_spark_tells_what_others_wrote(spark: SparkSession, tmp_path: Path) -> None:
    write_table(pa.table({"id": [1]}), tmp_path / "others.parquet")
    (tmp_path / "broken.parquet").write_text("PAR1 and nothing else")
    for name in ("others.parquet", "broken.parquet", "nothing.parquet"):
        assert schema_in_footer(spark, chunks(), str(tmp_path / name)) is None
