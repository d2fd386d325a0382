"""Late: chunks that should be READY by now, each with the chain that holds it up and when it can be expected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from ..errors import BadDataid, BadDefinition, BadId
from ..model import READY, TYPES, Catalogue, Dataset, Partition, from_ordinal, ordinal, sort_key
from ..model.definitions.calendar import calendar_filter, zone_of
from ..model.definitions.deadline import Deadline, due, parse_deadline, parse_expected
from ..store import Store
from .absent import LOOK_BACK, MISSING, REFUSED
from .axis import FIRST_KEY, LAST_KEY
from .holdup import Holdup, HoldupStep, left_of
from .seen import StoreViews

LATE = "LATE"  # a sign of the matrix, beside MISSING and REFUSED
_MOST = 1000  # chunks that are listed


@dataclass(frozen=True, slots=True)
class Late:
    """One chunk that is not READY although it is due: LATE where a deadline has passed, MISSING or REFUSED where it is not
    there and either comes from outside or has no deadline.

    chain begins with what holds it up and ends with the chunk itself. seconds_left is how long the jobs of the chain
    usually take; expected is the end of that, where the first of them runs or can run now.
    """

    datasetid: str
    dataid: str
    sign: str
    status: str | None
    due: datetime
    seconds_late: float
    chain: tuple[HoldupStep, ...] = ()
    seconds_left: float | None = None
    expected: datetime | None = None

    @property
    def root(self) -> HoldupStep:
        """What holds it up, in the end."""
        return self.chain[0]


@dataclass(frozen=True, slots=True)
class Lateness:
    """The late chunks; how many datasets declare when theirs are due, how far back was looked, and whether there are more."""

    late: tuple[Late, ...]
    datasets: int
    look_back: int
    more: bool


@dataclass(frozen=True, slots=True)
class _Rule:
    """When chunks of a dataset are due; only_missing: no deadline is declared, only that they are expected."""

    deadline: Deadline
    only_missing: bool
    is_expected: bool


def deadline_of(dataset: Dataset) -> Deadline | None:
    """The deadline that a dataset declares, if it declares one that makes sense."""
    rule = dataset.options.get("deadline")
    if not rule or not TYPES[dataset.partition.type].is_time:
        return None
    try:
        return parse_deadline(rule)
    except BadDefinition:
        return None  # written by SQL: the project file takes no such deadline


def due_of(catalogue: Catalogue, datasetid: str, dataid: str) -> datetime | None:
    """When a chunk has to be READY; None where its dataset has no deadline."""
    dataset = catalogue.datasets.get(datasetid)
    deadline = deadline_of(dataset) if dataset is not None else None
    if dataset is None or deadline is None:
        return None
    return _due(dataset.partition, dataid, deadline, zone_of(catalogue.datasets))


def _due(partition: Partition, dataid: str, deadline: Deadline, zone: tzinfo) -> datetime | None:
    try:
        sort_key(partition, dataid)
    except (BadDataid, BadId):
        return None  # written by SQL
    return due(partition, dataid, deadline, zone)


def is_declared(catalogue: Catalogue) -> bool:
    """Whether any dataset declares a deadline."""
    return any("deadline" in dataset.options for dataset in catalogue.datasets.values())


def late(
    store: Store,
    wanted: Callable[[str, str, str | None], bool] = lambda datasetid, dataid, status: True,
    *,
    chains: bool = True,
    only_deadlines: bool = False,
    named: Sequence[str] = (),
    most: int = _MOST,
) -> Lateness:
    """What is late or missing now, the longest overdue first.

    wanted says of a chunk and its status whether it is asked for, named which datasets are. Only chunks that are not READY
    are read, and of those that were never there only the last LOOK_BACK periods of a dataset are looked at.
    """
    catalogue, zone = store.catalogue(), zone_of(store.catalogue().datasets)
    now = datetime.fromtimestamp(store.views.clock(), UTC)
    rules = {
        name: rule
        for name, dataset in catalogue.datasets.items()
        if (not named or name in named)
        and (rule := _rule(dataset)) is not None
        and not (only_deadlines and rule.only_missing)
    }
    found: list[Late] = []
    more = False
    spans: dict[str, tuple[str, str]] = {}
    for name, rule in rules.items():
        last = _last_due(catalogue.datasets[name].partition, rule.deadline, zone, now)
        if last is not None:
            spans[name] = FIRST_KEY, sort_key(catalogue.datasets[name].partition, last)
    with_deadline = {name: span for name, span in spans.items() if not rules[name].only_missing}
    unsettled = store.views.unsettled_between([(name, *span) for name, span in with_deadline.items()], most + 1)
    more = len(unsettled) > most
    statuses = {(name, dataid): status for name, dataid, status in unsettled[:most]}
    absent = [chunk for name, (_, high) in spans.items() for chunk in _never_there(store, catalogue, name, rules, high)]
    # What came and was refused is not missing: it was delivered.
    refused = {(event.datasetid, event.dataid) for event in store.views.refusals()} if absent else set()
    for chunk in [*statuses, *absent]:
        name, dataid = chunk
        status = statuses.get(chunk)
        moment = _due(catalogue.datasets[name].partition, dataid, rules[name].deadline, zone)
        if moment is not None and wanted(name, dataid, status):
            is_absent = status is None and (rules[name].only_missing or catalogue.producer_id(name) is None)
            sign = LATE if not is_absent else REFUSED if chunk in refused else MISSING
            found.append(Late(name, dataid, sign, status, moment, (now - moment).total_seconds()))
    found.sort(key=lambda each: (each.due, each.datasetid, each.dataid))
    more = more or len(found) > most
    found = found[:most]
    if chains and found:
        held = Holdup(store, catalogue)
        found = [_with_chain(held, each, now) for each in found]
    return Lateness(tuple(found), len(rules), LOOK_BACK, more)


def _rule(dataset: Dataset) -> _Rule | None:
    if not TYPES[dataset.partition.type].is_time:
        return None
    expected = dataset.options.get("expected")
    deadline = deadline_of(dataset)
    if deadline is not None:
        return _Rule(deadline, only_missing=False, is_expected=expected is not False)
    if not expected:
        return None
    try:
        return _Rule(Deadline(after=parse_expected(expected)), True, True)
    except BadDefinition:
        return None


def _last_due(partition: Partition, deadline: Deadline, zone: tzinfo, now: datetime) -> str | None:
    """The last period whose chunk is due by now."""
    dataid_type = TYPES[partition.type]
    begin = (now - timedelta(seconds=deadline.after)).astimezone(zone)
    number = dataid_type.parse(begin.strftime("%Y-%m-%dT%H").zfill(13)[: dataid_type.width])
    if partition.end:
        number = min(number, ordinal(partition, partition.end))
    while number >= dataid_type.first:
        moment = due(partition, dataid_type.format(number), deadline, zone)
        if moment is not None and moment <= now:
            return dataid_type.format(number)
        number -= 1
    return None


def _never_there(
    store: Store, catalogue: Catalogue, name: str, rules: dict[str, _Rule], high: str
) -> Iterator[tuple[str, str]]:
    """The expected chunks of a dataset that have no row, among the last periods that are due."""
    partition = catalogue.datasets[name].partition
    if not rules[name].is_expected:
        return
    begin = partition.start or _first(store.views, name)
    if begin is None:
        return
    last = ordinal(partition, high)
    low = max(ordinal(partition, begin), last - LOOK_BACK + 1)
    if low > last:
        return
    there = {
        chunk.dataid for chunk in store.views.chunks_between(name, from_ordinal(partition, low), high, LOOK_BACK + 1)
    }
    periods = filter(
        calendar_filter(catalogue, name), (from_ordinal(partition, number) for number in range(low, last + 1))
    )
    yield from ((name, dataid) for dataid in periods if dataid not in there)


def _first(store: StoreViews, name: str) -> str | None:
    (ends,) = store.ends_given([(name, FIRST_KEY, LAST_KEY)])
    return ends.first_dataid


def _with_chain(held: Holdup, each: Late, now: datetime) -> Late:
    chain: Sequence[HoldupStep] = held.chain(each.datasetid, each.dataid)
    left = left_of(chain)
    expected = now + timedelta(seconds=left) if left is not None and chain[0].goes_on else None
    return Late(
        *(each.datasetid, each.dataid, each.sign, each.status, each.due, each.seconds_late),
        tuple(chain),
        left,
        expected,
    )


def missed(store: StoreViews, catalogue: Catalogue, datasetid: str, dataid: str, status: str | None) -> datetime | None:
    """The deadline that a chunk of this status has missed by now; None for one that is READY, not due or not expected."""
    moment = due_of(catalogue, datasetid, dataid) if status != READY else None
    if moment is None or moment.timestamp() > store.clock():
        return None
    return moment if status is not None or _is_expected(store, catalogue, datasetid, dataid) else None


def _is_expected(store: StoreViews, catalogue: Catalogue, name: str, dataid: str) -> bool:
    """Whether a chunk that was never there lies among those that late() looks for, however long ago."""
    partition, rule = catalogue.datasets[name].partition, _rule(catalogue.datasets[name])
    begin = partition.start or _first(store, name)
    if rule is None or not rule.is_expected or begin is None:
        return False
    number, end = ordinal(partition, dataid), partition.end
    is_within = ordinal(partition, begin) <= number and (not end or number <= ordinal(partition, end))
    return is_within and calendar_filter(catalogue, name)(dataid)


def deadlines_missed(store: Store, named: Sequence[str] = ()) -> Lateness | None:
    """What of these datasets, or of all, missed its deadline; None where no deadline is declared."""
    if not is_declared(store.catalogue()):
        return None
    return late(store, named=named, chains=False, only_deadlines=True)
