"""Absent: chunks that are not there although something is known of them: they came and were refused, or are expected."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..errors import BadDataid, BadDefinition, BadId
from ..model import TYPES, Catalogue, Dataset, Partition, from_ordinal, ordinal, sort_key
from ..model.definitions.calendar import calendar_filter, period_at, zone_of
from ..model.definitions.deadline import parse_expected
from ..store import Event
from .axis import FIRST_KEY, LAST_KEY
from .seen import StoreViews

# Signs of the matrix, beside the statuses: a chunk without a row in the store has none.
REFUSED, MISSING = "REFUSED", "MISSING"
SIGNS = (REFUSED, MISSING)
LOOK_BACK = 400  # periods of a dataset: what was never there before them is not looked for


class Absent(NamedTuple):
    """What is known of a dataset's chunks that are not there: why they were refused, by dataid, and which are missing.

    `again` are chunks that are there, and of which a later delivery was refused.
    """

    refused: Mapping[str, str]
    again: Mapping[str, str]
    missing: Sequence[str]

    def of(self, sign: str) -> Sequence[str]:
        """The dataids with this sign, in order."""
        return [*self.refused] if sign == REFUSED else self.missing


def absent(store: StoreViews, catalogue: Catalogue, windows: Mapping[str, tuple[str, str]]) -> dict[str, Absent]:
    """By dataset, what is known of its chunks that are not there, between two keys."""
    refused: dict[str, dict[str, str]] = {}
    refusals = [*refused_chunks(store, store.refusals())]
    for (name, dataid), _, event in refusals:
        if name in windows and is_within(catalogue.datasets[name].partition, dataid, windows[name]):
            refused.setdefault(name, {})[dataid] = f"{event.after}: {event.why}"
    there = {chunk for chunk, status, _ in refusals if status is not None}
    missing = missing_in(store, catalogue, windows)
    found = {}
    for name in windows:
        dataset = catalogue.datasets[name]
        key_of = {dataid: sort_key(dataset.partition, dataid) for dataid in refused.get(name, ())}
        ordered = {dataid: refused[name][dataid] for dataid in sorted(key_of, key=key_of.__getitem__)}
        gone = {dataid: why for dataid, why in ordered.items() if (name, dataid) not in there}
        again = {dataid: why for dataid, why in ordered.items() if (name, dataid) in there}
        found[name] = Absent(gone, again, [dataid for dataid in missing.get(name, ()) if dataid not in gone])
    return found


def refused_chunks(store: StoreViews, refusals: Sequence[Event]) -> Iterator[tuple[tuple[str, str], str | None, Event]]:
    """The chunk of each refusal, and its status; None where it has none."""
    chunks = [(event.datasetid or "", event.dataid or "") for event in refusals]
    statuses = store.given_chunks(chunks)
    return ((chunk, statuses.get(chunk), event) for chunk, event in zip(chunks, refusals, strict=True))


def is_within(partition: Partition, dataid: str, window: tuple[str, str]) -> bool:
    """Whether a dataid stands between two keys; one that is malformed stands nowhere."""
    try:
        return window[0] <= sort_key(partition, dataid) <= window[1]
    except (BadDataid, BadId):
        return False


def missing_in(store: StoreViews, catalogue: Catalogue, windows: Mapping[str, tuple[str, str]]) -> dict[str, list[str]]:
    """By dataset, the chunks without a row between two keys that should be there by now, in order.

    Every view uses this function, so that all of them look back equally far: LOOK_BACK periods from the end of the window, or now.
    """
    last_of = {name: last_expected(catalogue, catalogue.datasets[name], store.clock()) for name in windows}
    last_of = {name: last for name, last in last_of.items() if last is not None}
    ends = store.ends_given([(name, FIRST_KEY, LAST_KEY) for name in last_of])
    expected: dict[str, list[str]] = {}
    for (name, last), end in zip(last_of.items(), ends, strict=True):
        partition = catalogue.datasets[name].partition
        begin = partition.start or end.first_dataid
        if last is not None and begin is not None:
            periods = _last_periods(partition, range(ordinal(partition, begin), last + 1), windows[name])
            expected[name] = [*filter(calendar_filter(catalogue, name), periods)]
    partition_of = {name: catalogue.datasets[name].partition for name in expected}
    spans = [
        (name, sort_key(partition_of[name], some[0]), sort_key(partition_of[name], some[-1]))
        for name, some in expected.items()
        if some
    ]
    rows = store.chunks_within(spans, sum(map(len, expected.values())) + 1)
    there = {(row.datasetid, row.dataid) for row in rows}
    return {name: [dataid for dataid in some if (name, dataid) not in there] for name, some in expected.items()}


def _last_periods(partition: Partition, periods: range, window: tuple[str, str]) -> list[str]:
    """The last of these periods that lie between two keys."""

    def key(number: int) -> str:
        return sort_key(partition, from_ordinal(partition, number))

    within = periods[bisect_left(periods, window[0], key=key) : bisect_right(periods, window[1], key=key)]
    return [from_ordinal(partition, number) for number in within[-LOOK_BACK:]]


def last_expected(catalogue: Catalogue, dataset: Dataset, now: float) -> int | None:
    """The last period that should be there by now, as its number; None for a dataset that expects nothing."""
    rule, partition = dataset.options.get("expected"), dataset.partition
    dataid_type = TYPES[partition.type]
    if not rule or not dataid_type.is_time:
        return None
    try:
        delay = parse_expected(rule)
    except BadDefinition:
        return None  # odf doctor names what is wrong there
    # A period is over when the next one has begun.
    last = period_at(dataid_type, now - delay, zone_of(catalogue.datasets)) - 1
    return min(last, dataid_type.parse(partition.end)) if partition.end else last


def last_due(store: StoreViews, catalogue: Catalogue, dataset: Dataset) -> int | None:
    """The last period that can be missing by now, as its number; None where dataids are no times.

    Where a dataset does not declare when chunks are expected, today's can be, and what lies before the last one that came.
    """
    dataid_type = TYPES[dataset.partition.type]
    if not dataid_type.is_time:
        return None
    last = last_expected(catalogue, dataset, store.clock())
    if last is not None:
        return last
    (ends,) = store.ends_given([(dataset.datasetid, FIRST_KEY, LAST_KEY)])
    known = [ordinal(dataset.partition, ends.last_dataid)] if ends.last_dataid is not None else []
    return max([period_at(dataid_type, store.clock(), zone_of(catalogue.datasets)), *known])


def count_within(keys: Sequence[str], low: str, high: str) -> int:
    """How many of these keys, in order, lie between two."""
    return bisect_right(keys, high) - bisect_left(keys, low)
