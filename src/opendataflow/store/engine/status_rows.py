"""Lock, write and remove rows of datastatus."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...model import IN, Catalogue, Job, ReadFact
from ..drivers.base import Retry, Transaction
from ..rows import ChunkRow, OutRow, StatusKey, as_objects, compact
from .inputs import ChunkId

_BATCH = 10_000


def locked_rows(tx: Transaction, chunks: Sequence[ChunkId]) -> dict[ChunkId, ChunkRow]:
    """The OUT rows of these chunks, locked until the transaction ends; chunks that were never produced are left out."""
    return {
        (row.datasetid, row.dataid): row
        for start in range(0, len(chunks), _BATCH)
        for row in tx.fetch(ChunkRow._make, "chunks_given", chunks=compact(chunks[start : start + _BATCH]))
    }


def put(tx: Transaction, rows: Sequence[OutRow]) -> None:
    """Write OUT rows; Retry if a row was inserted or claimed concurrently."""
    if rows and tx.value("chunks_put", chunks=as_objects(rows)) < len(rows):
        raise Retry


def readings_of(tx: Transaction, catalogue: Catalogue, job: Job, dataids: Iterable[str]) -> list[StatusKey]:
    """The IN rows of a job's runs for these dataids, for inputs that only that output reads."""
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
    """Remove status rows without leaving a note for the next fold."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        groups.setdefault((row.datasetid, row.jobid, row.locktype), []).append(row.dataid)
    for (datasetid, jobid, locktype), dataids in groups.items():
        for query in ("chunks_mark", "chunks_forget"):
            tx.run(query, datasetid=datasetid, jobid=jobid, locktype=locktype, dataids=compact(dataids))
