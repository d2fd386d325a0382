"""Deadlines: when a chunk has to be READY, by the end of its period. `06:00` is a time of day, `+2h` a time after the end."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

from ..errors import BadDefinition
from ..shapes import NamedTuple
from .dataid import TYPES, moment
from .duration import seconds
from .ids import shown
from .partition import Partition
from .plain import within

EXAMPLE = '"06:00" or "+2h"'
LONGEST = 366  # days after the end of a period: what comes later is waited for by nobody

_is_time = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])").fullmatch


class Deadline(NamedTuple):
    """How long after the end of its period a chunk may come; or up to which minute of the day, at or after that end."""

    after: float = 0.0
    minute: int | None = None


def parse_deadline(rule: object, where: str = "") -> Deadline:
    """The deadline that a text declares."""
    if isinstance(rule, str):
        if time := _is_time(rule):
            return Deadline(minute=int(time[1]) * 60 + int(time[2]))
        if rule.startswith("+"):
            return Deadline(after=_delay(rule[1:], where))
    raise BadDefinition(f"{within(where)}{shown(rule)} is not a deadline", hint=f"Write for instance {EXAMPLE}.")


def parse_expected(rule: object, where: str = "") -> float:
    """How many seconds after the end of its period a chunk is expected; true is at once."""
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
    """When the period of a time dataid is over, by the clocks of a time zone: when the next one begins."""
    dataid_type = TYPES[partition.type]
    following = dataid_type.parse(dataid) + 1
    if following > dataid_type.last:
        return datetime.max.replace(tzinfo=UTC)
    return _at(datetime.fromisoformat(moment(dataid_type.format(following))), zone)


def due(partition: Partition, dataid: str, deadline: Deadline, zone: tzinfo) -> datetime | None:
    """The moment by which a chunk has to be READY; None in the first and the last year of the calendar.

    A time of day is the first one at or after the end of the period: 06:00 is that of the next morning for a day, of the
    first of the next month for a month, and for an hour that of the same day, or of the next one where it has passed. A
    time that clocks skip in spring counts as if they had not been changed yet; of a time that comes twice in autumn, the
    first one counts.
    """
    try:
        moment = _due(partition, dataid, deadline, zone)
    except OverflowError:
        return None
    # A moment of these years may not exist in the zone of whoever wants to see it.
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
    """The moment at which clocks of this zone show this, the first one if they do so twice."""
    return local.replace(tzinfo=zone, fold=0).astimezone(UTC)
