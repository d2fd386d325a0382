"""A copy into a table and back, through everything that a run does."""

from __future__ import annotations

import psycopg
import pytest
from pyspark.sql import DataFrame

from opendataflow.errors import NotValidated
from opendataflow.model import Check, Dataset, InputChunk
from tests.support.tables import DAY, dataset_of


@pytest.mark.postgres
def test_a_copy_into_postgresql_and_back_loses_nothing(spark, project, produce, postgres_url):
    checks = (Check("not_null", {"columns": ["id"]}), Check("unique", {"columns": ["id"]}), Check("span"))
    shop = dataset_of(postgres_url, "orders", datasetid="shop", checks=checks)
    lake = Dataset("lake", kind="file", location="lake/{dataid}", partition=DAY)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("create table orders (id bigint, day date, name text, price numeric(12, 3))")
        connection.execute("insert into orders values (99, '2013-01-02', 'other day', 1)")

    def rows() -> DataFrame:
        df: DataFrame = spark.sql(
            "SELECT * FROM VALUES (1L, DATE'2013-01-01', '', 1.5BD), (2L, DATE'2013-01-01', NULL, NULL) AS t(id, day, name, price)"
        )
        return df

    written = produce(rows, shop)["shop"]
    assert (written.rows, written.span_upper, written.extra["metrics"]) == (2, "2013-01-01", "observed")
    with pytest.raises(NotValidated, match="surplus_rows 2"):
        produce(lambda: rows().union(rows()), shop, epoch=2)
    copy = {"copy": {"from": "shop", "to": "lake"}}
    manifest = produce(None, lake, reads=[(shop, [InputChunk("shop", "2013-01-01", 1)])], options=copy)["lake"]
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
