"""The rule for data files is Spark's own: what it really reads is what the rule says, however the files are listed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.parquet import write_metadata
from pyspark.sql import SparkSession

from opendataflow import files
from opendataflow.errors import InvalidPath
from opendataflow.spark.files import list_by_hadoop, list_by_reading, list_files
from tests.support.data_files import NAMES

DATA = sorted(name for name, is_data in NAMES.items() if is_data)


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder where each file holds its own name."""
    folder = tmp_path_factory.mktemp("named") / "chunk"
    for name in NAMES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return str(folder)


def test_spark_reads_what_the_rule_says_and_nothing_else(spark: SparkSession, location: str) -> None:
    rows = spark.read.option("recursiveFileLookup", "true").text(location).collect()
    assert sorted(row.value for row in rows) == DATA


def test_partitions_of_a_column_that_begins_with_an_underscore_are_data_and_summaries_are_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    location = str(tmp_path / "chunk")
    rows = spark.sql("SELECT 1 AS id, 'a' AS _x UNION ALL SELECT 2, 'b'").coalesce(1)
    rows.write.partitionBy("_x").parquet(location)
    for name in ("_metadata", "_common_metadata"):
        write_metadata(pa.schema([("id", pa.int32())]), f"{location}/{name}")
    assert {(row["id"], row["_x"]) for row in spark.read.parquet(location).collect()} == {(1, "a"), (2, "b")}
    listed = files.list_files(location)
    assert listed is not None
    assert [file.path.partition("/")[0] for file in listed] == ["_x=a", "_x=b"]


def test_everybody_lists_the_same_files(spark: SparkSession, location: str) -> None:
    by_disk = files.list_files(location)
    assert by_disk is not None
    assert [file.path for file in by_disk] == DATA
    for listed in (
        list_files(spark, location),
        list_by_hadoop(spark, f"file://{location}"),
        list_by_reading(spark, location),
        files.list_files(f"file://{location}"),
    ):
        assert listed is not None
        assert [(file.path, file.bytes) for file in listed] == [(file.path, file.bytes) for file in by_disk]
        for file, same in zip(listed, by_disk, strict=True):
            assert file.mtime == pytest.approx(same.mtime, abs=0.002)


def test_one_file_is_listed_under_its_own_name(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("1")
    for location in (str(tmp_path / "orders.csv"), f"file://{tmp_path}/orders.csv"):
        assert [(file.path, file.bytes) for file in list_files(spark, location)] == [("orders.csv", 1)]


def test_nothing_there_is_a_wrong_place(spark: SparkSession, tmp_path: Path) -> None:
    for location in (str(tmp_path / "nowhere"), f"file://{tmp_path}/nowhere"):
        with pytest.raises(InvalidPath):
            list_files(spark, location)
