"""Stale: published chunks that were made from what is no longer current, and what hangs on a chunk."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from ..model import IGNORE, READY, Catalogue, Partition, check_dataid, sort_key
from ..model.selector import Selector
from ..store import Chunk, Descendant, InputNow, StaleChunk, Store
from .axis import FIRST_KEY, LAST_KEY
from .flow import datasets_in_order

if TYPE_CHECKING:
    from .matrix import Block

STALE = "STALE"  # a sign of the matrix beside READY
_MOST = 100_000
_LISTED = 10_000
_SHOWN = 4000  # in a matrix
_NEAR = 5000  # what was made from what, upstream of a chunk
_FEW = 1000  # marks
_LAST = 100  # chunks of a dataset
_BATCH = 5000

ChunkId = tuple[str, str]


@dataclass(frozen=True, slots=True)
class DownstreamChunk:
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
    made: tuple[DownstreamChunk, ...]
    chunks: int
    stale: int
    more: bool  # there is more than is listed


def stale_chunks(store: Store, n: int = _MOST) -> dict[ChunkId, StaleChunk]:
    """The READY chunks that are stale, upstream first, each dataset in its order; of very many, only some."""
    found = [row for row in store.views.stale(n) if row.status == READY]
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
        known = store.views.last_changes(chunks[start : start + _BATCH])
        found += [chunk for chunk, last in known.items() if meant.matches(subject_of(last))]
    order = {chunk: index for index, chunk in enumerate(chunks)}
    return sorted(found, key=order.__getitem__)


def why_stale(store: Store, datasetid: str, dataid: str) -> tuple[str, ...]:
    """Why a chunk is stale, in words; empty when it is not."""
    if datasetid in _ignoring(store.catalogue()) or not store.views.has_stale():
        return ()
    direct = store.views.stale_marks([(datasetid, dataid)])
    if direct:
        return tuple(map(str, direct))
    return _from_above(store, (datasetid, dataid))


def stale_among(store: Store, chunks: Iterable[ChunkId]) -> set[ChunkId]:
    """Those of these chunks that are stale: looked for upstream of them, so that it costs the same whatever else is stale."""
    asked = {*chunks}
    if not asked or not store.views.has_stale():
        return set()
    below: dict[ChunkId, set[ChunkId]] = {}
    near: list[ChunkId] = []
    for level, links in _levels(store, asked):
        if len(below) > _NEAR + len(asked):  # a chain as long as its history: from the marks down it is shorter
            return asked & {(row.datasetid, row.dataid) for row in store.views.stale(_MOST)}
        near += level
        for link in links:
            below.setdefault((link.in_datasetid, link.in_dataid), set()).add((link.datasetid, link.dataid))
    found = {(mark.datasetid, mark.dataid) for mark in store.views.stale_marks(near)}
    pending = list(found)
    while pending:
        further = below.get(pending.pop(), set()) - found
        found |= further
        pending += further
    return asked & found


def _levels(store: Store, chunks: Iterable[ChunkId]) -> Iterator[tuple[list[ChunkId], list[InputNow]]]:
    """Level by level upstream: chunks, and what they were made from; not what ignores it."""
    ignored = _ignoring(store.catalogue())
    level = [chunk for chunk in chunks if chunk[0] not in ignored]
    seen = {*level}
    while level:
        links = store.views.inputs_now(level)
        yield level, links
        above = dict.fromkeys((link.in_datasetid, link.in_dataid) for link in links)
        level = [chunk for chunk in above if chunk not in seen and chunk[0] not in ignored]
        seen.update(level)


def _ignoring(catalogue: Catalogue) -> set[str]:
    return {name for job in catalogue.jobs.values() if job.on_new_version == IGNORE for name in job.outputs}


def _from_above(store: Store, chunk: ChunkId) -> tuple[str, ...]:
    """The nearest chunk upstream that is stale itself, and why."""
    met = 0
    for level, links in _levels(store, [chunk]):
        if marks := store.views.stale_marks(level):
            return tuple(f"it was made from {mark.datasetid} {mark.dataid}, and {mark}" for mark in marks)
        is_far, met = met <= _NEAR < met + len(links), met + len(links)
        if met > _MOST or (is_far and not stale_among(store, [chunk])):
            break
    return ()


def stale_of_outputs(store: Store, outputs: Iterable[str]) -> tuple[list[ChunkId], bool]:
    """The stale chunks of these datasets, in order, and whether they are all; where very many are stale, the last are looked at."""
    if not store.views.has_stale():
        return [], True
    if not store.views.has_stale(_FEW):
        return [chunk for chunk in stale_chunks(store) if chunk[0] in {*outputs}], True
    asked = [
        (name, dataid)
        for name in outputs
        for dataid in reversed(store.views.newest_dataids(name, FIRST_KEY, LAST_KEY, _LAST))
    ]
    ready = {chunk for chunk, status in store.views.given_chunks(asked).items() if status == READY}
    stale = stale_among(store, ready)
    return [chunk for chunk in asked if chunk in stale], False


# In the matrix ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Marked:
    """The stale chunks that a matrix can show, and whether there may be more of them."""

    chunks: tuple[StaleChunk, ...]
    more: bool

    def within(self, windows: Mapping[str, tuple[str, str]]) -> dict[str, dict[str, str]]:
        """By dataset, the stale dataids between two keys, with their own keys, in order."""
        found: dict[str, dict[str, str]] = {}
        for row in self.chunks:
            low, high = windows.get(row.datasetid, ("", ""))
            if row.datasetid in windows and low <= row.sort_key <= high:
                found.setdefault(row.datasetid, {})[row.dataid] = row.sort_key
        return found


def stale_now(store: Store) -> Marked:
    """The stale chunks of all datasets, as many as a matrix shows."""
    chunks = tuple(stale_chunks(store, _SHOWN).values())
    return Marked(chunks, len(chunks) >= _SHOWN // 2)  # a chunk may have been met twice


def stale_within(store: Store, windows: Mapping[str, tuple[str, str]]) -> tuple[dict[str, dict[str, str]], bool]:
    """By dataset, the stale dataids between two keys, with their own keys, in order; and whether there may be more."""
    seen = stale_now(store)
    return seen.within(windows), seen.more


def marked(block: Block, partitions: Mapping[str, Partition], stale: Mapping[str, Mapping[str, str]]) -> Block:
    """The block with how many chunks of each cell are stale."""
    lines = []
    for line in block.lines:
        keys = sorted(stale.get(line.datasetid, {}).values())
        if not keys:
            lines.append(line)
            continue
        partition = partitions[line.datasetid]
        cells = tuple(
            replace(cell, stale=_count(keys, sort_key(partition, column.first), sort_key(partition, column.last)))
            for cell, column in zip(line.cells, block.columns, strict=False)
        )
        lines.append(replace(line, cells=cells))
    return replace(block, lines=tuple(lines))


def _count(keys: list[str], low: str, high: str) -> int:
    return bisect_right(keys, high) - bisect_left(keys, low)


# What hangs on a chunk --------------------------------------------------------------------------------------------------


def impact(store: Store, datasetid: str, dataid: str, most: int = _LISTED) -> Impact:
    """Everything that stands now and was really made from a chunk, at any distance, with what of it is stale; at most so much."""
    catalogue = store.catalogue()
    chunk = store.views.chunk(datasetid, dataid)
    if chunk is None:
        check_dataid(catalogue.dataset(datasetid).partition, dataid, datasetid)
    found = store.views.descendants(datasetid, dataid, most)
    stale = stale_among(store, [(datasetid, dataid), *((row.datasetid, row.dataid) for row in found)])
    return hanging_on(catalogue, (datasetid, dataid), chunk, found, stale, len(found) >= most)


def hanging_on(
    catalogue: Catalogue,
    root: ChunkId,
    chunk: Chunk | None,
    found: Sequence[Descendant],
    stale: Set[ChunkId],
    more: bool,
) -> Impact:
    """What was found to be made from a chunk, as a tree, for whoever knows already what of it is stale."""
    made = tuple(_tree(catalogue, root, found, stale))
    return Impact(
        *root,
        chunk.status if chunk else None,
        chunk.version if chunk else None,
        chunk is not None and chunk.status == READY and root in stale,
        made,
        len({(each.datasetid, each.dataid) for each in made}),
        len({(each.datasetid, each.dataid) for each in made if each.is_stale}),
        more,
    )


def _tree(
    catalogue: Catalogue, root: ChunkId, found: Iterable[Descendant], stale: Set[ChunkId]
) -> list[DownstreamChunk]:
    """The lines of the tree; what was made from several chunks stands where it is met first, and is named at the others."""
    order = {name: index for index, name in enumerate(datasets_in_order(catalogue))}
    below: dict[ChunkId, list[Descendant]] = {}
    for row in found:
        below.setdefault((row.in_datasetid, row.in_dataid), []).append(row)
    lines: list[DownstreamChunk] = []
    met: set[ChunkId] = set()
    pending = [(row, 1) for row in _ordered(below.get(root, ()), order)[::-1]]
    while pending:
        row, depth = pending.pop()
        chunk = (row.datasetid, row.dataid)
        is_again = chunk in met
        lines.append(
            DownstreamChunk(
                *chunk,
                row.version,
                row.status,
                row.status == READY and chunk in stale,
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
