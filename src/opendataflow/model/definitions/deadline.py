"""Compute deadlines of chunks: `06:00` is a time of day, `+2h` a duration after the end of the period."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

from ...errors import BadDefinition
from ..duration import seconds
from ..plain import within
from .dataid import TYPES, moment
from .ids import shown
from .partition import Partition

EXAMPLE = '"06:00" or "+2h"'
LONGEST = 366  # maximum days after the end of a period

_is_time = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])").fullmatch


class Deadline(NamedTuple):
    """A duration after the end of a period, or a minute of the day at or after that end."""

    after: float = 0.0
    minute: int | None = None


def parse_deadline(rule: object, where: str = "") -> Deadline:
    """Parse a deadline."""
    if isinstance(rule, str):
        if time := _is_time(rule):
            return Deadline(minute=int(time[1]) * 60 + int(time[2]))
        if rule.startswith("+"):
            return Deadline(after=_delay(rule[1:], where))
    raise BadDefinition(f"{within(where)}{shown(rule)} is not a deadline", hint=f"Write for instance {EXAMPLE}.")


def parse_expected(rule: object, where: str = "") -> float:
    """The seconds after the end of its period at which a chunk is expected; true is 0."""
    return 0.0 if rule is True else _delay(rule, where)


def _delay(rule: object, where: str) -> float:
    delay = seconds(rule, where)
    if delay > LONGEST * 86400:
        raise BadDefinition(
            f"{within(where)}{shown(rule)} is too long",
            hint=f"A chunk may come at most {LONGEST} days after its period.",
        )
    return delay


def end_of_period(partition: Partition, dataid: str, zone: tzinfo) -> datetime:
    """The end of the period of a time dataid in a time zone: the begin of the next period."""
    dataid_type = TYPES[partition.type]
    following = dataid_type.parse(dataid) + 1
    if following > dataid_type.last:
        return datetime.max.replace(tzinfo=UTC)
    return _at(datetime.fromisoformat(moment(dataid_type.format(following))), zone)


def due(partition: Partition, dataid: str, deadline: Deadline, zone: tzinfo) -> datetime | None:
    """The moment by which a chunk has to be READY; None in the first and last year of the calendar.

    A time of day is the first one at or after the end of the period: for a day, 06:00 of the next morning; for a month, of
    the first of the next month; for an hour, of the same or the next day. A time that a clock change skips counts as if
    the clock had not changed; of a repeated time, the first one counts.
    """
    try:
        moment = _due(partition, dataid, deadline, zone)
    except OverflowError:
        return None
    # A moment of these years may not exist in other time zones.
    return moment if datetime.min.year < moment.year < datetime.max.year else None


def _due(partition: Partition, dataid: str, deadline: Deadline, zone: tzinfo) -> datetime:
    end = end_of_period(partition, dataid, zone)
    if deadline.minute is None:
        return end + timedelta(seconds=deadline.after)
    local = end.astimezone(zone).replace(tzinfo=None)
    on_that_day = local.replace(hour=deadline.minute // 60, minute=deadline.minute % 60)
    first = _at(on_that_day, zone)
    return first if first >= end else _at(on_that_day + timedelta(days=1), zone)


def _at(local: datetime, zone: tzinfo) -> datetime:
    """The moment at which clocks of this zone show a time; the first one if the time is repeated."""
    return local.replace(tzinfo=zone, fold=0).astimezone(UTC)
