"""Derive candidates, the (job, dataid) pairs that may be claimed, from statuses and definitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

from ...errors import BadDataid, BadId
from ...model import CLAIMABLE, Catalogue, Job, sort_key, takes_all
from ..drivers.base import Transaction
from ..rows import CandidateRow, PairRead, Status, compact
from . import bulk_candidates
from .bulk_candidates import GroupedFacts, decided
from .inputs import ChunkId, needed

_BATCH = 20_000
_MAX_CHUNKS = 40_000  # per round of derivation: bounds memory
_MAX_PAIR_LOCKS = 200

# By dataset, the jobs that read `all` of it or of something downstream of it; cached for the last catalogue.
_consumers_of_all: tuple[Mapping[str, Job] | None, dict[str, dict[str, Job]]] = (None, {})

PairId = tuple[str, str]
Statuses = Mapping[ChunkId, Status]  # read after the candidates were locked


class Pair(NamedTuple):
    """One (job, dataid) whose candidate is derived, with the chunks that decide about it."""

    jobid: str
    dataid: str
    sort_key: str
    inputs: list[ChunkId]
    exclusive: list[ChunkId]
    is_resolved: bool


class DecidedPairs(NamedTuple):
    """What was decided about pairs: the statuses that were read, the candidates to write, and the pairs without one."""

    statuses: Statuses
    put: list[CandidateRow]
    drop: list[PairId]


class DerivedStatuses(NamedTuple):
    """The statuses that the derivation read; and whether every derived candidate is claimable."""

    statuses: Statuses
    are_claimable: bool


def affected_pairs(catalogue: Catalogue, chunks: Iterable[ChunkId]) -> dict[PairId, None]:
    """Every (job, dataid) that these chunks affect: as its output, or as an input by a static mapping."""
    pairs: dict[PairId, None] = {}
    for datasetid, dataids in _by_first(chunks).items():
        producer = catalogue.producer(datasetid)
        if producer is not None:
            pairs |= dict.fromkeys(zip(repeat(producer.jobid), dataids))
        outputs: dict[object, dict[str, None]] = {}  # computed once for all jobs with the same mapping
        for job, item in catalogue.consumers(datasetid):
            if not item.mapping.is_dynamic:
                key = (item.mapping, catalogue.output_partition(job))
                if key not in outputs:
                    outputs[key] = dict.fromkeys(catalogue.outputs_of_all(job, item, dataids))
                pairs |= dict.fromkeys(zip(repeat(job.jobid), outputs[key]))
    return pairs


def _by_first(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for first, second in pairs:
        groups.setdefault(first, []).append(second)
    return groups


def dynamic_consumers(catalogue: Catalogue, datasetids: Iterable[str]) -> dict[str, Job]:
    """Jobs that read these datasets by a mapping that depends on which chunks exist."""
    return {
        job.jobid: job
        for datasetid in datasetids
        for job, item in catalogue.consumers(datasetid)
        if item.mapping.is_dynamic
    }


def consumers_of_all(catalogue: Catalogue, datasetids: Iterable[str]) -> dict[str, Job]:
    """Jobs that read `all` of these datasets, or of anything that these datasets are upstream of."""
    global _consumers_of_all
    jobs, waiting = _consumers_of_all
    if jobs is not catalogue.jobs:
        waiting = {}
        for job in catalogue.jobs.values():
            for item in job.inputs:
                if item.mapping.kind == "all":
                    for upstream in map(catalogue.job, catalogue.upstream(item.datasetid)):
                        for part in (*upstream.outputs, *(read.datasetid for read in upstream.inputs)):
                            waiting.setdefault(part, {})[job.jobid] = job
        _consumers_of_all = catalogue.jobs, waiting
    return {jobid: job for name in datasetids if name in waiting for jobid, job in waiting[name].items()}


def update_candidates(
    tx: Transaction,
    catalogue: Catalogue,
    chunks: Sequence[ChunkId],
    done: Sequence[PairId] = (),
    read: Iterable[ChunkId] = (),
    *,
    by_operator: bool = False,
    ready: str = "",
) -> Statuses:
    """Update the candidates after these chunks changed; `done` are pairs whose outputs are all READY now.

    `ready` names the dataset of the chunks if all of them became READY, which saves reading their statuses.
    Jobs that read `all` of a dataset further downstream are checked again when an operator acts, or when a published
    chunk is not claimable downstream.
    Returns the statuses of `read`, among others.
    """
    pairs = affected_pairs(catalogue, chunks)
    for pair_id in done:
        pairs.pop(pair_id, None)
    statuses, are_claimable = derive(tx, catalogue, pairs, done=done, read=read, ready=ready)
    for datasetid in {datasetid for datasetid, _ in chunks}:
        continues_downstream = are_claimable and not by_operator and _each_has_an_output(catalogue, datasetid)
        if dynamic_consumers(catalogue, (datasetid,)) or (
            not continues_downstream and consumers_of_all(catalogue, (datasetid,))
        ):
            # The affected outputs depend on concurrent transactions: the next claim derives them, after this commit.
            tx.run("note_put", datasetid=datasetid, dataid=None, after=None)
    return statuses


def _each_has_an_output(catalogue: Catalogue, datasetid: str) -> bool:
    """Whether every consumer of the dataset maps each of its chunks to an output: no output partition has bounds."""
    return not any(catalogue.output_partition(job).has_bounds for job, _ in catalogue.consumers(datasetid))


def derive(
    tx: Transaction,
    catalogue: Catalogue,
    pair_ids: Iterable[PairId],
    *,
    not_before: float = 0.0,
    requested: bool = False,
    done: Sequence[PairId] = (),
    read: Iterable[ChunkId] = (),
    ready: str = "",
) -> DerivedStatuses:
    """Derive, write or remove the candidate of each pair; the candidates of `done` are removed."""
    pair_ids = list(pair_ids)
    if pair_ids or done:
        lock_pairs(tx, [*done, *pair_ids])
    if pair_ids:
        lock_candidates(tx, pair_ids)
    for jobid, dataids in _by_first(done).items():
        remove(tx, jobid, dataids)
    others = _derive_in_bulk(tx, catalogue, pair_ids, not_before, requested, ready)
    statuses: dict[ChunkId, Status] = {}
    n, are_claimable = 0, True
    for pairs in _batched_pairs(tx, catalogue, others):
        part = _derive(tx, catalogue, pairs, read, not_before, requested)
        statuses |= part.statuses
        n, are_claimable = n + len(pairs), are_claimable and part.are_claimable
        read = ()
    return DerivedStatuses(statuses, are_claimable and 0 < n == len(pair_ids))


def _batched_pairs(tx: Transaction, catalogue: Catalogue, pair_ids: Iterable[PairId]) -> Iterator[list[Pair]]:
    """The valid pairs, in parts of a limited number of chunks; at least one part, which may be empty."""
    part: list[Pair] = []
    n = 0
    is_first = True
    for pair_id in pair_ids:
        if n >= _MAX_CHUNKS:
            yield part
            part, n, is_first = [], 0, False
        if (pair := pair_of(tx, catalogue, *pair_id)) is not None:
            part.append(pair)
            n += 1 + len(pair.inputs)
    if part or is_first:
        yield part


def _derive_in_bulk(
    tx: Transaction, catalogue: Catalogue, pair_ids: list[PairId], not_before: float, requested: bool, ready: str
) -> list[PairId]:
    """Derive the pairs of jobs that have many of them in bulk; returns the other pairs."""
    if len(pair_ids) <= _MAX_PAIR_LOCKS:
        return pair_ids
    left: list[PairId] = []
    before: tuple[str, list[str]] = ("", [])
    batches: list[bulk_candidates.DataidBatch] = []
    for jobid, dataids in _by_first(pair_ids).items():
        job = catalogue.jobs.get(jobid)
        if (
            job is None
            or len(dataids) <= _MAX_PAIR_LOCKS
            or not bulk_candidates.can_derive_in_bulk(catalogue, job, dataids)
        ):
            left += zip(repeat(jobid), dataids)
            continue
        partition = catalogue.output_partition(job)
        if before != (partition.type, dataids):  # the consumers of a dataset usually have the same dataids
            before, batches = (partition.type, dataids), bulk_candidates.batches_of(partition, dataids)
        bulk_candidates.derive(tx, job, batches, not_before, requested, ready)
    return left


def lock_pairs(tx: Transaction, pairs: Sequence[PairId]) -> None:
    """Lock these pairs until this transaction ends: every other transaction that derives their candidates waits."""
    tx.pairs_locked += len(pairs)
    if tx.pairs_locked > _MAX_PAIR_LOCKS:
        tx.lock("lock_jobs", jobs=compact(sorted({jobid for jobid, _ in pairs})))
    else:
        tx.lock("lock_pairs", pairs=compact(pairs))


def lock_candidates(tx: Transaction, pairs: Iterable[PairId]) -> None:
    """Lock the rows of these candidates: waits for claims that hold them, and blocks new claims of them.

    A claim locks its candidate first, so a transaction that derives candidates locks them before it reads statuses.
    """
    tx.lock("lock_candidates", pairs=compact(list(pairs)))


def pair_of(tx: Transaction, catalogue: Catalogue, jobid: str, dataid: str) -> Pair | None:
    """The chunks that decide about one (job, dataid); None if the dataid is not valid for the job."""
    job = catalogue.jobs.get(jobid)
    if job is None:
        return None
    try:
        key = sort_key(catalogue.output_partition(job), dataid)
        chunks = needed(tx, catalogue, job, dataid)
    except (BadDataid, BadId):
        return None
    return Pair(jobid, dataid, key, chunks.chunks, chunks.exclusive, not chunks.unresolved)


def foreseen(tx: Transaction, catalogue: Catalogue, pair_ids: Iterable[PairId]) -> dict[PairId, CandidateRow | None]:
    """The candidate of each pair as `derive` would write it; writes and locks nothing."""
    found: dict[PairId, CandidateRow | None] = dict.fromkeys(pair_ids)
    for pairs in _batched_pairs(tx, catalogue, list(found)):
        found |= {(row.jobid, row.dataid): row for row in _decided(tx, catalogue, pairs).put}
    return found


def _derive(
    tx: Transaction,
    catalogue: Catalogue,
    pairs: Sequence[Pair],
    read: Iterable[ChunkId],
    not_before: float,
    requested: bool,
) -> DerivedStatuses:
    statuses, put, drop = _decided(tx, catalogue, pairs, read, not_before, requested)
    for jobid, dataids in _by_first(drop).items():
        remove(tx, jobid, dataids)
    write(tx, put)
    return DerivedStatuses(statuses, not drop and all(row.state == CLAIMABLE for row in put))


def _decided(
    tx: Transaction,
    catalogue: Catalogue,
    pairs: Sequence[Pair],
    read: Iterable[ChunkId] = (),
    not_before: float = 0.0,
    requested: bool = False,
) -> DecidedPairs:
    """Decide about each pair from the statuses of its chunks; writes nothing."""
    chunks = dict.fromkeys(read)
    for pair in pairs:
        chunks.update(dict.fromkeys([(name, pair.dataid) for name in catalogue.jobs[pair.jobid].outputs]))
        chunks.update(dict.fromkeys(pair.inputs))
    if not chunks:
        return DecidedPairs({}, [], [])
    exclusive = [(pair.jobid, pair.dataid, *chunk) for pair in pairs for chunk in pair.exclusive]
    statuses_of = tx.send("statuses_given", chunks=compact(list(chunks)))
    reads: dict[PairId, list[str]] = {}
    if exclusive:
        for row in tx.fetch(PairRead._make, "reads_of_pairs", reads=compact(exclusive)):
            reads.setdefault((row.jobid, row.dataid), []).append(row.status)
    statuses = {(status.datasetid, status.dataid): status for status in map(Status._make, statuses_of())}
    put: list[CandidateRow] = []
    drop: list[PairId] = []
    for pair in pairs:
        job = catalogue.jobs[pair.jobid]
        outputs = [statuses[chunk].status for name in job.outputs if (chunk := (name, pair.dataid)) in statuses]
        inputs = [statuses[chunk].status for chunk in pair.inputs if chunk in statuses]
        facts = GroupedFacts(
            pair.is_resolved, len(pair.inputs), inputs, outputs, reads.get((pair.jobid, pair.dataid), [])
        )
        state, rank = decided(job, facts, not_before, requested)
        if state is None:
            drop.append((pair.jobid, pair.dataid))
            continue
        put.append(CandidateRow(pair.jobid, pair.dataid, pair.sort_key, rank, state, not_before, pair.inputs))
    return DecidedPairs(statuses, put, drop)


def write(tx: Transaction, candidates: Sequence[CandidateRow]) -> None:
    """Insert or update candidates."""
    if len(candidates) == 1:
        (only,) = candidates
        tx.run("candidate_put", **only._replace(inputs=compact(only.inputs))._asdict())
    elif candidates:
        tx.run("candidates_put", candidates=compact(candidates))


def remove(tx: Transaction, jobid: str, dataids: Sequence[str]) -> None:
    """Remove candidates of one job."""
    if len(dataids) == 1:
        tx.run("candidate_drop", jobid=jobid, dataid=dataids[0])
    else:
        tx.run("candidates_drop", jobid=jobid, dataids=compact(dataids))


def record_broken_jobs(tx: Transaction, catalogue: Catalogue) -> None:
    """Record which jobs are broken, and rebuild the candidates of jobs that no longer are."""
    recorded = set(tx.values("broken_jobs"))
    now = {name for what, name in catalogue.broken if what == "job"}
    for jobid in sorted(now - recorded):
        tx.run("broken_job_put", jobid=jobid)
    for jobid in sorted(recorded - now):
        tx.run("broken_job_drop", jobid=jobid)
        rebuild(tx, catalogue, jobid)
        for datasetid in catalogue.jobs[jobid].outputs if jobid in catalogue.jobs else ():
            tx.run("note_put", datasetid=datasetid, dataid=None, after=None)  # wakes the jobs that read all of it


def rebuild(tx: Transaction, catalogue: Catalogue, jobid: str) -> None:
    """Derive all candidates of a job again after its definition changed; those of a broken job are left unchanged."""
    if ("job", jobid) in catalogue.broken:
        return
    tx.run("candidates_of_job_drop", jobid=jobid)
    if jobid in catalogue.jobs:
        for pairs in pairs_of_job(tx, catalogue, catalogue.jobs[jobid]):
            derive(tx, catalogue, pairs)


def pairs_of_job(tx: Transaction, catalogue: Catalogue, job: Job) -> Iterator[Iterable[PairId]]:
    """Every pair of a job that may have a candidate, in batches; a pair may come twice."""
    if takes_all(job):
        yield [(job.jobid, "all")]
    output = catalogue.output_partition(job)
    if output.start is not None and all(
        item.mapping.kind == "lag" for item in job.inputs if not item.mapping.is_dynamic
    ):
        yield [(job.jobid, output.start)]  # the first run of a job that reads only its own output
    for item in job.inputs:
        if item.mapping.is_dynamic:
            continue
        after = ReadyChunk("", "")
        while page := _ready_chunks(tx, item.datasetid, after):
            outputs = dict.fromkeys(catalogue.outputs_of_all(job, item, [chunk.dataid for chunk in page]))
            yield zip(repeat(job.jobid), outputs)
            after = page[-1]
    for datasetid in job.outputs:
        resubmitted = tx.values("resubmitted_chunks", datasetid=datasetid)
        yield [(job.jobid, dataid) for dataid in resubmitted]


class ReadyChunk(NamedTuple):
    """A READY chunk and its position in the order."""

    dataid: str
    sort_key: str


def _ready_chunks(tx: Transaction, datasetid: str, after: ReadyChunk) -> list[ReadyChunk]:
    return tx.fetch(
        ReadyChunk._make,
        "ready_chunks_page",
        datasetid=datasetid,
        after_key=after.sort_key,
        after_dataid=after.dataid,
        n=_BATCH,
    )
