"""An axis: the dataids from the first to the last, each alone where they fit, else in periods that people know."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import BadDataid
from ..model import TYPES, DataidType, Partition, sort_key

LAST_KEY = "\x7f"  # comes after every key of a dataid
FIRST_KEY = " "  # comes before every key of a dataid, and after the empty one of a malformed dataid


@dataclass(frozen=True, slots=True)
class AxisColumn:
    """One or several dataids that follow one another."""

    label: str
    first: str
    last: str
    size: int


class Axis(NamedTuple):
    """The columns of one partition type, and what each of them stands for."""

    columns: tuple[AxisColumn, ...]
    each: str

    @property
    def is_single(self) -> bool:
        """Whether every column is one dataid."""
        return all(column.size == 1 for column in self.columns)


def axis(type_name: str, low: int, high: int, width: int) -> Axis:
    """The ordinals from low to high in at most `width` columns."""
    dataid_type = TYPES[type_name]
    if high - low < width:
        return Axis(tuple(_single(dataid_type.format(n)) for n in range(low, high + 1)), f"one {type_name}")
    coarser = [period for period in TYPES.values() if 0 < period.width < dataid_type.width]
    for period in sorted(coarser, key=lambda period: -period.width):
        if _periods(dataid_type, period, low, high) <= width:
            return Axis(tuple(_by_period(dataid_type, period, low, high)), f"one {period.name}")
    step = _nice_step(high - low + 1, width)
    return Axis(tuple(_by_step(dataid_type, low, high, step)), f"{step:,} {type_name}s")


def _single(dataid: str) -> AxisColumn:
    return AxisColumn(dataid, dataid, dataid, 1)


def single_columns(dataids: Iterable[str]) -> Axis:
    """An axis of dataids that are not numbered."""
    return Axis(tuple(map(_single, dataids)), "one dataid")


def _periods(fine: DataidType, coarse: DataidType, low: int, high: int) -> int:
    return coarse.parse(fine.format(high)[: coarse.width]) - coarse.parse(fine.format(low)[: coarse.width]) + 1


def _by_period(fine: DataidType, coarse: DataidType, low: int, high: int) -> Iterator[AxisColumn]:
    def period_of(number: int) -> str:
        return fine.format(number)[: coarse.width]

    while low <= high:
        period = period_of(low)
        size = bisect_right(range(low, high + 1), period, key=period_of)
        yield AxisColumn(period, fine.format(low), fine.format(low + size - 1), size)
        low += size


def _by_step(dataid_type: DataidType, low: int, high: int, step: int) -> Iterator[AxisColumn]:
    while low <= high:
        last = (
            min(high, (low // step + 1) * step - 1)
            if dataid_type.first == 0
            else min(high, ((low - 1) // step + 1) * step)
        )
        yield AxisColumn(dataid_type.format(low), dataid_type.format(low), dataid_type.format(last), last - low + 1)
        low = last + 1


def _nice_step(size: int, width: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50, … that makes at most `width` columns; the first and last may be cut."""
    unit = 1
    while True:
        for step in (unit, 2 * unit, 5 * unit):
            if size // step + 2 <= width:
                return step
        unit *= 10


def first_key(partition: Partition, dataid: str) -> str:
    """The first position in the order that belongs to this dataid or period; BadDataid when it is none of this type."""
    dataid_type = TYPES[partition.type]
    return sort_key(partition, dataid) if not dataid_type.is_time else _period(dataid_type, dataid)


def last_key(partition: Partition, dataid: str) -> str:
    """The last position in the order that belongs to this dataid or period."""
    dataid_type = TYPES[partition.type]
    return sort_key(partition, dataid) if not dataid_type.is_time else _period(dataid_type, dataid) + LAST_KEY


def _period(dataid_type: DataidType, dataid: str) -> str:
    for other in TYPES.values():
        if other.width and other.width == len(dataid):
            try:
                other.parse(dataid)
            except (ValueError, LookupError):
                break
            return dataid[: dataid_type.width]
    raise BadDataid(
        f"{dataid[:40]!r} is not a period of time", hint="For instance 2025, 2025-11, 2025-11-12 or 2025-11-12T05."
    )


class DataidRange(NamedTuple):
    """Dataids that follow one another, as people write them: 3, or 1..5."""

    first: str
    last: str

    def __str__(self) -> str:
        return self.first if self.first == self.last else f"{self.first}..{self.last}"


def ranges(partition: Partition, dataids: Iterable[str]) -> list[DataidRange]:
    """Dataids in order, as the ranges that they form."""
    dataid_type = TYPES[partition.type]
    formed: list[DataidRange] = []
    before: int | None = None
    for dataid in dataids:
        number = _number(dataid_type, dataid)
        if before is not None and number == before + 1:
            formed[-1] = formed[-1]._replace(last=dataid)
        else:
            formed.append(DataidRange(dataid, dataid))
        before = number
    return formed


def _number(dataid_type: DataidType, dataid: str) -> int | None:
    try:
        return dataid_type.parse(dataid)
    except (ValueError, LookupError, TypeError):
        return None
