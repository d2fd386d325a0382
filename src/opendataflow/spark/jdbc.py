"""JDBC: tables of any database whose driver the user's Spark has.

Reading works everywhere. Loading replaces the rows of a chunk in one transaction of the target, for which a classic
session lends its Java; Spark's own JDBC writer can only append or replace a whole table.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal, InvalidOperation
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import (
    DateType,
    IntegralType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ..errors import BadConfig, BadDefinition, LeaseLost, NotValidated, WrongData
from ..model import TYPES, Dataset, from_ordinal, ordinal, span
from ..model.definitions.dataset import table_name
from .columns import Bounds, column, type_of
from .columns import literal as spark_literal
from .formats import declared_options
from .observing import computed, how_many
from .problems import SPARK_ERRORS
from .session import is_connect

_MOMENTS = (DateType, TimestampType, TimestampNTZType)
EPOCHS = "odf_epoch"  # as in PostgreSQL: which epoch of each chunk is in the tables beside it


def read_table(spark: SparkSession, dataset: Dataset, password: str, name: str = "") -> DataFrame:
    """The whole table, or another one beside it; conditions on it are pushed down to the database."""
    return spark.read.format("jdbc").options(**_options(dataset, password, _table(dataset, name))).load()


def stage_table(spark: SparkSession, df: DataFrame, dataset: Dataset, password: str, *, dataid: str, epoch: int) -> str:
    """Load into a staging table of this attempt, and tell its name; NotValidated for values that the table would change.

    Another store may load the same epoch of the same chunk: the name has a random part, and an existing table is an error.
    """
    if is_connect(spark):
        raise BadConfig(
            f"dataset {dataset.datasetid}: a table cannot be loaded over JDBC through Spark Connect",
            hint='Use a classic master, or for PostgreSQL: format = "postgresql"',
        )
    target = read_table(spark, dataset, password).schema
    missing = [name for name in df.columns if type_of(target, name) is None]
    if missing:
        raise NotValidated(f"{dataset.datasetid} {dataid}: the table has no column {', '.join(missing)}")
    digest = hashlib.sha256(f"{dataset.datasetid}/{dataid}".encode()).hexdigest()[:8]
    staging = f"odf_{digest}_{epoch}_{secrets.token_hex(3)}"
    options = _options(dataset, password, _table(dataset, staging))
    df.write.format("jdbc").options(**options).mode("error").save()
    changed = _changed(read_table(spark, dataset, password, staging), target)
    if changed:
        drop_table(spark, dataset, password, staging)
        raise NotValidated(
            f"the rows do not fit the table of {dataset.datasetid}: {'; '.join(changed)}",
            hint="Cast or round them in the job, or give the column of the table a wider type.",
        )
    return staging


def _changed(staged: DataFrame, target: StructType) -> list[str]:
    """What INSERT … SELECT would convert to another value without an error, for each column."""
    lost: dict[str, Column] = {}
    for field in staged.schema.fields:
        kind, own = type_of(target, field.name), field.dataType
        alike = any(isinstance(kind, types) and isinstance(own, types) for types in (NumericType, _MOMENTS))
        if kind is not None and kind != own and alike:
            value = column(staged.schema, field.name)
            as_kept = value.try_cast(kind).cast(own)
            lost[f"column {field.name}: {kind.simpleString()}"] = how_many(~value.eqNullSafe(as_kept))
    found = computed(staged, lost) if lost else {}
    return [f"{name} does not hold the value of {rows:,} row{'s' * (rows > 1)}" for name, rows in found.items() if rows]


def publish_table(
    spark: SparkSession,
    dataset: Dataset,
    password: str,
    *,
    dataid: str,
    epoch: int,
    bounds: Bounds | None,
    staging: str,
) -> None:
    """Replace the chunk by what was staged, in one transaction of the target; WrongData when rows are another chunk's.

    The same transaction records the epoch: LeaseLost when a later one was published there already.
    """
    target = read_table(spark, dataset, password).schema
    columns = read_table(spark, dataset, password, staging).columns
    own = {name.lower(): name for name in target.fieldNames()}  # databases differ in what they make of case
    with _connection(spark, _options(dataset, password, _table(dataset))) as (connection, dialect):
        names = ", ".join(dialect.quoteIdentifier(own[name.lower()]) for name in columns)
        staged = ", ".join(dialect.quoteIdentifier(name) for name in columns)
        where = _where(spark, dialect, target, dataset, dataid, bounds)
        statement = connection.createStatement()
        _record_epoch(connection, dialect, dataset, dataid, epoch)
        statement.executeUpdate(f"DELETE FROM {_table(dataset)} WHERE {where}")
        rows = statement.executeUpdate(
            f"INSERT INTO {_table(dataset)} ({names}) SELECT {staged} FROM {_table(dataset, staging)}"
        )
        strangers = rows - _count(statement, _table(dataset), where)
        if strangers:
            raise WrongData(
                f"{dataset.datasetid} {dataid}: {strangers} of {rows} rows do not belong to this dataid",
                hint="Their partition column is null or outside the chunk; nothing was published.",
            )
        connection.commit()
    drop_table(spark, dataset, password, staging)


def _record_epoch(connection: Any, dialect: Any, dataset: Dataset, dataid: str, epoch: int) -> None:
    """Hold every other publisher of the chunk back until the transaction ends, and refuse to follow a later epoch."""
    table, statement = _table(dataset, EPOCHS), connection.createStatement()
    try:
        statement.executeQuery(f"SELECT epoch FROM {table} WHERE 1 = 0")
    except SPARK_ERRORS:
        connection.rollback()  # some databases take nothing more after an error
        with suppress(*SPARK_ERRORS):  # another publisher may be first; if not, the next statement fails
            statement.executeUpdate(
                f"CREATE TABLE {table} (tablename VARCHAR(255) NOT NULL, dataid VARCHAR(255) NOT NULL,"
                " epoch DECIMAL(20, 0) NOT NULL, PRIMARY KEY (tablename, dataid))"
            )
        connection.commit()
    name, chunk = (dialect.compileValue(text) for text in (dataset.tablename, dataid))
    key = f"tablename = {name} AND dataid = {chunk}"
    if statement.executeUpdate(f"UPDATE {table} SET epoch = {int(epoch)} WHERE {key} AND epoch <= {int(epoch)}"):
        return
    if _count(statement, table, key):
        raise LeaseLost(
            f"{dataset.datasetid} {dataid}: a later epoch was published there already, this is epoch {epoch}",
            hint=f"The rows of the later attempt stay. If the store was created anew, delete the row in {table}.",
        )
    statement.executeUpdate(f"INSERT INTO {table} (tablename, dataid, epoch) VALUES ({name}, {chunk}, {int(epoch)})")


def _count(statement: Any, table: str, where: str) -> int:
    answer = statement.executeQuery(f"SELECT COUNT(*) FROM {table} WHERE {where}")
    answer.next()
    return int(answer.getLong(1))


def drop_table(spark: SparkSession, dataset: Dataset, password: str, staging: str) -> None:
    """Drop a staging table; where that fails, it stays."""
    with suppress(Exception), _connection(spark, _options(dataset, password, _table(dataset))) as (connection, _):
        connection.createStatement().executeUpdate(f"DROP TABLE {_table(dataset, staging)}")
        connection.commit()


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
        with suppress(Exception):
            connection.rollback()  # after a commit there is nothing left of it
        connection.close()


def _where(
    spark: SparkSession, dialect: Any, schema: StructType, dataset: Dataset, dataid: str, bounds: Bounds | None
) -> str:
    """The condition that a row belongs to the chunk, as `columns.in_chunk` says it to Spark."""
    partition = dataset.partition
    kind = type_of(schema, partition.column) if partition.column else None
    if partition.column is None or kind is None:
        raise BadConfig(
            f"dataset {dataset.datasetid}: nothing says which rows belong to dataid {dataid}",
            hint="Name the column: partition = { type = …, column = … }",
        )
    jvm: Any = spark._jvm
    name = next(own for own in schema.fieldNames() if own.lower() == partition.column.lower())
    value = dialect.quoteIdentifier(name)
    lower, upper = checked_bounds(dataset, dataid, bounds)
    if lower is None and upper is None:
        return f"{value} = {dialect.compileValue(dataid)}"
    if TYPES[partition.type].is_time and isinstance(kind, IntegralType):
        return f"{value} = {re.sub('[^0-9]', '', dataid)}"  # 2025-11-12 is 20251112
    if TYPES[partition.type].is_time and isinstance(kind, StringType):
        # As text 2025-11-12 comes before 2025-11-12T00:00:00, and 2025-11-12 07:00 before the next day.
        lower, upper = dataid, from_ordinal(partition, ordinal(partition, dataid) + 1)

    def literal(text: str) -> str:
        if isinstance(kind, NumericType):
            return format(_number(dataset, text), "f")
        if isinstance(kind, DateType):
            return str(dialect.compileValue(jvm.java.sql.Date.valueOf(text[:10])))
        if isinstance(kind, TimestampType):
            # The moment that a reader asks for: in the session's zone, and printed in the machine's as Spark writes it.
            moment: Any = spark.range(1).select(spark_literal(text, kind))
            return str(dialect.compileValue(moment._jdf.head().get(0)))
        if isinstance(kind, TimestampNTZType):
            # Timestamp.valueOf takes the machine's zone and prints in it again: what was written comes out.
            return str(dialect.compileValue(jvm.java.sql.Timestamp.valueOf(text.replace("T", " "))))
        return str(dialect.compileValue(text))

    limits = ((">=", lower), ("<", upper))
    return " AND ".join(f"{value} {sign} {literal(text)}" for sign, text in limits if text is not None)


def checked_bounds(dataset: Dataset, dataid: str, bounds: Bounds | None) -> Bounds:
    """The bounds of a chunk; Spark doubles quotes in them, but to some databases a backslash before one ends the text."""
    limits = bounds or span(dataset.partition, dataid) or (None, None)
    if any(text and "\\" in text for text in limits):
        raise BadDefinition(
            f"dataset {dataset.datasetid}: a bound of chunk {dataid} has a backslash, which databases read differently",
            hint="Choose another key, or other bounds.",
        )
    return limits


def _number(dataset: Dataset, text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise BadDefinition(
            f"dataset {dataset.datasetid}: the bound {text} is not a number, but its partition column is"
        ) from None


def _options(dataset: Dataset, password: str, table: str) -> dict[str, str]:
    options = {**declared_options(dataset), "url": _url(dataset), "dbtable": table}
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
            hint='Declare one, without user and password: url = "jdbc:mysql://db.example:3306/shop"',
        )
    return url


def _table(dataset: Dataset, name: str = "") -> str:
    return table_name(dataset, name, of_catalogue=False)
