"""Columns: finding one by the name a project file uses, and the condition that a row belongs to a chunk."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    LongType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ..errors import BadDefinition
from ..model import Partition, span
from ..model.definitions.dataid import TYPES

Bounds = tuple[str | None, str | None]


def quoted(name: str) -> str:
    """The name of a column as Spark takes it literally, dots included."""
    return "`" + name.replace("`", "``") + "`"


def type_of(schema: StructType, name: str) -> DataType | None:
    """The type of a column, or of a field inside one (`address.city`); None when there is none."""
    fields = {field.name.lower(): field.dataType for field in schema.fields}
    if name.lower() in fields:
        return fields[name.lower()]
    outer, dot, inner = name.partition(".")
    within = fields.get(outer.lower())
    return type_of(within, inner) if dot and isinstance(within, StructType) else None


def column(schema: StructType, name: str) -> Column:
    """The column, or the field inside one."""
    if any(field.name.lower() == name.lower() for field in schema.fields):
        return F.col(quoted(name))
    return F.col(".".join(map(quoted, name.split("."))))


def in_chunk(schema: StructType, partition: Partition, dataid: str, bounds: Bounds | None = None) -> Column | None:
    """The condition that a row belongs to this chunk, never null; None when nothing says what belongs to it."""
    name = partition.column
    kind = type_of(schema, name) if name else None
    if name is None or kind is None:
        return None
    value = column(schema, name)
    if partition.type == "text":
        return _true(value.cast("string") == dataid)
    limits = bounds or span(partition, dataid)
    if limits is None:
        return None
    if not TYPES[partition.type].is_time:
        return _true(_between(value, kind, *limits))
    if isinstance(kind, IntegralType):
        return _true(value == int(re.sub("[^0-9]", "", dataid)))
    if isinstance(kind, StringType):
        moment = value.try_cast("timestamp")
        return _true((value == dataid) | _between(moment, None, *limits, cast="timestamp"))
    if isinstance(kind, DateType) and TYPES[partition.type].width > len("2025-11-12"):
        return _true(value == F.lit(dataid[:10]).cast("date"))
    return _true(_between(value, kind, *limits))


def has_instants(schema: StructType, partition: Partition) -> bool:
    """Whether the bounds of the chunks are instants, as `odf shard` writes those of a timestamp; all others are local."""
    kind = type_of(schema, partition.column) if partition.column else None
    return partition.type == "range" and partition.count is None and isinstance(kind, TimestampType)


def lies_within(kind: DataType | None, limits: Bounds | None, least: object, greatest: object) -> bool:
    """Whether values from the least to the greatest, as ISO text, surely lie between the bounds of a chunk.

    Timestamps that have a time zone are not comparable with those that have none.
    """
    read = next((read for types, read in _READ if isinstance(kind, types)), None)
    if read is None or limits is None or None in limits:
        return False
    try:
        low, high, lower, upper = (read(str(text)) for text in (least, greatest, *limits))
        return bool(lower <= low and high < upper)
    except (ValueError, ArithmeticError, TypeError):
        return False


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


# Only types whose texts order without doubt; of all others each row is asked.
_READ: tuple[tuple[tuple[type, ...], Callable[[str], Any]], ...] = (
    ((IntegralType, DecimalType), Decimal),
    ((DateType, TimestampNTZType), _moment),
    ((TimestampType,), datetime.fromisoformat),
)


def literal(value: object, kind: DataType) -> Column:
    """A value from a project file, as this type."""
    return F.lit(value) if not isinstance(value, str) or isinstance(kind, StringType) else F.lit(value).cast(kind)


def _between(value: Column, kind: DataType | None, lower: str | None, upper: str | None, cast: str = "") -> Column:
    def bound(text: str) -> Column:
        if isinstance(kind, NumericType) and not re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?", text):
            raise BadDefinition(f"the bound {text} of the chunk is not a number, but its partition column is")
        return F.lit(text).cast(cast) if cast else literal(text, _wide(kind or StringType(), text))

    above = value >= bound(lower) if lower is not None else value.isNotNull()
    return above & (value < bound(upper)) if upper is not None else above


def _wide(kind: DataType, text: str) -> DataType:
    """The type of a column, or one that also holds a bound right above the last value of the column's."""
    whole = text.lstrip("+-").partition(".")[0]
    if isinstance(kind, IntegralType) and "." not in text:
        return LongType() if -(2**63) <= int(text) < 2**63 else DecimalType(38, 0)
    if isinstance(kind, DecimalType) and len(whole.lstrip("0")) > kind.precision - kind.scale:
        return DecimalType(38, kind.scale)
    if isinstance(kind, DateType) and text[10:] not in ("", "T00:00:00"):
        return TimestampNTZType()
    return kind


def _true(condition: Column) -> Column:
    return F.coalesce(condition, F.lit(False))
