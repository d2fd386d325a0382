"""Split a key range from lower to upper into even shards."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from ..errors import BadDataid

_DAY = timedelta(days=1)
_MICROSECOND = timedelta(microseconds=1)


def _integer(text: str) -> int | None:
    try:
        return int(text) if text.isascii() else None
    except ValueError:
        return None


def _integers(lower: str | None, upper: str | None) -> tuple[int, int] | None:
    low, high = _integer(lower or ""), _integer(upper or "")
    return None if low is None or high is None else (low, high)


def _moments(lower: str | None, upper: str | None) -> tuple[datetime, datetime] | None:
    if _integer(lower or "") is not None or _integer(upper or "") is not None:
        return None
    try:
        low, high = datetime.fromisoformat(lower or ""), datetime.fromisoformat(upper or "")
    except ValueError:
        return None
    return (low, high) if (low.tzinfo is None) == (high.tzinfo is None) else None


def _is_day(text: str | None) -> bool:
    try:
        return date.fromisoformat(text or "").isoformat() == text
    except ValueError:
        return False


def is_backwards(lower: str | None, upper: str | None) -> bool:
    """Whether both bounds are valid and the range between them is empty."""
    integers, moments = _integers(lower, upper), _moments(lower, upper)
    if integers:
        return integers[0] >= integers[1]
    return moments is not None and moments[0] >= moments[1]


def shard(n: int, count: int | None, lower: str | None, upper: str | None) -> tuple[str, str] | None:
    """The n-th of `count` even parts as [lower, upper) in text; None if the bounds are neither numbers nor times.

    Dates are split between days, timestamps between microseconds.
    """
    if count is None:
        return None
    if not 1 <= n <= count:
        raise BadDataid(f"there is no shard {n} of {count}", hint=f"Its dataids go from 1 to {count}.")
    integers, moments = _integers(lower, upper), _moments(lower, upper)
    if integers:
        low, high = integers
        return str(low + (high - low) * (n - 1) // count), str(low + (high - low) * n // count)
    if moments is None:
        return None
    since, until = moments
    days = _is_day(lower) and _is_day(upper)
    unit = _DAY if days else _MICROSECOND
    steps = (until - since) // unit
    first, last = (since + unit * (steps * part // count) for part in (n - 1, n))
    if days:
        return first.date().isoformat(), last.date().isoformat()
    return first.isoformat(), last.isoformat()
