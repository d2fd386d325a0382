"""Absent: chunks that are not there although something is known of them: they came and were refused, or are expected."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from ..errors import BadDataid, BadDefinition, BadId
from ..model import TYPES, Catalogue, DataidType, Dataset, Partition, from_ordinal, ordinal, sort_key
from ..model.calendar import period_at, zone_of
from ..model.deadline import parse_expected
from ..shapes import NamedTuple
from .axis import FIRST_KEY, LAST_KEY
from .seen import Seen

# Signs of the matrix, beside the statuses: a chunk without a row in the store has none.
REFUSED, MISSING = "REFUSED", "MISSING"
SIGNS = (REFUSED, MISSING)
_MOST_MISSING = 10_000  # the last of them


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


def absent(
    store: Seen, catalogue: Catalogue, windows: Mapping[str, tuple[str, str]], firsts: Mapping[str, str | None]
) -> dict[str, Absent]:
    """By dataset, what is known of its chunks that are not there, between two keys; `firsts` are the first that are."""
    refused: dict[str, dict[str, str]] = {}
    for event in store.refusals():
        name, dataid = event.datasetid or "", event.dataid or ""
        if name in windows and is_within(catalogue.datasets[name].partition, dataid, windows[name]):
            refused.setdefault(name, {})[dataid] = f"{event.after}: {event.why}"
    there = store.given_chunks([(name, dataid) for name, some in refused.items() for dataid in some])
    found = {}
    for name, window in windows.items():
        dataset = catalogue.datasets[name]
        key_of = {dataid: sort_key(dataset.partition, dataid) for dataid in refused.get(name, ())}
        ordered = {dataid: refused[name][dataid] for dataid in sorted(key_of, key=key_of.__getitem__)}
        gone = {dataid: why for dataid, why in ordered.items() if (name, dataid) not in there}
        again = {dataid: why for dataid, why in ordered.items() if (name, dataid) in there}
        first = firsts.get(name) or next(iter(gone), None)
        missing = [dataid for dataid in _missing(store, catalogue, dataset, first, window) if dataid not in gone]
        found[name] = Absent(gone, again, missing)
    return found


def is_within(partition: Partition, dataid: str, window: tuple[str, str]) -> bool:
    """Whether a dataid stands between two keys; one that is malformed stands nowhere."""
    try:
        return window[0] <= sort_key(partition, dataid) <= window[1]
    except (BadDataid, BadId):
        return False


def _missing(
    store: Seen, catalogue: Catalogue, dataset: Dataset, first: str | None, window: tuple[str, str]
) -> list[str]:
    partition = dataset.partition
    last = last_expected(catalogue, dataset, store.clock()) if "expected" in dataset.options else None
    begin = partition.start or first
    if last is None or begin is None:
        return []
    low = max(ordinal(partition, begin), last - _MOST_MISSING + 1)
    if low > last:
        return []
    keys = sort_key(partition, from_ordinal(partition, low)), sort_key(partition, from_ordinal(partition, last))
    there = {chunk.dataid for chunk in store.chunks_between(dataset.datasetid, *keys, _MOST_MISSING + 1)}
    dataids = (from_ordinal(partition, number) for number in range(low, last + 1))
    return [dataid for dataid in dataids if dataid not in there and is_within(partition, dataid, window)]


def last_expected(catalogue: Catalogue, dataset: Dataset, now: float) -> int | None:
    """The last period that should be there by now, as its number; None for a dataset that expects nothing."""
    rule, partition = dataset.options.get("expected"), dataset.partition
    dataid_type = TYPES[partition.type]
    if not rule or not dataid_type.is_time:
        return None
    try:
        delay = parse_expected(rule)
    except BadDefinition:
        return None  # odf doctor names what somebody wrote there
    last = _period_at(catalogue, dataid_type, now - delay) - 1  # a period is over when the next one has begun
    return min(last, dataid_type.parse(partition.end)) if partition.end else last


def last_due(store: Seen, catalogue: Catalogue, dataset: Dataset) -> int | None:
    """The last period that can be missing by now, as its number; None where dataids are no times.

    Where nobody says when chunks are expected, today's can be, and what lies before the last one that came.
    """
    dataid_type = TYPES[dataset.partition.type]
    if not dataid_type.is_time:
        return None
    last = last_expected(catalogue, dataset, store.clock())
    if last is not None:
        return last
    (ends,) = store.ends_given([(dataset.datasetid, FIRST_KEY, LAST_KEY)])
    known = [ordinal(dataset.partition, ends.last_dataid)] if ends.last_dataid is not None else []
    return max([_period_at(catalogue, dataid_type, store.clock()), *known])


def _period_at(catalogue: Catalogue, dataid_type: DataidType, moment: float) -> int:
    """The number of the period of this moment, in the zone of the project."""
    return period_at(dataid_type, moment, zone_of(catalogue.datasets))


def count_within(keys: Sequence[str], low: str, high: str) -> int:
    """How many of these keys, in order, lie between two."""
    return bisect_right(keys, high) - bisect_left(keys, low)
