"""Reading a table of PostgreSQL: a chunk is exactly its rows, whatever the type of its column."""

from __future__ import annotations

import pytest

from opendataflow.model import Dataset
from opendataflow.spark.postgres import RowRange, read_table
from opendataflow.spark.postgres.columns import table_columns
from opendataflow.spark.postgres.conditions import split
from opendataflow.spark.postgres.connection import address_of, connected
from tests.support.tables import count_rows, dataset_of

pytestmark = [pytest.mark.postgres, pytest.mark.spark]

FIRST_OF_YEAR = ("2025-01-01T00:00:00", "2025-01-02T00:00:00")


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
    dataset = dataset_of(postgres_url)
    with connected(address_of(dataset, None), read_only=True) as connection:
        condition = RowRange("x", lower, upper).condition(table_columns(connection, dataset), "t")
        assert sorted(connection.rows(f"select x::text from t where {condition}")) == sorted((x,) for x in wanted)


def test_the_day_of_an_instant_is_the_day_of_the_datasets_zone(sql, postgres_url: str) -> None:
    sql("create table t (x timestamptz)", "insert into t values ('2025-01-01 00:30+01')")
    berlin = dataset_of(postgres_url, options={"timezone": "Europe/Berlin"})
    assert count_rows(berlin, RowRange("x", "2025-01-01", "2025-01-02")) == 1
    assert count_rows(dataset_of(postgres_url), RowRange("x", "2025-01-01", "2025-01-02")) == 0


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
    rows = RowRange("k", "11", "1501")
    df = read_table(spark, dataset_of(postgres_url), None, rows, columns=["i"], partitions=4)
    assert df.rdd.getNumPartitions() == 4
    assert sorted(row.i for row in df.collect()) == list(range(6, 751))


def test_the_whole_table_or_one_value_is_read(spark, days: Dataset) -> None:
    assert read_table(spark, days, None).count() == 6
    one = read_table(spark, days, None, RowRange("s", equals="old"), columns=["n", "day"])
    assert (one.columns, one.count()) == (["n", "day"], 6)
    assert count_rows(days, RowRange("n", equals="11")) == 1
