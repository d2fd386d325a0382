"""Derive candidates in groups for many dataids of one job whose inputs have the same dataid."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...model import (
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
from ..drivers.base import Transaction
from ..rows import compact

_BATCH = 20_000
_OWN_DATAID = "*"  # never a valid id


class DataidGroup(NamedTuple):
    """The facts that a group of dataids of one job shares, statuses joined by commas; `pairs` maps its dataids to positions."""

    inputs: str | None
    outputs: str | None
    reads: str | None
    pairs: str


class DataidBatch(NamedTuple):
    """A batch of dataids with their positions, as the queries expect them."""

    n: int
    pairs: str


class GroupedFacts(NamedTuple):
    """The facts that decide about one (job, dataid): the statuses of its inputs, its OUT rows and its own IN rows."""

    is_resolved: bool
    needed: int
    inputs: Sequence[str | None]
    outputs: Sequence[str | None]
    reads: Sequence[str]


class DecidedGroup(NamedTuple):
    """The state of a candidate, or None for no candidate, and its rank."""

    state: str | None
    rank: int


def decided(job: Job, facts: GroupedFacts, not_before: float, requested: bool) -> DecidedGroup:
    """The candidate state of one (job, dataid)."""
    is_ready = facts.is_resolved and facts.inputs.count(READY) == facts.needed
    state = candidacy(is_ready, facts.outputs, facts.reads, requested or bool(job.inputs))
    if state == WAITING and facts.is_resolved and not facts.inputs and RESUBMIT not in facts.outputs:
        state = None  # no input exists yet: a WAITING candidate would be noise
    if state == CLAIMABLE and not_before:
        state = DEFERRED
    return DecidedGroup(state, 0 if RESUBMIT in facts.outputs else 1)


def can_derive_in_bulk(catalogue: Catalogue, job: Job, dataids: Sequence[str]) -> bool:
    """Whether every input of the job maps identically, so that each dataid needs one chunk of each input."""
    output = catalogue.output_partition(job)
    partitions = [(item, catalogue.datasets[item.datasetid].partition) for item in job.inputs]
    return all(is_same(item.mapping, partition, output) for item, partition in partitions) and all(
        sum(1 for _ in fitting(partition, dataids)) == len(dataids)
        for _, partition in partitions
        if partition.has_bounds
    )


def batches_of(partition: Partition, dataids: Sequence[str]) -> list[DataidBatch]:
    """These dataids with their positions, in batches."""
    pairs = list(dict(positions(partition, dataids)).items())
    parts = (pairs[start : start + _BATCH] for start in range(0, len(pairs), _BATCH))
    return [DataidBatch(len(part), compact(dict(part))) for part in parts]


def derive(
    tx: Transaction, job: Job, batches: Iterable[DataidBatch], not_before: float, requested: bool, ready: str
) -> None:
    """Derive the candidate of each of these dataids, and write or remove it.

    All chunks of the dataset `ready`, if given, are known to be READY.
    """
    inputs = [item.datasetid for item in job.inputs]
    template = compact([(datasetid, _OWN_DATAID) for datasetid in inputs])
    for batch in batches:
        for group in _groups(tx, job, inputs, batch, ready):
            statuses = (each.split(",") if each else [] for each in (group.inputs, group.outputs, group.reads))
            state, rank = decided(job, GroupedFacts(True, len(inputs), *statuses), not_before, requested)
            if state is None:
                dropped = compact(list(json.loads(group.pairs)))
                tx.run("candidates_drop", jobid=job.jobid, dataids=dropped)
                continue
            values = {"rank": rank, "state": state, "not_before": not_before, "inputs": template}
            tx.run("candidates_put_alike", jobid=job.jobid, pairs=group.pairs, **values)


def _groups(tx: Transaction, job: Job, inputs: Sequence[str], batch: DataidBatch, ready: str) -> list[DataidGroup]:
    arguments = {"jobid": job.jobid, "inputs": compact(inputs), "outputs": compact(job.outputs), "pairs": batch.pairs}
    unknown = sum(datasetid != ready for datasetid in inputs)
    if tx.value("ready_inputs_alike", ready=ready, **arguments) == batch.n * unknown:
        # The common case: all chunks are new. They form one group, and no rows come back.
        return [DataidGroup(",".join(READY for _ in inputs), None, None, batch.pairs)]
    return tx.fetch(DataidGroup._make, "pair_facts_alike", **arguments)
