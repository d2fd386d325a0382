"""Facts: everything in the store that decides whether one chunk of a job may run, for `model.decide`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import BadDataid, BadId
from ..model import (
    DEFERRED,
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
from . import inputs, limits, records
from .backend import Transaction
from .inputs import ChunkId
from .rows import Candidate, SpanCounts, Status, compact

ONLY_TRACKED = "only tracked: no location and no checks are declared"
NOT_LOOKED_AT = "nobody looked at the data: nothing was launched"

_AFTER_ALL = "\x7f"  # comes after the position of every chunk
_MOST = 10_000  # further than that nothing is counted
_SHOWN = 5


def of_chunk(tx: Transaction, catalogue: Catalogue, job: Job, dataid: str) -> Facts:
    """All facts about one (job, dataid), as they are in this transaction."""
    partition = catalogue.output_partition(job)
    unseen = ONLY_TRACKED if catalogue.only_tracks(job) else NOT_LOOKED_AT
    try:
        check_dataid(partition, dataid, job.outputs[0])
        needed = inputs.needed(tx, catalogue, job, dataid)
    except (BadDataid, BadId) as error:
        return Facts(
            job.jobid, dataid, malformed=error.message, partition=partition.type, place=unseen, validated=unseen
        )
    asked = [*needed.chunks, *((name, dataid) for name in job.outputs)]
    statuses = statuses_of(tx, asked)
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
        outputs=outputs_of(job, dataid, statuses),
        reads=tuple(reads),
        limits=tuple(limits.of_job(tx, catalogue, job, lock=False)),
        partition=partition.type,
        deferred=_deferred(tx, job.jobid, dataid),
        place=unseen,
        validated=unseen,
    )


def statuses_of(tx: Transaction, chunks: Sequence[ChunkId]) -> dict[ChunkId, Status]:
    """The status of each of these chunks; without one where it was never produced."""
    known = {
        (row.datasetid, row.dataid): row for row in tx.fetch(Status._make, "statuses_given", chunks=compact(chunks))
    }
    return {chunk: known.get(chunk, Status(*chunk, None, None, None)) for chunk in chunks}


def outputs_of(job: Job, dataid: str, statuses: Mapping[ChunkId, Status]) -> tuple[OutputFact, ...]:
    """The outputs of one (job, dataid), as their statuses say."""
    rows = [statuses[name, dataid] for name in job.outputs]
    return tuple(OutputFact(row.datasetid, row.status, row.runid) for row in rows)


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
        yield from _why_not_all(tx, catalogue, job, item.datasetid)


def _why_not_all(tx: Transaction, catalogue: Catalogue, job: Job, name: str) -> list[str]:
    count = catalogue.datasets[name].partition.count
    (span,) = tx.fetch(SpanCounts._make, "span_counts", spans=compact([(name, "", _AFTER_ALL)]), most=_MOST)
    total, counts = span.chunks, span.by_status()
    told = []
    for status, n in counts.items():
        if n:
            start: dict[str, Any] = {"after_key": "", "after_dataid": "", "n": _SHOWN}
            page = tx.fetch(records.chunk, "unsettled_page", datasetid=name, status=status, **start)
            shown = ", ".join(chunk.dataid for chunk in page)
            told.append(f"{job.jobid} reads all of {name}, and {n:,} of its chunks are {status}: {shown}")
    if not total:
        told.append(f"{job.jobid} reads all of {name}, which has no chunk yet")
    elif count is not None and total < _MOST and total != count:
        told.append(_wrong_number(job, name, count, total))
    told += _unfinished_upstream(tx, catalogue, job, name, is_told=any(counts.values()))
    if not told and count is not None:
        told.append(_wrong_number(job, name, count, len(inputs.in_order(tx, name))))
    return told


def _wrong_number(job: Job, name: str, count: int, total: int) -> str:
    only = "only " if total < count else ""
    return f"{job.jobid} reads all {count:,} chunks of {name}, and {only}{total:,} are there"


def _unfinished_upstream(tx: Transaction, catalogue: Catalogue, job: Job, name: str, *, is_told: bool) -> Iterator[str]:
    """What further upstream is waited for; of the producer itself only what its chunks do not tell already."""
    producer = catalogue.producer(name)
    broken = catalogue.broken_upstream(name)
    if broken is not None:
        yield f"{job.jobid} waits until {broken.name} has produced all of {name}, and it is broken: {broken.message}"
    for upstream in catalogue.upstream(name):
        waits = f"{job.jobid} waits until {upstream} has produced all of {name}"
        n = tx.value("claimable_count", jobid=upstream, most=_MOST)
        if n:
            many = f"at least {n:,} chunks" if n >= _MOST else f"{n:,} chunk{'s' * (n != 1)}"
            yield f"{waits}: {many} can still run"
        elif not (is_told and producer and upstream == producer.jobid) and inputs.is_unfinished(tx, upstream):
            yield f"{waits}: some of its chunks run now, are deferred, failed or were set aside"
