"""What Spark is led to by rows of the store: published chunks inside the roots, and tables that are tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from opendataflow.errors import BadDefinition, InvalidPath
from opendataflow.model import Dataset, InputChunk, Manifest, Partition
from opendataflow.project import Project
from opendataflow.spark.keys import read_all
from opendataflow.spark.reading import read_batch, read_chunks

LINES = Dataset("lines", kind="file", location="lines/{dataid}", format="text", partition=Partition("number"))


@pytest.fixture
def home(project: Project, tmp_path: Path) -> Path:
    """The root, with a secret outside of it."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key.txt").write_text("the key\n")
    root = tmp_path / "data"
    (root / "lines/1").mkdir(parents=True)
    (root / "lines/1/a.txt").write_text("hello\n")
    (root / "linked").mkdir()
    (root / "linked/a.txt").symlink_to(tmp_path / "secret/key.txt")
    return root


@pytest.mark.fault(31)
@pytest.mark.parametrize(
    "location",
    ["{root}/lines/\\../\\../secret", "{root}/../secret", "{root}/{{../secret,lines}}", "/etc", "{root}/linked"],
)
@pytest.mark.parametrize("is_declared", [True, False])
def test_a_manifest_leads_spark_nowhere_else(
    spark: SparkSession, project: Project, home: Path, location: str, is_declared: bool
) -> None:
    """Without a project file too: then the folder counts in which somebody works."""
    project = replace(project, environment=replace(project.environment, is_declared=is_declared))
    forged = InputChunk("lines", "2", 1, Manifest(location=location.format(root=home)))
    good = InputChunk("lines", "1", 1, Manifest(location=str(home / "lines/1")))
    assert [row.value for row in read_chunks(spark, project, LINES, [good], str).collect()] == ["hello"]
    for chunks in ([forged], [good, forged]):
        with pytest.raises(InvalidPath):
            read_chunks(spark, project, LINES, chunks, str)
        with pytest.raises(InvalidPath):
            read_batch(spark, project, LINES, [(chunk.dataid, chunk) for chunk in chunks], str, tasks=1)


@pytest.mark.fault(31)
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ({"tablename": "text.`{secret}`"}, BadDefinition),
        ({"database": "text", "tablename": "`{secret}`"}, BadDefinition),
        ({"database": "text", "tablename": "{secret}"}, BadDefinition),
        ({"database": "text", "tablename": "constraints"}, InvalidPath),
        ({"database": "text", "tablename": "`README md`"}, InvalidPath),
    ],
)
@pytest.mark.parametrize("format", ["delta", "text", "hive"])
def test_the_name_of_a_table_is_never_a_path(
    spark: SparkSession, project: Project, home: Path, name: dict[str, str], error: type[Exception], format: str
) -> None:
    names = {key: value.format(secret=home.parent / "secret/key.txt") for key, value in name.items()}
    table = Dataset("table", kind="table", format=format, **names)  # type: ignore[arg-type]
    with pytest.raises(error):
        read_chunks(spark, project, table, [InputChunk("table", "1", 1)], str)
    with pytest.raises(error):
        read_all(spark, project, table, str)


@pytest.mark.fault(22, 31)
@pytest.mark.parametrize("name", ["(select 1 as x) t", "t; drop table u", "t where 1 = 1"])
def test_the_name_of_a_table_over_jdbc_is_never_a_query(spark: SparkSession, project: Project, name: str) -> None:
    table = Dataset("table", kind="table", format="jdbc", tablename=name, options={"options": {"url": "jdbc:derby:x"}})
    with pytest.raises(BadDefinition):
        read_all(spark, project, table, str)


def test_a_table_of_the_catalogue_is_read(spark: SparkSession, project: Project) -> None:
    spark.range(3).createOrReplaceTempView("three_rows")
    table = Dataset("table", kind="table", format="delta", tablename="three_rows")
    assert read_all(spark, project, table, str).count() == 3
