"""Compute the chunks that are announced by clock: the current day of `today`, and the periods of calendars that are over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, tzinfo
from typing import TYPE_CHECKING, NamedTuple

from ...errors import BadDefinition, DataNotReady
from ..plain import within
from ..timezone import time_zone
from .dataid import TYPES, DataidType
from .hours import parse_days
from .ids import shown
from .mapping import is_same
from .partition import bounds

if TYPE_CHECKING:
    from .catalogue import Catalogue
    from .dataset import Dataset
    from .partition import Partition

EXAMPLES = 'true, or days like "Mon-Fri", or a table like { days = "Mon-Fri", without = ["2026-12-25"] }'
MOST = 1_000_000  # periods per calendar
_KEYS = ("days", "only", "without")


class Calendar(NamedTuple):
    """The included periods: those on weekdays, or only listed ones, without excluded ones."""

    days: frozenset[int]
    only: frozenset[str]
    without: frozenset[str]

    def has(self, dataid: str) -> bool:
        """Whether a period is included; an hour is included with its day."""
        day = dataid[:10]
        if {dataid, day} & self.without:
            return False
        if self.only:
            return bool({dataid, day} & self.only)
        return len(dataid) < len("2026-01-01") or date.fromisoformat(day).weekday() in self.days


def parse_calendar(rule: object, partition: Partition, where: str = "") -> Calendar | None:
    """The calendar that an option declares; None for false. BadDefinition if the partition has no periods or no start."""
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
        raise BadDefinition(f"{within(where)}{shown(rule)} is not a calendar", hint=f"Write {EXAMPLES}.")
    days = parse_days(given["days"], where) if "days" in given else frozenset(range(7))
    only, without = (_periods(given.get(key, ()), partition, where) for key in _KEYS[1:])
    return Calendar(days, only, without)


def _periods(listed: object, partition: Partition, where: str) -> frozenset[str]:
    """A list of dataids, or of days for a partition of hours."""
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
        dataid_type.parse(text)
    except (ValueError, LookupError, TypeError, AttributeError):
        return False
    return True


def comes_by_clock(dataset: Dataset) -> bool:
    """Whether claims announce its chunks by clock."""
    return dataset.datasetid == "today" or bool(dataset.options.get("calendar"))


def zone_of(datasets: Mapping[str, Dataset]) -> tzinfo:
    """The time zone of the project, an option of `today`."""
    name = datasets["today"].options.get("timezone", "UTC") if "today" in datasets else "UTC"
    return time_zone(str(name), "dataset today")


def period_at(dataid_type: DataidType, moment: float, zone: tzinfo) -> int:
    """The ordinal of the period of a moment, in a time zone."""
    local = datetime.fromtimestamp(moment, zone)
    return dataid_type.parse(local.strftime("%Y-%m-%dT%H")[: dataid_type.width])


def why_unannounced(dataset: Dataset, dataid: str, moment: float, zone: tzinfo) -> str:
    """Why the clock has not announced a chunk; empty if the dataset has no such chunk."""
    dataid_type, partition = TYPES[dataset.partition.type], dataset.partition
    if not comes_by_clock(dataset) or not _is_of(dataid_type, dataid):
        return ""
    number, current = dataid_type.parse(dataid), period_at(dataid_type, moment, zone)
    calendar = parse_calendar(dataset.options.get("calendar", False), partition)
    if calendar is None:
        return "the next attempt of a job that reads it announces it" if number == current else ""
    start, end = dataid_type.parse(partition.start or ""), dataid_type.parse(partition.end or dataid)
    if not (start <= number <= end and calendar.has(dataid)):
        return f"the calendar of {dataset.datasetid} leaves it out"
    return f"this {partition.type} is not over ({zone})" if number >= current else ""


def check_over(dataset: Dataset, dataids: Iterable[str], moment: float, zone: tzinfo) -> None:
    """DATA_NOT_READY for a period of a calendar that is not over: it is announced only afterwards."""
    if not dataset.options.get("calendar"):
        return
    dataid_type = TYPES[dataset.partition.type]
    current = period_at(dataid_type, moment, zone)
    for dataid in dataids:
        if dataid_type.parse(dataid) >= current:
            raise DataNotReady(
                f"{dataset.datasetid} {dataid}: this {dataset.partition.type} is not over ({zone})",
                hint="Announce it when it is over.",
            )


def calendar_filter(catalogue: Catalogue, datasetid: str) -> Callable[[str], bool]:
    """A predicate: whether all upstream calendars, by identity mappings, include a period."""
    calendars: list[tuple[Calendar, range, DataidType]] = []
    queue, visited = [datasetid], set[str]()
    while queue:
        name = queue.pop()
        dataset, job = catalogue.datasets[name], catalogue.producer(name)
        visited.add(name)
        calendar = parse_calendar(dataset.options.get("calendar", False), dataset.partition)
        if calendar is not None:
            first, last = bounds(dataset.partition)
            calendars.append((calendar, range(first, last + 1), TYPES[dataset.partition.type]))
        for item in job.inputs if job else ():
            read = catalogue.datasets[item.datasetid].partition
            if item.datasetid not in visited and is_same(item.mapping, read, dataset.partition):
                queue.append(item.datasetid)
    return lambda dataid: all(
        kind.parse(dataid) in periods and calendar.has(dataid) for calendar, periods, kind in calendars
    )


def periods_over(dataset: Dataset, current: int) -> range:
    """The ordinals of the periods to announce now: the current day for `today`, for a calendar all that are over since
    its start."""
    dataid_type, partition = TYPES[dataset.partition.type], dataset.partition
    if parse_calendar(dataset.options.get("calendar", False), partition) is None:
        return range(current, current + 1)
    end = min(current - 1, dataid_type.parse(partition.end)) if partition.end else current - 1
    return range(dataid_type.parse(partition.start or ""), end + 1)


def unannounced(dataset: Dataset, periods: range, known: tuple[str | None, str | None]) -> list[str]:
    """The dataids of these periods that the calendar includes and that are outside the first and last announced one."""
    dataid_type = TYPES[dataset.partition.type]
    first, last = (None if each is None else dataid_type.parse(each) for each in known)
    before, after = periods, range(0)
    if first is not None and last is not None:
        before, after = range(periods.start, first), range(last + 1, periods.stop)
    if len(before) + len(after) > MOST:
        raise BadDefinition(
            f"dataset {dataset.datasetid}: its calendar has more than {MOST:,} periods to announce",
            hint="Choose a later start in its partition.",
        )
    calendar = parse_calendar(dataset.options.get("calendar", False), dataset.partition)
    dataids = map(dataid_type.format, (*before, *after))
    return [dataid for dataid in dataids if calendar is None or calendar.has(dataid)]
