"""Tables over JDBC, with the embedded database that Spark itself carries."""

from __future__ import annotations

import pytest

from opendataflow.errors import NotValidated
from opendataflow.model import Check, Dataset, Partition
from opendataflow.spark.reading import InputChunk

DAY = Partition("day", column="day")


@pytest.fixture
def orders(spark, tmp_path) -> Dataset:
    url = f"jdbc:derby:{tmp_path}/shop;create=true"
    options = {"url": url, "driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver"}
    dataset = Dataset(
        "orders",
        kind="table",
        tablename="orders",
        format="jdbc",
        partition=DAY,
        options=options,
        checks=(Check("not_null", {"columns": ["id"]}),),
    )
    rows = "SELECT * FROM VALUES (1, DATE'2013-01-01', 'a'), (2, DATE'2013-01-02', 'b') AS rows(id, day, name)"
    spark.sql(rows).write.format("jdbc").options(url=url, dbtable="orders", driver=options["driver"]).save()
    return dataset


def test_a_chunk_of_a_table_is_read_replaced_and_left_alone_when_a_check_fails(spark, project, produce, orders):
    lake = Dataset("lake", kind="file", location="lake/{dataid}", partition=DAY)
    chunk = [InputChunk("2013-01-02")]
    out = produce(
        None, lake, reads=[(orders, chunk)], dataid="2013-01-02", options={"copy": {"from": "orders", "to": "lake"}}
    )
    assert [row.id for row in spark.read.parquet(out["lake"].location).collect()] == [2]

    def more(id: str):
        return lambda: spark.range(3).selectExpr(f"{id} AS id", "DATE'2013-01-02' AS day", "'new' AS name")

    loaded = produce(more("CAST(id + 7 AS INT)"), orders, dataid="2013-01-02")["orders"]
    assert (loaded.rows, loaded.span_lower) == (3, "2013-01-02")
    with pytest.raises(NotValidated):
        produce(more("CAST(NULL AS INT)"), orders, dataid="2013-01-02", epoch=2)
    options = {"url": orders.options["url"], "driver": orders.options["driver"], "dbtable": "orders"}
    table = spark.read.format("jdbc").options(**options).load()
    assert sorted(row.id for row in table.collect()) == [1, 7, 8, 9]


@pytest.mark.postgres
def test_a_copy_into_postgresql_and_back_loses_nothing(spark, project, produce, postgres_url):
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    facts = conninfo_to_dict(postgres_url)
    shop = Dataset(
        "shop",
        kind="table",
        hostname=f"{facts['host']}:{facts['port']}",
        database=str(facts["dbname"]),
        username=str(facts["user"]),
        tablename="orders",
        partition=DAY,
        checks=(Check("not_null", {"columns": ["id"]}), Check("unique", {"columns": ["id"]}), Check("span")),
    )
    lake = Dataset("lake", kind="file", location="lake/{dataid}", partition=DAY)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("create table orders (id bigint, day date, name text, price numeric(12, 3))")
        connection.execute("insert into orders values (99, '2013-01-02', 'other day', 1)")

    def rows():
        return spark.sql(
            "SELECT * FROM VALUES (1L, DATE'2013-01-01', '', 1.5BD), (2L, DATE'2013-01-01', NULL, NULL) AS t(id, day, name, price)"
        )

    written = produce(rows, shop)["shop"]
    assert (written.rows, written.span_upper, written.extra["metrics"]) == (2, "2013-01-01", "observed")
    with pytest.raises(NotValidated, match="surplus_rows 2"):
        produce(lambda: rows().union(rows()), shop, epoch=2)
    copy = {"copy": {"from": "shop", "to": "lake"}}
    manifest = produce(None, lake, reads=[(shop, [InputChunk("2013-01-01")])], options=copy)["lake"]
    assert manifest.rows == 2
    back = spark.read.parquet(manifest.location).orderBy("id").collect()
    assert [tuple(map(str, row)) for row in back] == [
        ("1", "2013-01-01", "", "1.500"),
        ("2", "2013-01-01", "None", "None"),
    ]
    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
        assert sorted(name for (name,) in tables) == ["odf_epoch", "orders"]
        assert connection.execute("select count(*) from orders").fetchone() == (3,)
