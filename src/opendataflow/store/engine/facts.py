"""Collect the facts in the store that decide whether one chunk of a job may run, for `model.decide`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...errors import BadDataid, BadId
from ...model import (
    DEFERRED,
    FAILED,
    READY,
    Catalogue,
    Facts,
    Input,
    InputFact,
    Job,
    OutputFact,
    ReadFact,
    Unresolved,
    check_dataid,
    latest_bound,
)
from .. import records
from ..drivers.base import Transaction
from ..rows import Candidate, SpanCounts, Status, compact
from . import inputs, limits
from .inputs import ChunkId

ONLY_TRACKED = "only tracked: no location and no checks are declared"
NOT_CHECKED = "the data was not checked: nothing was launched"

_AFTER_ALL = "\x7f"  # sorts after every position
_MAX_COUNT = 10_000  # upper limit of counts
_SHOWN = 5


def of_chunk(tx: Transaction, catalogue: Catalogue, job: Job, dataid: str) -> Facts:
    """All facts about one (job, dataid) in this transaction."""
    partition = catalogue.output_partition(job)
    unchecked = ONLY_TRACKED if catalogue.only_tracks(job) else NOT_CHECKED
    try:
        check_dataid(partition, dataid, job.outputs[0])
        needed = inputs.needed(tx, catalogue, job, dataid)
    except (BadDataid, BadId) as error:
        return Facts(
            job.jobid, dataid, malformed=error.message, partition=partition.type, place=unchecked, validated=unchecked
        )
    chunks = [*needed.chunks, *((name, dataid) for name in job.outputs)]
    statuses = statuses_of(tx, chunks)
    reads: list[ReadFact] = []
    if needed.exclusive:
        reads = tx.fetch(
            ReadFact._make,
            "readings_given",
            jobid=job.jobid,
            chunks=compact([(*chunk, dataid) for chunk in needed.exclusive]),
        )
    return Facts(
        job.jobid,
        dataid,
        inputs=tuple(InputFact(*chunk, statuses[chunk].status, statuses[chunk].version) for chunk in needed.chunks),
        unresolved=tuple(
            Unresolved(item.datasetid, item.mapping.kind, why)
            for item in needed.unresolved
            for why in _why_unresolved(tx, catalogue, job, item, dataid)
        ),
        outputs=tuple(_with_outcome(tx, output) for output in outputs_of(job, dataid, statuses)),
        reads=tuple(reads),
        limits=tuple(limits.of_job(tx, catalogue, job, lock=False)),
        partition=partition.type,
        deferred=_deferred(tx, job.jobid, dataid),
        place=unchecked,
        validated=unchecked,
    )


def statuses_of(tx: Transaction, chunks: Sequence[ChunkId]) -> dict[ChunkId, Status]:
    """The status of each chunk; with status None if it was never produced."""
    known = {
        (row.datasetid, row.dataid): row for row in tx.fetch(Status._make, "statuses_given", chunks=compact(chunks))
    }
    return {chunk: known.get(chunk, Status(*chunk, None, None, None)) for chunk in chunks}


def outputs_of(job: Job, dataid: str, statuses: Mapping[ChunkId, Status]) -> tuple[OutputFact, ...]:
    """The outputs of one (job, dataid) with their statuses."""
    rows = [statuses[name, dataid] for name in job.outputs]
    return tuple(OutputFact(row.datasetid, row.status, row.runid) for row in rows)


def _with_outcome(tx: Transaction, output: OutputFact) -> OutputFact:
    """A FAILED output with the outcome of its run; without one if an operator marked it FAILED after a successful run."""
    run = tx.first(records.run, "run_row", runid=output.runid) if output.status == FAILED and output.runid else None
    return output._replace(outcome=run.outcome or "") if run is not None and run.status != READY else output


def _deferred(tx: Transaction, jobid: str, dataid: str) -> float:
    candidate = tx.first(Candidate._make, "candidate_row", jobid=jobid, dataid=dataid)
    if candidate is None or candidate.state != DEFERRED:
        return 0.0
    return max(candidate.not_before - float(tx.value("lease_clock")), 0.0)


def _why_unresolved(tx: Transaction, catalogue: Catalogue, job: Job, item: Input, dataid: str) -> Iterator[str]:
    if item.mapping.kind == "latest":
        partition = catalogue.datasets[item.datasetid].partition
        until = latest_bound(partition, catalogue.output_partition(job), dataid)
        yield f"no chunk of {item.datasetid} up to {until} is READY, and {job.jobid} reads the latest one"
    else:
        yield from _why_not_all_ready(tx, catalogue, job, item.datasetid)


def _why_not_all_ready(tx: Transaction, catalogue: Catalogue, job: Job, name: str) -> list[str]:
    count = catalogue.datasets[name].partition.count
    (span,) = tx.fetch(SpanCounts._make, "span_counts", spans=compact([(name, "", _AFTER_ALL)]), most=_MAX_COUNT)
    total, counts = span.chunks, span.by_status()
    reasons = []
    for status, n in counts.items():
        if n:
            start: dict[str, Any] = {"after_key": "", "after_dataid": "", "n": _SHOWN}
            page = tx.fetch(records.chunk, "unsettled_page", datasetid=name, status=status, **start)
            shown = ", ".join(chunk.dataid for chunk in page)
            reasons.append(f"{job.jobid} reads all of {name}, and {n:,} of its chunks are {status}: {shown}")
    if not total:
        reasons.append(f"{job.jobid} reads all of {name}, which has no chunk yet")
    elif count is not None and total < _MAX_COUNT and total != count:
        reasons.append(_wrong_number(job, name, count, total))
    reasons += _unfinished_upstream(tx, catalogue, job, name, producer_explained=any(counts.values()))
    if not reasons and count is not None:
        reasons.append(_wrong_number(job, name, count, len(inputs.chunks_in_order(tx, name))))
    return reasons


def _wrong_number(job: Job, name: str, count: int, total: int) -> str:
    only = "only " if total < count else ""
    return f"{job.jobid} reads all {count:,} chunks of {name}, and {only}{total:,} are there"


def _unfinished_upstream(
    tx: Transaction, catalogue: Catalogue, job: Job, name: str, *, producer_explained: bool
) -> Iterator[str]:
    """What the job waits for upstream; the producer's own chunks are left out if `producer_explained`."""
    producer = catalogue.producer(name)
    broken = catalogue.broken_upstream(name)
    if broken is not None:
        yield f"{job.jobid} waits until {broken.name} has produced all of {name}, and it is broken: {broken.message}"
    for upstream in catalogue.upstream(name):
        waits = f"{job.jobid} waits until {upstream} has produced all of {name}"
        n = tx.value("claimable_count", jobid=upstream, most=_MAX_COUNT)
        if n:
            many = f"at least {n:,} chunks" if n >= _MAX_COUNT else f"{n:,} chunk{'s' * (n != 1)}"
            yield f"{waits}: {many} can still run"
        elif not (producer_explained and producer and upstream == producer.jobid) and inputs.is_unfinished(
            tx, upstream
        ):
            yield f"{waits}: some of its chunks run now, are deferred, failed or were set aside"
