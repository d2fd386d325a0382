"""Candidates: which (job, dataid) may be taken, derived from status and definitions, in the same transaction as the status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat

from ..errors import BadDataid, BadId
from ..model import CLAIMABLE, Catalogue, Job, sort_key, takes_all
from ..shapes import NamedTuple
from . import alike
from .alike import Found, decided
from .backend import Transaction
from .inputs import ChunkId, needed
from .rows import CandidateRow, PairRead, Status, compact

_BATCH = 20_000
_MOST_PAIR_LOCKS = 200

# By dataset, the jobs that wait for all of something that it has a part in; of the catalogue that was last asked about.
_whole: tuple[Mapping[str, Job] | None, dict[str, dict[str, Job]]] = (None, {})

PairId = tuple[str, str]
Seen = Mapping[ChunkId, Status]  # chunks as they stood after the candidates were locked


class Pair(NamedTuple):
    """One (job, dataid) that may have to be taken, with the chunks that decide about it."""

    jobid: str
    dataid: str
    sort_key: str
    inputs: list[ChunkId]
    exclusive: list[ChunkId]
    is_resolved: bool


class Derived(NamedTuple):
    """How the chunks stand that decided, and those that were read; and whether all of what was derived can be taken now."""

    seen: Seen
    are_claimable: bool


def touched(catalogue: Catalogue, chunks: Iterable[ChunkId]) -> dict[PairId, None]:
    """Every (job, dataid) that these chunks decide about: as product, and as input where the mapping names the output."""
    pairs: dict[PairId, None] = {}
    for datasetid, dataids in _by_first(chunks).items():
        producer = catalogue.producer(datasetid)
        if producer is not None:
            pairs |= dict.fromkeys(zip(repeat(producer.jobid), dataids))
        outputs: dict[object, list[str]] = {}  # of jobs that map in the same way: once
        for job, item in catalogue.consumers(datasetid):
            if not item.mapping.is_dynamic:
                way = (item.mapping, catalogue.output_partition(job))
                if way not in outputs:
                    outputs[way] = list(catalogue.outputs_of_all(job, item, dataids))
                pairs |= dict.fromkeys(zip(repeat(job.jobid), outputs[way]))
    return pairs


def _by_first(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for first, second in pairs:
        found.setdefault(first, []).append(second)
    return found


def dynamic_consumers(catalogue: Catalogue, datasetids: Iterable[str]) -> dict[str, Job]:
    """Jobs that read these datasets by a mapping that depends on which chunks exist."""
    return {
        job.jobid: job
        for datasetid in datasetids
        for job, item in catalogue.consumers(datasetid)
        if item.mapping.is_dynamic
    }


def consumers_of_the_whole(catalogue: Catalogue, datasetids: Iterable[str]) -> dict[str, Job]:
    """Jobs that wait for all chunks of something that these datasets have a part in, however far upstream."""
    global _whole
    jobs, waiting = _whole
    if jobs is not catalogue.jobs:
        waiting = {}
        for job in catalogue.jobs.values():
            for item in job.inputs:
                if item.mapping.kind == "all":
                    for upstream in map(catalogue.job, catalogue.upstream(item.datasetid)):
                        for part in (*upstream.outputs, *(read.datasetid for read in upstream.inputs)):
                            waiting.setdefault(part, {})[job.jobid] = job
        _whole = catalogue.jobs, waiting
    return {jobid: job for name in datasetids if name in waiting for jobid, job in waiting[name].items()}


def settle(
    tx: Transaction,
    catalogue: Catalogue,
    chunks: Sequence[ChunkId],
    done: Sequence[PairId] = (),
    read: Iterable[ChunkId] = (),
    *,
    by_person: bool = False,
    ready: str = "",
) -> Seen:
    """Bring the candidates up to date after these chunks changed; done are those whose outputs are all READY now.

    Where they are of one dataset and all became READY, it is named as ready, so that nobody looks again.
    What a job publishes goes on from job to job by itself, as long as the next one can take it. Where it cannot, and where a
    person decides or delivers something, a wait that is further downstream may end, or begin.
    Returns how the chunks stand that done have read, and others.
    """
    pairs = touched(catalogue, chunks)
    for pair_id in done:
        pairs.pop(pair_id, None)
    seen, are_claimable = derive(tx, catalogue, pairs, done=done, read=read, ready=ready)
    for datasetid in {datasetid for datasetid, _ in chunks}:
        goes_on = are_claimable and not by_person and _each_has_an_output(catalogue, datasetid)
        if dynamic_consumers(catalogue, (datasetid,)) or (
            not goes_on and consumers_of_the_whole(catalogue, (datasetid,))
        ):
            # Which outputs this touches depends on what others publish meanwhile: the next claim looks, after this commit.
            tx.run("note_put", datasetid=datasetid, dataid=None, after=None)
    return seen


def _each_has_an_output(catalogue: Catalogue, datasetid: str) -> bool:
    """Whether each chunk of a dataset is an input of some output, for every job that reads it: none lies beyond a bound."""
    return not any(catalogue.output_partition(job).has_bounds for job, _ in catalogue.consumers(datasetid))


def derive(
    tx: Transaction,
    catalogue: Catalogue,
    pair_ids: Iterable[PairId],
    *,
    not_before: float = 0.0,
    asked_for: bool = False,
    done: Sequence[PairId] = (),
    read: Iterable[ChunkId] = (),
    ready: str = "",
) -> Derived:
    """Derive for each (job, dataid) whether it may be taken now, and write or remove its candidate; done may not."""
    pair_ids = list(pair_ids)
    if pair_ids or done:
        lock(tx, [*done, *pair_ids])
    if pair_ids:
        lock_rows(tx, pair_ids)
    for jobid, dataids in _by_first(done).items():
        remove(tx, jobid, dataids)
    others = _derive_alike(tx, catalogue, pair_ids, not_before, asked_for, ready)
    pairs = [known for pair_id in others if (known := pair_of(tx, catalogue, *pair_id)) is not None]
    seen: dict[ChunkId, Status] = {}
    are_claimable = bool(pairs) and len(pairs) == len(pair_ids)
    for start in range(0, max(len(pairs), 1), _BATCH):
        part = _derive(tx, catalogue, pairs[start : start + _BATCH], read, not_before, asked_for)
        seen |= part.seen
        are_claimable = are_claimable and part.are_claimable
        read = ()
    return Derived(seen, are_claimable)


def _derive_alike(
    tx: Transaction, catalogue: Catalogue, pair_ids: list[PairId], not_before: float, asked_for: bool, ready: str
) -> list[PairId]:
    """Do it for jobs of which there are many at once; the others are left."""
    if len(pair_ids) <= _MOST_PAIR_LOCKS:
        return pair_ids
    left: list[PairId] = []
    before: tuple[str, list[str]] = ("", [])
    batches: list[alike.Batch] = []
    for jobid, dataids in _by_first(pair_ids).items():
        job = catalogue.jobs.get(jobid)
        if job is None or len(dataids) <= _MOST_PAIR_LOCKS or not alike.are_alike(catalogue, job, dataids):
            left += zip(repeat(jobid), dataids)
            continue
        partition = catalogue.output_partition(job)
        if before != (partition.type, dataids):  # as a rule the consumers of a dataset have the same
            before, batches = (partition.type, dataids), alike.batches_of(partition, dataids)
        alike.derive(tx, job, batches, not_before, asked_for, ready)
    return left


def lock(tx: Transaction, pairs: Sequence[PairId]) -> None:
    """Whoever else decides about one of these (job, dataid) waits until this transaction ends."""
    tx.pairs_locked += len(pairs)
    if tx.pairs_locked > _MOST_PAIR_LOCKS:
        tx.lock("lock_jobs", jobs=compact(sorted({jobid for jobid, _ in pairs})))
    else:
        tx.lock("lock_pairs", pairs=compact(pairs))


def lock_rows(tx: Transaction, pairs: Iterable[PairId]) -> None:
    """Whoever takes one of these candidates right now is waited for, and nobody takes one until this transaction ends.

    A claim locks what it takes before anything else. So whoever decides about candidates does it before looking at statuses.
    """
    tx.lock("lock_candidates", pairs=compact(list(pairs)))


def pair_of(tx: Transaction, catalogue: Catalogue, jobid: str, dataid: str) -> Pair | None:
    """The chunks that decide about one (job, dataid); None when the job cannot have this dataid."""
    job = catalogue.jobs.get(jobid)
    if job is None:
        return None
    try:
        key = sort_key(catalogue.output_partition(job), dataid)
        chunks = needed(tx, catalogue, job, dataid)
    except (BadDataid, BadId):
        return None
    return Pair(jobid, dataid, key, chunks.chunks, chunks.exclusive, not chunks.unresolved)


def _derive(
    tx: Transaction,
    catalogue: Catalogue,
    pairs: Sequence[Pair],
    read: Iterable[ChunkId],
    not_before: float,
    asked_for: bool,
) -> Derived:
    chunks = dict.fromkeys(read)
    for pair in pairs:
        chunks.update(dict.fromkeys([(name, pair.dataid) for name in catalogue.jobs[pair.jobid].outputs]))
        chunks.update(dict.fromkeys(pair.inputs))
    if not chunks:
        return Derived({}, False)
    exclusive = [(pair.jobid, pair.dataid, *chunk) for pair in pairs for chunk in pair.exclusive]
    statuses_of = tx.ask("statuses_given", chunks=compact(list(chunks)))
    reads: dict[PairId, list[str]] = {}
    if exclusive:
        for row in tx.fetch(PairRead._make, "reads_of_pairs", reads=compact(exclusive)):
            reads.setdefault((row.jobid, row.dataid), []).append(row.status)
    seen = {(status.datasetid, status.dataid): status for status in map(Status._make, statuses_of())}
    put: list[CandidateRow] = []
    drop: list[PairId] = []
    for pair in pairs:
        job = catalogue.jobs[pair.jobid]
        made = [seen[chunk].status for name in job.outputs if (chunk := (name, pair.dataid)) in seen]
        there = [seen[chunk].status for chunk in pair.inputs if chunk in seen]
        found = Found(pair.is_resolved, len(pair.inputs), there, made, reads.get((pair.jobid, pair.dataid), []))
        state, rank = decided(job, found, not_before, asked_for)
        if state is None:
            drop.append((pair.jobid, pair.dataid))
            continue
        put.append(CandidateRow(pair.jobid, pair.dataid, pair.sort_key, rank, state, not_before, pair.inputs))
    for jobid, dataids in _by_first(drop).items():
        remove(tx, jobid, dataids)
    write(tx, put)
    return Derived(seen, not drop and all(row.state == CLAIMABLE for row in put))


def write(tx: Transaction, candidates: Sequence[CandidateRow]) -> None:
    """Write candidates as they are now."""
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


def catch_up(tx: Transaction, catalogue: Catalogue) -> None:
    """Mark the jobs that are broken, since nobody derives their candidates meanwhile; those that no longer are get theirs.

    A worker of a hardened store may add marks and change none, so what was put right gets a mark of its own. An operator
    of one may not even do that, and leaves it to the next worker.
    """
    marks = {mark.partition(" ")[0]: mark for mark in tx.values("broken_marks")}
    now = {name for what, name in catalogue.broken if what == "job"}
    if now == marks.keys() or not tx.value("may_mark"):
        return
    for jobid in sorted(now - marks.keys()):
        tx.run("meta_put_once", name=f"broken {jobid} {tx.value('revision')}", value="since")
    for jobid in sorted(marks.keys() - now):
        tx.run("meta_put_once", name=f"mended {marks[jobid]}", value="since")
        rebuild(tx, catalogue, jobid)
        for datasetid in catalogue.jobs[jobid].outputs if jobid in catalogue.jobs else ():
            tx.run("note_put", datasetid=datasetid, dataid=None, after=None)  # whoever waits for all of it


def rebuild(tx: Transaction, catalogue: Catalogue, jobid: str) -> None:
    """Derive all candidates of a job anew: its definition changed. Those of a broken one stay until it is put right."""
    if ("job", jobid) in catalogue.broken:
        return
    tx.run("candidates_of_job_drop", jobid=jobid)
    job = catalogue.jobs.get(jobid)
    if job is None:
        return
    if takes_all(job):
        derive(tx, catalogue, [(jobid, "all")])
    output = catalogue.output_partition(job)
    if output.start is not None and all(
        item.mapping.kind == "lag" for item in job.inputs if not item.mapping.is_dynamic
    ):
        derive(tx, catalogue, [(jobid, output.start)])  # the first run of a job that reads only its own past
    for item in job.inputs:
        if item.mapping.is_dynamic:
            continue
        after = ReadyChunk("", "")
        while page := _ready_chunks(tx, item.datasetid, after):
            outputs = dict.fromkeys(catalogue.outputs_of_all(job, item, [chunk.dataid for chunk in page]))
            derive(tx, catalogue, zip(repeat(jobid), outputs))
            after = page[-1]
    for datasetid in job.outputs:
        resubmitted = tx.values("resubmitted_chunks", datasetid=datasetid)
        derive(tx, catalogue, [(jobid, dataid) for dataid in resubmitted])


class ReadyChunk(NamedTuple):
    """One READY chunk and its position in the order."""

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
