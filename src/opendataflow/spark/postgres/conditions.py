"""Conditions: which rows of a table a chunk is, and even parts of it for parallel reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from itertools import pairwise

from ...errors import BadDefinition
from ...model import TYPES, Partition
from ...model.definitions.dataid import moment
from ...model.definitions.ids import shown
from .columns import TEXTS, WHOLE, PostgresColumn
from .connection import Connection, identifier, literal

_TIMES = ("date", "timestamp", "timestamptz")
_NUMBERS = (*WHOLE, "numeric", "float4", "float8")
_INT8 = 2**63
_MICROSECOND = timedelta(microseconds=1)
_moment = re.compile(r"\d{4}-\d\d-\d\dT\d\d:00:00")
# How much of a moment names the period, and a step that leads into the next one.
_PERIODS = ((13, timedelta(hours=1)), (10, timedelta(days=1)), (7, timedelta(days=31)), (4, timedelta(days=366)))


def between(column: PostgresColumn, lower: str | None, upper: str | None) -> str:
    """The condition lower <= column < upper in the order of the column's type; true when there is no bound."""
    if lower is None and upper is None:
        return "true"
    number = _whole_period(lower, upper) if column.base in WHOLE else None
    if number is not None:
        return f"{identifier(column.name)} = {number}"
    value = _value(column, lower, upper)
    parts = []
    if lower is not None:
        parts.append(f"{value} >= {_bound(column, lower)}")
    if upper is not None:
        parts.append(f"{value} < {_bound(column, upper)}")
    return " and ".join(parts)


def equal(column: PostgresColumn, text: str) -> str:
    """The condition that the column is this value."""
    if column.base in _NUMBERS:
        return f"{identifier(column.name)} = {literal(str(_number(column, text)))}::{column.type}"
    return f"{identifier(column.name)} = {literal(text)}::{'text' if column.base in TEXTS else column.type}"


def of_chunk(
    columns: Sequence[PostgresColumn], partition: Partition, dataid: str, span: tuple[str, str] | None, *, whole: bool
) -> str:
    """The condition that a row belongs to the chunk; BadDefinition when nothing says so."""
    name = partition.column
    if name is None:
        if whole:
            return "true"
        raise BadDefinition(
            f"nothing says which rows belong to dataid {dataid}",
            hint='Declare replace = "table" if every chunk replaces the whole table. Otherwise name the column: '
            "partition = { type = …, column = … }",
        )
    column = next(column for column in columns if column.name == name)
    if column.base in WHOLE and TYPES[partition.type].is_time:
        return f"{identifier(name)} = {re.sub('[^0-9]', '', dataid)}"  # 2025-11-12 is 20251112
    if span is not None:
        return between(column, *span)
    if partition.type in ("text", "number"):
        return equal(column, dataid)
    raise BadDefinition(
        f"nothing says which rows belong to dataid {dataid} of type {partition.type}",
        hint="A range needs count, lower and upper.",
    )


def split(
    connection: Connection, column: PostgresColumn, lower: str | None, upper: str | None, parts: int
) -> list[str]:
    """Conditions that together are `between`, so that every row meets exactly one of them."""
    whole = between(column, lower, upper)
    if parts < 2 or column.is_array or column.base not in (*_NUMBERS, *_TIMES) or _whole_period(lower, upper):
        return [whole]
    low, high = lower, upper
    if low is None or high is None:
        name = identifier(column.name)
        query = f"select min({name})::text, max({name})::text from {connection.address.target} where {whole}"
        least, greatest = connection.row(query)
        low, high = low if low is not None else least, high if high is not None else greatest
    cuts = _cuts(column, low, high, parts) if low is not None and high is not None else []
    if not cuts:
        return [whole]
    if column.base in _NUMBERS and lower is not None and upper is not None:
        return [between(column, since, until) for since, until in pairwise([lower, *cuts, upper])]
    # The cuts part the whole line, nulls included, and each part is still bounded: a cut of a time may lie outside,
    # where bounds without a zone are the dataset's.
    name = identifier(column.name)
    first = f"({name} is null or {between(column, None, cuts[0])})"
    rest = [between(column, since, until) for since, until in zip(cuts, [*cuts[1:], None], strict=True)]
    return [f"{whole} and {part}" for part in (first, *rest)]


def _cuts(column: PostgresColumn, low: str, high: str, parts: int) -> list[str]:
    """Values that cut the range evenly, each greater than the one before; none when it cannot be cut."""
    try:
        if column.base in _NUMBERS:
            first, last = Decimal(low), Decimal(high)
            step = (last - first) / parts
            cuts = [first + step * i for i in range(1, parts)]
            if column.base in WHOLE:
                cuts = [cut.to_integral_value(ROUND_CEILING) for cut in cuts]
            texts = {format(cut, "f"): cut for cut in cuts if first < cut < last}
            return sorted(texts, key=texts.__getitem__)
        since, until = datetime.fromisoformat(low), datetime.fromisoformat(high)
        if column.base == "timestamptz":  # as instants, for the hours of a zone do not always come in order
            since, until = (end if end.tzinfo else end.replace(tzinfo=UTC) for end in (since, until))
        steps = (until - since) // _MICROSECOND
        cut_at = sorted({since + _MICROSECOND * (steps * i // parts) for i in range(1, parts)})
        if column.base == "date":
            cut_at = sorted({datetime.combine(cut.date(), datetime.min.time()) for cut in cut_at})
        return [cut.isoformat() for cut in cut_at if since < cut < until]
    except (ValueError, ArithmeticError, TypeError):
        return []


def _value(column: PostgresColumn, lower: str | None, upper: str | None) -> str:
    name = identifier(column.name)
    if column.base not in TEXTS or column.is_array:
        return name
    if any(bound and _moment.fullmatch(bound) and "T" in _prefix(bound) for bound in (lower, upper)):
        name = f"replace({name}::text, ' ', 'T')"  # 2025-11-12 05:30 lies in the hour 2025-11-12T05 too
    # Spark and Python order text by its bytes.
    return f'({name})::text collate "C"'


def _bound(column: PostgresColumn, text: str) -> str:
    if column.is_array:
        return f"{literal(text)}::{column.type}"
    if column.base in _NUMBERS:
        return _number_bound(column, text)
    if column.base in _TIMES:
        return _time_bound(column, text)
    if column.base in TEXTS:
        return f'{literal(_prefix(text))}::text collate "C"'
    return f"{literal(text)}::{column.type}"


def _number(column: PostgresColumn, text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise BadDefinition(
            f"the bound {shown(text)} is not a number, but column {column.name} is {column.type}",
            hint="Check that the type of the partition fits its column.",
        )
    return number


def _number_bound(column: PostgresColumn, text: str) -> str:
    number = _number(column, text)
    if column.base in WHOLE:
        # Above 4.2 begins with 5, and below 4.2 ends with 4: both say 5, and an index is used.
        whole = number.to_integral_value(ROUND_CEILING)
        return f"'{whole:f}'::{'int8' if -_INT8 <= whole < _INT8 else 'numeric'}"
    return f"'{number:f}'::{'numeric' if column.base == 'numeric' else 'float8'}"


def _time_bound(column: PostgresColumn, text: str) -> str:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise BadDefinition(
            f"the bound {shown(text)} is not a time, but column {column.name} is {column.type}",
            hint="Check that the type of the partition fits its column.",
        ) from None
    if when.tzinfo is not None and column.base != "timestamptz":
        raise BadDefinition(
            f"the bound {text} has a time zone, but column {column.name} is {column.type}",
            hint="Write the bounds without a time zone.",
        )
    if column.base == "timestamptz":
        return f"'{when.isoformat()}'::timestamptz"  # without a zone it is the connection's, the dataset's
    if column.base == "date" and when == datetime.combine(when.date(), datetime.min.time()):
        return f"'{when.date().isoformat()}'::date"
    return f"'{when.isoformat()}'::timestamp"


def _prefix(text: str) -> str:
    """A moment without the end that says nothing: below it in the order of text lies whatever lies before it in time,
    whether the column holds 2025, 2025-01, 2025-01-01 or 2025-01-01T00:00:00."""
    if not _moment.fullmatch(text):
        return text
    if not text.endswith("T00:00:00"):
        return text.removesuffix(":00:00")
    return text.removesuffix("T00:00:00").removesuffix("-01").removesuffix("-01")


def _whole_period(lower: str | None, upper: str | None) -> str | None:
    """The number that a column of whole numbers writes for a period: 2025, 202511, 20251112 or 2025111205."""
    if lower is None or upper is None or not (_moment.fullmatch(lower) and _moment.fullmatch(upper)):
        return None
    for width, step in _PERIODS:
        following = (datetime.fromisoformat(lower) + step).isoformat()[:width]
        if moment(lower[:width]) == lower and moment(following) == upper:
            return re.sub("[^0-9]", "", lower[:width])
    return None
