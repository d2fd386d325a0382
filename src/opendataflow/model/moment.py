"""Parse moments: 2026-11-14, 2026-11-14T03:00, 03:00, 2h ago, yesterday."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta, tzinfo

from ..errors import BadDefinition, BadTime
from .definitions.ids import shown
from .duration import PATTERN, seconds

_is_day = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}").fullmatch
_is_time = re.compile(r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?").fullmatch
_is_moment = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ].+").fullmatch
_is_labelled_time = re.compile(r"([0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?) ([A-Z]\w*|[+-][0-9]+)").fullmatch
_is_day_zone_time = re.compile(r"([0-9-]{10}) ([A-Z]\w*|[+-][0-9]+) ([0-9:]{5,8})").fullmatch
_is_ago = re.compile(PATTERN).fullmatch
_ends_in_seconds = re.compile(r"(?:^|[T ])[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?![.,0-9])").search
_UTC = " UTC"
_DAYS = {"today": 0, "yesterday": 1}
# Closer to the limits of the calendar, a moment may not exist in another time zone.
_FIRST = datetime.min.replace(tzinfo=UTC) + timedelta(days=1)
_LAST = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)
_REST_OF_SECOND = timedelta(microseconds=999_999)
_printed_in: tzinfo | None = None  # None: the zone of this machine


def parse_moment(text: str, now: datetime, zone: tzinfo, *, end: bool = False) -> datetime:
    """The moment in this time zone; BadTime if the text is malformed.

    A day or a second means its beginning, or with `end` its end.
    """
    word = text.strip() if isinstance(text, str) else ""
    try:
        moment = _parse(word, now, zone, end)
        if moment is not None and _FIRST <= moment.astimezone(UTC) <= _LAST:
            return _end_of_second(word, moment) if end else moment
    except (ValueError, OverflowError, BadDefinition):
        pass
    raise BadTime(
        f"{shown(text)} is not a time",
        hint="Write for instance 2026-11-14, 2026-11-14T03:00, 03:00, 2h (ago), 3d, yesterday or now.",
    )


def parse_past(text: str, now: datetime, zone: tzinfo) -> datetime:
    """A past moment: a day means its beginning, a second its end, because events are shown without fractions."""
    moment = parse_moment(text, now, zone)
    if moment > now:
        raise BadTime(f"{text} is in the future", hint="To see the current state, leave the time out.")
    return min(_end_of_second(text, moment), now)


def _end_of_second(text: str, moment: datetime) -> datetime:
    return moment + _REST_OF_SECOND if _ends_in_seconds(text) else moment


def print_in(zone: tzinfo) -> None:
    """Print moments in this zone from now on, in the whole process: that of the project."""
    global _printed_in
    _printed_in = zone


def written(moment: datetime) -> str:
    """A moment in the project's time zone with its offset, as parse_moment reads it."""
    here = moment.astimezone(_printed_in)
    return here.isoformat(" ", "seconds").replace("+00:00", _UTC)


def moved(moment: datetime, by: timedelta) -> datetime:
    """A moment plus a positive or negative delta, clamped to the calendar."""
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
        # A future time of day means the day before: 22:00 at night is the last evening.
        return today if today <= here else datetime.combine(here.date() - timedelta(days=1), today.time(), zone)
    if (parts := _is_labelled_time(word)) is not None:
        meant = _parse(parts[1], now, zone, end)
        return meant if meant is not None and meant.tzname() == parts[2] else None
    if (parts := _is_day_zone_time(word)) is not None:
        return _labelled(f"{parts[1]} {parts[3]} {parts[2]}", zone, end)
    if (labelled := _labelled(word, zone, end)) is not None:
        return labelled
    if _is_day(word):
        return _edge(datetime.fromisoformat(word), zone, end)
    if _is_moment(word):
        named = datetime.fromisoformat(word.replace(_UTC, "+00:00"))
        return named if named.tzinfo else named.replace(tzinfo=zone)
    return None


def _labelled(word: str, zone: tzinfo, end: bool) -> datetime | None:
    """A moment or day with the short name of this zone, which distinguishes the two of a repeated hour: 01:30 EST."""
    text, _, label = word.rpartition(" ")
    if not (_is_moment(text) or _is_day(text)):
        return None
    named = datetime.fromisoformat(text)
    if named.tzinfo is not None:
        return None
    # On a day with a clock change, the zone has two names, as in the headings of its events.
    hours = (0, 23) if _is_day(text) else (named.hour,)
    all_of = (named.replace(hour=hour, tzinfo=zone, fold=fold) for hour in hours for fold in (0, 1))
    meant = next((each for each in all_of if each.tzname() == label), None)
    return _edge(meant, zone, end) if meant is not None and _is_day(text) else meant


def _edge(moment: datetime, zone: tzinfo, end: bool) -> datetime:
    day = moment.date() + timedelta(days=1) if end else moment.date()
    return datetime.combine(day, time(), zone)
