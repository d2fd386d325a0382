"""Reading: the rows of a chunk, or of many small ones, as a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import BadDefinition
from ...model import Dataset
from .. import TAG
from .columns import PostgresColumn, column_named, spark_schema, table_columns
from .conditions import between, equal, split
from .connection import address_of, connected
from .tasks import Fetch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class RowRange:
    """Which rows of a table: those with lower <= column < upper, or column = equals; all when no column is named."""

    column: str | None = None
    lower: str | None = None
    upper: str | None = None
    equals: str | None = None

    def condition(self, columns: Sequence[PostgresColumn], location: str) -> str:
        """The same for a WHERE."""
        if self.column is not None:
            by = column_named(columns, self.column, location)
            return between(by, self.lower, self.upper) if self.equals is None else equal(by, self.equals)
        if self != EVERY_ROW:
            raise BadDefinition(f"bounds of {location} need a column", hint="Name the column of its partition.")
        return "true"


EVERY_ROW = RowRange()


@dataclass(frozen=True, slots=True)
class BatchPart:
    """One chunk of a batch: its dataid, and the rows that belong to it."""

    dataid: str
    rows: RowRange


def read_table(
    spark: SparkSession,
    dataset: Dataset,
    password: str | None,
    rows: RowRange = EVERY_ROW,
    *,
    columns: Sequence[str] | None = None,
    partitions: int = 1,
) -> DataFrame:
    """Exactly these rows of a table.

    Several partitions are read side by side, each in a transaction of its own: what changes meanwhile may be seen by
    some and not by others, which a READY chunk does not.
    """
    address = address_of(dataset, password)
    with connected(address, read_only=True) as connection:
        known = table_columns(connection, dataset)
        chosen = known if columns is None else tuple(column_named(known, name, address.location) for name in columns)
        if not chosen:
            raise BadDefinition(f"no column of {address.location} is read", hint="Name at least one.")
        if rows.column is None or rows.equals is not None:
            conditions = [rows.condition(known, address.location)]
        else:
            by = column_named(known, rows.column, address.location)
            conditions = split(connection, by, rows.lower, rows.upper, partitions)
    fetch = Fetch(address, chosen, tuple(conditions))
    count = len(conditions)
    return spark.range(0, count, 1, count).mapInArrow(fetch.read_postgres, spark_schema(chosen))


def read_parts(
    spark: SparkSession, dataset: Dataset, password: str | None, parts: Sequence[BatchPart], tasks: int
) -> DataFrame:
    """The rows of many small chunks, each with the dataid of its chunk in the column TAG; a chunk is read by one task."""
    from pyspark.sql.types import StringType, StructField, StructType

    address = address_of(dataset, password)
    with connected(address, read_only=True) as connection:
        known = table_columns(connection, dataset)
    conditions = tuple(part.rows.condition(known, address.location) for part in parts)
    fetch = Fetch(address, known, conditions, tuple(part.dataid for part in parts))
    schema = StructType([*spark_schema(known).fields, StructField(TAG, StringType())])
    return spark.range(0, len(parts), 1, max(1, min(tasks, len(parts)))).mapInArrow(fetch.read_postgres, schema)
