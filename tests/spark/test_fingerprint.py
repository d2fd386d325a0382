"""Fingerprints: the same for the same rows, whatever their order, and another one for everything else."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from opendataflow.spark.fingerprint import fingerprint_metrics, fingerprint_of
from opendataflow.spark.observing import computed
from tests.support.shell import Answer

_64 = (1 << 64) - 1
_PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def xxh64(data: bytes, seed: int) -> int:
    """XXH64 as its specification has it."""
    p1, p2, p3, p4, p5 = _PRIMES

    def rotated(number: int, by: int) -> int:
        return (number << by | number >> (64 - by)) & _64

    def mixed(acc: int, lane: int) -> int:
        return rotated((acc + lane * p2) & _64, 31) * p1 & _64

    def lanes(at: int, size: int) -> int:
        return int.from_bytes(data[at : at + size], "little")

    at = 0
    if len(data) >= 32:
        accs = [(seed + p1 + p2) & _64, (seed + p2) & _64, seed, (seed - p1) & _64]
        while at + 32 <= len(data):
            accs = [mixed(acc, lanes(at + 8 * n, 8)) for n, acc in enumerate(accs)]
            at += 32
        number = sum(rotated(acc, by) for acc, by in zip(accs, (1, 7, 12, 18), strict=True)) & _64
        for acc in accs:
            number = ((number ^ mixed(0, acc)) * p1 + p4) & _64
    else:
        number = (seed + p5) & _64
    number = (number + len(data)) & _64
    while at + 8 <= len(data):
        number = (rotated(number ^ mixed(0, lanes(at, 8)), 27) * p1 + p4) & _64
        at += 8
    if at + 4 <= len(data):
        number = (rotated(number ^ lanes(at, 4) * p1 & _64, 23) * p2 + p3) & _64
        at += 4
    for byte in data[at:]:
        number = rotated(number ^ byte * p5 & _64, 11) * p1 & _64
    number = (number ^ number >> 33) * p2 & _64
    number = (number ^ number >> 29) * p3 & _64
    return number ^ number >> 32


def signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def hash_of(values: list[Any], kinds: list[T.DataType]) -> int:
    """What stands together: a mask of the nulls, and then every value, each on top of the one before."""
    pieces: list[bytes] = []
    for start in range(0, len(values), 62):
        mask = sum(1 << n for n, value in enumerate(values[start : start + 62]) if value is None)
        pieces.append(mask.to_bytes(8, "little"))
    for value, kind in zip(values, kinds, strict=True):
        pieces += pieces_of(value, kind)
    return signed(reduce(lambda seed, piece: xxh64(piece, seed), pieces, 42))


def number(value: int, size: int = 8) -> bytes:
    return value.to_bytes(size, "little", signed=True)


def pieces_of(value: Any, kind: T.DataType) -> Iterator[bytes]:
    if isinstance(kind, T.StructType):
        fields = sorted(kind.fields, key=lambda field: field.name)
        inner = [None if value is None else value[field.name] for field in fields]
        yield number(hash_of(inner, [field.dataType for field in fields]))
    elif value is None:
        return
    elif isinstance(kind, T.ArrayType):
        yield number(len(value), 4)
        yield from (number(hash_of([each], [kind.elementType])) for each in value)
    elif isinstance(kind, T.MapType):
        yield number(len(value), 4)
        yield from map(number, sorted(hash_of([*pair], [kind.keyType, kind.valueType]) for pair in value.items()))
    elif isinstance(kind, T.BooleanType):
        yield number(int(value), 4)
    elif isinstance(kind, T.IntegerType):
        yield number(value, 4)
    elif isinstance(kind, T.DecimalType):
        yield number(int(value.scaleb(kind.scale)))
    elif isinstance(kind, T.StringType):
        yield value.encode()
    elif isinstance(kind, T.BinaryType):
        yield bytes(value)
    else:
        yield number(value)


def typed(kind: T.DataType) -> str:
    if isinstance(kind, T.StructType):
        fields = sorted(kind.fields, key=lambda field: field.name)
        return "struct<" + ",".join(f"{json.dumps(field.name)}:{typed(field.dataType)}" for field in fields) + ">"
    if isinstance(kind, T.ArrayType):
        return f"array<{typed(kind.elementType)}>"
    if isinstance(kind, T.MapType):
        return f"map<{typed(kind.keyType)},{typed(kind.valueType)}>"
    return kind.simpleString()


def by_python(schema: T.StructType, rows: list[tuple[Any, ...]]) -> str | None:
    """The fingerprint, computed without Spark and without the code that is tested."""
    if not rows:
        return None
    order = sorted(range(len(schema.fields)), key=lambda n: schema.fields[n].name)
    hashes = [hash_of([row[n] for n in order], [schema.fields[n].dataType for n in order]) & _64 for row in rows]
    columns = hashlib.sha256(typed(schema).encode()).hexdigest()[:16]
    return f"odf2:{len(rows):x}:{sum(hashes):x}:{columns}"


def by_spark(df: DataFrame) -> str | None:
    figures = computed(df, {"rows": fingerprint_rows(), **fingerprint_metrics(df.schema)})
    return fingerprint_of(figures, int(figures["rows"]), df.schema)


def fingerprint_rows() -> Any:
    from pyspark.sql import functions as F

    return F.count(F.lit(1))


PLAIN: list[tuple[T.DataType, st.SearchStrategy[Any]]] = [
    (T.BooleanType(), st.booleans()),
    (T.IntegerType(), st.integers(-2, 2)),
    (T.LongType(), st.integers(-(1 << 63), (1 << 63) - 1)),
    (T.DecimalType(10, 2), st.integers(-999, 999).map(lambda n: Decimal(n).scaleb(-2))),
    (T.StringType(), st.text(st.characters(exclude_categories=["Cs"]), max_size=40)),
    (T.BinaryType(), st.binary(max_size=3)),
]
Kind = tuple[T.DataType, st.SearchStrategy[Any]]


def nested(inner: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    """Lists, structs and maps of other types."""

    def structs(parts: list[Kind]) -> Kind:
        names = [f"f {n}'`.\\" for n in range(len(parts))]
        kind = T.StructType([T.StructField(name, part) for name, (part, _) in zip(names, parts, strict=True)])
        fields = {name: st.none() | value for name, (_, value) in zip(names, parts, strict=True)}
        return kind, st.fixed_dictionaries(fields)

    return st.one_of(
        inner.map(lambda of: (T.ArrayType(of[0]), st.lists(st.none() | of[1], max_size=3))),
        inner.map(
            lambda of: (
                T.MapType(T.StringType(), of[0]),
                st.dictionaries(st.sampled_from("abc"), st.none() | of[1], max_size=3),
            )
        ),
        st.lists(inner, min_size=1, max_size=2).map(structs),
    )


@st.composite
def tables(draw: st.DrawFn) -> tuple[T.StructType, list[tuple[Any, ...]]]:
    kinds = draw(st.lists(st.recursive(st.sampled_from(PLAIN), nested, max_leaves=3), min_size=1, max_size=4))
    schema = T.StructType([T.StructField(f"c{n}", kind) for n, (kind, _) in enumerate(kinds)])
    rows = st.tuples(*(st.none() | values for _, values in kinds))
    return schema, draw(st.lists(rows, min_size=1, max_size=4))


def content(schema: T.StructType, rows: list[tuple[Any, ...]]) -> object:
    """What counts of a table: names, types, and how often each row is there."""
    return schema.json(), Counter(repr(row) for row in rows)


def moved(rows: list[tuple[Any, ...]], chance: random.Random) -> list[tuple[Any, ...]]:
    """The same values, some of them elsewhere in their row, or one level further in or out."""

    def swapped(row: tuple[Any, ...]) -> tuple[Any, ...]:
        cells = list(row)
        chance.shuffle(cells)
        return tuple(cells)

    return [swapped(row) for row in rows]


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables(), seed=st.integers(0, 1 << 16))
def test_spark_and_python_compute_the_same_fingerprint(
    spark: SparkSession, table: tuple[T.StructType, list[tuple[Any, ...]]], seed: int
) -> None:
    schema, rows = table
    expected = by_python(schema, rows)
    assert by_spark(spark.createDataFrame(rows, schema)) == expected
    chance = random.Random(seed)
    kinds = {field.dataType for field in schema.fields}
    if len(kinds) == 1:  # any value may then stand in any column
        other = moved(rows, chance)
        assert (by_python(schema, other) == expected) == (content(schema, other) == content(schema, rows))
    chance.shuffle(rows)
    order = [schema.fields[n].name for n in chance.sample(range(len(schema.fields)), len(schema.fields))]
    assert by_spark(spark.createDataFrame(rows, schema).select(*order)) == expected, "no order counts"


DIFFERENT = {
    "a value in another column": "SELECT 5 AS a, CAST(NULL AS INT) AS b",
    "and back": "SELECT CAST(NULL AS INT) AS a, 5 AS b",
    "another name": "SELECT 5 AS a, CAST(NULL AS INT) AS c",
    "another type": "SELECT 5 AS a, CAST(NULL AS BIGINT) AS b",
    "only the last null": "SELECT 5 AS a, CAST(NULL AS INT) AS b, CAST(NULL AS INT) AS c",
    "a list": "SELECT array(1) AS a",
    "a list with a null": "SELECT array(1, NULL) AS a",
    "the null first": "SELECT array(NULL, 1) AS a",
    "no list": "SELECT CAST(NULL AS ARRAY<INT>) AS a",
    "an empty list": "SELECT CAST(array() AS ARRAY<INT>) AS a",
    "a list of nothing": "SELECT CAST(array(NULL) AS ARRAY<INT>) AS a",
    "two lists": "SELECT array(array(1), array(2)) AS a",
    "one list": "SELECT array(array(1, 2)) AS a",
    "an empty one before": "SELECT array(CAST(array() AS ARRAY<INT>), array(1, 2)) AS a",
    "a struct of nulls": "SELECT named_struct('x', CAST(NULL AS INT), 'y', CAST(NULL AS INT)) AS a",
    "no struct": "SELECT CAST(NULL AS STRUCT<x: INT, y: INT>) AS a",
    "a field": "SELECT named_struct('x', 5, 'y', CAST(NULL AS INT)) AS a",
    "the other field": "SELECT named_struct('x', CAST(NULL AS INT), 'y', 5) AS a",
    "a map": "SELECT map('x', 5) AS a",
    "a map with a null": "SELECT map('x', 5, 'y', CAST(NULL AS INT)) AS a",
    "another key": "SELECT map('y', 5) AS a",
    "a map of maps": "SELECT map('x', map('y', 5)) AS a",
    "other maps": "SELECT map('x', CAST(map() AS MAP<STRING, INT>), 'y', map('y', 5)) AS a",
    "a variant": "SELECT parse_json('{\"x\": 1}') AS a",
    "another variant": 'SELECT parse_json(\'{"x": "1"}\') AS a',
    "a text": "SELECT 'A' COLLATE UTF8_LCASE AS a",
    "a text that compares equal": "SELECT 'a' COLLATE UTF8_LCASE AS a",
}


def test_what_differs_only_in_where_a_value_stands_has_another_fingerprint(spark: SparkSession) -> None:
    prints = {name: by_spark(spark.sql(query)) for name, query in DIFFERENT.items()}
    assert None not in prints.values()
    assert len(set(prints.values())) == len(prints), prints


def test_rows_that_come_twice_count_in_full(spark: SparkSession) -> None:
    """These two have hashes with the same 24 highest bits, and in a xor of all hashes both would cancel out."""
    schema = "customer INT, amount DECIMAL(12,2)"
    one, other = [(1880, Decimal("13160.00"))] * 2, [(3744, Decimal("26208.00"))] * 2
    assert by_spark(spark.createDataFrame(one, schema)) != by_spark(spark.createDataFrame(other, schema))


def test_what_has_no_order_has_one_fingerprint(spark: SparkSession) -> None:
    assert by_spark(spark.sql("SELECT map('x', 1, 'y', 2) AS a")) == by_spark(
        spark.sql("SELECT map('y', 2, 'x', 1) AS a")
    )
    alias = spark.sql("SELECT named_struct('f', 1) AS s, 2 AS f")
    assert by_spark(alias.alias("s")) == by_spark(alias), "a field is not a column of a table of that name"


def test_a_hundred_columns_have_a_mask_of_all_their_nulls(spark: SparkSession) -> None:
    def row(at: int) -> DataFrame:
        return spark.sql(
            "SELECT " + ", ".join(f"{'5' if n == at else 'CAST(NULL AS INT)'} AS c{n:03}" for n in range(150))
        )

    assert len({by_spark(row(at)) for at in (0, 61, 62, 63, 124, 149)}) == 6


TOML = """
[environment.dev]
roots = ["./data"]
[dataset.raw]
location = "raw/{dataid}.csv"
partition = "day"
schema = "id INT, debit INT, credit INT, tags STRING"
[dataset.ledger]
location = "ledger/{dataid}"
partition = "day"
[dataset.report]
location = "report/{dataid}"
partition = "day"
"""
CODE = """
from pyspark.sql import functions as F
from opendataflow import job

@job(reads="raw", writes="ledger")
def ledger(raw):
    return raw.withColumn("tags", F.split("tags", "[|]"))

@job(reads="ledger", writes="report")
def report(ledger):
    return ledger.selectExpr("sum(debit) AS debit", "sum(credit) AS credit", "'{0}' AS day".format("x"), "max(id) AS id")
"""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def books(
    request: pytest.FixtureRequest, desk: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Answer]:
    """A ledger and its report on either store, declared and empty."""
    if request.param == "postgres":
        monkeypatch.setenv("ODF_STORE", request.getfixturevalue("fresh_postgres_url"))
        monkeypatch.setenv("ODF_AS_SUPERUSER", "1")
    (tmp_path / "dataflow.toml").write_text(TOML)
    for folder in ("jobs", "data/raw"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "jobs/books.py").write_text(CODE)
    desk("apply", "--yes")
    return desk


def deliver(tmp_path: Path, day: str, *lines: str) -> None:
    (tmp_path / f"data/raw/{day}.csv").write_text("\n".join(["id,debit,credit,tags", *lines]) + "\n")


@pytest.mark.fault(37)
def test_a_correction_from_debit_to_credit_makes_what_was_made_from_it_stale(
    books: Callable[..., Answer], tmp_path: Path
) -> None:
    day = "2025-11-12"
    deliver(tmp_path, day, "1,5,,a", "2,,7,b")
    books("ready", "raw", day)
    books("drain")
    assert "0 of them STALE" in books("impact", "raw", day).out
    deliver(tmp_path, day, "1,,5,a", "2,,7,b")
    books("ready", "raw", day)
    books("resubmit", "ledger", day)
    books("drain", "ledger")
    assert "the content differs" in books("diff", "ledger", day).out
    told = books("impact", "ledger", day).out
    assert "1 of them STALE" in told


@pytest.mark.fault(37)
def test_chunks_that_differ_only_in_where_a_value_stands_are_not_the_same_content(
    books: Callable[..., Answer], tmp_path: Path
) -> None:
    deliver(tmp_path, "2025-11-12", "1,5,,a|b")
    deliver(tmp_path, "2025-11-13", "1,,5,a|b")
    deliver(tmp_path, "2025-11-14", "1,5,,ab")
    books("ready", "raw", "2025-11-12..2025-11-14")
    assert "3 READY" in books("drain", "ledger").out


@pytest.mark.fault(37)
def test_what_was_published_under_an_older_form_counts_as_other_content(
    books: Callable[..., Answer], tmp_path: Path
) -> None:
    day = "2025-11-12"
    deliver(tmp_path, day, "1,5,,a")
    books("ready", "raw", day)
    books("drain")
    books("dml", "update data_manifest set fingerprint = 'odf1' || substr(fingerprint, 5) where datasetid = 'ledger'")
    books("resubmit", "ledger", day)
    books("drain", "ledger")
    assert "1 of them STALE" in books("impact", "ledger", day).out
    assert "the content" not in books("diff", "ledger", day).out, "two forms say nothing of each other"
