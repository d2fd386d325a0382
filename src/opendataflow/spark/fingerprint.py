"""Fingerprint: a number that is the same for the same rows in whatever order, and cheap enough to compute always.

Spark's xxhash64 skips nulls and does not see where a list ends. The hash of a row therefore begins with a mask of its
nulls, and a list comes with its size and with a hash of each element. Names and types are hashed once for all rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType, VariantType

from .columns import quoted

# The sum of the hashes, cut into parts, since a long would overflow: 2^41 rows fit into each.
PARTS = ("fingerprint_low", "fingerprint_middle", "fingerprint_high")
_PART_BITS = 22
FORM = "odf2"

_MASK_BITS = 62  # columns whose nulls fit into one long


def row_hash(schema: StructType) -> Column:
    """One number for a row; the order of columns does not matter."""
    return F.expr(_row_hash(schema))


def in_parts(number: Any) -> list[Any]:
    """The parts of hashes without a sign that are summed: of a number, or of an array."""
    return [(number >> (place * _PART_BITS)) & ((1 << _PART_BITS) - 1) for place in range(len(PARTS))]


def fingerprint_metrics(schema: StructType) -> dict[str, Column]:
    """What is observed of the hashes: the parts of their sum. In a xor, rows that come twice would cancel out.

    Spark computes a hash once for all parts; a hash in a column of its own would have Spark copy every row.
    SQL text, since a column that is built call by call costs a dozen calls of Java.
    """
    number, mask = _row_hash(schema), (1 << _PART_BITS) - 1
    shifted = (f"shiftrightunsigned({number}, {place * _PART_BITS})" for place in range(len(PARTS)))
    return {name: F.expr(f"sum({each} & {mask}L)") for name, each in zip(PARTS, shifted, strict=True)}


def fingerprint_of(figures: Mapping[str, object], rows: int, schema: StructType) -> str | None:
    """The fingerprint from what was observed; None for an empty chunk, since all of those are alike."""
    parts = [part for part in map(figures.get, PARTS) if isinstance(part, int)]
    if rows == 0 or len(parts) < len(PARTS):
        return None
    total = sum(part << (place * _PART_BITS) for place, part in enumerate(parts))
    columns = hashlib.sha256(_type_text(schema).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{FORM}:{rows:x}:{total:x}:{columns}"


def _row_hash(schema: StructType) -> str:
    return _hash([(quoted(name), kind) for name, kind in _sorted_fields(schema)])


def _sorted_fields(kind: StructType) -> list[tuple[str, DataType]]:
    return sorted(((field.name, field.dataType) for field in kind.fields), key=lambda field: field[0])


def _hash(values: list[tuple[str, DataType]], depth: int = 0) -> str:
    """One number for values that stand together: a mask of those that are null, and then each of them."""
    parts = [*_null_masks([value for value, _ in values])] or ["0"]
    for value, kind in values:
        parts += _parts(value, kind, depth + 1)
    return f"xxhash64({', '.join(parts)})"


def _null_masks(values: list[str]) -> Iterator[str]:
    for start in range(0, len(values), _MASK_BITS):
        bits = (f"if(isnull({each}), {1 << n}L, 0L)" for n, each in enumerate(values[start : start + _MASK_BITS]))
        yield " | ".join(bits)


def _parts(value: str, kind: DataType, depth: int) -> Iterable[str]:
    """What Spark can hash of a value, so that other values have other parts, but for nulls."""
    element = f"x{depth}"
    if isinstance(kind, StructType):
        return [_hash([(_field(value, name), inner) for name, inner in _sorted_fields(kind)], depth)]
    if isinstance(kind, ArrayType):
        inner = _hash([(element, kind.elementType)], depth)
        return [f"array_size({value})", f"transform({value}, {element} -> {inner})"]
    if isinstance(kind, MapType):  # its entries have no order
        pair = [(_field(element, "key"), kind.keyType), (_field(element, "value"), kind.valueType)]
        entries = f"map_entries({value})"
        return [f"array_size({entries})", f"array_sort(transform({entries}, {element} -> {_hash(pair, depth)}))"]
    if isinstance(kind, VariantType):
        return [f"schema_of_variant({value})", f"to_json({value})"]
    if isinstance(kind, StringType) and kind.collation != "UTF8_BINARY":  # Spark hashes what such a text compares by
        return [f"collate({value}, 'UTF8_BINARY')"]
    return [value]


def _field(value: str, name: str) -> str:
    """A field of a struct; with a dot Spark would prefer a column of a table that has the name of the struct."""
    literal = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"{value}['{literal}']"


def _type_text(kind: DataType) -> str:
    """A type with the names in it, whatever their order; whether nulls are allowed does not count."""
    if isinstance(kind, StructType):
        fields = (f"{json.dumps(name)}:{_type_text(inner)}" for name, inner in _sorted_fields(kind))
        return f"struct<{','.join(fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{_type_text(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{_type_text(kind.keyType)},{_type_text(kind.valueType)}>"
    return kind.simpleString()
