"""Fingerprint: a number that is the same for the same rows in whatever order, and cheap enough to take always."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from .columns import quoted

XOR, SUM = "fingerprint_xor", "fingerprint_sum"
_FORM = "odf1"

# Bits of each hash that are summed: 2^39 rows cannot overflow a long.
SUMMED_BITS = 24


def row_hash(schema: StructType) -> Column:
    """One number for a row; the order of columns does not matter."""
    return F.expr(_hash(schema))


def fingerprint_metrics(schema: StructType) -> dict[str, Column]:
    """What is observed of the hashes: their xor, and a sum because equal rows cancel out in the xor.

    Spark computes a hash once for both. In a column of its own, which somebody has to drop, every row would be copied.
    They are said in SQL, since a column that is put together call by call asks Java a dozen times for each.
    """
    number = _hash(schema)
    return {
        XOR: F.expr(f"bit_xor({number})"),
        SUM: F.expr(f"sum(shiftrightunsigned({number}, {64 - SUMMED_BITS}))"),
    }


def fingerprint_of(figures: Mapping[str, object], rows: int) -> str | None:
    """The fingerprint from what was observed; None for an empty chunk, since all of those are alike."""
    xor, total = figures.get(XOR), figures.get(SUM)
    if rows == 0 or not isinstance(xor, int) or not isinstance(total, int):
        return None
    return f"{_FORM}:{rows:x}:{xor & (2**64 - 1):016x}:{total:x}"


def _hash(schema: StructType) -> str:
    fields = sorted(schema.fields, key=lambda field: field.name.lower())
    return f"xxhash64({', '.join(_hashable(quoted(field.name), field.dataType) for field in fields)})"


def _hashable(value: str, kind: DataType) -> str:
    """Spark does not hash maps, whose entries have no order, nor variants."""
    if isinstance(kind, MapType) and not has_no_order(kind.keyType) and not has_no_order(kind.valueType):
        return f"array_sort(map_entries({value}))"
    return f"to_json(struct({value}))" if has_no_order(kind) else value


def has_no_order(kind: DataType) -> bool:
    """Whether values of a type, or of one inside it, can be neither compared nor hashed by Spark: maps and variants."""
    if isinstance(kind, StructType):
        return any(has_no_order(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return has_no_order(kind.elementType)
    return isinstance(kind, (MapType, VariantType))
