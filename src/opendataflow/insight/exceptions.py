"""Exceptions: the chunks that a matrix names below its cells, by dataset and reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ..model import Partition, sort_key
from ..store import Chunk
from .absent import REFUSED, Absent
from .axis import DataidRange, ranges
from .seen import StoreViews

WARNED = "WARNED"  # READY, with a remark: rows were kept aside, or a check warned
_LISTED = 200

Span = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Exceptions:
    """The chunks of a dataset that are not READY for one reason, or READY with a remark, as ranges.

    more says that these are not all.
    """

    datasetid: str
    status: str
    n: int
    ranges: tuple[DataidRange, ...]
    more: bool


class RefusalReason(NamedTuple):
    """Why one chunk was refused, or the remark that it was published with."""

    datasetid: str
    dataid: str
    status: str
    why: str


def exceptional_chunks(
    store: StoreViews, partition: Partition, datasetid: str, status: str, n: int, span: Span
) -> Exceptions:
    """The chunks with one status, between two keys."""
    chunks = list(chunks_in(store, datasetid, *span, status=status, n=_LISTED))
    listed = ranges(partition, [chunk.dataid for chunk in chunks])
    return Exceptions(datasetid, status, n, tuple(listed), len(chunks) >= _LISTED)


def listed_chunks(partition: Partition, datasetid: str, status: str, dataids: Iterable[str]) -> Exceptions:
    """The chunks that are known by their dataids."""
    ordered = sorted(dataids, key=lambda dataid: sort_key(partition, dataid))
    listed = tuple(ranges(partition, ordered))
    return Exceptions(datasetid, status, len(ordered), listed[:_LISTED], len(listed) > _LISTED)


def reasons_of_refusals(known: Mapping[str, Absent]) -> list[RefusalReason]:
    """Why arrivals were refused, chunk by chunk."""
    return [
        RefusalReason(name, dataid, REFUSED, why)
        for name, each in known.items()
        for dataid, why in {**each.refused, **each.again}.items()
    ]


def remarks_on_chunks(store: StoreViews, spans: Mapping[str, Span]) -> list[RefusalReason]:
    """With which remark chunks of these datasets were published lately, in the order of the datasets."""
    found: dict[str, list[RefusalReason]] = {name: [] for name in spans}
    for chunk in store.remarked():
        own = f"{chunk.datasetid}: "
        low, high = spans.get(chunk.datasetid, ("", ""))
        if low <= chunk.sort_key <= high and own in chunk.remark:
            found[chunk.datasetid].append(
                RefusalReason(chunk.datasetid, chunk.dataid, WARNED, chunk.remark.partition(own)[2])
            )
    return [reason for some in found.values() for reason in some]


def chunks_in(
    store: StoreViews, datasetid: str, low: str, high: str, *, status: str | None = None, n: int = 1000
) -> Iterator[Chunk]:
    """At most n chunks of a dataset between two keys, in order."""
    after = Chunk(datasetid, "", "", "", None, 0, 0, None, 0, None, None, None, low)
    left = n
    while left > 0 and (page := store.chunks(datasetid, status=status, after=after, n=min(left, 10_000))):
        for chunk in page:
            if chunk.sort_key > high:
                return
            yield chunk
        left -= len(page)
        after = page[-1]
