"""A page of chunks, one after the other: where it ends, the next one begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import BadDataid, UsageError
from ..model import Catalogue, canonical, sort_key
from ..model.selector import End
from ..store import Chunk
from .axis import FIRST_KEY
from .flow import chosen
from .matrix import window
from .seen import StoreViews


@dataclass(frozen=True, slots=True)
class ChunkPage:
    """Chunks in the order of the flow and of their dataids; next is where the next page begins, if there is one."""

    chunks: tuple[Chunk, ...]
    next: str | None


def chunk_page(
    store: StoreViews,
    named: Sequence[str] = (),
    *,
    since: str | None = None,
    until: str | None = None,
    status: str | None = None,
    after: str | None = None,
    n: int = 1000,
) -> ChunkPage:
    """The next n chunks of these datasets, or of all, after DATASET:DATAID."""
    catalogue = store.catalogue()
    names, wanted = chosen(catalogue, named), canonical(status) if status else None
    edge = _edge(store, catalogue, after) if after else None
    if edge is not None:
        if edge.datasetid not in names:
            raise UsageError(f"{edge.datasetid} is not among these datasets", hint="Pass on `next` as it was given.")
        names = names[names.index(edge.datasetid) :]
    found: list[Chunk] = []
    for name in names:
        span = window(catalogue.dataset(name).partition, since, until)
        if span is None or len(found) > n:
            continue
        begin = _before(name, "" if span.low == FIRST_KEY else span.low)
        if edge is not None and edge.datasetid == name and edge.sort_key >= begin.sort_key:
            begin = edge
        page = store.chunks(name, status=wanted, after=begin, n=n + 1 - len(found))
        found += [chunk for chunk in page if chunk.sort_key <= span.high]
    last = found[n - 1] if len(found) > n else None
    return ChunkPage(tuple(found[:n]), f"{last.datasetid}:{last.dataid}" if last else None)


def _before(datasetid: str, key: str, dataid: str = "") -> Chunk:
    return Chunk(datasetid, dataid, "", "", None, 0, 0, None, 0, None, None, None, key)


def _edge(store: StoreViews, catalogue: Catalogue, after: str) -> Chunk:
    """The position of a chunk, which may have been forgotten since."""
    datasetid, dataid = End.parse(after)
    partition = catalogue.dataset(datasetid).partition
    if dataid is None:
        raise UsageError(f"{after} names no chunk", hint="Pass on `next` as it was given: DATASET:DATAID")
    there = store.chunk(datasetid, dataid)
    try:
        return there or _before(datasetid, sort_key(partition, dataid), dataid)
    except BadDataid:
        return _before(datasetid, "", dataid)
