"""Behind: which chunks cannot be produced because others are not READY."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..errors import OdfError
from ..model import READY, Catalogue
from ..store import Store
from .flow import datasets_in_order

ChunkId = tuple[str, str]

MOST = 2000
_LISTED = 100


@dataclass(frozen=True, slots=True)
class Behind:
    """The chunks that wait behind others, in the order of the flow, and the jobs that make them; of very many, the nearest."""

    chunks: tuple[ChunkId, ...]
    jobs: tuple[str, ...]
    more: bool


def behind(store: Store, chunks: Iterable[ChunkId], most: int = _LISTED) -> Behind:
    """What waits behind these chunks, and who follows when they are READY."""
    catalogue = store.catalogue()
    order = {name: index for index, name in enumerate(datasets_in_order(catalogue))}
    found = sorted(waiting_behind(store, chunks, most), key=lambda each: (order.get(each[0], len(order)), each[1]))
    jobs = dict.fromkeys(jobid for name, _ in found if (jobid := catalogue.producer_id(name)))
    return Behind(tuple(found), tuple(jobs), len(found) >= most)


def waiting_behind(store: Store, chunks: Iterable[ChunkId], most: int = MOST) -> set[ChunkId]:
    """The chunks downstream of these that are not READY, by what the jobs declare; at most so many."""
    catalogue = store.catalogue()
    start = set(chunks)
    found: set[ChunkId] = set()
    level = start
    while level and len(found) < most:
        reached = {after for chunk in level for after in _after(catalogue, *chunk)} - found - start
        listed = sorted(reached)[: most - len(found)]
        statuses = store.views.given_chunks(listed)
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
