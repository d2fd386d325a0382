"""Alike: many dataids of one job whose inputs have the same dataid, decided in groups instead of one by one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from ..model import (
    CLAIMABLE,
    DEFERRED,
    READY,
    RESUBMIT,
    WAITING,
    Catalogue,
    Job,
    Partition,
    candidacy,
    fitting,
    is_same,
    positions,
)
from ..shapes import NamedTuple
from .backend import Transaction
from .rows import compact

_BATCH = 20_000
_ITS_DATAID = "*"  # no id has one


class Group(NamedTuple):
    """What decides about a group of dataids of one job, statuses joined by commas; and the group, with positions, as an object."""

    inputs: str | None
    outputs: str | None
    reads: str | None
    pairs: str


class Batch(NamedTuple):
    """So many dataids with their positions, as the queries take them."""

    n: int
    pairs: str


class Found(NamedTuple):
    """What decides about one (job, dataid): the statuses of its inputs, of its OUT rows and of its own IN rows."""

    is_resolved: bool
    needed: int
    inputs: Sequence[str | None]
    outputs: Sequence[str | None]
    reads: Sequence[str]


class Decided(NamedTuple):
    """The state of a candidate, None where there is none, and its rank."""

    state: str | None
    rank: int


def decided(job: Job, found: Found, not_before: float, asked_for: bool) -> Decided:
    """Whether a (job, dataid) may be taken now."""
    is_ready = found.is_resolved and found.inputs.count(READY) == found.needed
    state = candidacy(is_ready, found.outputs, found.reads, asked_for or bool(job.inputs))
    if state == WAITING and found.is_resolved and not found.inputs and RESUBMIT not in found.outputs:
        state = None  # nothing of it exists: nobody waits for that
    if state == CLAIMABLE and not_before:
        state = DEFERRED
    return Decided(state, 0 if RESUBMIT in found.outputs else 1)


def are_alike(catalogue: Catalogue, job: Job, dataids: Sequence[str]) -> bool:
    """Whether each of these dataids needs the chunks of its own dataid, one of each input."""
    output = catalogue.output_partition(job)
    partitions = [(item, catalogue.datasets[item.datasetid].partition) for item in job.inputs]
    return all(is_same(item.mapping, partition, output) for item, partition in partitions) and all(
        sum(1 for _ in fitting(partition, dataids)) == len(dataids)
        for _, partition in partitions
        if partition.has_bounds
    )


def batches_of(partition: Partition, dataids: Sequence[str]) -> list[Batch]:
    """These dataids with their positions, in batches."""
    pairs = list(dict(positions(partition, dataids)).items())
    parts = (pairs[start : start + _BATCH] for start in range(0, len(pairs), _BATCH))
    return [Batch(len(part), compact(dict(part))) for part in parts]


def derive(tx: Transaction, job: Job, batches: Iterable[Batch], not_before: float, asked_for: bool, ready: str) -> None:
    """Derive for each of these dataids whether it may be taken now, and write or remove its candidate.

    Of the dataset that is named as ready, if one is, all of them are known to be READY.
    """
    inputs = [item.datasetid for item in job.inputs]
    template = compact([(datasetid, _ITS_DATAID) for datasetid in inputs])
    for batch in batches:
        for group in _groups(tx, job, inputs, batch, ready):
            statuses = (each.split(",") if each else [] for each in (group.inputs, group.outputs, group.reads))
            state, rank = decided(job, Found(True, len(inputs), *statuses), not_before, asked_for)
            if state is None:
                gone = compact(list(json.loads(group.pairs)))
                tx.run("candidates_drop", jobid=job.jobid, dataids=gone)
                continue
            how = {"rank": rank, "state": state, "not_before": not_before, "inputs": template}
            tx.run("candidates_put_alike", jobid=job.jobid, pairs=group.pairs, **how)


def _groups(tx: Transaction, job: Job, inputs: Sequence[str], batch: Batch, ready: str) -> list[Group]:
    asked = {"jobid": job.jobid, "inputs": compact(inputs), "outputs": compact(job.outputs), "pairs": batch.pairs}
    others = sum(datasetid != ready for datasetid in inputs)
    if tx.value("ready_inputs_alike", ready=ready, **asked) == batch.n * others:
        # As a rule many chunks are new: then they are one group, and nothing of it has to come back.
        return [Group(",".join(READY for _ in inputs), None, None, batch.pairs)]
    return tx.fetch(Group._make, "pair_facts_alike", **asked)
