"""Tables in PostgreSQL: what is read and loaded is exactly what was there, and a chunk is replaced all at once."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import conninfo_to_dict

from opendataflow.errors import (
    BadConfig,
    BadDefinition,
    InvalidPath,
    JobFailed,
    LeaseLost,
    NotValidated,
    OdfError,
    WrongData,
)
from opendataflow.model import Dataset, Partition, span
from opendataflow.spark.postgres import (
    LoadResult,
    chunk_stats,
    count_rows,
    drop_staging,
    load_table,
    named_error,
    publish_table,
    read_table,
    stage_table,
)
from opendataflow.spark.postgres.columns import sources, table_columns
from opendataflow.spark.postgres.conditions import split
from opendataflow.spark.postgres.connection import address_of, connected
from opendataflow.spark.postgres.problems import TaskFailed
from opendataflow.spark.postgres.tasks import Fetch, Load
from tests.support.postgres import Server

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]

DAY = Partition("day", column="day")
FIRST_OF_YEAR = ("2025-01-01T00:00:00", "2025-01-02T00:00:00")
SECRET = "canary-5f1c0a9e"


def dataset_of(url: str, tablename: str = "t", **more: Any) -> Dataset:
    facts = conninfo_to_dict(url)
    more = {"partition": DAY, **more}
    host = f"{facts['host']}:{facts['port']}"
    return Dataset(
        "table", "table", host, str(facts["dbname"]), tablename=tablename, username=str(facts["user"]), **more
    )


@pytest.fixture
def sql(postgres_url: str) -> Iterator[Callable[..., list[tuple[Any, ...]]]]:
    """Runs statements in the test's database as it is, and answers the rows of the last one."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:

        def run(*statements: str) -> list[tuple[Any, ...]]:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

        yield run


@pytest.fixture
def days(postgres_url: str, sql) -> Dataset:
    """A table with three days of two rows each."""
    sql(
        "create table t (day date, n int, s text)",
        "insert into t select date '2025-01-01' + d, d * 10 + i, 'old' from generate_series(0, 2) d,"
        " generate_series(1, 2) i",
    )
    return dataset_of(postgres_url)


def publish(dataset: Dataset, staged: LoadResult, dataid: str = "2025-01-02", epoch: int = 1) -> int:
    bounds = span(dataset.partition, dataid)
    return publish_table(
        dataset, None, dataid=dataid, epoch=epoch, partition=dataset.partition, span=bounds, staging=staged
    )


def load(spark, df, dataset: Dataset, dataid: str = "2025-01-02", epoch: int = 1) -> LoadResult:
    bounds = span(dataset.partition, dataid)
    return load_table(spark, df, dataset, None, dataid=dataid, epoch=epoch, partition=dataset.partition, span=bounds)


def rows_of_day(spark, n: int, text: str = "new", day: str = "2025-01-02"):
    return spark.range(0, n, 1, 3).selectExpr(f"date '{day}' as day", "cast(id as int) as n", f"'{text}' as s")


def staging_tables(sql) -> int:
    return int(sql("select count(*) from pg_class where relname like '%\\_\\_odf\\_%'")[0][0])


# --- types -----------------------------------------------------------------------------------------------------------

HARD_TEXT = (
    r"""quote ' " comma , tab	newline
return """
    + "\r"
    + r""" backslash \ \n \N \. unicode ä€𝄞 ‮rtl {a,b} NULL"""
)

# Every value of a column, as PostgreSQL writes it; each column also holds a null.
VALUES: dict[str, tuple[str, list[str]]] = {
    "bool": ("boolean", ["true", "false"]),
    "int2": ("int2", ["-32768", "32767", "0"]),
    "int4": ("int4", ["-2147483648", "2147483647"]),
    "int8": ("int8", ["-9223372036854775808", "9223372036854775807"]),
    "float4": ("float4", ["1.1", "-0", "NaN", "Infinity", "3.4028235e+38", "1e-45"]),
    "float8": ("float8", ["0.1", "-0", "NaN", "-Infinity", "1.7976931348623157e+308", "5e-324"]),
    "numeric_38_10": ("numeric(38,10)", ["1234567890123456789012345678.0123456789", "-0.0000000001", "0"]),
    "numeric_5_7": ("numeric(5,7)", ["0.0012345", "-0.0099999"]),
    "numeric_4_minus_2": ("numeric(4,-2)", ["123400", "-999900"]),
    "numeric": ("numeric", ["1.10", "1e-40", "9" * 60 + ".5", "NaN", "Infinity", "0"]),
    "numeric_60_20": ("numeric(60,20)", ["9" * 40 + ".00000000000000000001"]),
    "date": ("date", ["2025-02-28", "0001-01-01", "9999-12-31", "1582-10-10"]),
    "timestamp": ("timestamp", ["2025-03-30 02:30:00.123456", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"]),
    "timestamptz": ("timestamptz", ["2025-03-30 02:30:00.123456+02", "1900-01-01 00:00:00-05", "2025-10-26 00:30Z"]),
    "text": ("text", ["", " ", HARD_TEXT, "NULL", "x" * 100_000]),
    "varchar": ("varchar(5)", ["", "ä€𝄞", "abcde"]),
    "char": ("char(4)", ["ab", "abcd"]),
    "bytea": ("bytea", ["\\x", "\\x00ff10", "\\x5c78"]),
    "uuid": ("uuid", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    "json": ("json", ['{"a": 1,  "a": null, "ü": "\\u00e4"}', "null", '""']),
    "jsonb": ("jsonb", ['{"b": [1, 2.50, {"c": "\\"\\n"}], "a": null}', "null", "1e400"]),
    "ints": ("int4[]", ["{1,NULL,-3}", "{}", "{NULL}"]),
    "texts": ("text[]", ['{a,NULL,"NULL","","q\\"uo,te"}', "{}"]),
    "numerics": ("numeric(10,2)[]", ["{1.10,NULL,-0.01}", "{}"]),
    "varchars": ("varchar(3)[]", ["{abc,NULL,ä}"]),
    "uuids": ("uuid[]", ["{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,NULL}"]),
    "times": ("timestamptz[]", ['{"2025-03-30 02:30:00.5+02",NULL}']),
    "interval": ("interval", ["1 year -2 mons 3 days -04:05:06.789", "0", "-1 day"]),
    "inet": ("inet", ["192.168.0.1/24", "::1"]),
    "enum": ("mood", ["sad", "so-so"]),
    "time": ("time", ["23:59:59.999999", "24:00:00"]),
    "range": ("int4range", ["[1,5)", "empty"]),
    "domain": ("positive", ["1", "2147483647"]),
    "oid": ("oid", ["4294967295"]),
    "money": ("money", ["-92233720368547758.08"]),
}


@pytest.fixture(scope="module")
def round_trip(spark, postgres_server: Server, tmp_path_factory) -> Iterator[dict[str, tuple[Any, Any]]]:
    """Table → parquet → table, and what both hold, column by column."""
    url = postgres_server.create_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create type mood as enum ('sad', 'so-so')")
        connection.execute("create domain positive as int check (value > 0)")
        declared = ", ".join(f'"{name}" {kind}' for name, (kind, _) in VALUES.items())
        for table in ("source", "target"):
            connection.execute(f"create table {table} (row_number int, {declared})".encode())
        height = max(len(values) for _, values in VALUES.values()) + 1
        for number in range(height):
            row = [number, *(values[number] if number < len(values) else None for _, values in VALUES.values())]
            marks = ", ".join(["%s::text::int", *(f"%s::text::{kind}" for kind, _ in VALUES.values())])
            connection.execute(
                f"insert into source values ({marks})".encode(), [None if v is None else str(v) for v in row]
            )
        path = str(tmp_path_factory.mktemp("round_trip") / "parquet")
        read_table(spark, dataset_of(url, "source"), None).write.parquet(path)
        target = dataset_of(url, "target", partition=Partition(), options={"replace": "table"})
        assert load(spark, spark.read.parquet(path), target, "all").rows == height
        both = {}
        for name in VALUES:
            query = 'select "{}"::text, pg_column_size("{}") is null from {} order by row_number'
            both[name] = tuple(
                connection.execute(query.format(name, name, table).encode()).fetchall()
                for table in ("source", "target")
            )
    yield both
    postgres_server.drop_database(url)


@pytest.mark.parametrize("name", VALUES)
def test_a_round_trip_through_parquet_loses_nothing(round_trip, name: str) -> None:
    before, after = round_trip[name]
    assert after == before
    assert before[-1][0] is None


def test_what_spark_sees_has_the_right_types(spark, sql, postgres_url: str) -> None:
    sql(
        "create table t (d numeric(10,2), u numeric, ts timestamp, tz timestamptz, a int[], j jsonb, i interval)",
        "insert into t values (1.1, 1.10, '2025-01-01 10:00', '2025-01-01 10:00+02', '{1,null}', '{\"a\":1}', '1 day')",
    )
    df = read_table(spark, dataset_of(postgres_url), None)
    types = dict(df.dtypes)
    assert types == {
        "d": "decimal(10,2)",
        "u": "string",
        "ts": "timestamp_ntz",
        "tz": "timestamp",
        "a": "array<int>",
        "j": "string",
        "i": "string",
    }
    row = df.selectExpr("*", "unix_micros(tz) as instant").first()
    assert (row.d, row.u, row.a, row.i, row.instant) == (Decimal("1.10"), "1.10", [1, None], "P1D", 1735718400000000)
    decimals = read_table(spark, dataset_of(postgres_url, options={"numeric": "decimal(38,18)"}), None, columns=["u"])
    assert decimals.first().u == Decimal("1.1")


TOO_MUCH_FOR_SPARK = {
    "timestamp": ["infinity", "294276-12-31 00:00:00"],
    "timestamptz": ["-infinity"],
    "date": ["infinity", "-infinity"],
    "int[]": ["{{1,2},{3,4}}", "[0:1]={1,2}"],
    "text[]": ["{{a},{b}}"],
    "numeric(5,2)": ["NaN"],
    "timestamp[]": ["{infinity}"],
}


@pytest.mark.parametrize("kind", TOO_MUCH_FOR_SPARK)
def test_what_spark_cannot_hold_is_refused(sql, postgres_url: str, kind: str) -> None:
    sql(f"create table t (x {kind})")
    for value in TOO_MUCH_FOR_SPARK[kind]:
        sql("truncate t", f"insert into t values ('{value}')")
        with pytest.raises(TaskFailed) as caught:
            read_here(dataset_of(postgres_url))
        problem = named_error(caught.value)
        assert isinstance(problem, NotValidated)
        assert "as_text" in problem.hint


def test_what_spark_cannot_hold_can_be_read_and_loaded_as_text(spark, sql, postgres_url: str) -> None:
    names = [f"c{number}" for number in range(len(TOO_MUCH_FOR_SPARK))]
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, TOO_MUCH_FOR_SPARK, strict=True))
    sql(f"create table t ({columns})", "create table back (like t)")
    for row in range(2):
        values = (each[row % len(each)] for each in TOO_MUCH_FOR_SPARK.values())
        sql(f"insert into t values ({', '.join(map(repr, values))})")
    df = read_table(spark, dataset_of(postgres_url, options={"as_text": names}), None)
    load(spark, df, dataset_of(postgres_url, "back", partition=Partition(), options={"replace": "table"}), "all")
    assert sql("select back::text from back order by 1") == sql("select t::text from t order by 1")


def read_here(dataset: Dataset) -> list[Any]:
    """What a task of Spark would read, read in this process."""
    address = address_of(dataset, None)
    with connected(address) as connection:
        columns = table_columns(connection, dataset)
    part = pa.RecordBatch.from_pydict({"id": [0]})
    return [
        row for batch in Fetch(address, columns, ("true",)).read_postgres(iter([part])) for row in batch.to_pylist()
    ]


def load_here(df, dataset: Dataset) -> OdfError | None:
    """What a task of Spark would answer, loaded in this process."""
    address = address_of(dataset, None)
    with connected(address) as connection:
        found = sources(table_columns(connection, dataset), df.schema, address.location)
    (answer,) = Load(address, found, "t__odf_here", "").load_postgres(iter(df.toArrow().to_batches()))
    return named_error(answer.to_pylist()[0]["error"])


@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        ("int2", "100000"),
        ("int4", "cast(1.5 as decimal(3,1))"),
        ("numeric(10,2)", "cast(1.005 as decimal(10,3))"),
        ("numeric(3,0)", "123456"),
        ("varchar(3)", "'abcd'"),
        ("text", "concat('a', char(0))"),
    ],
)
def test_values_that_do_not_fit_are_refused_in_the_task(
    spark, sql, postgres_url: str, kind: str, expression: str
) -> None:
    sql(f"create table t (x {kind})")
    problem = load_here(spark.sql(f"select {expression} as x"), dataset_of(postgres_url))
    assert isinstance(problem, NotValidated)
    assert "x" in problem.message
    assert staging_tables(sql) == 0


@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        ("int4", "1.5d"),
        ("numeric(10,2)", "1.5d"),
        ("bool", "1"),
        ("int4[]", "1"),
        ("numeric(10,2)[]", "array(cast(1.005 as decimal(10,3)))"),
        ("float4", "1.1d"),
        ("date", "timestamp '2025-01-01 10:00:00'"),
    ],
)
def test_types_that_do_not_fit_are_refused_before_anything_runs(
    spark, sql, postgres_url: str, kind: str, expression: str
) -> None:
    sql(f"create table t (x {kind})")
    with pytest.raises(NotValidated, match="column x is"):
        stage_table(spark, spark.sql(f"select {expression} as x"), dataset_of(postgres_url), None, dataid="a", epoch=1)
    assert staging_tables(sql) == 0


@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        ("int2", "100000"),
        ("varchar(3)[]", "array('abcd')"),
        ("uuid", "'no uuid'"),
        ("jsonb", "'{'"),
        ("int4 not null check (x > 0)", "-1"),
    ],
)
def test_rows_that_the_table_refuses_leave_nothing(spark, sql, postgres_url: str, kind: str, expression: str) -> None:
    sql(f"create table t (x {kind})")
    dataset = dataset_of(postgres_url, partition=Partition(), options={"replace": "table"})
    with pytest.raises(NotValidated):
        load(spark, spark.sql(f"select {expression} as x"), dataset, "all")
    assert sql("select count(*) from t") == [(0,)]
    assert staging_tables(sql) == 0


def test_wider_types_fit_when_nothing_is_lost(spark, sql, postgres_url: str) -> None:
    sql("create table t (a int2, b numeric(10,2), c text, d timestamp, e float8, f numeric[], g int, h uuid)")
    dataset = dataset_of(postgres_url, partition=Partition(), options={"replace": "table"})
    df = spark.sql(
        "select 7L as A, cast(1.5 as decimal(38,18)) as b, 12 as c, timestamp '2025-01-01 10:00:00' as d, 3 as e,"
        " array(cast(0.10 as decimal(4,2))) as f, '42' as g, null as h"
    )
    load(spark, df, dataset, "all")
    assert sql("select a::text, b::text, c, d::text, e::text, f::text, g::text, h from t") == [
        ("7", "1.50", "12", "2025-01-01 10:00:00", "3", "{0.10}", "42", None)
    ]


# --- chunk-exact reads -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "values", "lower", "upper", "expected"),
    [
        ("int4", "9 10 11 99 100", "10", "100", "10 11 99"),
        ("int2", "-1 0 1", "-1", "99999999999", "-1 0 1"),
        ("int8", "1 2 3", "1.5", "2.5", "2"),
        ("numeric", "0.99 1 1.999 2", "1", "2", "1 1.999"),
        ("float8", "0.5 1 1.5 2 NaN", "1", "2", "1 1.5"),
        ("date", "2025-01-01 2025-01-02 2025-01-03", "2025-01-02", "2025-01-03", "2025-01-02"),
        ("date", "2025-01-01 2025-01-02", "2025-01-01T00:00:00", "2025-01-02T00:00:00", "2025-01-01"),
        ("timestamp", "2025-01-01T23:59:59.999999 2025-01-02", "2025-01-01", "2025-01-02T00:00:00", "2025-01-01 23:59:59.999999"),
        ("timestamptz", "2025-01-01T00:30+01 2025-01-01T00:30Z", "2025-01-01", "2025-01-02", "2025-01-01 00:30:00+00"),
        ("timestamptz", "2025-01-01T00:30+01 2025-01-01T00:30Z", "2024-12-31T23:00+00:00", "2025-01-01", "2024-12-31 23:30:00+00"),
        ("text", "B a b", "B", "b", "B a"),
        ("text", "10 9 100", "10", "9", "10 100"),
        ("text", "2024-12-31 2025-01-01 2025-01-01T05 2025-01-02", *FIRST_OF_YEAR, "2025-01-01 2025-01-01T05"),
        ("text", "2025-01 2025-02 2024-12", "2025-01-01T00:00:00", "2025-02-01T00:00:00", "2025-01"),
        ("int4", "20250101 20250102", *FIRST_OF_YEAR, "20250101"),
        ("int4", "202501 202502", "2025-02-01T00:00:00", "2025-03-01T00:00:00", "202502"),
        ("int4", "2024 2025", "2024-01-01T00:00:00", "2025-01-01T00:00:00", "2024"),
        ("uuid", f"{0:032x} {'a' * 32}", f"{1:032x}", "b" * 32, "-".join("a" * n for n in (8, 4, 4, 4, 12))),
    ],
)  # fmt: skip
def test_bounds_are_compared_by_the_type_of_the_column(
    sql, postgres_url: str, kind: str, values: str, lower: str, upper: str, expected: str
) -> None:
    sql(f"create table t (x {kind})", "insert into t values (null)")
    for value in values.split():
        sql(f"insert into t values ('{value}')")
    wanted = expected.split() if kind not in ("timestamp", "timestamptz") else [expected]
    stats = chunk_stats(dataset_of(postgres_url), None, column="x", lower=lower, upper=upper)
    assert stats.rows == len(wanted)
    assert count_rows(dataset_of(postgres_url), None, column="x", lower=lower, upper=upper) == len(wanted)
    assert {stats.min, stats.max} <= set(wanted)


def test_the_day_of_an_instant_is_the_day_of_the_datasets_zone(sql, postgres_url: str) -> None:
    sql("create table t (x timestamptz)", "insert into t values ('2025-01-01 00:30+01')")
    berlin = dataset_of(postgres_url, options={"timezone": "Europe/Berlin"})
    assert count_rows(berlin, None, column="x", lower="2025-01-01", upper="2025-01-02") == 1
    assert count_rows(dataset_of(postgres_url), None, column="x", lower="2025-01-01", upper="2025-01-02") == 0


@pytest.mark.parametrize(
    ("kind", "value", "lower", "upper"),
    [
        ("int8", "i", "100", "900"),
        ("numeric(10,3)", "i / 7.0", "10", "90.5"),
        ("date", "date '2020-01-01' + i", "2020-03-01", "2022-01-01"),
        ("timestamptz", "timestamptz '2020-01-01 00:00Z' + i * interval '1 hour'", "2020-01-05", "2020-01-20T05:00:00"),
        ("text", "i::text", "1", "5"),
    ],
)
def test_parts_of_a_range_hold_every_row_exactly_once(
    sql, postgres_url: str, kind: str, value: str, lower: str, upper: str
) -> None:
    sql(
        f"create table t as select i, ({value})::{kind} as k from generate_series(1, 1000) i",
        "insert into t values (0)",
    )
    collate = ' collate "C"' if kind == "text" else ""
    with connected(address_of(dataset_of(postgres_url), None)) as connection:
        column = table_columns(connection, dataset_of(postgres_url))[1]
        for low, high in ((lower, upper), (None, None), (lower, None), (None, upper)):
            parts = split(connection, column, low, high, 3)
            assert len(parts) == (1 if kind == "text" else 3)
            seen = [number for part in parts for number in connection.rows(f"select i from t where {part}")]
            bounds = [f"k {sign} '{bound}'{collate}" for sign, bound in ((">=", low), ("<", high)) if bound]
            assert sorted(seen) == sql(f"select i from t where {' and '.join(bounds) or 'true'} order by i")


def test_parallel_reads_are_the_rows_of_the_chunk(spark, sql, postgres_url: str) -> None:
    sql("create table t as select i, i * 2 as k from generate_series(1, 1000) i")
    df = read_table(
        spark, dataset_of(postgres_url), None, column="k", lower="11", upper="1501", columns=["i"], partitions=4
    )
    assert df.rdd.getNumPartitions() == 4
    assert sorted(row.i for row in df.collect()) == list(range(6, 751))


def test_the_whole_table_or_one_value_is_read(spark, days: Dataset) -> None:
    assert read_table(spark, days, None).count() == 6
    one = read_table(spark, days, None, column="s", equals="old", columns=["n", "day"])
    assert (one.columns, one.count()) == (["n", "day"], 6)
    assert count_rows(days, None, column="n", equals="11") == 1


def test_statistics_do_not_depend_on_the_order_of_rows(sql, days: Dataset) -> None:
    sql("create table u as select * from t order by n desc", "create table v as select day, n + 1 as n, s from t")
    first, same, other = (chunk_stats(dataset_of_table(days, name), None, column="n") for name in ("t", "u", "v"))
    assert first == same
    assert (first.rows, first.min, first.max) == (6, "1", "22")
    assert first.fingerprint != other.fingerprint
    assert chunk_stats(days, None, column="n", lower="900", upper="901").fingerprint is None


def dataset_of_table(dataset: Dataset, tablename: str, **more: Any) -> Dataset:
    from dataclasses import replace

    return replace(dataset, tablename=tablename, **more)


# --- loading ---------------------------------------------------------------------------------------------------------


def test_publishing_replaces_the_chunk_and_nothing_else(spark, sql, days: Dataset) -> None:
    staged = stage_table(spark, rows_of_day(spark, 5), days, None, dataid="2025-01-02", epoch=1)
    assert (staged.rows, staged.epoch) == (5, 1)
    assert chunk_stats(days, None, staging=staged.staging).rows == 5
    assert sql("select count(*) from t where s = 'new'") == [(0,)]
    assert publish(days, staged) == 5
    assert sql("select day::text, s, count(*) from t group by 1, 2 order by 1") == [
        ("2025-01-01", "old", 2),
        ("2025-01-02", "new", 5),
        ("2025-01-03", "old", 2),
    ]
    assert sql("select tablename, dataid, epoch, rows from odf_epoch") == [("t", "2025-01-02", 1, 5)]
    assert staging_tables(sql) == 0


def test_loading_again_gives_the_same_rows(spark, sql, days: Dataset) -> None:
    for epoch in (1, 2):
        assert load(spark, rows_of_day(spark, 4), days, epoch=epoch).rows == 4
    assert sql("select count(*) from t where day = '2025-01-02'") == [(4,)]


def test_an_empty_chunk_empties_its_location(spark, sql, days: Dataset) -> None:
    assert load(spark, rows_of_day(spark, 3).where("n > 100"), days).rows == 0
    assert sql("select count(*) from t where day = '2025-01-02'") == [(0,)]


def test_a_zombie_is_refused_by_the_target(spark, sql, days: Dataset) -> None:
    zombie = stage_table(spark, rows_of_day(spark, 1, "zombie"), days, None, dataid="2025-01-02", epoch=1)
    load(spark, rows_of_day(spark, 2, "successor"), days, epoch=2)
    with pytest.raises(LeaseLost, match="epoch 2"):
        publish(days, zombie, epoch=1)
    assert sql("select distinct s from t where day = '2025-01-02'") == [("successor",)]
    assert drop_staging(days, None) >= 1
    assert staging_tables(sql) == 0


def test_two_that_publish_at_once_leave_the_newer_one(spark, sql, days: Dataset) -> None:
    staged = {
        epoch: stage_table(spark, rows_of_day(spark, epoch, f"e{epoch}"), days, None, dataid="2025-01-02", epoch=epoch)
        for epoch in (1, 2, 3)
    }

    def attempt(epoch: int) -> bool:
        try:
            publish(days, staged[epoch], epoch=epoch)
        except LeaseLost:
            return False
        return True

    with ThreadPoolExecutor(3) as pool:
        published = list(pool.map(attempt, (1, 2, 3)))
    assert published[2]
    assert sql("select s, count(*) from t where day = '2025-01-02' group by 1") == [("e3", 3)]


def test_publishing_the_same_twice_tells_the_same(spark, sql, days: Dataset) -> None:
    staged = stage_table(spark, rows_of_day(spark, 2), days, None, dataid="2025-01-02", epoch=1)
    assert publish(days, staged) == 2
    assert publish(days, staged) == 2


def test_rows_of_another_chunk_are_refused(spark, sql, days: Dataset) -> None:
    before = sql("select * from t order by n")
    for df in (
        rows_of_day(spark, 2, day="2025-01-03"),
        rows_of_day(spark, 2).selectExpr("cast(null as date) day", "n", "s"),
    ):
        with pytest.raises(WrongData, match="2 of 2 rows"):
            load(spark, df, days)
    assert sql("select * from t order by n") == before
    assert staging_tables(sql) == 0
    assert sql("select count(*) from odf_epoch") == [(0,)]


def test_a_staging_table_that_a_crash_emptied_is_not_published(spark, sql, days: Dataset) -> None:
    staged = stage_table(spark, rows_of_day(spark, 2), days, None, dataid="2025-01-02", epoch=1)
    sql(f'truncate "{staged.staging}"')
    with pytest.raises(JobFailed, match="2 rows were staged, but 0"):
        publish(days, staged)
    sql(f'drop table "{staged.staging}" cascade')
    with pytest.raises(JobFailed, match="gone"):
        publish(days, staged)
    assert sql("select count(*) from t where day = '2025-01-02'") == [(2,)]


def test_text_and_number_chunks_are_replaced_by_their_dataid(spark, sql, days: Dataset) -> None:
    by_text = dataset_of_table(days, "t", partition=Partition("text", column="s"))
    load(spark, rows_of_day(spark, 2, "other"), by_text, "other")
    load(spark, rows_of_day(spark, 3, "other"), by_text, "other", epoch=2)
    assert sql("select s, count(*) from t group by 1 order by 1") == [("old", 6), ("other", 3)]
    by_number = dataset_of_table(days, "t", partition=Partition("number", column="n"))
    load(spark, rows_of_day(spark, 3, "number").where("n = 2"), by_number, "2")
    assert sql("select s from t where n = 2") == [("number",)]
    by_period = dataset_of_table(days, "p", partition=Partition("month", column="m"))
    sql("create table p (m int)", "insert into p values (202501), (202502)")
    load(spark, spark.sql("select 202502 as m from range(3)"), by_period, "2025-02")
    assert sql("select m, count(*) from p group by 1 order by 1") == [(202501, 1), (202502, 3)]


def test_a_table_without_a_column_is_replaced_only_when_that_is_said(spark, sql, days: Dataset) -> None:
    whole = dataset_of_table(days, "t", partition=Partition("day"))
    with pytest.raises(BadDefinition, match="which rows"):
        load(spark, rows_of_day(spark, 1), whole)
    load(spark, rows_of_day(spark, 1), dataset_of_table(whole, "t", options={"replace": "table"}))
    assert sql("select s from t") == [("new",)]


def test_columns_must_fit_and_defaults_are_respected(spark, sql, days: Dataset) -> None:
    df = rows_of_day(spark, 1)
    for wrong in (df.drop("s"), df.withColumnRenamed("s", "renamed"), df.selectExpr("*", "1 as more")):
        with pytest.raises(NotValidated, match=r"renamed|missing|more"):
            load(spark, wrong, days)
    sql(
        "create table d (id int generated always as identity, day date, n int, s text, at timestamptz default now(),"
        " twice int generated always as (n * 2) stored)"
    )
    target = dataset_of_table(days, "d")
    load(spark, rows_of_day(spark, 3).where("n = 2"), target)
    assert sql("select id, n, twice, at is not null from d") == [(1, 2, 4, True)]
    load(spark, rows_of_day(spark, 3).where("n = 2").selectExpr("7 as id", "*"), target, epoch=2)
    assert sql("select id from d") == [(7,)]


def test_vacuum_drops_what_attempts_left_and_spares_what_runs(spark, sql, days: Dataset) -> None:
    for dataid, epoch in (("2025-01-01", 1), ("2025-01-02", 1), ("2025-01-02", 2)):
        stage_table(spark, rows_of_day(spark, 1, day=dataid), days, None, dataid=dataid, epoch=epoch)
    sql("create table other__odf_not_ours (x int)")
    assert drop_staging(days, None, dataid="2025-01-02", older_than_epoch=2) >= 1
    assert drop_staging(days, None, may_go=lambda dataid, epoch: (dataid, epoch) != ("2025-01-02", 2)) >= 1
    left = [
        json.loads(note)
        for (note,) in sql("select obj_description(oid) from pg_class where relname like 't\\_\\_odf%'")
    ]
    assert {(each["dataid"], each["epoch"]) for each in left} == {("2025-01-02", 2)}
    assert drop_staging(days, None) >= 1
    assert staging_tables(sql) == 1


def test_hostile_names_are_only_names(spark, sql, postgres_url: str) -> None:
    table, column = "we\"ird'; drop table safe; --ä", "c\"o`l.u'm{n}; --"
    quoted, name = table.replace('"', '""'), column.replace('"', '""')
    sql(
        "create table safe (x int)",
        'create schema "Sch "" ema"',
        f'create table "Sch "" ema"."{quoted}" ("{name}" text, "select" int)',
    )
    dataset = dataset_of(postgres_url, table, schemaname='Sch " ema', partition=Partition("text", column=column))
    quoted_for_spark = column.replace("`", "``")
    df = spark.range(3).selectExpr(f"'d-1' as `{quoted_for_spark}`", "cast(id as int) as `select`")
    load(spark, df, dataset, "d-1")
    seen = read_table(spark, dataset, None, column=column, equals="d-1")
    assert (seen.columns, seen.count()) == ([column, "select"], 3)
    assert count_rows(dataset, None, column=column, equals="'; drop table safe; --") == 0
    assert count_rows(dataset, None, column=column, lower="\\'", upper="z") == 3
    assert sql("select count(*) from safe") == [(0,)]


# --- faults ----------------------------------------------------------------------------------------------------------


class LosesAnswer:
    """A proxy that delivers the first COMMIT of a publish and loses its answer."""

    def __init__(self, port: int, word: bytes) -> None:
        self.server_port, self.word, self.lost = port, word, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets: list[socket.socket] = []
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.server_port))
            seen: list[bytes] = []
            self.sockets += [client, server]
            for way in ((client, server, seen, True), (server, client, seen, False)):
                self.threads.append(threading.Thread(target=self._forward, args=way, daemon=True))
                self.threads[-1].start()

    def _forward(self, source: socket.socket, sink: socket.socket, seen: list[bytes], is_client: bool) -> None:
        try:
            while data := source.recv(65536):
                if is_client and self.word in data:
                    seen.append(data)
                if is_client and seen and data.upper().find(b"COMMIT") >= 0 and not self.lost:
                    self.lost += 1
                    sink.sendall(data)
                    threading.Event().wait(0.3)  # the server commits
                    return
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for each in (source, sink):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(10)
        for each in self.sockets:
            each.close()


def test_a_lost_answer_to_commit_is_found_out(spark, sql, days: Dataset) -> None:
    staged = stage_table(spark, rows_of_day(spark, 4), days, None, dataid="2025-01-02", epoch=1)
    proxy = LosesAnswer(int(days.hostname.partition(":")[2]), b"drop table")
    through = dataset_of_table(days, "t", hostname=f"127.0.0.1:{proxy.port}")
    assert publish(through, staged) == 4
    assert proxy.lost == 1
    assert sql("select count(*), min(s) from t where day = '2025-01-02'") == [(4, "new")]
    proxy.close()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"hostname": "127.0.0.1:1"}, InvalidPath),
        ({"hostname": "no-such-host.invalid"}, InvalidPath),
        ({"database": "nowhere"}, InvalidPath),
        ({"tablename": "nothing"}, InvalidPath),
        ({"schemaname": "nothing"}, InvalidPath),
        ({"username": "nobody-here"}, BadConfig),
        ({"username": "guarded"}, BadConfig),
        ({"tablename": ""}, BadDefinition),
        ({"options": {"sslmode": "maybe"}}, BadConfig),
        ({"options": {"timezone": "no' where"}}, BadConfig),
        ({"hostname": "127.0.0.1:x"}, BadConfig),
        ({"options": {"as_text": ["nothing"]}}, BadDefinition),
    ],
)
def test_errors_have_names_and_no_password(
    spark, sql, days: Dataset, change: dict[str, Any], error: type[OdfError]
) -> None:
    if change.get("username") == "guarded":
        sql("drop role if exists guarded", "create role guarded login password 'another'")
        hba, lines = sql("select current_setting('hba_file'), pg_read_file(current_setting('hba_file'))")[0]
        if "guarded" not in lines:
            guard = "host all guarded 127.0.0.1/32 scram-sha-256\n" + lines
            sql(f"copy (select unnest(string_to_array($h${guard}$h$, E'\\n'))) to '{hba}'", "select pg_reload_conf()")
            sql("select pg_sleep(0.3)")
    dataset = dataset_of_table(days, **{"tablename": "t", **change})
    for call in (
        lambda: read_table(spark, dataset, SECRET),
        lambda: stage_table(spark, rows_of_day(spark, 1), dataset, SECRET, dataid="2025-01-02", epoch=1),
    ):
        with pytest.raises(error) as caught:
            call()
        assert type(caught.value) is error
        assert caught.value.hint or error is BadConfig
        assert SECRET not in str(caught.value) + repr(caught.value)


def test_a_missing_partition_column_and_wrong_bounds_are_definition_errors(spark, days: Dataset) -> None:
    with pytest.raises(BadDefinition, match="nothing"):
        read_table(spark, days, None, column="nothing", lower="1", upper="2")
    with pytest.raises(BadDefinition, match="not a number"):
        count_rows(days, None, column="n", lower="x", upper="2")
    with pytest.raises(BadDefinition, match="not a time"):
        count_rows(days, None, column="day", lower="7", upper="8")
    with pytest.raises(BadDefinition, match="nothing"):
        load(spark, rows_of_day(spark, 1), dataset_of_table(days, "t", partition=Partition("day", column="nothing")))
    with pytest.raises(BadDefinition, match="column"):
        count_rows(days, None, lower="1")


def test_a_role_without_rights_is_told_so(spark, sql, days: Dataset) -> None:
    sql("drop role if exists poor", "create role poor login", "grant select on t to poor")
    poor = dataset_of_table(days, "t", username="poor")
    try:
        assert read_table(spark, poor, None).count() == 6
        with pytest.raises(InvalidPath, match="denied"):
            stage_table(spark, rows_of_day(spark, 1), poor, None, dataid="2025-01-02", epoch=1)
    finally:
        sql("drop owned by poor", "drop role poor")


def test_an_address_does_not_show_its_password(days: Dataset) -> None:
    address = address_of(dataset_of_table(days, "t", options={"port": 7, "sslmode": "prefer"}), "it's \\ secret")
    assert "secret" not in repr(address) + str(address) + address.location
    assert "password='it\\'s \\\\ secret'" in address.conninfo()
    assert address_of(dataset_of_table(days, "t", hostname="h", options={"port": 7}), None).port == "7"
    assert address_of(dataset_of_table(days, "t", hostname="[::1]:5"), None).hostname == "::1"


RETRIED = """
import os, sys, warnings
warnings.simplefilter("ignore")
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark import TaskContext
from pyspark.sql import SparkSession
from opendataflow.model import Dataset, Partition
from opendataflow.spark.postgres import load_table, loading, named_error, read_table

host, database, log = sys.argv[1:]
secret = sys.stdin.readline()


class DiesAfterItsCopy(loading.Load):
    def load_postgres(self, batches):
        answer = list(super().load_postgres(batches))
        if TaskContext.get().attemptNumber() == 0 and TaskContext.get().partitionId() != 1:
            raise RuntimeError("killed after its COPY was committed")
        yield from answer


def dies_before(batches):
    for batch in batches:
        yield batch
        if TaskContext.get().attemptNumber() == 0 and TaskContext.get().partitionId() == 1:
            raise RuntimeError("killed while copying")


settings = {"spark.ui.enabled": "false", "spark.eventLog.enabled": "true", "spark.eventLog.dir": log,
            "spark.eventLog.compress": "false", "spark.sql.shuffle.partitions": "2",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1", "spark.ui.showConsoleProgress": "false"}
spark = SparkSession.builder.master("local[2,3]").config(map=settings).getOrCreate()
loading.Load = DiesAfterItsCopy
dataset = Dataset("t", "table", host, database, tablename="t", username="postgres", partition=Partition("day", column="day"))
df = spark.range(0, 3000, 1, 3).selectExpr("date '2025-01-02' as day", "cast(id as int) as n", "'new' as s")
df = df.mapInArrow(dies_before, df.schema)
day = ("2025-01-02T00:00:00", "2025-01-03T00:00:00")
done = load_table(spark, df, dataset, secret, dataid="2025-01-02", epoch=1, partition=dataset.partition, span=day)
print("LOADED", done.rows)
back = read_table(spark, dataset, secret, column="n", lower="0", upper="3000", partitions=2)
back.explain(True)
print("READ", back.count(), back.distinct().count())
from dataclasses import replace
spark.sql("select 1").collect()
try:
    broken = read_table(spark, replace(dataset, tablename="u"), secret)
    broken.collect()
except Exception as problem:
    print("FAILED", type(named_error(problem)).__name__, problem)
spark.stop()
"""


def test_retried_tasks_load_exactly_and_the_password_shows_nowhere(sql, days: Dataset, tmp_path: Path) -> None:
    """A task dies while copying, and others after their COPY was committed but before Spark heard of it."""
    sql("create table u (x date)", "insert into u values ('infinity')")
    script, log = tmp_path / "retried.py", tmp_path / "events"
    log.mkdir()
    script.write_text(RETRIED)
    command = [sys.executable, str(script), days.hostname, days.database, str(log)]
    environment = {**os.environ, "PYTHONPATH": "."}
    done = subprocess.run(command, input=SECRET, capture_output=True, text=True, timeout=240, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "LOADED 3000" in done.stdout
    assert "FAILED NotValidated" in done.stdout
    assert "READ 3004 3004" in done.stdout  # with what other days hold
    assert "killed after its COPY" in done.stderr
    assert "killed while copying" in done.stderr
    assert "MapInArrow read_postgres" in done.stdout
    assert sql("select count(*), count(distinct n) from t where day = '2025-01-02'") == [(3000, 3000)]
    assert staging_tables(sql) == 0
    events = [path for path in log.rglob("*") if path.is_file()]
    texts = [done.stdout, done.stderr, *(path.read_text(errors="replace") for path in events)]
    assert any("SparkListenerSQLExecutionStart" in text for text in texts)
    assert all(SECRET not in text for text in texts)
