"""Calendar: datasets whose chunks the clock announces: `today`, and every period of a calendar when it is over."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, tzinfo
from typing import TYPE_CHECKING

from ..errors import BadDefinition
from ..shapes import NamedTuple
from .dataid import TYPES, DataidType
from .hours import parse_days
from .ids import shown
from .plain import within
from .timezone import time_zone

if TYPE_CHECKING:
    from .dataset import Dataset
    from .partition import Partition

EXAMPLES = 'true, or days like "Mon-Fri", or a table like { days = "Mon-Fri", without = ["2026-12-25"] }'
MOST = 1_000_000  # periods that one calendar may have
_KEYS = ("days", "only", "without")


class Calendar(NamedTuple):
    """Which periods count: those on these days of the week, or only the listed ones, without the ones that are left out."""

    days: frozenset[int]
    only: frozenset[str]
    without: frozenset[str]

    def has(self, dataid: str) -> bool:
        """Whether a period counts; an hour counts with its day."""
        day = dataid[:10]
        if {dataid, day} & self.without:
            return False
        if self.only:
            return bool({dataid, day} & self.only)
        return len(dataid) < len("2026-01-01") or date.fromisoformat(day).weekday() in self.days


def parse_calendar(rule: object, partition: Partition, where: str = "") -> Calendar | None:
    """The calendar that an option declares; None for false. BadDefinition where the partition has no periods or no start."""
    if rule is False:
        return None
    dataid_type = TYPES[partition.type]
    if not dataid_type.is_time or partition.start is None:
        raise BadDefinition(
            f"{within(where)}a calendar needs a partition of hours, days, months or years with a start",
            hint='Write it like this: partition = { type = "day", start = "2026-01-01" }',
        )
    given = {"days": rule} if isinstance(rule, str) else {} if rule is True else rule
    if not isinstance(given, Mapping) or not set(given) <= set(_KEYS):
        raise BadDefinition(f"{within(where)}{shown(rule)} is not a calendar", hint=f"It is {EXAMPLES}.")
    days = parse_days(given["days"], where) if "days" in given else frozenset(range(7))
    only, without = (_periods(given.get(key, ()), partition, where) for key in _KEYS[1:])
    return Calendar(days, only, without)


def _periods(listed: object, partition: Partition, where: str) -> frozenset[str]:
    """A list of dataids, or of the days of hours."""
    width = TYPES[partition.type].width
    if not isinstance(listed, (list, tuple)) or not all(isinstance(each, (str, date)) for each in listed):
        raise BadDefinition(f"{within(where)}{shown(listed)} is not a list of periods")
    texts = [each if isinstance(each, str) else each.isoformat() for each in listed]
    for text in texts:
        kinds = [kind for kind in TYPES.values() if kind.is_time and kind.width in (width, min(width, 10))]
        if not any(_is_of(kind, text) for kind in kinds):
            raise BadDefinition(f"{within(where)}{shown(text)} is not a {partition.type} of the calendar")
    return frozenset(texts)


def _is_of(dataid_type: DataidType, text: str) -> bool:
    try:
        return bool(dataid_type.parse(text)) or True
    except (ValueError, LookupError, TypeError, AttributeError):
        return False


def comes_by_clock(dataset: Dataset) -> bool:
    """Whether claims announce its chunks when their time has come."""
    return dataset.datasetid == "today" or bool(dataset.options.get("calendar"))


def zone_of(datasets: Mapping[str, Dataset]) -> tzinfo:
    """The time zone of the project, which `today` keeps."""
    name = datasets["today"].options.get("timezone", "UTC") if "today" in datasets else "UTC"
    return time_zone(str(name), "dataset today")


def period_at(dataid_type: DataidType, moment: float, zone: tzinfo) -> int:
    """The number of the period of a moment, in a time zone."""
    local = datetime.fromtimestamp(moment, zone)
    return dataid_type.parse(local.strftime("%Y-%m-%dT%H")[: dataid_type.width])


def due(dataset: Dataset, current: int, known: tuple[str | None, str | None]) -> list[str]:
    """The periods to announce in the current one: those that are over and lie outside the first and the last known one."""
    dataid_type, partition = TYPES[dataset.partition.type], dataset.partition
    calendar = parse_calendar(dataset.options.get("calendar", False), partition)
    if calendar is None:
        return [dataid_type.format(current)]  # of today, the day itself
    start = dataid_type.parse(partition.start or "")
    end = min(current - 1, dataid_type.parse(partition.end)) if partition.end else current - 1
    first, last = (None if each is None else dataid_type.parse(each) for each in known)
    missing = (
        range(start, end + 1) if first is None or last is None else (*range(start, first), *range(last + 1, end + 1))
    )
    if len(missing) > MOST:
        raise BadDefinition(
            f"dataset {dataset.datasetid}: its calendar has more than {MOST:,} periods to announce",
            hint="Let its partition start later.",
        )
    return [dataid for dataid in map(dataid_type.format, missing) if calendar.has(dataid)]
