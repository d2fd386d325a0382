"""Exceptions: the chunks that a matrix names below its cells, by dataset and reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..model import Partition, sort_key
from ..store import Chunk, Store
from .absent import REFUSED, Absent
from .axis import DataidRange, ranges

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
    why: str = ""  # of the last of them, where somebody said so


def exceptional_chunks(
    store: Store, partition: Partition, datasetid: str, status: str, n: int, span: Span
) -> Exceptions:
    """The chunks with one status, between two keys."""
    chunks = list(chunks_in(store, datasetid, *span, status=status, n=_LISTED))
    listed = ranges(partition, [chunk.dataid for chunk in chunks])
    return Exceptions(datasetid, status, n, tuple(listed), len(chunks) >= _LISTED)


def absent_chunks(partition: Partition, datasetid: str, sign: str, known: Absent) -> Exceptions:
    """The chunks that are not there, with why the last of them was refused."""
    whys = {**known.refused, **known.again} if sign == REFUSED else {}
    dataids = sorted(whys, key=lambda dataid: sort_key(partition, dataid)) if whys else known.of(sign)
    listed = ranges(partition, dataids[:_LISTED])
    why = whys[dataids[-1]] if whys else ""
    return Exceptions(datasetid, sign, len(dataids), tuple(listed), len(dataids) > _LISTED, why)


def warned_chunks(store: Store, spans: Mapping[str, tuple[Partition, Span]]) -> Iterator[Exceptions]:
    """The chunks of these datasets that were published lately with a remark, with that of the last one."""
    remarked: dict[str, dict[str, str]] = {}
    for chunk in store.remarked():
        own = f"{chunk.datasetid}: "
        low, high = spans[chunk.datasetid][1] if chunk.datasetid in spans else ("", "")
        if low <= chunk.sort_key <= high and own in chunk.remark:
            remarked.setdefault(chunk.datasetid, {}).setdefault(chunk.dataid, chunk.remark.partition(own)[2])
    for name, (partition, _) in spans.items():
        if some := remarked.get(name):
            dataids = sorted(some, key=lambda dataid, partition=partition: sort_key(partition, dataid))  # type: ignore[misc]
            listed = tuple(ranges(partition, dataids[:_LISTED]))
            yield Exceptions(name, WARNED, len(dataids), listed, len(dataids) > _LISTED, some[dataids[-1]])


def chunks_in(
    store: Store, datasetid: str, low: str, high: str, *, status: str | None = None, n: int = 1000
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
