"""Status rows: chunks as they stand, and what the engine itself writes to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..model import IN, Catalogue, Job, ReadFact
from .backend import Retry, Transaction
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


def put(tx: Transaction, rows: Sequence[OutRow]) -> None:
    """Write OUT rows as the engine decided; if a claim took one meanwhile of which there was no row, look again."""
    if rows and tx.value("chunks_put", chunks=as_objects(rows)) < len(rows):
        raise Retry


def readings_of(tx: Transaction, catalogue: Catalogue, job: Job, dataids: Iterable[str]) -> list[StatusKey]:
    """The IN rows of a job's runs for these dataids, where the input belongs to that output alone."""
    needed = [
        (item.datasetid, input_id, dataid)
        for item in job.inputs
        if not item.mapping.is_shared
        for dataid in dataids
        for input_id in catalogue.needed(job, item, dataid)
    ]
    read = tx.fetch(ReadFact._make, "readings_given", jobid=job.jobid, chunks=compact(needed))
    return [StatusKey(row.datasetid, row.dataid, job.jobid, IN) for row in read]


def remove(tx: Transaction, rows: Iterable[StatusKey]) -> None:
    """Remove status rows without leaving a note of it."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        groups.setdefault((row.datasetid, row.jobid, row.locktype), []).append(row.dataid)
    for (datasetid, jobid, locktype), dataids in groups.items():
        for query in ("chunks_mark", "chunks_forget"):
            tx.run(query, datasetid=datasetid, jobid=jobid, locktype=locktype, dataids=compact(dataids))
