"""Compare bounds of half-open key ranges [lower, upper), find the bound after a key, and check ranges for gaps.

A kind says how keys compare as text: whole, decimal(s), float, double, date, timestamp (an instant, in UTC),
timestamp_ntz, text (by its bytes), char(n) or uuid.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from itertools import accumulate
from typing import Any, NamedTuple
from uuid import UUID

from ..errors import BadDefinition

GAP, OVERLAP, BACKWARDS = "gap", "overlap", "backwards"
LAST_DAY, LAST_MOMENT = "9999-12-31", "9999-12-31T23:59:59.999999"

_MICROSECOND = timedelta(microseconds=1)
# PostgreSQL text cannot contain NUL, so no stored key lies between a key and the same key followed by it.
_NEXT_CHARACTER = "\x01"


class Range(NamedTuple):
    """The keys that a chunk holds."""

    dataid: str
    lower: str
    upper: str


@dataclass(frozen=True, slots=True)
class Size:
    """The target size of chunks: their number, or rows or bytes of each; with none set, that of the existing chunks."""

    count: int | None = None
    rows: int | None = None
    bytes: int | None = None


EVEN = Size()


class Break(NamedTuple):
    """A gap or overlap between two ranges: the bounds, and the chunks before and after it."""

    what: str
    lower: str
    upper: str
    before: str
    after: str


def after(kind: str, key: str) -> str:
    """The bound just above a key: no other key of its type lies between them."""
    try:
        return _AFTER[kind.partition("(")[0]](key, kind)
    except (OverflowError, ValueError, InvalidOperation):
        raise BadDefinition(
            f"the greatest key {key!r} is the maximum of its type: no bound lies above it",
            hint="Change the key of that row, or shard by another column: --by COLUMN.",
        ) from None


def _after_whole(key: str, kind: str) -> str:
    return str(int(key) + 1)


def _number_in(kind: str) -> int:
    return int(kind.partition("(")[2].rstrip(")"))


def _after_decimal(key: str, kind: str) -> str:
    scale = _number_in(kind)
    text = format(Decimal(key) + Decimal(1).scaleb(-scale), "f")
    if sum(map(str.isdigit, text)) > 38:
        raise OverflowError(key)
    return text


def _after_double(key: str, kind: str) -> str:
    return _plain(math.nextafter(float(key), math.inf))


def _after_float(key: str, kind: str) -> str:
    bits = struct.unpack("<i", struct.pack("<f", float(key)))[0]
    step = 1 if bits >= 0 else -1
    bits = 1 if bits == -(2**31) else bits + step  # -0.0 has the same successor as 0.0
    return _plain(struct.unpack("<f", struct.pack("<i", bits))[0])


def _plain(number: float) -> str:
    if not math.isfinite(number):
        raise OverflowError(number)
    return format(Decimal(repr(number)), "f")


def _after_date(key: str, kind: str) -> str:
    # The bound after the maximum date is a later moment, which compares as greater than the date.
    return LAST_MOMENT if key == LAST_DAY else (datetime.fromisoformat(key) + timedelta(days=1)).date().isoformat()


def _after_moment(key: str, kind: str) -> str:
    return (datetime.fromisoformat(key) + _MICROSECOND).isoformat()


def _after_text(key: str, kind: str) -> str:
    return key + _NEXT_CHARACTER


def _after_char(key: str, kind: str) -> str:
    # PostgreSQL ignores trailing blanks when it compares, Spark does not.
    return key.ljust(_number_in(kind)) + _NEXT_CHARACTER


def _after_uuid(key: str, kind: str) -> str:
    return str(UUID(int=UUID(key).int + 1))


_AFTER: dict[str, Callable[[str, str], str]] = {
    "whole": _after_whole,
    "decimal": _after_decimal,
    "float": _after_float,
    "double": _after_double,
    "date": _after_date,
    "timestamp": _after_moment,
    "timestamp_ntz": _after_moment,
    "text": _after_text,
    "char": _after_char,
    "uuid": _after_uuid,
}


def even(rows: Sequence[int], parts: int) -> list[int]:
    """The first buckets of at most `parts` even chunks, given the number of rows in each bucket.

    Buckets are not split, so a bucket larger than a chunk means fewer chunks; no chunk begins at an empty bucket.
    """
    total = sum(rows)
    begins: list[int] = []
    last = -1
    for index, (before, own) in enumerate(zip((0, *accumulate(rows)), rows, strict=False)):
        chunk = before * parts // total if total else 0
        if own and chunk > last:
            begins.append(index if begins else 0)
            last = chunk
    return begins


def order_of(texts: Iterable[str]) -> Callable[[str], Any]:
    """The sort key of these bounds: numbers if all are numbers, moments if all are moments, otherwise bytes."""
    listed = list(texts)
    for read in (_number, _instant):
        try:
            for text in listed:
                read(text)
        except (ValueError, InvalidOperation):
            continue
        return read
    return str


def _number(text: str) -> Decimal:
    number = Decimal(text)
    if not number.is_finite():
        raise ValueError(text)
    return number


def _instant(text: str) -> datetime:
    when = datetime.fromisoformat(text)
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def order_by(kind: str) -> Callable[[str], Any]:
    """The sort key for bounds of this kind."""
    name = kind.partition("(")[0]
    if name in ("whole", "decimal", "float", "double"):
        return _number
    return _instant if name in ("date", "timestamp", "timestamp_ntz") else str


def ends(ranges: Sequence[Range]) -> tuple[str, str]:
    """The lowest lower and the highest upper bound."""
    order = order_of(bound for part in ranges for bound in part[1:])
    return min((part.lower for part in ranges), key=order), max((part.upper for part in ranges), key=order)


def breaks(ranges: Sequence[Range]) -> list[Break]:
    """Every gap and overlap between the ranges, in key order; empty if they cover the whole range exactly once."""
    order = order_of(bound for part in ranges for bound in part[1:])
    broken = []
    reach: Range | None = None
    for part in sorted(ranges, key=lambda part: (order(part.lower), order(part.upper))):
        if order(part.lower) >= order(part.upper):
            broken.append(Break(BACKWARDS, part.lower, part.upper, part.dataid, part.dataid))
            continue
        if reach is not None and order(part.lower) > order(reach.upper):
            broken.append(Break(GAP, reach.upper, part.lower, reach.dataid, part.dataid))
        elif reach is not None and order(part.lower) < order(reach.upper):
            upper = min(part.upper, reach.upper, key=order)
            broken.append(Break(OVERLAP, part.lower, upper, reach.dataid, part.dataid))
        if reach is None or order(part.upper) > order(reach.upper):
            reach = part
    return broken
