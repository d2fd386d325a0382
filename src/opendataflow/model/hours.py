"""Hours: how many slots a pool has at which time of the week, as data. `Mon-Fri 08:00-18:00 -> 4`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache

from ..errors import BadDefinition
from ..shapes import dataclass
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
class Window:
    """A part of the week and the number of slots in it: from start up to end, in minutes, on the days it begins."""

    days: frozenset[int]
    start: int
    end: int
    slots: int | None

    def holds(self, weekday: int, minute: int) -> bool:
        """Whether a moment of the week lies inside; what begins in the evening may end the next morning."""
        if self.start < self.end:
            return weekday in self.days and self.start <= minute < self.end
        return (weekday in self.days and minute >= self.start) or ((weekday - 1) % 7 in self.days and minute < self.end)


Hours = tuple[tuple[Window, ...], tzinfo]


def parse_window(text: object) -> Window:
    """The window that a line declares: days (all of them when left out), hours, slots."""
    return _window(text if isinstance(text, str) else shown(text))


@lru_cache(1000)
def _window(text: str) -> Window:
    parts = re.fullmatch(_WINDOW, text.strip(), re.IGNORECASE)
    if parts is None:
        raise BadDefinition(f"{shown(text)} is not a valid schedule", hint=f"Write it like this: {EXAMPLE}")
    start = int(parts[2]) * 60 + int(parts[3])
    end = int(parts[4]) * 60 + int(parts[5]) if parts[4] else _MINUTES
    if start == end:
        raise BadDefinition(f"{shown(text)} ends where it begins", hint="The whole day is 00:00-24:00.")
    slots = None if parts[6].lower() == "unlimited" else int(parts[6])
    return Window(_days(parts[1] or "mon-sun"), start, end, slots)


def parse_days(text: object, where: str = "") -> frozenset[int]:
    """The days of the week that a text like "Mon-Fri" or "Mon, Wed" names, as numbers from Monday on."""
    if not isinstance(text, str) or not re.fullmatch(rf"{_DAYS}(?:, ?{_DAYS})*", text.strip(), re.IGNORECASE):
        before = f"{where}: " if where else ""
        raise BadDefinition(f"{before}{shown(text)} names no days of the week", hint="Write them like this: Mon-Fri")
    return _days(text.strip())


def _days(text: str) -> frozenset[int]:
    days: set[int] = set()
    for part in text.lower().replace(" ", "").split(","):
        first, _, last = part.partition("-")
        begin, end = DAYS.index(first), DAYS.index(last or first)
        days |= {(begin + step) % 7 for step in range((end - begin) % 7 + 1)}
    return frozenset(days)


def slots_at(slots: int | None, windows: Iterable[Window], where: tzinfo, now: float) -> int | None:
    """How many slots there are at a moment (seconds since 1970): by the first window that it lies in, else the pool's own.

    A pool of 0 slots is paused, whatever its hours say.
    """
    if slots == 0:
        return 0
    local = datetime.fromtimestamp(now, where)
    weekday, minute = local.weekday(), local.hour * 60 + local.minute
    return next((window.slots for window in windows if window.holds(weekday, minute)), slots)


def next_change(
    slots: int | None, windows: Sequence[Window], where: tzinfo, now: float
) -> tuple[float, int | None] | None:
    """When the slots change next, and to how many; None when they stay as they are."""
    holds = slots_at(slots, windows, where, now)
    for moment in _moments(windows, where, now):
        after = slots_at(slots, windows, where, moment)
        if after != holds:
            return moment, after
    return None


def _moments(windows: Sequence[Window], where: tzinfo, now: float) -> list[float]:
    """Every moment of the coming week at which something can change."""
    today = datetime.fromtimestamp(now, where).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    bounds = {minute for window in windows for minute in (window.start, window.end)}
    moments = {
        (today + timedelta(days=day, minutes=minute)).replace(tzinfo=where, fold=fold).timestamp()
        for day in range(9)
        for minute in bounds
        for fold in (0, 1)
    }
    # Where clocks are changed, an hour may be missing or come twice: that happens on a full or half hour.
    first = int(now) // _HALF_HOUR + 1
    moments |= {float(_HALF_HOUR * (first + step)) for step in range(9 * 48)}
    return sorted(moment for moment in moments if moment > now)
