"""Tables over JDBC, in the embedded database that Spark itself carries: a chunk is replaced whole, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from opendataflow.errors import BadConfig, LeaseLost, NotValidated, WrongData
from opendataflow.model import Check, Dataset, InputChunk, Partition
from opendataflow.spark.formats import JDBC
from opendataflow.spark.jdbc import publish_table, read_table, stage_table
from opendataflow.spark.problems import SPARK_ERRORS
from opendataflow.spark.reading import read_chunk
from opendataflow.spark.sinks import table_sink

DRIVER = "org.apache.derby.iapi.jdbc.AutoloadedDriver"
SECRET = "canary-7d2b"
FIRST, SECOND = "2013-01-01", "2013-01-02"

Execute = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"jdbc:derby:{tmp_path}/shop;create=true"


@pytest.fixture
def execute(spark: SparkSession, url: str) -> Execute:
    """Runs statements in the test's database, and answers the rows of the last one as text."""
    jvm: Any = spark._jvm
    jvm.java.lang.Class.forName(DRIVER)

    def run(*statements: str, address: str = url) -> list[tuple[Any, ...]]:
        connection = jvm.java.sql.DriverManager.getConnection(address)
        try:
            rows: list[tuple[Any, ...]] = []
            for text in statements:
                statement = connection.createStatement()
                if statement.execute(text):
                    answer = statement.getResultSet()
                    width = range(1, answer.getMetaData().getColumnCount() + 1)
                    while answer.next():
                        rows.append(tuple(answer.getString(index) for index in width))
            return rows
        finally:
            connection.close()

    return run


def table(url: str, column: str = "day", kind: str = "day", **more: Any) -> Dataset:
    options = {"url": url, "driver": DRIVER, **more.pop("options", {})}
    partition = Partition(kind, column=column) if column else Partition(kind)
    return Dataset(
        "orders", kind="table", format=JDBC, tablename="orders", partition=partition, options=options, **more
    )


@pytest.fixture
def orders(execute: Execute, url: str) -> Dataset:
    """A table with a row of the first and one of the second day."""
    execute(
        "CREATE TABLE orders (id INT NOT NULL, day DATE, name VARCHAR(10))",
        f"INSERT INTO orders VALUES (1, DATE('{FIRST}'), 'old'), (2, DATE('{SECOND}'), 'old')",
    )
    return table(url)


def rows(spark: SparkSession, *ids: object, day: str = SECOND, name: str = "new") -> DataFrame:
    """One row of this day for each id."""
    texts = ", ".join(f"(CAST({id} AS INT), DATE'{day}', '{name}')" for id in ids)
    df: DataFrame = spark.sql(f"SELECT * FROM VALUES {texts} AS t(id, day, name)")
    return df


def tables(execute: Execute) -> set[str]:
    return {name for (name,) in execute("SELECT tablename FROM sys.systables WHERE tabletype = 'T'")}


def load(spark: SparkSession, df: DataFrame, dataset: Dataset, dataid: str = SECOND, epoch: int = 1) -> str:
    staging = stage_table(spark, df, dataset, "", dataid=dataid, epoch=epoch)
    publish_table(spark, dataset, "", dataid=dataid, epoch=epoch, bounds=None, staging=staging)
    return staging


def test_a_chunk_is_read_by_its_column(spark, project, orders: Dataset) -> None:
    for dataid, id in ((FIRST, 1), (SECOND, 2)):
        chunk = InputChunk("orders", dataid, 1)
        df = read_chunk(spark, project, orders, chunk, lambda dataset: "")
        assert [row["ID"] for row in df.collect()] == [id]


def test_loading_replaces_the_rows_of_the_chunk_and_no_others(spark, execute: Execute, orders: Dataset) -> None:
    load(spark, rows(spark, 7, 8, 9), orders)
    assert execute("SELECT id, name FROM orders ORDER BY id") == [
        ("1", "old"),
        ("7", "new"),
        ("8", "new"),
        ("9", "new"),
    ]
    load(spark, rows(spark, 5), orders, epoch=2)
    assert execute("SELECT id FROM orders ORDER BY id") == [("1",), ("5",)]
    assert tables(execute) == {"ORDERS", "ODF_EPOCH"}, "nothing that was staged is left"


def test_who_was_frozen_after_the_fence_does_not_replace_the_rows_of_a_later_epoch(
    spark, execute: Execute, orders: Dataset
) -> None:
    frozen = stage_table(spark, rows(spark, 7), orders, "", dataid=SECOND, epoch=1)
    load(spark, rows(spark, 8), orders, epoch=2)
    with pytest.raises(LeaseLost):
        publish_table(spark, orders, "", dataid=SECOND, epoch=1, bounds=None, staging=frozen)
    assert execute("SELECT id FROM orders ORDER BY id") == [("1",), ("8",)]
    load(spark, rows(spark, 9, day=FIRST), orders, dataid=FIRST)
    assert execute("SELECT id FROM orders ORDER BY id") == [("8",), ("9",)], "each chunk has an epoch of its own"


def test_a_table_of_the_catalogue_gets_the_rows_that_were_judged(spark) -> None:
    dataset = Dataset("lake", kind="table", format="delta", tablename="lake", partition=Partition("day", column="day"))
    sink = table_sink(spark, dataset, SECOND, 1, "", None)
    evaluated = F.udf(lambda: uuid4().hex).asNondeterministic()  # the seed of uuid() is the same in each evaluation
    sink.write(rows(spark, 7).withColumn("evaluated", evaluated()))
    assert sink.read_back().collect() == sink.read_back().collect()


def test_nobody_sees_what_is_only_staged(spark, execute: Execute, orders: Dataset) -> None:
    staging = stage_table(spark, rows(spark, 7), orders, "", dataid=SECOND, epoch=3)
    assert execute("SELECT id FROM orders ORDER BY id") == [("1",), ("2",)]
    assert tables(execute) == {"ORDERS", staging.upper()}
    assert read_table(spark, orders, "", staging).count() == 1


def test_each_attempt_has_a_staging_table_of_its_own(spark, orders: Dataset) -> None:
    names = {
        stage_table(spark, rows(spark, 7), orders, "", dataid=dataid, epoch=epoch)
        for dataid in (FIRST, SECOND)
        for epoch in (1, 2)
    }
    assert len(names) == 4


def test_two_stores_that_load_the_same_epoch_publish_each_its_own_rows(
    spark, execute: Execute, orders: Dataset
) -> None:
    one = stage_table(spark, rows(spark, 7), orders, "", dataid=SECOND, epoch=1)
    other = stage_table(spark, rows(spark, 8), orders, "", dataid=SECOND, epoch=1)
    for staging, id in ((one, "7"), (other, "8")):
        publish_table(spark, orders, "", dataid=SECOND, epoch=1, bounds=None, staging=staging)
        assert execute("SELECT id FROM orders ORDER BY id") == [("1",), (id,)]


def test_rows_that_the_table_refuses_leave_the_old_ones(spark, execute: Execute, orders: Dataset) -> None:
    with pytest.raises(SPARK_ERRORS):
        load(spark, rows(spark, 7, "NULL"), orders)
    assert execute("SELECT id FROM orders ORDER BY id") == [("1",), ("2",)]


def test_rows_of_another_chunk_are_refused(spark, execute: Execute, orders: Dataset) -> None:
    with pytest.raises(WrongData):
        load(spark, rows(spark, 7).union(rows(spark, 8, day=FIRST)), orders)
    assert execute("SELECT id FROM orders ORDER BY id") == [("1",), ("2",)]


def test_a_column_that_the_table_has_not_is_refused_before_anything_is_staged(
    spark, execute: Execute, orders: Dataset
) -> None:
    with pytest.raises(NotValidated) as problem:
        load(spark, rows(spark, 7).selectExpr("*", "1 AS more"), orders)
    assert "more" in problem.value.message
    assert tables(execute) == {"ORDERS"}


@pytest.mark.parametrize(
    ("kind", "type_name", "dataid", "inside", "outside"),
    [
        ("day", "DATE", SECOND, ["2013-01-02"], ["2013-01-01", "2013-01-03"]),
        ("day", "TIMESTAMP", SECOND, ["2013-01-02 00:00:00", "2013-01-02 23:59:59.999999"], ["2013-01-03 00:00:00"]),
        ("day", "INT", SECOND, ["20130102"], ["20130101", "20130103"]),
        ("day", "VARCHAR(30)", SECOND, ["2013-01-02", "2013-01-02 07:00"], ["2013-01-01", "2013-01-03"]),
        ("hour", "TIMESTAMP", "2013-01-02T05", ["2013-01-02 05:30:00"], ["2013-01-02 06:00:00"]),
        ("month", "VARCHAR(30)", "2013-01", ["2013-01", "2013-01-31"], ["2012-12-31", "2013-02"]),
        ("month", "DATE", "2013-01", ["2013-01-31"], ["2013-02-01"]),
        ("number", "BIGINT", "7", ["7"], ["6", "8"]),
        ("number", "DECIMAL(9,2)", "7", ["7", "7.99"], ["6.99", "8"]),
        ("text", "VARCHAR(30)", "o'eu", ["o''eu"], ["us"]),
    ],
)
def test_a_chunk_is_replaced_by_the_type_of_its_column(
    spark, execute: Execute, url: str, kind: str, type_name: str, dataid: str, inside: list[str], outside: list[str]
) -> None:
    execute(f"CREATE TABLE orders (k {type_name}, s VARCHAR(5))")
    for value in (*inside, *outside):
        literal = value if type_name in ("INT", "BIGINT", "DECIMAL(9,2)") else f"'{value}'"
        execute(f"INSERT INTO orders VALUES ({literal}, 'old')")
    before = read_table(spark, table(url, "k", kind), "")
    new = before.where(before["K"].cast("string").startswith(inside[0].replace("''", "'")[:10])).limit(1)
    df = new.selectExpr("K AS k", "'new' AS s")
    load(spark, df.localCheckpoint(), table(url, "k", kind), dataid)
    assert execute("SELECT s FROM orders ORDER BY s") == [("new",), *[("old",)] * len(outside)]


@pytest.mark.parametrize(
    ("column", "kind", "kept", "lost"),
    [
        ("DECIMAL(10,0)", "DECIMAL(12,2)", "1.00", "1.60"),
        ("DECIMAL(10,2)", "DOUBLE", "1.6", "1.601"),
        ("INT", "DECIMAL(12,2)", "7.00", "7.01"),
        ("INT", "BIGINT", "7", "9999999999"),
        ("REAL", "DOUBLE", "0.5", "0.1"),
    ],
)
def test_values_that_the_table_would_round_are_refused(
    spark, produce, execute: Execute, url: str, column: str, kind: str, kept: str, lost: str
) -> None:
    execute(f"CREATE TABLE orders (day DATE, v {column})", "INSERT INTO orders (day) VALUES '2013-01-02'")
    job = f"SELECT DATE'{SECOND}' AS day, CAST(v AS {kind}) AS v FROM VALUES ('{{}}'), (NULL) AS t(v)"
    with pytest.raises(NotValidated) as problem:
        produce(lambda: spark.sql(job.format(lost)), table(url), dataid=SECOND)
    assert f"column v: {column.lower()}".replace("real", "float") in problem.value.message
    assert "1 row" in problem.value.message
    assert tables(execute) == {"ORDERS"}
    assert execute("SELECT day, v FROM orders") == [(SECOND, None)]

    published = produce(lambda: spark.sql(job.format(kept)), table(url), dataid=SECOND, epoch=2)["orders"]
    assert published.rows == 2
    back = read_table(spark, table(url), "").selectExpr("DAY AS day", f"CAST(V AS {kind}) AS v")
    assert back.exceptAll(spark.sql(job.format(kept))).isEmpty()


def test_a_day_of_timestamps_is_the_day_of_the_session_for_who_publishes_and_who_reads(
    berlin, project, produce, execute: Execute, url: str
) -> None:
    """Half past midnight in Berlin is the day before in UTC."""
    execute("CREATE TABLE orders (id INT, k TIMESTAMP)")
    dataset = table(url, "k")

    def publish(dataid: str, epoch: int, **moments: str) -> None:
        values = ", ".join(f"({id[1:]}, TIMESTAMP'{moment}')" for id, moment in moments.items())
        produce(lambda: berlin.sql(f"SELECT * FROM VALUES {values} AS t(id, k)"), dataset, dataid=dataid, epoch=epoch)

    def read(dataid: str) -> list[int]:
        df = read_chunk(berlin, project, dataset, InputChunk("orders", dataid, 1), lambda dataset: "")
        return sorted(row["ID"] for row in df.collect())

    publish(SECOND, 1, _1=f"{SECOND} 00:30:00", _2=f"{SECOND} 23:30:00")
    publish(FIRST, 1, _3=f"{FIRST} 00:30:00", _4=f"{FIRST} 23:30:00")
    assert (read(FIRST), read(SECOND)) == ([3, 4], [1, 2])
    publish(SECOND, 2, _5=f"{SECOND} 00:00:00")
    assert (read(FIRST), read(SECOND)) == ([3, 4], [5])
    with pytest.raises(WrongData):
        publish(FIRST, 2, _6=f"{SECOND} 00:30:00")
    assert (read(FIRST), read(SECOND)) == ([3, 4], [5])


def test_bounds_with_a_time_zone_say_which_rows_are_replaced(berlin, execute: Execute, url: str) -> None:
    execute("CREATE TABLE orders (k TIMESTAMP)")
    dataset, bounds = table(url, "k", "range"), ("2013-01-02T00:00:00+00:00", "2013-01-02T06:00:00+00:00")
    for epoch, hour in ((1, 2), (2, 3)):
        df = berlin.sql(f"SELECT CAST('2013-01-02 0{hour}:00:00+00:00' AS TIMESTAMP) AS k")
        staging = stage_table(berlin, df, dataset, "", dataid="1", epoch=epoch)
        publish_table(berlin, dataset, "", dataid="1", epoch=epoch, bounds=bounds, staging=staging)
    assert [row["K"].timestamp() for row in read_table(berlin, dataset, "").collect()] == [1357095600]


def test_bounds_of_a_range_say_which_rows_are_replaced(spark, execute: Execute, url: str) -> None:
    execute("CREATE TABLE orders (k INT)", "INSERT INTO orders VALUES 9, 10, 11, 20")
    dataset = table(url, "k", "range")
    df = spark.range(1).selectExpr("CAST(15 AS INT) AS k")
    staging = stage_table(spark, df, dataset, "", dataid="2", epoch=1)
    publish_table(spark, dataset, "", dataid="2", epoch=1, bounds=("10", "20"), staging=staging)
    assert execute("SELECT k FROM orders ORDER BY k") == [("9",), ("15",), ("20",)]


def test_a_table_that_does_not_say_which_rows_are_the_chunk_cannot_be_loaded(spark, orders: Dataset) -> None:
    for wrong in (replace(orders, partition=Partition("day")), replace(orders, partition=Partition("day", column="x"))):
        with pytest.raises(BadConfig):
            load(spark, rows(spark, 7), wrong)


def test_a_table_needs_a_url(spark, orders: Dataset) -> None:
    with pytest.raises(BadConfig) as problem:
        read_table(spark, replace(orders, options={}), "")
    assert "url" in problem.value.message


def test_declared_options_reach_the_reader(spark, url: str, execute: Execute, orders: Dataset) -> None:
    dataset = table(url, options={"options": {"customSchema": "ID STRING", "pushDownPredicate": False}})
    assert dict(read_table(spark, dataset, "").dtypes)["ID"] == "string"


def test_the_password_opens_the_database_and_shows_nowhere(
    spark, execute: Execute, url: str, orders: Dataset, capfd: pytest.CaptureFixture[str]
) -> None:
    plain = url.partition(";")[0]
    execute(f"CALL SYSCS_UTIL.SYSCS_CREATE_USER('APP', '{SECRET}')")
    with pytest.raises(SPARK_ERRORS):
        execute(address=f"{plain};shutdown=true;user=APP;password={SECRET}")  # a shutdown is an error in Derby
    guarded = replace(orders, username="APP", options={"url": plain, "driver": DRIVER})
    with pytest.raises(SPARK_ERRORS) as refused:
        read_table(spark, guarded, "another").count()
    assert "another" not in str(refused.value)
    df = read_table(spark, guarded, SECRET)
    assert df.count() == 2
    df.explain(True)
    staging = stage_table(spark, rows(spark, 7), guarded, SECRET, dataid=SECOND, epoch=1)
    publish_table(spark, guarded, SECRET, dataid=SECOND, epoch=1, bounds=None, staging=staging)
    assert sorted(row["ID"] for row in read_table(spark, guarded, SECRET).collect()) == [1, 7]
    shown = capfd.readouterr()
    assert "JDBCRelation" in shown.out
    assert SECRET not in shown.out + shown.err


def test_a_whole_run_publishes_and_a_failing_check_leaves_the_chunk_alone(
    spark, project, produce, execute: Execute, orders: Dataset
) -> None:
    lake = Dataset("lake", kind="file", location="lake/{dataid}", partition=Partition("day", column="day"))
    copy = {"copy": {"from": "orders", "to": "lake"}}
    chunk = [InputChunk("orders", SECOND, 1)]
    copied = produce(None, lake, reads=[(orders, chunk)], dataid=SECOND, options=copy)["lake"]
    assert [row["ID"] for row in spark.read.parquet(copied.location).collect()] == [2]

    checked = replace(orders, checks=(Check("unique", {"columns": ["id"]}),))
    loaded = produce(lambda: rows(spark, 7, 8, 9), checked, dataid=SECOND)["orders"]
    assert (loaded.rows, loaded.span_lower, loaded.format) == (3, SECOND, JDBC)
    with pytest.raises(NotValidated):
        produce(lambda: rows(spark, 5, 5), checked, dataid=SECOND, epoch=2)
    assert execute("SELECT id FROM orders ORDER BY id") == [("1",), ("7",), ("8",), ("9",)]
    assert tables(execute) == {"ORDERS", "ODF_EPOCH"}
