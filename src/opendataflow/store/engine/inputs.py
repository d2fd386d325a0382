"""Resolve the input chunks of one output of a job, including mappings that depend on which chunks exist."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ...model import READY, Catalogue, Input, Job, inputs, latest_bound, sort_key
from ..drivers.base import Transaction

ChunkId = tuple[str, str]


class Needed(NamedTuple):
    """The input chunks of one output; `exclusive` are inputs of this output only."""

    chunks: list[ChunkId]
    exclusive: list[ChunkId]
    unresolved: list[Input]  # inputs whose chunks are not known yet


class OrderedChunk(NamedTuple):
    """A chunk of a dataset, in the order of its dataids."""

    dataid: str
    status: str


def needed(tx: Transaction, catalogue: Catalogue, job: Job, dataid: str) -> Needed:
    """The chunks that (job, dataid) needs; BadDataid or BadId if the dataid is not valid for the job."""
    output = catalogue.output_partition(job)
    chunks: list[ChunkId] = []
    exclusive: list[ChunkId] = []
    unresolved: list[Input] = []
    for item in job.inputs:
        if item.mapping.is_dynamic:
            read = _dynamic_inputs(tx, catalogue, job, item, dataid)
            if read is None:
                unresolved.append(item)
                continue
        else:
            partition = catalogue.datasets[item.datasetid].partition
            read = [(item.datasetid, input_id) for input_id in inputs(item.mapping, partition, output, dataid)]
        chunks += read
        if not item.mapping.is_shared:
            exclusive += read
    return Needed(chunks, exclusive, unresolved)


def _dynamic_inputs(tx: Transaction, catalogue: Catalogue, job: Job, item: Input, dataid: str) -> list[ChunkId] | None:
    """The chunks of a dynamic input; None until all of them exist. `facts` explains what is missing."""
    dataset = catalogue.dataset(item.datasetid)
    if item.mapping.kind == "latest":
        until = latest_bound(dataset.partition, catalogue.output_partition(job), dataid)
        newest = tx.value("newest_ready", datasetid=dataset.datasetid, until_key=sort_key(dataset.partition, until))
        return None if newest is None else [(dataset.datasetid, newest)]
    # Check upstream first, which is cheaper than reading every chunk.
    if any(is_unfinished(tx, upstream) for upstream in catalogue.upstream(dataset.datasetid)):
        return None
    if catalogue.broken and catalogue.broken_upstream(dataset.datasetid):
        return None
    chunks = chunks_in_order(tx, dataset.datasetid)
    count = dataset.partition.count
    if not chunks or any(chunk.status != READY for chunk in chunks) or (count is not None and len(chunks) != count):
        return None
    return [(dataset.datasetid, chunk.dataid) for chunk in chunks]


def chunks_in_order(tx: Transaction, datasetid: str) -> list[OrderedChunk]:
    """Every chunk of a dataset with its status, in the order of its dataids."""
    return tx.fetch(OrderedChunk._make, "chunks_in_order", datasetid=datasetid)


def is_unfinished(tx: Transaction, jobid: str) -> bool:
    """Whether a job has chunks that it can claim, runs now, or that failed or are set aside."""
    return bool(tx.value("unfinished_of_job", jobid=jobid))


def parse_inputs(text: Any) -> list[tuple[str, str]]:
    """Parse column inputs of a candidate; empty if the value is malformed: the next claim derives it again."""
    try:
        return [(str(datasetid), str(dataid)) for datasetid, dataid in json.loads(text)]
    except (ValueError, TypeError, RecursionError):
        return []
