"""Keys: the column that parts a dataset into ranges, how Spark compares it, and in which of many ranges each row lies."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ..errors import BadConfig, BadDefinition
from ..files.versions import names_chunk
from ..model import Dataset
from ..project import Environment, Project, resolve_location
from .columns import Bounds, column, type_of
from .formats import JDBC, POSTGRES, declared_options, partitions_of
from .lines import check_files
from .postgres.columns import TEXTS
from .reading import Password, catalogue_table, declared_schema, read_location
from .session import is_connect

INSTANT = "timestamp"  # the kind of key whose bounds have a time zone
NO_KEY = -1  # the bucket of rows without a key

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CONNECT_PARALLELISM = 8
_looks_like_hour = re.compile(r"\d{4}-\d\d-\d\dT\d\d:00:00").fullmatch
_is_day = re.compile(r"\d{4}-\d\d-\d\d").fullmatch


class RangeKey(NamedTuple):
    """A column that can be cut into ranges: its kind, and the type and value by which Spark compares it."""

    name: str
    kind: str
    ddl: str
    value: Column

    def literal(self, text: str) -> Column:
        """A bound as Spark compares it."""
        return F.lit(text).cast(_wide_enough(self.ddl, [text]))


def read_all(
    spark: SparkSession,
    where: Project | Environment,
    dataset: Dataset,
    password: Password,
    *,
    columns: Sequence[str] | None = None,
    bounds: Bounds = (None, None),
) -> DataFrame:
    """Every row of a dataset whose chunks share one location, or at least those between the bounds."""
    if dataset.kind == "table" and dataset.format in POSTGRES:
        from .postgres import EVERY_ROW, RowRange, read_table

        name = dataset.partition.column
        rows = RowRange(name, *bounds) if name else EVERY_ROW
        parts = max(partitions_of(dataset), _parallelism(spark))
        return read_table(spark, dataset, password(dataset), rows, columns=columns, partitions=parts)
    if dataset.kind == "table" and dataset.format == JDBC:
        from .jdbc import read_table as read_jdbc

        return read_jdbc(spark, dataset, password(dataset))
    if dataset.kind == "table":
        return catalogue_table(spark, dataset)
    if dataset.kind != "file":
        raise BadConfig(f"dataset {dataset.datasetid} is only tracked: there is nothing to read")
    location = resolve_location(where, dataset, "1")
    check_files(dataset, location)
    return read_location(spark, dataset, location, schema=declared_schema(dataset))


def shares_one_location(dataset: Dataset) -> bool:
    """Whether its chunks are parts of one table or file set, so that only bounds tell them apart."""
    return dataset.kind == "table" or (dataset.kind == "file" and not names_chunk(dataset, ""))


def key_of(dataset: Dataset, schema: StructType, name: str, password: Password) -> RangeKey:
    """The key column as ranges use it; BadDefinition when there is none, or its type has no order that all agree on."""
    kind = type_of(schema, name)
    if kind is None:
        raise BadDefinition(
            f"dataset {dataset.datasetid} has no column {name}",
            hint=f"Its columns are {', '.join(field.name for field in schema.fields)}.",
        )
    value, base = column(schema, name), ""
    if dataset.kind == "table" and dataset.format in POSTGRES and isinstance(kind, StringType):
        base = _postgres_type(dataset, name, password)
        if base.startswith("char("):
            value = F.rtrim(value)  # PostgreSQL compares it without the blanks at its end
    if dataset.format == JDBC and isinstance(kind, StringType) and _is_pushed_down(dataset):
        raise BadDefinition(
            f"dataset {dataset.datasetid}: the database may sort the texts of {name} differently from Spark",
            hint="Choose a number or a time as the key, or set on the dataset: options = { pushDownPredicate = false }",
        )
    described = _described(kind, base)
    if described is None:
        raise BadDefinition(
            f"dataset {dataset.datasetid}: column {name} is {base or kind.simpleString()}, which cannot be cut into ranges",
            hint="A key is a number, a date, a timestamp, a text or a uuid. "
            'A numeric without precision needs a type on the dataset: numeric = "decimal(38,10)"',
        )
    is_compared_so = described.ddl == kind.simpleString()
    return RangeKey(name, described.kind, described.ddl, value if is_compared_so else value.cast(described.ddl))


class _Described(NamedTuple):
    kind: str
    ddl: str


def _described(kind: DataType, base: str) -> _Described | None:
    """The kind of a key, and the type by which it is compared: wide enough for a bound above its last value."""
    if isinstance(kind, StringType):
        is_key = base in ("", "uuid", *TEXTS) or base.startswith("char(")
        return _Described("text" if base in ("", *TEXTS) else base, "string") if is_key else None
    if isinstance(kind, DecimalType):
        return _Described(f"decimal({kind.scale})", f"decimal(38,{kind.scale})")
    return next((described for type_, described in _KINDS.items() if isinstance(kind, type_)), None)


_KINDS: dict[type[DataType], _Described] = {
    IntegralType: _Described("whole", "bigint"),
    FloatType: _Described("float", "double"),
    DoubleType: _Described("double", "double"),
    DateType: _Described("date", "timestamp_ntz"),
    TimestampType: _Described(INSTANT, "timestamp"),
    TimestampNTZType: _Described("timestamp_ntz", "timestamp_ntz"),
}


def as_text(kind: str, value: Column) -> Column:
    """A key as text that `bound_of` understands, whatever the session's time zone is."""
    if kind == INSTANT:
        return F.unix_micros(value).cast("string")
    return value.cast("date").cast("string") if kind == "date" else value.cast("string")


def bound_of(kind: str, text: str) -> str:
    """The key as a bound that PostgreSQL, Spark and Python all read alike; BadDefinition where it cannot be one."""
    try:
        if kind == INSTANT:
            return (_EPOCH + timedelta(microseconds=int(text))).isoformat()
        if kind == "timestamp_ntz":
            return datetime.fromisoformat(text).isoformat()
        if kind == "date" and not _is_day(text):
            raise ValueError(text)
        if kind in ("float", "double") or kind.startswith("decimal"):
            return format(Decimal(text), "f")
    except (ValueError, OverflowError):
        raise BadDefinition(
            f"the key {text!r} cannot be a bound: years go from 1 to 9999", hint="Shard by another column: --by COLUMN"
        ) from None
    # Readers of tables by hour take such a text for a moment; any text near it is as good a cut.
    return text[:-1] if kind == "text" and _looks_like_hour(text) else text


def bucket(key: RangeKey, cuts: Sequence[str]) -> Column:
    """How many of the ascending cuts are not above a row's key, by a binary search inside Spark; NO_KEY without a key."""
    # One constant for all cuts: a column for each would take Spark seconds to plan.
    texts = F.from_json(F.lit(json.dumps(list(cuts))), "array<string>")
    bounds = texts if key.ddl == "string" else texts.cast(f"array<{_wide_enough(key.ddl, cuts)}>")
    steps = [1 << power for power in reversed(range(max(len(cuts), 1).bit_length()))]

    def step(index: Column, width: Column) -> Column:
        is_above = key.value >= F.get(bounds, index + width - F.lit(1))
        return F.when(is_above, index + width).otherwise(index)

    reached = F.aggregate(F.array(*map(F.lit, steps)), F.lit(0), step)
    return F.when(key.value.isNull(), F.lit(NO_KEY)).otherwise(reached)


def _wide_enough(ddl: str, texts: Sequence[str]) -> str:
    if ddl == "bigint" and any(not -(2**63) <= int(text) < 2**63 for text in texts):
        return "decimal(38,0)"
    return ddl


def _postgres_type(dataset: Dataset, name: str, password: Password) -> str:
    from .postgres.columns import column_named, table_columns
    from .postgres.connection import address_of, connected

    address = address_of(dataset, password(dataset))
    with connected(address, read_only=True) as connection:
        key_column = column_named(table_columns(connection, dataset), name, address.location)
    if key_column.base == "bpchar" and key_column.typmod > 4 and not key_column.is_array:
        return f"char({key_column.typmod - 4})"
    return key_column.type if key_column.is_array else key_column.base or key_column.type


def _is_pushed_down(dataset: Dataset) -> bool:
    return declared_options(dataset).get("pushDownPredicate", "").lower() != "false"


def _parallelism(spark: SparkSession) -> int:
    return _CONNECT_PARALLELISM if is_connect(spark) else int(spark.sparkContext.defaultParallelism)
