"""The same files, judged with Spark and without: the same results, and nothing said where only Spark is sure."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from opendataflow import files
from opendataflow.files.checks import ChecksFailed, checked_manifest
from opendataflow.files.rows import NeedsSpark
from opendataflow.model import CheckResult, Dataset, Manifest, Partition, parse_checks
from opendataflow.spark.auditing import EarlierPublishes, Surroundings
from opendataflow.spark.found import audit_location

DATAID = "2025-11-12"
# All kinds of checks look at one chunk, so that Spark reads it once; each finds at most three different bad values,
# because a result shows three, and Spark may show any of more.
CHECKS: dict[str, object] = {
    "rows": {"min": 1, "max": 8},
    "not_null": ["id", "name"],
    "unique": [["id"], ["name", "id"]],
    "range": {
        "amount": {"min": 0, "max": 100.5},
        "code": {"max": 9},
        "seen": {"min": "2025-11-12 09:00:00"},
    },
    "accepted": {"name": ["Ada", "Alan"], "ok": [True]},
    "span": True,
}
SCHEMA = (
    "id INT NOT NULL, name STRING, amount DOUBLE, code STRING, day DATE, seen TIMESTAMP, ok BOOLEAN, price DECIMAL(9,2)"
)
GOOD = "1,Ada,5.5,7,2025-11-12,2025-11-12 10:00:00,true,1.5\n2,Alan,0,8,2025-11-12,,true,2\n"
HEADER = "id,name,amount,code,day,seen,ok,price\n"
# What csv files hold, as it is written there; every row has a number of its own or one of the first two.
TEXTS: dict[str, Sequence[str]] = {
    "name": ("Ada", '"Ada"', "Alan", '"Al ""an"""', "Zoë", "", '""'),
    "amount": ("5.5", "0", '"100.5"', "-1", "2E7", ""),
    "code": ("7", '"9"', "10", "high", "x y", ""),
    "day": (DATAID, DATAID, "2025-11-13", "2025-11-11", ""),
    "seen": ("2025-11-12 10:00:00", "2025-11-12T09:00:00.250", "2025-11-12 08:59:59.5", ""),
    "ok": ("true", "TRUE", "false", ""),
    "price": ("1.50", "2", "-0.25", ""),
}
VALUES: dict[str, Sequence[Any]] = {
    "name": ("Ada", "Alan", "Zoë", 'Al "an"', None),
    "amount": (5.5, 0.0, 100.5, -1.0, 2e7, 1e-5, None),
    "code": ("7", "9", "10", "high", None),
    "day": (DATAID, DATAID, "2025-11-13", None),
    "seen": ("2025-11-12 10:00:00", "2025-11-12 08:59:59", None),
    "ok": (True, False, None),
}


def chunk(**more: Any) -> Dataset:
    checks = parse_checks(more.pop("checks", CHECKS), "")
    if more.pop("warns", False):
        checks = tuple(replace(check, severity="warn") for check in checks)
    declared = {"location": "{dataid}", "format": "csv", "partition": Partition("day", column="day"), **more}
    return Dataset("orders", kind="file", checks=checks, **declared)


def generated(seed: int, pools: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Ten rows with values of these pools."""
    random = Random(seed)
    return [
        {"id": random.choice((number, number, 1, 2, None)), **{name: random.choice(pools[name]) for name in pools}}
        for number in range(1, 11)
    ]


def results_of(results: Sequence[CheckResult]) -> list[object]:
    """The results as data; Spark finds the examples in any order."""
    shown: list[dict[str, Any]] = [dict(result.figures) for result in results]
    for figures in shown:
        if "examples" in figures:
            figures["examples"] = sorted(figures["examples"])
    return [result._replace(figures=figures).to_data() for result, figures in zip(results, shown, strict=True)]


def told(judge: Any) -> Mapping[str, object]:
    """What an engine says: the results, and what it knows of a chunk that it lets pass."""
    try:
        manifest: Manifest = judge()
    except ChecksFailed as refused:
        return {"refused": True, "results": results_of(refused.results)}
    spans = (manifest.span_lower, manifest.span_upper)
    return {"rows": manifest.rows, "schema": manifest.schema, "span": spans, "results": results_of(manifest.checks)}


def both(spark: SparkSession, dataset: Dataset, path: Path, pinned: str = "") -> Mapping[str, object]:
    seen = files.light_manifest(str(path), dataset.format, None)
    here = told(lambda: checked_manifest(dataset, DATAID, seen, pinned, [1, 2]))
    around = Surroundings(past=EarlierPublishes(pinned, [1, 2]))
    assert here == told(lambda: audit_location(spark, dataset, str(path), DATAID, around=around))
    return here


def test_good_csv(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / DATAID
    path.write_text(HEADER + GOOD)
    assert "refused" not in both(spark, chunk(), path)


def test_csv_of_a_header_only(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / DATAID
    path.write_text(HEADER)
    checks = {**CHECKS, "accepted": {"name": ["Ada"]}}  # a column without values is text
    assert "refused" in both(spark, chunk(checks=checks), path)


@pytest.mark.parametrize("seed", [1, 2])
def test_generated_csv_whose_types_are_inferred(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    path = tmp_path / DATAID
    path.write_text(HEADER + csv_of(seed))
    assert both(spark, chunk(warns=True), path)["rows"] == 10


def test_generated_csv_with_a_schema_and_misfits(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / DATAID
    path.write_text(HEADER + csv_of(3) + "one,Ada\n11,Ada,much,1,2025-11-12,,,\n")
    dataset = chunk(options={"drift": "warn", "schema": SCHEMA}, warns=True)
    assert both(spark, dataset, path)["rows"] == 12


def csv_of(seed: int) -> str:
    rows = (row.values() for row in generated(seed, TEXTS))
    lines = [",".join("" if value is None else str(value) for value in row) + "\n" for row in rows]
    return "\n   \n".join(["", *lines])


@pytest.mark.parametrize(
    ("header", "declared", "pinned"),
    [
        ("id,name,amount,code,date\n", {"options": {"schema": SCHEMA}}, ""),
        ("id,name,amount,kode\n", {"options": {"drift": "warn"}}, SCHEMA),
        ("ID,name,amount,code,day,more\n", {"checks": {"schema": SCHEMA, "rows": {"within_percent": 20}}}, ""),
    ],
)
def test_columns_of_csv_that_differ(
    spark: SparkSession, tmp_path: Path, header: str, declared: dict[str, Any], pinned: str
) -> None:
    path = tmp_path / DATAID
    width = header.count(",") + 1
    path.write_text(header + ",".join(["1", "Ada", "1.5", "1", "2025-11-12", "x"][:width]) + "\n")
    assert "refused" in both(spark, chunk(**declared), path, pinned)


@pytest.mark.parametrize("schema", ["", "id INT NOT NULL, name STRING, amount DOUBLE, code STRING, day STRING"])
def test_generated_json(spark: SparkSession, tmp_path: Path, schema: str) -> None:
    path = tmp_path / DATAID
    rows = [{name: value for name, value in row.items() if value is not None} for row in generated(4, VALUES)]
    rows[0]["amount"] = 5  # a whole number among others
    rows[1]["name"] = None
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = {"drift": "warn", "schema": schema} if schema else {}
    assert both(spark, chunk(format="json", options=options, warns=True), path)["rows"] == 10


@pytest.mark.parametrize("schema", ["", SCHEMA.replace("INT", "BIGINT")])
def test_generated_parquet(spark: SparkSession, tmp_path: Path, schema: str) -> None:
    kinds = {"id": pa.int32(), "name": pa.string(), "amount": pa.float64(), "code": pa.string(), "day": pa.date32()}
    kinds |= {"seen": pa.string(), "ok": pa.bool_()}
    rows = generated(5, VALUES)
    for row in rows:
        row["day"] = datetime.date.fromisoformat(row["day"]) if row["day"] else None
    path = tmp_path / DATAID
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(list(kinds.items()))), path)
    options = {"drift": "warn", "schema": schema} if schema else {}
    assert both(spark, chunk(format="parquet", options=options, warns=True), path)["rows"] == 10


@pytest.mark.parametrize("values", ['1,"A\nB",1,1', "1,A,NaN,1", '1,A"B,1,1', "1,A,1,1,2025-11-12T10:00:00Z"])
def test_what_is_not_sure_is_left_to_spark(tmp_path: Path, values: str) -> None:
    path = tmp_path / DATAID
    path.write_text(f"{HEADER}{values}\n")
    with pytest.raises(NeedsSpark):
        checked_manifest(chunk(options={"schema": SCHEMA}), DATAID, files.light_manifest(str(path), "csv", None))


ONE: Mapping[str, object] = {"rows": {"min": 2}, "unique": ["v"], "not_null": ["v"], "range": {"v": {"max": "5"}}}
NUMBERS: Mapping[str, object] = {"rows": {"min": 2}, "unique": ["v"], "range": {"v": {"min": 0, "max": 5}}}
# Contents on which a reader of Python and those of Spark may differ: format, content, checks, schema.
DIFFICULT: Mapping[str, tuple[str, str, Mapping[str, object], str]] = {
    "csv: blank lines": ("csv", "v\na\n \n\t\n\n", ONE, "v STRING"),
    "csv: an ideographic space": ("csv", "v\na\n\u3000\n\u2028\n", ONE, "v STRING"),
    "csv: a no-break space": ("csv", "v\na\n\u00a0\n", ONE, ""),
    "csv: a control character": ("csv", "v\na\n\x01\n", ONE, "v STRING"),
    "csv: a form feed": ("csv", "v\na\n\f\n", ONE, "v STRING"),
    "csv: a space before the header": ("csv", "\u3000\nv\n1\n", {"unique": ["v"]}, ""),
    "csv: a long field": ("csv", "v,w\n1," + "x" * 140_000 + "\n", ONE, ""),
    "csv: a header in capitals": ("csv", "V\n1\n", ONE, "v STRING"),
    "csv: columns in another order": ("csv", "w,v\nx,1\n", ONE, "v STRING, w STRING"),
    "csv: the year 0": ("csv", "v\n0000-01-01\n", {"unique": ["v"]}, "v DATE"),
    "csv: no such day": ("csv", "v\n2021-02-30\n2021-02-28\n", {"unique": ["v"]}, "v DATE"),
    "csv: hour 24": ("csv", "v\n2021-01-01 24:00:00\n", {"unique": ["v"]}, "v TIMESTAMP"),
    "csv: zeros": ("csv", "v\n-0.0\n0.0\n", NUMBERS, "v DOUBLE"),
    "csv: zeros of a decimal": ("csv", "v\n-0.0\n0.0\n", {"unique": ["v"]}, "v DECIMAL(5,2)"),
    "csv: a number beyond double": ("csv", "v\n1e309\n1\n", NUMBERS, "v DOUBLE"),
    "json: blank lines": ("json", '{"v":"a"}\n \n\t\n\n', ONE, ""),
    "json: an ideographic space": ("json", '{"v":1}\n\u3000\n', {"rows": {"max": 1}}, ""),
    "json: a form feed": ("json", '{"v":1}\n\f\n', {"rows": {"max": 1}}, ""),
    "json: names in capitals": ("json", '{"V":"a"}\n{"V":"b"}\n', ONE, "v STRING"),
    "json: no name": ("json", '{"":1,"v":2}\n', NUMBERS, ""),
    "json: halves of surrogates": ("json", '{"v":"\\ud800"}\n{"v":"\\ud801"}\n', ONE, "v STRING"),
    "json: a pair of surrogates": ("json", '{"v":"\\ud83d\\ude00"}\n', ONE, "v STRING"),
    "json: a number beyond double": ("json", '{"v":1e400}\n', NUMBERS, ""),
    "json: a tower of lists": ("json", '{"v":' + "[" * 5000 + "]" * 5000 + "}\n", {"rows": {"min": 2}}, ""),
}
# What Python and Spark read in the same way, so that no Spark is needed.
SURE = {
    "csv: blank lines",
    "csv: a header in capitals",
    "csv: columns in another order",
    "csv: no such day",
    "csv: zeros",
    "csv: zeros of a decimal",
    "json: blank lines",
    "json: a pair of surrogates",
}


@pytest.mark.parametrize("name", DIFFICULT)
def test_difficult_contents_get_the_same_results_or_are_left_to_spark(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    format, content, checks, schema = DIFFICULT[name]
    path = tmp_path / DATAID
    path.write_bytes(content.encode())
    dataset = chunk(
        format=format, checks=checks, partition=Partition("day"), options={"schema": schema} if schema else {}
    )
    if name in SURE:
        both(spark, dataset, path)
    else:
        with pytest.raises(NeedsSpark):
            checked_manifest(dataset, DATAID, files.light_manifest(str(path), format, None))


@pytest.mark.parametrize("column", [pa.array([-800_000], pa.date32()), pa.array([float("inf")])])
def test_values_of_parquet_that_python_cannot_hold_are_left_to_spark(tmp_path: Path, column: pa.Array) -> None:
    path = tmp_path / DATAID
    pq.write_table(pa.table({"v": column}), path)
    dataset = chunk(format="parquet", checks={"rows": {"min": 1}}, partition=Partition("day"))
    with pytest.raises(NeedsSpark):
        checked_manifest(dataset, DATAID, files.light_manifest(str(path), "parquet", None))
