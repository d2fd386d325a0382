"""What a reader gets is what was judged: generated rows in every format, read back through every door."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import types as T

import opendataflow
from opendataflow.errors import BadConfig, NotValidated
from opendataflow.model import Dataset, InputChunk, Partition, parse_checks
from opendataflow.project import Project
from tests.support.shell import Answer

pytestmark = pytest.mark.fault(45)

DAY = Partition("day")
HARD: tuple[str, ...] = (
    "",
    " ",
    " lead",
    "trail ",
    "\t",
    '"',
    '""',
    'a"b',
    "a,b",
    "a\nb",
    "\n",
    "a\rb",
    "\r\n",
    "\\",
    '\\"',
    "#x",
)
HARD += ("null", "NaN", "\ufeffx", "\u2028", "\x00", "ü€😀", "'", "\x85", "\x0b", "-", "=1")
TEXTS = st.sampled_from(HARD) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\ue000"), max_size=8
)
SCHEMA = T.StructType(
    [
        T.StructField("id", T.IntegerType()),
        T.StructField(" a name", T.StringType()),
        T.StructField("number", T.DoubleType()),
        T.StructField("exact", T.DecimalType(20, 4)),
        T.StructField("day", T.DateType()),
        T.StructField("at", T.TimestampType()),
        T.StructField("flag", T.BooleanType()),
        T.StructField("last", T.StringType()),
    ]
)
ROWS = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.none() | TEXTS,
        st.none() | st.floats(allow_nan=False),
        st.none() | st.integers(-(10**12), 10**12).map(lambda n: Decimal(n).scaleb(-4)),
        st.none() | st.dates(),
        st.none() | st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
        st.none() | st.booleans(),
        st.none() | TEXTS,
    ),
    min_size=1,
    max_size=20,
)
epochs = count(1)


def dataset(format: str, **more: Any) -> Dataset:
    return Dataset("out", kind="file", location="out/{dataid}", format=format, partition=DAY, **more)


def bag(rows: Any) -> Counter[Any]:
    """Rows without their order; nought has one sign."""
    return Counter(tuple(0.0 if isinstance(cell, float) and cell == 0 else cell for cell in row) for row in rows)


@pytest.mark.parametrize("format", ["csv", "json", "parquet", "orc"])
@settings(deadline=None, max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS)
def test_generated_rows_read_back_as_they_were(
    spark: SparkSession, project: Project, produce: Any, format: str, rows: list[tuple[Any, ...]]
) -> None:
    from opendataflow.spark.chunks import no_password
    from opendataflow.spark.reading import read_chunk

    df = spark.createDataFrame(rows, SCHEMA)
    manifest = produce(lambda: df, dataset(format), epoch=next(epochs))["out"]
    back = read_chunk(spark, project, dataset(format), InputChunk("out", "2013-01-01", 1, manifest), no_password)
    assert back.schema == SCHEMA
    assert bag(back.collect()) == bag(df.collect())
    names = [bag((row[1], row[7]) for row in rows)]
    paths = [Path(manifest.location) / file.path for file in manifest.files]
    if format == "csv":
        for path in paths:
            with path.open(newline="") as file:
                names.append(bag((row[1], row[7]) for row in list(csv.reader(file, lineterminator="\n"))[1:]))
        by_arrow = [_arrow_csv(path) for path in paths]
        assert sum(by_arrow, Counter()) == names[0]
        assert sum(names[1:], Counter()) == bag((row[1] or "", row[7] or "") for row in rows)
    elif format == "json":
        lines = [json.loads(line) for path in paths for line in path.read_text().split("\n") if line]
        assert bag((line[" a name"], line["last"]) for line in lines) == names[0]
    else:
        from pyarrow import dataset as files

        texts = [" a name", "last"]  # Arrow reads moments of ORC in nanoseconds, which end in the year 2262
        table = files.dataset([str(path) for path in paths], format=format).to_table(columns=texts)
        assert bag((row[" a name"], row["last"]) for row in table.to_pylist()) == names[0]
    if format in DUCKDB:
        assert bag(_by_duckdb(format, paths)) == names[0]


# How DuckDB reads what we write; it has no reader of orc.
DUCKDB = {
    "csv": "read_csv($files, header = true, delim = ',', quote = '\"', escape = '\"', nullstr = '',"
    " allow_quoted_nulls = false, columns = $columns)",
    "json": "read_json($files, format = 'newline_delimited', columns = $columns)",
    "parquet": "read_parquet($files)",
}


def _by_duckdb(format: str, paths: list[Path]) -> list[tuple[Any, ...]]:
    columns = dict.fromkeys(SCHEMA.names, "VARCHAR")
    files = [str(path) for path in paths]
    source = DUCKDB[format].replace("$files", str(files)).replace("$columns", str(columns))
    return duckdb.connect().execute(f'select " a name", last from {source}').fetchall()


def _arrow_csv(path: Path) -> Counter[Any]:
    table = pa.csv.read_csv(
        path,
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            column_types={" a name": pa.string(), "last": pa.string()},
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
            include_columns=[" a name", "last"],
        ),
    )
    return bag((row[" a name"], row["last"]) for row in table.to_pylist())


def test_lines_of_text_read_back_as_they_were_under_their_own_name(
    spark: SparkSession, project: Project, produce: Any
) -> None:
    from opendataflow.spark.chunks import no_password
    from opendataflow.spark.reading import read_chunk

    lines = [(text,) for text in HARD if "\n" not in text]
    df = spark.createDataFrame(lines, "line string")
    manifest = produce(lambda: df, dataset("text"))["out"]
    back = read_chunk(spark, project, dataset("text"), InputChunk("out", "2013-01-01", 1, manifest), no_password)
    assert back.columns == ["line"]
    assert bag(back.collect()) == bag(lines)


@pytest.mark.parametrize(
    ("format", "query", "told"),
    [
        ("text", "SELECT 'a\\nb' AS line", "1 were written and 2 are read"),
        ("text", "SELECT CAST(NULL AS STRING) AS line", "the values of line differ"),
        ("csv", "SELECT 'x' AS ok, '\ue000null' AS odd", "the values of odd differ"),
        ("csv", "SELECT EXPLODE(array('x', NULL)) AS only", "2 were written and 1 are read"),
        ("csv", "SELECT 1 AS id, CAST(X'FF' AS STRING) AS broken", "the values of broken differ"),
        ("CSV", "SELECT 'x' AS ok, '\ue000null' AS odd", "the values of odd differ"),
        ("xml", "SELECT 'x' AS ok, ' y ' AS odd", "the values of odd differ"),
    ],
)
def test_rows_that_a_format_does_not_bring_back_are_refused_by_column(
    spark: SparkSession, produce: Any, format: str, query: str, told: str
) -> None:
    options = {"options": {"rowTag": "row"}} if format == "xml" else {}
    with pytest.raises(NotValidated) as problem:
        produce(lambda: spark.sql(query), dataset(format, options=options))
    assert f"{format.lower()} does not bring back the rows as they were written" in problem.value.message
    assert told in problem.value.message
    assert "parquet" in problem.value.hint


@pytest.mark.parametrize(
    ("format", "query", "told"),
    [
        ("csv", "SELECT 1 AS id, X'00' AS raw", "csv cannot hold column raw, which is binary"),
        ("csv", "SELECT array(1) AS list", "csv cannot hold column list, which is array<int>"),
        ("json", "SELECT map(1, 'a') AS pairs", "json cannot hold column pairs, which is map<int,string>"),
        ("text", "SELECT 1 AS id", "a text file holds one column of type string, not id int"),
        ("csv", "SELECT 1 AS id, NULL AS nothing", "csv cannot hold column nothing, which is void"),
        ("json", "SELECT make_interval(1) AS length", "json cannot hold column length, which is interval"),
        ("orc", "SELECT parse_json('1') AS any", "orc cannot hold column any, which is variant"),
        ("parquet", "SELECT make_interval(1) AS length", "parquet cannot hold column length, which is interval"),
    ],
)
def test_types_that_a_format_cannot_hold_are_refused_before_anything_is_written(
    spark: SparkSession, project: Project, produce: Any, format: str, query: str, told: str
) -> None:
    with pytest.raises(BadConfig, match=told):
        produce(lambda: spark.sql(query), dataset(format))
    assert not list(Path(project.environment.roots[0]).rglob("part-*"))


def test_checks_are_about_what_a_reader_gets(spark: SparkSession, produce: Any) -> None:
    checks = parse_checks({"not_null": ["name"], "sql": ["length(name) = 3"]}, "test")
    found = produce(lambda: spark.sql("SELECT 1 AS id, ' a ' AS name"), dataset("csv", checks=checks))["out"]
    assert found.extra["metrics"] == "read back"
    assert found.passed


TOML = """
[environment.dev]
roots = ["./data"]
[dataset.raw]
location = "raw/{dataid}.csv"
partition = "day"
schema = "id INT"
"""
OUT = """
[dataset.{format}_out]
location = "{format}/{{dataid}}"
partition = "day"
format = "{format}"
"""


def test_every_format_reads_back_through_the_door_of_a_notebook(
    desk: Callable[..., Answer], spark: SparkSession, tmp_path: Path
) -> None:
    formats = ("csv", "json", "parquet", "orc")
    (tmp_path / "dataflow.toml").write_text(TOML + "".join(OUT.format(format=format) for format in formats))
    (tmp_path / "data/raw").mkdir(parents=True)
    (tmp_path / "data/raw/2025-11-12.csv").write_text("id\n1\n")
    (tmp_path / "jobs").mkdir()
    rows = [*enumerate([*HARD, None])]
    (tmp_path / "jobs/make.py").write_text(
        f"from opendataflow import job\n\n@job(reads='raw', writes={[f'{format}_out' for format in formats]})\n"
        f"def make(raw, spark):\n    df = spark.createDataFrame({rows!r}, 'id INT, name STRING')\n"
        f"    return {{name: df for name in {[f'{format}_out' for format in formats]}}}\n"
    )
    desk("apply", "--yes")
    desk("ready", "raw", "2025-11-12")
    desk("drain")
    for format in formats:
        found = opendataflow.read(f"{format}_out", "2025-11-12", spark=spark, folder=tmp_path)
        assert sorted(map(tuple, found.collect())) == rows, format
    stored = desk("sql", "select fingerprint from data_manifest where datasetid <> 'raw'", "--json").data
    assert len({row["fingerprint"] for row in stored}) == 1, "the same rows in every format"


def test_days_and_moments_before_our_era_are_held(spark: SparkSession, project: Project, produce: Any) -> None:
    from opendataflow.spark.chunks import no_password
    from opendataflow.spark.reading import read_chunk

    df = spark.sql("SELECT TIMESTAMP'-0044-03-15 12:00:00' AS at, DATE'-0044-03-15' AS day")
    manifest = produce(lambda: df, dataset("csv"))["out"]
    back = read_chunk(spark, project, dataset("csv"), InputChunk("out", "2013-01-01", 1, manifest), no_password)
    numbers = "unix_micros(at)", "unix_date(day)"  # Python has no such days
    assert back.selectExpr(*numbers).collect() == df.selectExpr(*numbers).collect()
