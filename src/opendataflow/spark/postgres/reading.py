"""Reading: the rows of a chunk as a DataFrame, and figures about them that the database computes itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import BadDefinition
from ...model import Dataset
from .columns import TEXTS, Column, column_named, spark_schema, table_columns
from .conditions import between, equal, split
from .connection import Address, Connection, address_of, connected, identifier
from .tasks import TAG, Fetch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_UNORDERED = ("bool", "uuid", "json", "jsonb", "bytea", "xml", "")  # these have no min() in every PostgreSQL


@dataclass(frozen=True, slots=True)
class ChunkStats:
    """What a chunk in a table is like."""

    rows: int
    min: str | None
    max: str | None
    fingerprint: str | None


def read_table(
    spark: SparkSession,
    dataset: Dataset,
    password: str | None,
    *,
    column: str | None = None,
    lower: str | None = None,
    upper: str | None = None,
    equals: str | None = None,
    columns: Sequence[str] | None = None,
    partitions: int = 1,
) -> DataFrame:
    """Exactly the rows with lower <= column < upper, or column = equals; all of them when no column is named.

    Several partitions are read side by side, each in a transaction of its own: what changes meanwhile may be seen by
    some and not by others, which a READY chunk does not.
    """
    address = address_of(dataset, password)
    with connected(address, read_only=True) as connection:
        known = table_columns(connection, dataset)
        chosen = known if columns is None else tuple(column_named(known, name, address.location) for name in columns)
        if not chosen:
            raise BadDefinition(f"no column of {address.location} is read", hint="Name at least one.")
        if column is None or equals is not None:
            conditions = [_condition(address, known, column, lower, upper, equals)]
        else:
            by = column_named(known, column, address.location)
            conditions = split(connection, by, lower, upper, partitions)
    fetch = Fetch(address, chosen, tuple(conditions))
    count = len(conditions)
    return spark.range(0, count, 1, count).mapInArrow(fetch.read_postgres, spark_schema(chosen))


@dataclass(frozen=True, slots=True)
class Part:
    """One chunk of a batch: its dataid, and the rows that belong to it."""

    dataid: str
    lower: str | None = None
    upper: str | None = None
    equals: str | None = None


def read_parts(
    spark: SparkSession, dataset: Dataset, password: str | None, column: str, parts: Sequence[Part], tasks: int
) -> DataFrame:
    """The rows of many small chunks, each with the dataid of its chunk in the column TAG; a chunk is read by one task."""
    from pyspark.sql.types import StringType, StructField, StructType

    address = address_of(dataset, password)
    with connected(address, read_only=True) as connection:
        known = table_columns(connection, dataset)
    conditions = tuple(_condition(address, known, column, part.lower, part.upper, part.equals) for part in parts)
    fetch = Fetch(address, known, conditions, tuple(part.dataid for part in parts))
    schema = StructType([*spark_schema(known).fields, StructField(TAG, StringType())])
    return spark.range(0, len(parts), 1, max(1, min(tasks, len(parts)))).mapInArrow(fetch.read_postgres, schema)


def count_rows(
    dataset: Dataset,
    password: str | None,
    *,
    column: str | None = None,
    lower: str | None = None,
    upper: str | None = None,
    equals: str | None = None,
) -> int:
    """How many rows a chunk has now."""
    address = address_of(dataset, password)
    with connected(address, read_only=True) as connection:
        known = table_columns(connection, dataset)
        condition = _condition(address, known, column, lower, upper, equals)
        return int(connection.value(f"select count(*) from {address.target} where {condition}"))


def chunk_stats(
    dataset: Dataset,
    password: str | None,
    *,
    column: str | None = None,
    lower: str | None = None,
    upper: str | None = None,
    equals: str | None = None,
    staging: str | None = None,
) -> ChunkStats:
    """Rows, least and greatest value of the column, and a fingerprint that does not depend on the order of rows.

    Of a staging table instead, when one is named. The fingerprint is of the rows as text: a table and its staging
    table have the same one only where both have the same types.
    """
    address = address_of(dataset, password)
    with connected(address, read_only=True) as connection:
        known = table_columns(connection, dataset, staging)
        condition = _condition(address, known, column, lower, upper, equals)
        return _stats(connection, address.named(staging or address.table), known, column, condition)


def _stats(
    connection: Connection, table: str, columns: Sequence[Column], column: str | None, condition: str
) -> ChunkStats:
    least = greatest = "null::text"
    if column is not None:
        by = column_named(columns, column, connection.address.location)
        value = identifier(column)
        if by.base in (*TEXTS, *_UNORDERED) or by.is_array:
            value = f'{value}::text collate "C"'
        least, greatest = f"min({value})::text", f"max({value})::text"
    figures = f"count(*), {least}, {greatest}, sum(hashtextextended(chunk::text, 0)::numeric)::text"
    rows, low, high, total = connection.row(f"select {figures} from {table} as chunk where {condition}")
    fingerprint = f"pg:{int(rows)}:{int(total) % 2**64:016x}" if rows else None
    return ChunkStats(int(rows), low, high, fingerprint)


def _condition(
    address: Address,
    columns: Sequence[Column],
    column: str | None,
    lower: str | None,
    upper: str | None,
    equals: str | None,
) -> str:
    if column is None:
        if (lower, upper, equals) != (None, None, None):
            raise BadDefinition(f"bounds of {address.location} need a column", hint="Name column of its partition.")
        return "true"
    by = column_named(columns, column, address.location)
    return between(by, lower, upper) if equals is None else equal(by, equals)
