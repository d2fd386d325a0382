"""Define the types of dataids: their form and their order.

Forms are canonical: a chunk has exactly one spelling, so `20250101` or `007` are refused.
The dataid of a coarser time type is a prefix of the finer ones (2013, 2013-01, 2013-01-15, 2013-01-15T05); all rules
between time types follow from that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import NamedTuple

_NUMBER_DIGITS = 18  # fits a signed 64-bit integer of any database
_HOURS = {f"T{hour:02d}": hour for hour in range(24)}
_MONTHS = {f"-{month + 1:02d}": month for month in range(12)}
_BEGINNING = "0001-01-01T00:00:00"


class DataidType(NamedTuple):
    """A type of dataids; parse and sort_key raise ValueError, LookupError or TypeError for malformed ones."""

    name: str
    form: str
    parse: Callable[[str], int]
    format: Callable[[int], str]
    sort_key: Callable[[str], str]
    first: int = 0
    last: int = -1
    width: int = 0

    @property
    def is_ordinal(self) -> bool:
        """Whether its dataids have ordinals, and so a next one."""
        return self.last >= self.first

    @property
    def is_time(self) -> bool:
        """Whether its dataids are time periods."""
        return self.width > 0


def moment(dataid: str) -> str:
    """The begin of the period of a well-formed time dataid, as ISO text."""
    return dataid + _BEGINNING[len(dataid) :]


def _parse_day(dataid: str) -> int:
    day = date.fromisoformat(dataid)
    if day.isoformat() != dataid:
        raise ValueError(dataid)
    return day.toordinal()


def _format_day(ordinal: int) -> str:
    return date.fromordinal(ordinal).isoformat()


def _parse_hour(dataid: str) -> int:
    return _parse_day(dataid[:10]) * 24 + _HOURS[dataid[10:]]


def _format_hour(ordinal: int) -> str:
    return f"{_format_day(ordinal // 24)}T{ordinal % 24:02d}"


def _parse_year(dataid: str) -> int:
    if len(dataid) != 4 or not dataid.isascii() or not dataid.isdigit() or dataid == "0000":
        raise ValueError(dataid)
    return int(dataid)


def _format_year(ordinal: int) -> str:
    return f"{ordinal:04d}"


def _parse_month(dataid: str) -> int:
    return _parse_year(dataid[:4]) * 12 + _MONTHS[dataid[4:]]


def _format_month(ordinal: int) -> str:
    return f"{ordinal // 12:04d}-{ordinal % 12 + 1:02d}"


def _parse_number(dataid: str) -> int:
    if not dataid.isascii() or not dataid.isdigit() or len(dataid) > _NUMBER_DIGITS:
        raise ValueError(dataid)
    if dataid[0] == "0" and dataid != "0":
        raise ValueError(dataid)
    return int(dataid)


def _parse_shard(dataid: str) -> int:
    number = _parse_number(dataid)
    if number == 0:
        raise ValueError(dataid)
    return number


def _key_as_written(parse: Callable[[str], int]) -> Callable[[str], str]:
    def key(dataid: str) -> str:
        parse(dataid)
        return dataid

    return key


def _key_with_zeros(parse: Callable[[str], int]) -> Callable[[str], str]:
    def key(dataid: str) -> str:
        parse(dataid)
        return dataid.zfill(_NUMBER_DIGITS)

    return key


def _no_ordinal(dataid: str) -> int:
    raise ValueError(dataid)


def _no_format(ordinal: int) -> str:
    raise ValueError(ordinal)


def _number_key(run: re.Match[str]) -> str:
    digits = run[0].lstrip("0")
    length = len(digits)
    # Prefixed by the number of digits, so that longer numbers are greater. The prefix is itself a digit, so numbers
    # keep their ASCII position between "." and "=".
    return f"{length}{digits}" if length < 9 else f"9{length:03d}{digits}"


_replace_numbers = re.compile("[0-9]+").sub


def _natural_key(dataid: str) -> str:
    if not dataid.isascii():
        dataid = dataid.encode("unicode_escape").decode("ascii")
    # A space sorts before every character of an id: prefixes come first, and 01 differs from 1.
    return f"{_replace_numbers(_number_key, dataid)} {dataid}"


def _time(
    name: str, form: str, parse: Callable[[str], int], format: Callable[[int], str], first: str, last: str
) -> DataidType:
    return DataidType(name, form, parse, format, _key_as_written(parse), parse(first), parse(last), len(first))


def _numbers(name: str, form: str, parse: Callable[[str], int], first: int) -> DataidType:
    return DataidType(name, form, parse, str, _key_with_zeros(parse), first, 10**_NUMBER_DIGITS - 1)


TYPES: dict[str, DataidType] = {
    dataid_type.name: dataid_type
    for dataid_type in (
        _time("day", "2025-11-12", _parse_day, _format_day, "0001-01-01", "9999-12-31"),
        _time("hour", "2025-11-12T05", _parse_hour, _format_hour, "0001-01-01T00", "9999-12-31T23"),
        _time("month", "2025-11", _parse_month, _format_month, "0001-01", "9999-12"),
        _time("year", "2025", _parse_year, _format_year, "0001", "9999"),
        _numbers("number", "7, without zeros in front and with at most 18 digits", _parse_number, 0),
        _numbers("range", "7, counted from 1, without zeros in front", _parse_shard, 1),
        DataidType("text", "any id", _no_ordinal, _no_format, _natural_key),
    )
}
