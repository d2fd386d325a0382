"""Moments as people write them: 2026-11-14, 2026-11-14T03:00, 03:00, 2h ago, yesterday."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta, tzinfo

from ..errors import BadDefinition, BadTime
from .duration import PATTERN, seconds
from .ids import shown

_is_day = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}").fullmatch
_is_time = re.compile(r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?").fullmatch
_is_moment = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ].+").fullmatch
_is_ago = re.compile(PATTERN).fullmatch
_UTC = " UTC"
_DAYS = {"today": 0, "yesterday": 1}
# Nearer to the ends of the calendar, a moment of one zone may not exist in another.
_FIRST = datetime.min.replace(tzinfo=UTC) + timedelta(days=1)
_LAST = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)


def parse_moment(text: str, now: datetime, zone: tzinfo, *, end: bool = False) -> datetime:
    """The moment that is meant, in this zone; BadTime when it is none. A day is its beginning, or with `end` its end."""
    word = text.strip() if isinstance(text, str) else ""
    try:
        moment = _parse(word, now, zone, end)
        if moment is not None and _FIRST <= moment.astimezone(UTC) <= _LAST:
            return moment
    except (ValueError, OverflowError, BadDefinition):
        pass
    raise BadTime(
        f"{shown(text)} is not a time",
        hint="Write for instance 2026-11-14, 2026-11-14T03:00, 03:00, 2h (ago), 3d, yesterday or now.",
    )


def written(moment: datetime) -> str:
    """A moment in the reader's own time zone, with its offset, as parse_moment reads it back."""
    here = moment.astimezone()
    return here.isoformat(" ", "seconds").replace("+00:00", _UTC)


def moved(moment: datetime, by: timedelta) -> datetime:
    """The moment so much later, or earlier with less than nothing; it never leaves the calendar."""
    try:
        there = moment + by
        if _FIRST <= there <= _LAST:
            return there
    except OverflowError:
        pass
    return (_FIRST if by < timedelta() else _LAST).astimezone(moment.tzinfo)


def _parse(word: str, now: datetime, zone: tzinfo, end: bool) -> datetime | None:
    here = now.astimezone(zone)
    if word == "now":
        return here
    if word in _DAYS:
        return _edge(here - timedelta(days=_DAYS[word]), zone, end)
    if _is_ago(word.removesuffix(" ago")):
        return (now - timedelta(seconds=seconds(word.removesuffix(" ago")))).astimezone(zone)
    if _is_time(word):
        today = datetime.combine(here.date(), time.fromisoformat(word.zfill(5)), zone)
        # At night, 22:00 is the evening before.
        return today if today <= here else datetime.combine(here.date() - timedelta(days=1), today.time(), zone)
    if _is_day(word):
        return _edge(datetime.fromisoformat(word), zone, end)
    if _is_moment(word):
        named = datetime.fromisoformat(word.replace(_UTC, "+00:00"))
        return named if named.tzinfo else named.replace(tzinfo=zone)
    return None


def _edge(moment: datetime, zone: tzinfo, end: bool) -> datetime:
    day = moment.date() + timedelta(days=1) if end else moment.date()
    return datetime.combine(day, time(), zone)
