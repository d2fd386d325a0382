"""Inputs: which chunks one output of a job needs, also where that depends on which chunks exist."""

from __future__ import annotations

import json
from typing import Any

from ..model import READY, Catalogue, Input, Job, inputs, latest_bound, sort_key
from ..shapes import NamedTuple
from .backend import Transaction

ChunkId = tuple[str, str]


class Needed(NamedTuple):
    """The input chunks of one output; `exclusive` are those that belong to this output alone."""

    chunks: list[ChunkId]
    exclusive: list[ChunkId]
    unresolved: list[Input]  # inputs for which no chunk can be named yet


class InOrder(NamedTuple):
    """One chunk of a dataset, in the order of its dataids."""

    dataid: str
    status: str


def needed(tx: Transaction, catalogue: Catalogue, job: Job, dataid: str) -> Needed:
    """The chunks that (job, dataid) needs; BadDataid or BadId when the job cannot have this dataid."""
    output = catalogue.output_partition(job)
    chunks: list[ChunkId] = []
    exclusive: list[ChunkId] = []
    unresolved: list[Input] = []
    for item in job.inputs:
        if item.mapping.is_dynamic:
            read = _resolved(tx, catalogue, job, item, dataid)
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


def _resolved(tx: Transaction, catalogue: Catalogue, job: Job, item: Input, dataid: str) -> list[ChunkId] | None:
    """The chunks of a dynamic input; None while they are not all there. `facts` says why they are not."""
    dataset = catalogue.dataset(item.datasetid)
    if item.mapping.kind == "latest":
        until = latest_bound(dataset.partition, catalogue.output_partition(job), dataid)
        newest = tx.value("newest_ready", datasetid=dataset.datasetid, until_key=sort_key(dataset.partition, until))
        return None if newest is None else [(dataset.datasetid, newest)]
    # The cheap question first: while something upstream is unfinished, nobody needs to look at every chunk.
    if any(is_unfinished(tx, upstream) for upstream in catalogue.upstream(dataset.datasetid)):
        return None
    if catalogue.broken and catalogue.broken_upstream(dataset.datasetid):
        return None
    chunks = in_order(tx, dataset.datasetid)
    count = dataset.partition.count
    if not chunks or any(chunk.status != READY for chunk in chunks) or (count is not None and len(chunks) != count):
        return None
    return [(dataset.datasetid, chunk.dataid) for chunk in chunks]


def in_order(tx: Transaction, datasetid: str) -> list[InOrder]:
    """Every chunk of a dataset with its status, in the order of its dataids."""
    return tx.fetch(InOrder._make, "chunks_in_order", datasetid=datasetid)


def is_unfinished(tx: Transaction, jobid: str) -> bool:
    """Whether a job still has something to produce, produces it now, or has a chunk that failed or was set aside."""
    return bool(tx.value("unfinished_of_job", jobid=jobid))


def pairs(text: Any) -> list[tuple[str, str]]:
    """Column inputs of a candidate; none where somebody else wrote into it, since the next claim derives it anew."""
    try:
        return [(str(datasetid), str(dataid)) for datasetid, dataid in json.loads(text)]
    except (ValueError, TypeError, RecursionError):
        return []
