"""Tables of the tests' own PostgreSQL as datasets: loaded, published and counted as the program does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import DataFrame, SparkSession

from opendataflow.errors import OdfError
from opendataflow.model import Dataset, Partition, span
from opendataflow.spark.postgres import (
    EVERY_ROW,
    LoadResult,
    RowRange,
    drop_staging,
    publish_table,
    stage_table,
)
from opendataflow.spark.postgres.columns import table_columns
from opendataflow.spark.postgres.connection import address_of, connected

SQL = Callable[..., list[tuple[Any, ...]]]  # runs statements, and answers the rows of the last one

DAY = Partition("day", column="day")


def dataset_of(url: str, tablename: str = "t", *, datasetid: str = "table", **more: Any) -> Dataset:
    """A table of this database; by day unless told otherwise."""
    facts = conninfo_to_dict(url)
    return Dataset(
        datasetid,
        kind="table",
        hostname=f"{facts['host']}:{facts['port']}",
        database=str(facts["dbname"]),
        username=str(facts["user"]),
        tablename=tablename,
        **{"partition": DAY, **more},
    )


def count_rows(dataset: Dataset, rows: RowRange = EVERY_ROW) -> int:
    """How many rows PostgreSQL finds."""
    address = address_of(dataset, None)
    with connected(address, read_only=True) as connection:
        condition = rows.condition(table_columns(connection, dataset), address.location)
        return int(connection.value(f"select count(*) from {address.target} where {condition}"))


def load(
    spark: SparkSession, df: DataFrame, dataset: Dataset, dataid: str = "2025-01-02", epoch: int = 1
) -> LoadResult:
    """Stage and publish at once; what may not be published is not left behind."""
    staged = stage_table(spark, df, dataset, None, dataid=dataid, epoch=epoch)
    try:
        publish(dataset, staged, dataid, epoch)
    except OdfError:
        drop_staging(dataset, None)
        raise
    return staged


def publish(dataset: Dataset, staged: LoadResult, dataid: str = "2025-01-02", epoch: int = 1) -> int:
    """Replace the chunk by what was staged."""
    bounds = span(dataset.partition, dataid)
    return publish_table(
        dataset, None, dataid=dataid, epoch=epoch, partition=dataset.partition, span=bounds, staging=staged
    )


def rows_of_day(spark: SparkSession, n: int, text: str = "new", day: str = "2025-01-02") -> DataFrame:
    """So many rows of one day, in three partitions."""
    return spark.range(0, n, 1, 3).selectExpr(f"date '{day}' as day", "cast(id as int) as n", f"'{text}' as s")


def staging_tables(sql: SQL) -> int:
    """How many tables there are that attempts staged."""
    ((count,),) = sql("select count(*) from pg_class where relname like '%\\_\\_odf\\_%'")
    return int(count)


def guarded_role(sql: SQL, password: str) -> str:
    """A role that needs this password, on a server that trusts everybody else."""
    sql("drop role if exists guarded", f"create role guarded login password '{password}'")
    ((path, rules),) = sql("select current_setting('hba_file'), pg_read_file(current_setting('hba_file'))")
    if "guarded" not in rules:
        guard = "host all guarded 127.0.0.1/32 scram-sha-256\n" + rules
        sql(f"copy (select unnest(string_to_array($h${guard}$h$, E'\\n'))) to '{path}'", "select pg_reload_conf()")
        sql("select pg_sleep(0.3)")
    return "guarded"
