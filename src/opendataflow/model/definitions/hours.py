"""Parse the hours of a pool: its slots by time of the week, such as `Mon-Fri 08:00-18:00 -> 4`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache

from ...errors import BadDefinition
from ..plain import within
from .ids import shown

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EXAMPLE = "Mon-Fri 08:00-18:00 -> 4"

_MINUTES = 24 * 60
_HALF_HOUR = 1800
_DAY = r"(?:mon|tue|wed|thu|fri|sat|sun)"
_TIME = r"([01][0-9]|2[0-3]|[0-9]):([0-5][0-9])"
_DAYS = rf"{_DAY}(?:-{_DAY})?"
_WINDOW = rf"(?:({_DAYS}(?:, ?{_DAYS})*) +)?{_TIME} ?[-–] ?(?:{_TIME}|24:00) *(?:->|→) *([0-9]{{1,9}}|unlimited)"


@dataclass(frozen=True, slots=True)
class WeekWindow:
    """A part of the week with its number of slots: start and end in minutes, on the days on which it begins."""

    days: frozenset[int]
    start: int
    end: int
    slots: int | None

    def holds(self, weekday: int, minute: int) -> bool:
        """Whether a moment of the week is inside; a window may end on the next morning."""
        if self.start < self.end:
            return weekday in self.days and self.start <= minute < self.end
        return (weekday in self.days and minute >= self.start) or ((weekday - 1) % 7 in self.days and minute < self.end)


Hours = tuple[tuple[WeekWindow, ...], tzinfo]


def parse_window(text: object) -> WeekWindow:
    """Parse a window: days (default: all), hours, slots."""
    return _window(text if isinstance(text, str) else shown(text))


@lru_cache(1000)
def _window(text: str) -> WeekWindow:
    parts = re.fullmatch(_WINDOW, text.strip(), re.IGNORECASE)
    if parts is None:
        raise BadDefinition(f"{shown(text)} is not a valid schedule", hint=f"Write it like this: {EXAMPLE}")
    start = int(parts[2]) * 60 + int(parts[3])
    end = int(parts[4]) * 60 + int(parts[5]) if parts[4] else _MINUTES
    if start == end:
        raise BadDefinition(f"{shown(text)} is empty", hint="Write 00:00-24:00 for the whole day.")
    slots = None if parts[6].lower() == "unlimited" else int(parts[6])
    return WeekWindow(_days(parts[1] or "mon-sun"), start, end, slots)


def parse_days(text: object, where: str = "") -> frozenset[int]:
    """The weekdays of a text like "Mon-Fri" or "Mon, Wed", as numbers from Monday = 0."""
    if not isinstance(text, str) or not re.fullmatch(rf"{_DAYS}(?:, ?{_DAYS})*", text.strip(), re.IGNORECASE):
        raise BadDefinition(
            f"{within(where)}{shown(text)} is not a list of weekdays", hint="Write them like this: Mon-Fri"
        )
    return _days(text.strip())


def _days(text: str) -> frozenset[int]:
    days: set[int] = set()
    for part in text.lower().replace(" ", "").split(","):
        first, _, last = part.partition("-")
        begin, end = DAYS.index(first), DAYS.index(last or first)
        days |= {(begin + step) % 7 for step in range((end - begin) % 7 + 1)}
    return frozenset(days)


def slots_at(slots: int | None, windows: Iterable[WeekWindow], where: tzinfo, now: float) -> int | None:
    """The slots at a moment (seconds since 1970): those of the first window that contains it, otherwise the pool's own.

    A pool of 0 slots is paused at all hours.
    """
    if slots == 0:
        return 0
    local = datetime.fromtimestamp(now, where)
    weekday, minute = local.weekday(), local.hour * 60 + local.minute
    return next((window.slots for window in windows if window.holds(weekday, minute)), slots)


def next_change(
    slots: int | None, windows: Sequence[WeekWindow], where: tzinfo, now: float
) -> tuple[float, int | None] | None:
    """When the slots change next, and to how many; None if they do not change."""
    holds = slots_at(slots, windows, where, now)
    for moment in _moments(windows, where, now):
        after = slots_at(slots, windows, where, moment)
        if after != holds:
            return moment, after
    return None


def _moments(windows: Sequence[WeekWindow], where: tzinfo, now: float) -> list[float]:
    """Every moment of the next week at which the slots may change."""
    today = datetime.fromtimestamp(now, where).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    bounds = {minute for window in windows for minute in (window.start, window.end)}
    moments = {
        (today + timedelta(days=day, minutes=minute)).replace(tzinfo=where, fold=fold).timestamp()
        for day in range(9)
        for minute in bounds
        for fold in (0, 1)
    }
    # Clock changes skip or repeat an hour: they happen at full or half hours.
    first = int(now) // _HALF_HOUR + 1
    moments |= {float(_HALF_HOUR * (first + step)) for step in range(9 * 48)}
    return sorted(moment for moment in moments if moment > now)
