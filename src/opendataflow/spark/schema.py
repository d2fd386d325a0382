"""Schemas: how one is written down, and what differs between two."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ..errors import BadDefinition
from ..model.definitions.ids import shown

ADDED, DROPPED, RENAMED, RETYPED, NULLABLE = "added", "dropped", "renamed", "retyped", "nullable"

_is_simple = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_NUMBERS = (*_WHOLE, FloatType, DoubleType, DecimalType)


class Difference(NamedTuple):
    """One way in which a schema is not the one that was expected."""

    kind: str
    column: str
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        if self.kind == RENAMED:
            return f"{self.column} renamed to {self.after}?"
        if self.kind == RETYPED:
            return f"{self.column} was {self.before} and is {self.after}"
        if self.kind == NULLABLE:
            return f"{self.column} was NOT NULL and has nulls"
        return f"{self.column} {self.after or self.before} {self.kind}"


def to_ddl(schema: StructType) -> str:
    """The schema as people write it: `carrier STRING NOT NULL, delay DOUBLE`."""
    return ", ".join(f"{_quoted(field.name)} {_type(field.dataType)}{_not_null(field)}" for field in schema.fields)


def from_ddl(ddl: str, where: str = "") -> StructType:
    """The schema that was written down, or BadDefinition."""
    return _parsed(ddl, where)


@lru_cache(maxsize=512)
def _parsed(ddl: str, where: str) -> StructType:
    try:
        schema = DataType.fromDDL(ddl)
    except PySparkException as problem:
        reason = next(iter(str(problem).strip().splitlines()), "")
        raise BadDefinition(f"{where or 'schema'}: {shown(ddl)} is not a schema: {reason}") from None
    if not isinstance(schema, StructType):
        raise BadDefinition(
            f"{where or 'schema'}: {shown(ddl)} names no columns", hint="Write it like this: a string, b double"
        )
    return schema


def differences(expected: StructType, actual: StructType, *, is_inferred: bool = False) -> list[Difference]:
    """What was added, dropped, renamed or retyped; the order of columns does not matter.

    A type that was only inferred may be narrower than the expected one: a day without fractions reads as whole numbers.
    """
    before = {field.name.lower(): field for field in expected.fields}
    after = {field.name.lower(): field for field in actual.fields}
    dropped = [field for name, field in before.items() if name not in after]
    added = [field for name, field in after.items() if name not in before]
    all_differences = list(_renamed(dropped, added))
    all_differences += [Difference(DROPPED, field.name, before=_type(field.dataType)) for field in dropped]
    all_differences += [Difference(ADDED, field.name, after=_type(field.dataType)) for field in added]
    for name, field in before.items():
        if name in after and not _same_type(field.dataType, after[name].dataType, is_inferred):
            types = _type(field.dataType), _type(after[name].dataType)
            all_differences.append(Difference(RETYPED, field.name, *types))
    return all_differences


def not_null_columns(schema: StructType) -> list[str]:
    """The columns that are declared NOT NULL."""
    return [field.name for field in schema.fields if not field.nullable]


def _renamed(dropped: list[StructField], added: list[StructField]) -> Iterator[Difference]:
    """One column gone and one of the same type come is most likely the same column: nobody can know, so it is asked."""
    for old in list(dropped):
        alike = [new for new in added if _same_type(old.dataType, new.dataType, False)]
        rivals = [other for other in dropped if _same_type(other.dataType, old.dataType, False)]
        if len(alike) == 1 and len(rivals) == 1:
            dropped.remove(old)
            added.remove(alike[0])
            yield Difference(RENAMED, old.name, _type(old.dataType), alike[0].name)


def _same_type(expected: DataType, actual: DataType, is_inferred: bool) -> bool:
    if is_inferred and (_fits(expected, actual) or isinstance(actual, NullType)):
        return True
    if isinstance(expected, StructType) and isinstance(actual, StructType):
        return not differences(expected, actual, is_inferred=is_inferred)
    if isinstance(expected, ArrayType) and isinstance(actual, ArrayType):
        return _same_type(expected.elementType, actual.elementType, is_inferred)
    if isinstance(expected, MapType) and isinstance(actual, MapType):
        return _same_type(expected.keyType, actual.keyType, is_inferred) and _same_type(
            expected.valueType, actual.valueType, is_inferred
        )
    return expected.simpleString() == actual.simpleString()


def _fits(expected: DataType, actual: DataType) -> bool:
    if isinstance(expected, StringType):
        return not isinstance(actual, (StructType, ArrayType, MapType))
    if isinstance(expected, _NUMBERS) and isinstance(actual, _NUMBERS):
        # The values decide whether they fit, and those that do not are counted when they are read.
        return isinstance(actual, _WHOLE) or not isinstance(expected, _WHOLE)
    if isinstance(expected, (TimestampType, TimestampNTZType)):
        return isinstance(actual, (DateType, TimestampType, TimestampNTZType))
    # JSON has no dates and no bytes: they come as text.
    return isinstance(actual, StringType) and isinstance(expected, DateType)


def _type(kind: DataType) -> str:
    if isinstance(kind, StructType):
        inner = ", ".join(f"{_quoted(field.name)}: {_type(field.dataType)}" for field in kind.fields)
        return f"STRUCT<{inner}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{_type(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{_type(kind.keyType)}, {_type(kind.valueType)}>"
    return kind.simpleString().upper() if "collate" not in kind.simpleString() else kind.simpleString()


def _not_null(field: StructField) -> str:
    return "" if field.nullable else " NOT NULL"


def _quoted(name: str) -> str:
    return name if _is_simple(name) else "`" + name.replace("`", "``") + "`"
