"""Status rows: chunks as they stand, and what the engine itself writes to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .backend import Transaction
from .inputs import ChunkId
from .rows import OutRow, Standing, StatusKey, as_objects, compact

_BATCH = 10_000


def standing(tx: Transaction, chunks: Sequence[ChunkId]) -> dict[ChunkId, Standing]:
    """These chunks as they stand, without those that were never produced; nobody else changes them meanwhile."""
    return {
        (row.datasetid, row.dataid): row
        for start in range(0, len(chunks), _BATCH)
        for row in tx.fetch(Standing._make, "chunks_given", chunks=compact(chunks[start : start + _BATCH]))
    }


def put(tx: Transaction, rows: Iterable[OutRow]) -> None:
    """Write OUT rows as the engine decided."""
    tx.run("chunks_put", chunks=as_objects(rows))


def remove(tx: Transaction, rows: Iterable[StatusKey]) -> None:
    """Remove status rows without leaving a note of it."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        groups.setdefault((row.datasetid, row.jobid, row.locktype), []).append(row.dataid)
    for (datasetid, jobid, locktype), dataids in groups.items():
        for query in ("chunks_mark", "chunks_forget"):
            tx.run(query, datasetid=datasetid, jobid=jobid, locktype=locktype, dataids=compact(dataids))
