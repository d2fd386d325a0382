"""JDBC: tables of any database whose driver the user's Spark has.

Reading works everywhere. Loading replaces the rows of a chunk in one transaction of the target, for which a classic
session lends its Java; Spark's own JDBC writer can only append or replace a whole table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DateType, NumericType, StructType, TimestampNTZType, TimestampType

from ..errors import BadConfig, NotValidated
from ..model import Dataset, span
from .columns import Bounds, type_of
from .session import is_connect


def read_table(spark: SparkSession, dataset: Dataset, password: str) -> DataFrame:
    """The whole table; conditions on it are pushed down to the database."""
    return spark.read.format("jdbc").options(**_options(dataset, password, _table(dataset))).load()


def load_table(
    spark: SparkSession,
    df: DataFrame,
    dataset: Dataset,
    password: str,
    *,
    dataid: str,
    epoch: int,
    bounds: Bounds | None = None,
) -> int:
    """Load into a staging table of this epoch, then replace the chunk from there in one transaction."""
    if is_connect(spark):
        raise BadConfig(
            f"dataset {dataset.datasetid}: a table cannot be loaded over JDBC through Spark Connect",
            hint="Use a classic master, or format = postgresql for PostgreSQL.",
        )
    target = read_table(spark, dataset, password)
    own = {name.lower(): name for name in target.columns}  # databases differ in what they make of case
    missing = [name for name in df.columns if name.lower() not in own]
    if missing:
        raise NotValidated(f"{dataset.datasetid} {dataid}: the table has no column {', '.join(missing)}")
    digest = hashlib.sha256(f"{dataset.datasetid}/{dataid}".encode()).hexdigest()[:8]
    staging = _table(dataset, f"odf_{digest}_{epoch}")
    options = _options(dataset, password, staging)
    df.write.format("jdbc").options(**options).mode("overwrite").save()
    with _connection(spark, options) as (connection, dialect):
        statement = connection.createStatement()
        try:
            where = _where(spark, dialect, target.schema, dataset, dataid, bounds)
            staged = ", ".join(dialect.quoteIdentifier(name) for name in df.columns)
            names = ", ".join(dialect.quoteIdentifier(own[name.lower()]) for name in df.columns)
            statement.executeUpdate(f"DELETE FROM {_table(dataset)} WHERE {where}")
            loaded = statement.executeUpdate(f"INSERT INTO {_table(dataset)} ({names}) SELECT {staged} FROM {staging}")
            connection.commit()
        finally:
            with suppress(Exception):
                connection.rollback()
                statement.executeUpdate(f"DROP TABLE {staging}")
                connection.commit()
            statement.close()
    return int(loaded)


@contextmanager
def _connection(spark: SparkSession, options: dict[str, str]) -> Iterator[tuple[Any, Any]]:
    jvm: Any = spark._jvm
    settings = jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(jvm.PythonUtils.toScalaMap(options))
    dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(options["url"])
    connection = dialect.createConnectionFactory(settings).apply(-1)
    try:
        connection.setAutoCommit(False)
        yield connection, dialect
    finally:
        connection.close()


def _where(
    spark: SparkSession, dialect: Any, schema: StructType, dataset: Dataset, dataid: str, bounds: Bounds | None
) -> str:
    name = dataset.partition.column
    kind = type_of(schema, name) if name else None
    if name is None or kind is None:
        raise BadConfig(
            f"dataset {dataset.datasetid}: nothing says which rows belong to dataid {dataid}",
            hint="Name the column: partition = { type = …, column = … }.",
        )
    jvm: Any = spark._jvm
    value = dialect.quoteIdentifier(next(own for own in schema.fieldNames() if own.lower() == name.lower()))
    limits = bounds or span(dataset.partition, dataid)
    if limits is None:
        return f"{value} = {dialect.compileValue(dataid)}"

    def literal(text: str) -> str:
        if isinstance(kind, NumericType):
            return str(jvm.java.math.BigDecimal(text).toPlainString())
        if isinstance(kind, DateType):
            return str(dialect.compileValue(jvm.java.sql.Date.valueOf(text[:10])))
        if isinstance(kind, (TimestampType, TimestampNTZType)):
            # Timestamp.valueOf takes the machine's zone and prints in it again: what was written comes out.
            return str(dialect.compileValue(jvm.java.sql.Timestamp.valueOf(text.replace("T", " "))))
        return str(dialect.compileValue(text))

    parts = [f"{value} {sign} {literal(text)}" for sign, text in zip((">=", "<"), limits, strict=True) if text]
    return " AND ".join(parts) or "1 = 1"


def _options(dataset: Dataset, password: str, table: str) -> dict[str, str]:
    declared = dataset.options.get("options", {})
    options = {key: str(value) for key, value in declared.items()} if isinstance(declared, dict) else {}
    options |= {"url": _url(dataset), "dbtable": table}
    if dataset.options.get("driver"):
        options["driver"] = str(dataset.options["driver"])
    if dataset.username:
        options["user"] = dataset.username
    if password:
        options["password"] = password
    return options


def _url(dataset: Dataset) -> str:
    url = str(dataset.options.get("url", ""))
    if not url:
        raise BadConfig(
            f"dataset {dataset.datasetid}: format jdbc needs a url",
            hint='For instance url = "jdbc:mysql://db.example:3306/shop", without user and password.',
        )
    return url


def _table(dataset: Dataset, name: str = "") -> str:
    return ".".join(part for part in (dataset.schemaname, name or dataset.tablename) if part)
