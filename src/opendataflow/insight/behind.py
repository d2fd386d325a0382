"""Behind: which chunks cannot be produced because others are not READY."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..errors import OdfError
from ..model import READY, Catalogue
from ..store import Store

ChunkId = tuple[str, str]

MOST = 2000


def waiting_behind(store: Store, chunks: Iterable[ChunkId], most: int = MOST) -> set[ChunkId]:
    """The chunks downstream of these that are not READY, by what the jobs declare; at most so many."""
    catalogue = store.catalogue()
    start = set(chunks)
    found: set[ChunkId] = set()
    level = start
    while level and len(found) < most:
        reached = {after for chunk in level for after in _after(catalogue, *chunk)} - found - start
        listed = sorted(reached)[: most - len(found)]
        statuses = store.given_chunks(listed)
        level = {chunk for chunk in listed if statuses.get(chunk) != READY}
        found |= level
    return found


def _after(catalogue: Catalogue, datasetid: str, dataid: str) -> Iterator[ChunkId]:
    for job, item in catalogue.consumers(datasetid):
        try:
            outputs = catalogue.outputs_of(job, item, dataid)
        except OdfError:
            continue  # a dataid that somebody typed wrongly leads nowhere
        yield from ((name, output) for output in outputs for name in job.outputs)
