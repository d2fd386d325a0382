"""Stale: published chunks that were made from what is no longer current, and what hangs on a chunk."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from ..model import IGNORE, READY, Catalogue, Partition, check_dataid, sort_key
from ..model.selector import Selector
from ..store import Descendant, StaleChunk, Store
from .flow import datasets_in_order

if TYPE_CHECKING:
    from .matrix import Block

STALE = "STALE"  # a sign of the matrix beside READY
_MOST = 100_000
_LISTED = 10_000
_BATCH = 5000

ChunkId = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Hanging:
    """One chunk that was made from another: which version from which version, by which job and run, and when.

    depth is its distance from the chunk that was asked about; is_again says that it stands in the tree before.
    """

    datasetid: str
    dataid: str
    version: int
    status: str
    is_stale: bool
    jobid: str | None
    runid: int | None
    published: datetime | None
    made_from: tuple[str, str, int]
    depth: int
    is_again: bool = False


@dataclass(frozen=True, slots=True)
class Impact:
    """A chunk and everything that was really made from it, as a tree in the order of its lines."""

    datasetid: str
    dataid: str
    status: str | None
    version: int | None
    is_stale: bool
    made: tuple[Hanging, ...]
    chunks: int
    stale: int
    more: bool  # there is more than is listed


def stale_chunks(store: Store) -> dict[ChunkId, StaleChunk]:
    """The READY chunks that are stale, upstream first, each dataset in its order; at most a hundred thousand."""
    found = [row for row in store.stale(_MOST) if row.status == READY]
    if not found:
        return {}
    order = {name: index for index, name in enumerate(datasets_in_order(store.catalogue()))}
    found.sort(key=lambda row: (order.get(row.datasetid, len(order)), row.sort_key, row.dataid))
    return {(row.datasetid, row.dataid): row for row in found}


def stale_selected(store: Store, selector: Selector) -> list[ChunkId]:
    """The stale chunks that a selector means, upstream first; without one, all of them."""
    from .selection import scope, subject_of

    chunks = list(stale_chunks(store))
    meant = scope(store, selector)
    found = []
    for start in range(0, len(chunks), _BATCH):
        known = store.last_changes(chunks[start : start + _BATCH])
        found += [chunk for chunk, last in known.items() if meant.matches(subject_of(last))]
    order = {chunk: index for index, chunk in enumerate(chunks)}
    return sorted(found, key=order.__getitem__)


def why_stale(store: Store, datasetid: str, dataid: str) -> tuple[str, ...]:
    """Why a chunk is stale, in words; empty when it is not."""
    known = store.stale(_MOST)
    if not known:
        return ()
    direct = store.stale_marks([(datasetid, dataid)])
    catalogue = store.catalogue()
    job = catalogue.producer(datasetid)
    if job is not None and job.on_new_version == IGNORE:
        return ()
    if direct:
        return tuple(map(str, direct))
    chunks = {(row.datasetid, row.dataid) for row in known}
    if (datasetid, dataid) not in chunks and len(known) < _MOST:
        return ()
    return _from_above(store, (datasetid, dataid))


def _from_above(store: Store, chunk: ChunkId) -> tuple[str, ...]:
    """The nearest chunk upstream that is stale itself, and why; looked for level by level."""
    level, seen = [chunk], {chunk}
    while level and len(seen) < _MOST:
        now = store.current(level)
        links = store.links_into((row.datasetid, row.dataid, row.version) for row in now.values())
        level = [above for link in links if (above := (link.in_datasetid, link.in_dataid)) not in seen]
        seen.update(level)
        if marks := store.stale_marks(level):
            return tuple(f"it was made from {mark.datasetid} {mark.dataid}, and {mark}" for mark in marks)
    return ()


# In the matrix ----------------------------------------------------------------------------------------------------------


def stale_within(store: Store, windows: Mapping[str, tuple[str, str]]) -> dict[str, dict[str, str]]:
    """By dataset, the stale dataids between two keys, with their own keys, in order."""
    found: dict[str, dict[str, str]] = {}
    for row in stale_chunks(store).values():
        low, high = windows.get(row.datasetid, ("", ""))
        if row.datasetid in windows and low <= row.sort_key <= high:
            found.setdefault(row.datasetid, {})[row.dataid] = row.sort_key
    return found


def marked(block: Block, partitions: Mapping[str, Partition], stale: Mapping[str, Mapping[str, str]]) -> Block:
    """The block with how many chunks of each cell are stale."""
    lines = []
    for line in block.lines:
        keys = sorted(stale.get(line.datasetid, {}).values())
        partition = partitions[line.datasetid]
        cells = tuple(
            replace(cell, stale=_count(keys, sort_key(partition, column.first), sort_key(partition, column.last)))
            for cell, column in zip(line.cells, block.columns, strict=False)
        )
        lines.append(replace(line, cells=cells) if keys else line)
    return replace(block, lines=tuple(lines))


def _count(keys: list[str], low: str, high: str) -> int:
    return bisect_right(keys, high) - bisect_left(keys, low)


# What hangs on a chunk --------------------------------------------------------------------------------------------------


def impact(store: Store, datasetid: str, dataid: str) -> Impact:
    """Everything that stands now and was really made from a chunk, at any distance, with what of it is stale."""
    catalogue = store.catalogue()
    chunk = store.chunk(datasetid, dataid)
    if chunk is None:
        check_dataid(catalogue.dataset(datasetid).partition, dataid, datasetid)
    found = store.descendants(datasetid, dataid, _LISTED)
    stale = stale_chunks(store)
    made = tuple(_tree(catalogue, (datasetid, dataid), found, stale))
    chunks = {(each.datasetid, each.dataid) for each in made}
    return Impact(
        datasetid,
        dataid,
        chunk.status if chunk else None,
        chunk.version if chunk else None,
        (datasetid, dataid) in stale,
        made,
        len(chunks),
        len(chunks & stale.keys()),
        len(found) >= _LISTED,
    )


def _tree(
    catalogue: Catalogue, root: ChunkId, found: Iterable[Descendant], stale: Mapping[ChunkId, StaleChunk]
) -> list[Hanging]:
    """The lines of the tree; what was made from several chunks stands where it is met first, and is named at the others."""
    order = {name: index for index, name in enumerate(datasets_in_order(catalogue))}
    below: dict[ChunkId, list[Descendant]] = {}
    for row in found:
        below.setdefault((row.in_datasetid, row.in_dataid), []).append(row)
    lines: list[Hanging] = []
    met: set[ChunkId] = set()
    pending = [(row, 1) for row in _ordered(below.get(root, ()), order)[::-1]]
    while pending:
        row, depth = pending.pop()
        chunk = (row.datasetid, row.dataid)
        is_again = chunk in met
        lines.append(
            Hanging(
                *chunk,
                row.version,
                row.status,
                chunk in stale,
                row.jobid,
                row.runid,
                row.published,
                (row.in_datasetid, row.in_dataid, row.in_version),
                depth,
                is_again and bool(below.get(chunk)),
            )
        )
        if not is_again:
            met.add(chunk)
            pending += [(each, depth + 1) for each in _ordered(below.get(chunk, ()), order)[::-1]]
    return lines


def _ordered(rows: Iterable[Descendant], order: Mapping[str, int]) -> list[Descendant]:
    return sorted(rows, key=lambda row: (order.get(row.datasetid, len(order)), row.sort_key, row.dataid))
