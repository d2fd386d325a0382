"""Sharding: every row lies in exactly one range, by PostgreSQL's comparison as by Spark's, and the ranges are even."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from pyspark.sql import functions as F

from opendataflow.errors import BadConfig, BadDefinition, DataNotReady, InvalidPath, Locked, NotValidated, UsageError
from opendataflow.model import Dataset, Partition
from opendataflow.model.bounds import Range, Size, breaks
from opendataflow.run.sharding import announce, plan
from opendataflow.spark.columns import in_chunk
from opendataflow.spark.keys import bucket, key_of, read_all
from opendataflow.spark.postgres import RowRange, read_table
from opendataflow.spark.sharding import Shards, shards_of
from opendataflow.store import open_store
from tests.support.tables import count_rows, dataset_of

pytestmark = [pytest.mark.postgres, pytest.mark.spark]


@pytest.fixture
def orders(postgres_url: str) -> Callable[..., Dataset]:
    """A dataset that is a table of the test's database, in ranges of its column k."""

    def made(tablename: str = "orders", **more: Any) -> Dataset:
        return dataset_of(postgres_url, tablename, datasetid="orders", partition=Partition("range", column="k"), **more)

    return made


def no_password(dataset: Dataset) -> str:
    return ""


def ranges(found: Shards) -> list[Range]:
    return [Range(str(n), each.lower, each.upper) for n, each in enumerate(found.shards, 1)]


def assert_covers(spark, dataset: Dataset, found: Shards, total: int) -> None:
    """Every row in exactly one shard, however it is asked; and each shard as large as it was said to be."""
    assert breaks(ranges(found)) == []
    everything = read_table(spark, dataset, "").cache()
    asked = [
        in_chunk(everything.schema, dataset.partition, str(n), (shard.lower, shard.upper))
        for n, shard in enumerate(found.shards, 1)
    ]
    conditions = [condition for condition in asked if condition is not None]
    times = sum((condition.cast("int") for condition in conditions), F.lit(0))
    assert everything.agg(F.min(times), F.max(times), F.count("*")).collect()[0][:] == (1, 1, total)
    by_postgres = [count_rows(dataset, RowRange("k", each.lower, each.upper)) for each in found.shards]
    by_spark = [everything.where(condition).count() for condition in conditions]
    assert by_postgres == by_spark == [each.rows for each in found.shards]
    everything.unpersist()


WORDS = (
    "array['Ärger', 'Zoë', 'a b', 'aTb', 'a-b', 'ab', 'A', 'é', 'e\u0301', '中文', '🚀', '', ' ', '''', '\\', '2025-01-01T05:00:00',"
    " '2025-01-01 05:00:00', '2025-01-01T05', 'T', 'z T', 'zTT']"
)
KEYS = {
    "bigint": "select i * 1000 - 5000 from generate_series(1, 97) i",
    "bigint near its limits": "select 9223372036854775807 - i from generate_series(0, 50) i union all"
    " select -9223372036854775808 + i from generate_series(0, 50) i",
    "int at its last value": "select 2147483647 - i from generate_series(0, 20) i",
    "smallint": "select (i - 100)::smallint from generate_series(1, 200) i",
    "numeric(6,2)": "select (9999.99 - i * 0.25)::numeric(6,2) from generate_series(0, 80) i",
    "date": "select date '2024-02-20' + i from generate_series(1, 40) i union all select '9999-12-31'",
    "timestamp": "select timestamp '2025-01-01 00:00:00.000001' + i * interval '7 min' from generate_series(1, 100) i",
    "timestamptz": "select timestamptz '2025-03-30 00:30:00+01' + i * interval '11 min' from generate_series(1, 100) i",
    "double precision": "select (i - 50) / 3.0::float8 from generate_series(1, 100) i union all select 1e300",
    "real": "select ((i - 50) / 7.0)::real from generate_series(1, 100) i",
    "text": f"select w || v from unnest({WORDS}) w, unnest({WORDS}) v",
    "varchar(40)": f"select w from unnest({WORDS}) w",
    "char(12)": "select left(w, 12) from unnest(array['b', 'a b', 'ab', 'a', 'aa', 'zzzzzzzzzzzz', 'Ä']) w",
    "uuid": "select md5(i::text)::uuid from generate_series(1, 90) i",
}


@pytest.mark.parametrize("kind", KEYS)
def test_every_row_is_in_exactly_one_range_whatever_the_key(spark, project, sql, orders, kind: str) -> None:
    type_name = {"bigint near its limits": "bigint", "int at its last value": "int"}.get(kind, kind)
    sql(f"create table orders (k {type_name}, v text)", f"insert into orders (k) {KEYS[kind]}")
    total = sql("select count(*) from orders")[0][0]
    dataset = orders()

    found = shards_of(spark, project, dataset, no_password, Size(count=7))

    assert_covers(spark, dataset, found, total)
    assert found.rows == total == sum(each.rows for each in found.shards)
    assert len(found.shards) == found.asked == 7
    assert max(each.rows for each in found.shards) <= total // 7 + max(
        n for (n,) in sql("select count(*) from orders group by k")
    )


def test_a_heavy_key_is_never_cut_and_makes_fewer_chunks(spark, project, sql, orders) -> None:
    sql(
        "create table orders (k int)",
        "insert into orders select 5 from generate_series(1, 500)",
        "insert into orders select i from generate_series(1, 100) i",
    )
    found = shards_of(spark, project, orders(), no_password, Size(count=10))

    assert found.asked == 10
    assert len(found.shards) < 10
    assert_covers(spark, orders(), found, 600)
    (heavy,) = (each for each in found.shards if int(each.lower) <= 5 < int(each.upper))
    assert heavy.rows >= 501


def test_the_first_and_the_last_bound_are_real(spark, project, sql, orders) -> None:
    sql("create table orders (k int)", "insert into orders values (10), (20), (30)")
    found = shards_of(spark, project, orders(), no_password, Size(count=2))
    assert (found.shards[0].lower, found.shards[-1].upper) == ("10", "31")


def test_a_large_table_is_sampled_and_still_counted_exactly(spark, project, sql, orders) -> None:
    """Skewed keys, of which one in twenty is looked at."""
    sql(
        "create table orders (k bigint)",
        "insert into orders select (random() ^ 4 * 1e12)::bigint from generate_series(1, 40000)",
    )
    found = shards_of(spark, project, orders(), no_password, Size(count=20), sample=2000)

    assert_covers(spark, orders(), found, 40000)
    assert len(found.shards) == 20
    assert all(1400 <= each.rows <= 2600 for each in found.shards)


def test_more_rows_become_more_chunks_and_the_old_ones_stay(spark, project, sql, orders) -> None:
    sql("create table orders (k int)", "insert into orders select i from generate_series(1000, 1999) i")
    first = shards_of(spark, project, orders(), no_password, Size(rows=100))
    known = ranges(first)
    nothing = shards_of(spark, project, orders(), no_password, Size(), known)
    assert nothing.shards == ()

    sql("insert into orders select i from generate_series(5000, 5249) i", "insert into orders values (3), (1500)")
    more = shards_of(spark, project, orders(), no_password, Size(), known)

    assert [(each.lower, each.upper, each.rows) for each in more.shards][-1] == ("3", "1000", 1)
    assert more.shards[0].lower == "2000"
    assert [each.rows for each in more.shards[:-1]] == [84, 83, 83]
    together = Shards("k", "whole", 0, 0, (*first.shards, *more.shards))
    assert breaks(ranges(together)) == []
    again = shards_of(spark, project, orders(), no_password, Size(), ranges(together))
    assert again.shards == ()


def test_a_chunk_can_be_asked_for_by_its_size(spark, project, sql, orders) -> None:
    sql(
        "create table orders (k int, v text) partition by range (k)",
        "create table orders_1 partition of orders for values from (0) to (100000)",
        "insert into orders select i, repeat('x', 1000) from generate_series(1, 1000) i",
    )
    found = shards_of(spark, project, orders(), no_password, Size(bytes=200_000))
    assert 5 <= len(found.shards) <= 8
    sql("create view seen as select * from orders")
    with pytest.raises(UsageError, match="orders"):
        shards_of(spark, project, orders("seen"), no_password, Size(bytes=1000))


def test_a_set_of_files_is_sharded_like_a_table(spark, project) -> None:
    folder = str(project.folder / "data" / "events")
    spark.range(0, 1000).selectExpr("id - 300 as k", "cast(id as string) as v").repartition(3).write.parquet(folder)
    dataset = Dataset("events", "file", location="events", format="parquet", partition=Partition("range", column="k"))

    found = shards_of(spark, project, dataset, no_password, Size(count=6))

    assert [each.rows for each in found.shards] == [167, 167, 166, 167, 167, 166]
    assert (found.shards[0].lower, found.shards[-1].upper) == ("-300", "700")
    assert len(shards_of(spark, project, dataset, no_password, Size(bytes=2000)).shards) > 1


def test_what_cannot_be_sharded_is_named(spark, project, sql, orders) -> None:
    sql("create table orders (k int, v json, n numeric, b boolean)")
    with pytest.raises(DataNotReady, match="orders"):
        shards_of(spark, project, orders(), no_password, Size(count=2))
    sql("insert into orders (k) values (1), (2), (null)")
    with pytest.raises(NotValidated, match=r"\b1 rows? .*\bk\b"):
        shards_of(spark, project, orders(), no_password, Size(count=2))
    sql("delete from orders where k is null")
    with pytest.raises(UsageError) as problem:
        shards_of(spark, project, orders(), no_password, Size())
    assert "--count" in problem.value.hint
    for name, what in (("v", "json"), ("n", "numeric"), ("b", "boolean"), ("nope", "nope")):
        by = replace(orders(), partition=Partition("range", column=name))
        with pytest.raises(BadDefinition, match=what):
            shards_of(spark, project, by, no_password, Size(count=2))
    sql("create table odd (k float8)", "insert into odd values (1), ('NaN'), ('Infinity')")
    with pytest.raises(NotValidated, match=r"\b2 rows .*\bk\b"):
        shards_of(spark, project, orders("odd"), no_password, Size(count=2))
    sql("create table late (k timestamp)", "insert into late values ('9999-12-31 23:59:59.999999')")
    with pytest.raises(BadDefinition, match="9999-12-31"):
        shards_of(spark, project, orders("late"), no_password, Size(count=2))


def test_a_numeric_without_precision_is_sharded_once_its_type_is_declared(spark, project, sql, orders) -> None:
    sql("create table orders (k numeric)", "insert into orders select i * 1.5 from generate_series(-20, 120) i")
    dataset = orders(options={"numeric": "decimal(20,4)"})
    assert_covers(spark, dataset, shards_of(spark, project, dataset, no_password, Size(count=5)), 141)


def test_ten_thousand_cuts_are_found_in_one_pass(spark, project, orders, sql) -> None:
    sql(
        "create table orders (k int)",
        "insert into orders select i from generate_series(1, 50000) i",
        "insert into orders values (null)",
    )
    keys = read_all(spark, project, orders(), no_password)
    key = key_of(orders(), keys.schema, "k", no_password)
    cuts = [str(5 * n + 1) for n in range(10_000)]
    found = {row[0]: row[1] for row in keys.groupBy(bucket(key, cuts[1:])).count().collect()}
    assert found == {-1: 1} | dict.fromkeys(range(10_000), 5)
    for few in ([], ["7"], ["7", "9", "11"]):
        counts = {row[0]: row[1] for row in keys.where("k < 20").groupBy(bucket(key, few)).count().collect()}
        edges = [1, *map(int, few), 20]
        assert counts == {n: high - low for n, (low, high) in enumerate(pairwise(edges))}


def test_a_key_that_nobody_declared_is_registered_with_the_chunks(spark, project, sql, orders, tmp_path) -> None:
    sql("create table orders (k int, note text)", "insert into orders select i, 'x' from generate_series(1, 100) i")
    store = open_store(f"sqlite:///{tmp_path}/store.db", create=True)
    store.register([replace(orders(), partition=Partition("range"))])
    planned = plan(store, project, "orders", lambda: spark, no_password, by="k", size=Size(rows=40))
    assert list(store.views.all_chunks("orders")) == []
    assert announce(store, planned) == ("1", "2", "3")

    assert store.catalogue().dataset("orders").partition.column == "k"
    found = [(chunk.dataid, chunk.status, chunk.lower, chunk.upper) for chunk in store.views.all_chunks("orders")]
    assert found == [("1", "READY", "1", "35"), ("2", "READY", "35", "68"), ("3", "READY", "68", "101")]
    with pytest.raises(Locked, match="orders 1"):
        announce(store, planned)  # somebody else was quicker
    declared = replace(project, datasets=(replace(orders("orders"), datasetid="other", partition=Partition("range")),))
    store.register(declared.datasets)
    with pytest.raises(BadConfig, match=r"other.*\bk\b"):
        plan(store, declared, "other", lambda: spark, no_password, by="k", size=Size(rows=40))
    elsewhere = replace(project, environment=replace(project.environment, hosts=("prod.example",)))
    with pytest.raises(InvalidPath, match=r"127\.0\.0\.1"):
        plan(store, elsewhere, "other", lambda: spark, no_password, by="k", size=Size(rows=40))
    store.close()


SHIFT = """
from opendataflow import job
from pyspark.sql import functions as F


@job(reads="events", writes="shifted")
def shift(events):
    return events.withColumn("at", F.expr("at - interval 30 minutes"))
"""


def test_rows_outside_a_range_of_time_are_found_in_every_time_zone(desk, spark, tmp_path) -> None:
    """Half an hour before midnight in UTC, where the range begins, is half past midnight in Berlin."""
    (tmp_path / "dataflow.toml").write_text("""
[environment.dev]
roots = ["./data"]
[dataset.events]
location = "events"
partition = { type = "range", column = "at" }
[dataset.shifted]
location = "shifted/{dataid}"
partition = { type = "range", column = "at" }
checks = { span = true }
[job.shift]
reads = ["events"]
writes = ["shifted"]
spark = { "sql.session.timeZone" = "Europe/Berlin" }
""")
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/shift.py").write_text(SHIFT)
    minutes = "SELECT timestamp_seconds(1704067200 + id * 600) AS at FROM range(48)"  # from 2024-01-01T00:00Z
    spark.sql(minutes).write.parquet(str(tmp_path / "data/events"))
    desk("apply", "--yes")
    desk("shard", "events", "--count", "2", "--yes")
    refused = desk("run", "shift", "--dataid", "1", code=13)
    assert "violations 3" in refused.out + refused.err

    (tmp_path / "jobs/shift.py").write_text(SHIFT.replace("- interval 30", "+ interval 0"))
    desk("resubmit", "shifted", "1", "--yes")
    desk("run", "shift", "--dataid", "1")
    ends = "select span_lower, span_upper from data_manifest where datasetid = 'shifted'"
    (found,) = desk("sql", ends, "--json").data
    assert tuple(found.values()) == ("2024-01-01T00:00:00+00:00", "2024-01-01T03:50:00+00:00")
