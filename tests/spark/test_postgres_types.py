"""Types of PostgreSQL: what is read and loaded is exactly what was there, and what does not fit is refused."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from opendataflow.errors import (
    NotValidated,
    OdfError,
)
from opendataflow.model import Dataset, Partition
from opendataflow.spark.postgres import named_error, read_table, stage_table
from opendataflow.spark.postgres.columns import sources, table_columns
from opendataflow.spark.postgres.connection import address_of, connected
from opendataflow.spark.postgres.problems import TaskFailed
from opendataflow.spark.postgres.tasks import Fetch, Load
from tests.support.postgres import Server
from tests.support.tables import dataset_of, load, staging_tables

pytestmark = [pytest.mark.postgres, pytest.mark.spark]


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
        query = 'select "{}"::text, pg_column_size("{}") is null from {} order by row_number'

        def column(name: str, table: str) -> list[tuple[Any, ...]]:
            return connection.execute(query.format(name, name, table).encode()).fetchall()

        both = {name: (column(name, "source"), column(name, "target")) for name in VALUES}
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
    (row,) = df.selectExpr("*", "unix_micros(tz) as instant").collect()
    assert (row.d, row.u, row.a, row.i, row.instant) == (Decimal("1.10"), "1.10", [1, None], "P1D", 1735718400000000)
    decimals = read_table(spark, dataset_of(postgres_url, options={"numeric": "decimal(38,18)"}), None, columns=["u"])
    assert [row.u for row in decimals.collect()] == [Decimal("1.1")]


TOO_MUCH_FOR_SPARK = {
    "timestamp": ["infinity", "294276-12-31 00:00:00", "0044-03-15 00:00:00 BC", "10000-01-01 00:00:00"],
    "timestamptz": ["-infinity", "0001-12-31 00:00:00+00 BC"],
    "date": ["infinity", "-infinity", "0044-03-15 BC", "10000-01-01"],
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


@pytest.mark.parametrize(("kind", "value"), [("numeric(5,2)", "NaN"), ("timestamp", "infinity")])
def test_a_refused_value_is_named_as_postgres_writes_it(sql, postgres_url: str, kind: str, value: str) -> None:
    sql(f"create table t (v {kind})", f"insert into t values ('{value}')")
    with pytest.raises(TaskFailed) as caught:
        read_here(dataset_of(postgres_url))
    problem = named_error(caught.value)
    assert problem is not None
    assert problem.message.startswith(f"column v holds {value}")


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
        ("timestamp(0)", "timestamp_ntz '2025-01-01 10:00:00.6'"),
        ("timestamptz(2)", "timestamp '1925-01-01 10:00:00.125'"),
        ("timestamp(3)[]", "array(null, timestamp_ntz '2025-01-01 10:00:00.1234')"),
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
    with pytest.raises(NotValidated, match=r"\bx\b"):
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
    sql("create table t (a int2, b numeric(10,2), c text, d timestamp(1), e float8, f numeric[], g int, h uuid)")
    dataset = dataset_of(postgres_url, partition=Partition(), options={"replace": "table"})
    df = spark.sql(
        "select 7L as A, cast(1.5 as decimal(38,18)) as b, 12 as c, timestamp '2025-01-01 10:00:00.7' as d, 3 as e,"
        " array(cast(0.10 as decimal(4,2))) as f, '42' as g, null as h"
    )
    load(spark, df, dataset, "all")
    assert sql("select a::text, b::text, c, d::text, e::text, f::text, g::text, h from t") == [
        ("7", "1.50", "12", "2025-01-01 10:00:00.7", "3", "{0.10}", "42", None)
    ]
