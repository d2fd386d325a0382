"""Candidates: which (job, dataid) may be taken, derived from status and definitions, in the same transaction as the status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import BadDataid, BadId
from ..model import (
    READY,
    RESUBMIT,
    Catalogue,
    Job,
    latest_bound,
    may_consume,
    may_produce,
    sort_key,
    takes_all,
)
from .backend import Row, Transaction
from .records import compact

CLAIMABLE, WAITING, DEFERRED = "CLAIMABLE", "WAITING", "DEFERRED"
_BATCH = 20_000
_MOST_PAIR_LOCKS = 200

ChunkId = tuple[str, str]
PairId = tuple[str, str]


class Pair(NamedTuple):
    """One (job, dataid) that may have to be taken, with the chunks that decide about it."""

    jobid: str
    dataid: str
    sort_key: str
    inputs: list[ChunkId]
    exclusive: list[ChunkId]
    is_resolved: bool


def touched(catalogue: Catalogue, chunks: Iterable[ChunkId]) -> dict[PairId, None]:
    """Every (job, dataid) that these chunks decide about: as product, and as input where the mapping names the output."""
    pairs: dict[PairId, None] = {}
    plans: dict[str, tuple[Job | None, list[tuple[Job, Any]]]] = {}
    for datasetid, dataid in chunks:
        if datasetid not in plans:
            plans[datasetid] = (
                catalogue.producer(datasetid),
                [(job, item) for job, item in catalogue.consumers(datasetid) if not item.mapping.is_dynamic],
            )
        producer, consumers = plans[datasetid]
        if producer is not None:
            pairs[producer.jobid, dataid] = None
        for job, item in consumers:
            try:
                for output in catalogue.outputs_of(job, item, dataid):
                    pairs[job.jobid, output] = None
            except (BadDataid, BadId):
                continue  # a malformed dataid from outside belongs to no output; `why` says so
    return pairs


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
    changed = set(datasetids)
    found = {}
    for job in catalogue.jobs.values():
        for item in job.inputs:
            if item.mapping.kind == "all":
                for upstream in map(catalogue.job, catalogue.upstream(item.datasetid)):
                    if changed & {*upstream.outputs, *(each.datasetid for each in upstream.inputs)}:
                        found[job.jobid] = job
    return found


def settle(
    tx: Transaction,
    catalogue: Catalogue,
    chunks: Sequence[ChunkId],
    before: Sequence[tuple[str, dict[str, Any]]] = (),
    *,
    by_person: bool = False,
) -> list[list[Row]]:
    """Bring the candidates up to date after these chunks changed; earlier queries may travel along in `before`.

    What a job publishes goes on from job to job by itself; what a person decides may end a wait that is further downstream.
    """
    for datasetid in {datasetid for datasetid, _ in chunks}:
        if dynamic_consumers(catalogue, (datasetid,)) or (
            by_person and consumers_of_the_whole(catalogue, (datasetid,))
        ):
            # Which outputs this touches depends on what others publish meanwhile: the next claim looks, after this commit.
            before = [*before, ("note_put", {"datasetid": datasetid, "dataid": None, "after": None})]
    return decide(tx, catalogue, touched(catalogue, chunks), before=before)


def decide(
    tx: Transaction,
    catalogue: Catalogue,
    pair_ids: Iterable[PairId],
    *,
    before: Sequence[tuple[str, dict[str, Any]]] = (),
    not_before: float = 0.0,
    asked_for: bool = False,
) -> list[list[Row]]:
    """Decide for each (job, dataid) whether it may be taken now, and write or remove its candidate."""
    pairs: list[Pair] = []
    for pair_id in pair_ids:
        found = pair(tx, catalogue, *pair_id)
        if found is not None:
            pairs.append(found)
    answers: list[list[Row]] = []
    for start in range(0, max(len(pairs), 1), _BATCH):
        batch = pairs[start : start + _BATCH]
        calls = list(before) if start == 0 else []
        if batch:
            ids = compact([(each.jobid, each.dataid, each.inputs, each.exclusive) for each in batch])
            if len(pairs) > _MOST_PAIR_LOCKS:
                calls.append(("lock_jobs", {"jobs": compact(sorted({each.jobid for each in pairs}))}))
            else:
                calls.append(("lock_pairs", {"pairs": ids}))
            calls.append(("pair_facts", {"pairs": ids}))
        results = tx.batch(*calls)
        if start == 0:
            answers = results[: len(before)]
        if batch:
            facts = {(row[0], row[1]): row for row in results[-1]}
            _write(tx, catalogue, batch, facts, not_before, asked_for)
    return answers


def pair(tx: Transaction, catalogue: Catalogue, jobid: str, dataid: str) -> Pair | None:
    """The chunks that decide about one (job, dataid); None when the job cannot have this dataid."""
    job = catalogue.jobs.get(jobid)
    if job is None:
        return None
    output = catalogue.output_partition(job)
    try:
        key = sort_key(output, dataid)
        inputs: list[ChunkId] = []
        exclusive: list[ChunkId] = []
        resolved = True
        for item in job.inputs:
            mapping = item.mapping
            if mapping.is_dynamic:
                chunks = _dynamic_inputs(tx, catalogue, job, item, dataid)
                resolved = resolved and chunks is not None
            else:
                chunks = [(item.datasetid, needed) for needed in catalogue.needed(job, item, dataid)]
            if chunks:
                inputs += chunks
                if not mapping.is_shared:
                    exclusive += chunks
    except (BadDataid, BadId):
        return None
    return Pair(jobid, dataid, key, inputs, exclusive, resolved)


def _dynamic_inputs(tx: Transaction, catalogue: Catalogue, job: Job, item: Any, dataid: str) -> list[ChunkId] | None:
    """The chunks of a dynamic input; None while they are not all there."""
    dataset = catalogue.dataset(item.datasetid)
    if item.mapping.kind == "latest":
        until = latest_bound(dataset.partition, catalogue.output_partition(job), dataid)
        newest = tx.row("newest_ready", datasetid=dataset.datasetid, until_key=sort_key(dataset.partition, until))
        return [(dataset.datasetid, newest[0])] if newest else None
    # The cheap question first: while something upstream is unfinished, nobody needs to look at every chunk.
    for upstream in catalogue.upstream(dataset.datasetid):
        unfinished = tx.row("unfinished_of_job", jobid=upstream)
        if unfinished and unfinished[0]:
            return None
    rows = tx.rows("chunks_in_order", datasetid=dataset.datasetid)
    count = dataset.partition.count
    if not rows or any(status != READY for _, status in rows) or (count is not None and len(rows) != count):
        return None
    return [(dataset.datasetid, chunk) for chunk, _ in rows]


def _write(
    tx: Transaction,
    catalogue: Catalogue,
    pairs: list[Pair],
    facts: Mapping[PairId, Row],
    not_before: float,
    asked_for: bool,
) -> None:
    put: list[tuple[Any, ...]] = []
    drop: dict[str, list[str]] = {}
    for each in pairs:
        _, _, ready, outs, ins = facts[each.jobid, each.dataid]
        state, rank = _decision(each, ready, outs, ins, asked_for or bool(catalogue.jobs[each.jobid].inputs))
        if state is None:
            drop.setdefault(each.jobid, []).append(each.dataid)
        else:
            if state == CLAIMABLE and not_before:
                state = DEFERRED
            put.append((each.jobid, each.dataid, each.sort_key, rank, state, not_before, compact(each.inputs)))
    for jobid, dataids in drop.items():
        tx.run("candidates_drop", jobid=jobid, dataids=compact(dataids))
    if put:
        tx.run("candidates_put", candidates=compact(put))


def _decision(pair: Pair, ready: int, outs: str | None, ins: str | None, is_named: bool) -> tuple[str | None, int]:
    """The state of a candidate and its rank, straight from the two lock tables."""
    out_statuses = outs.split(",") if outs else []
    if not all(map(may_produce, out_statuses)):
        return None, 1
    output = RESUBMIT if RESUBMIT in out_statuses else None
    if ins and not all(may_consume(status, output) for status in ins.split(",")):
        return None, 1
    if output is None and not is_named:
        return None, 1  # a job without inputs runs only for a dataid that somebody names
    rank = 0 if output else 1
    return (CLAIMABLE if pair.is_resolved and ready == len(pair.inputs) else WAITING), rank


def rebuild(tx: Transaction, catalogue: Catalogue, jobid: str) -> None:
    """Derive all candidates of a job anew: its definition changed."""
    tx.run("candidates_of_job_drop", jobid=jobid)
    job = catalogue.jobs.get(jobid)
    if job is None:
        return
    if takes_all(job):
        decide(tx, catalogue, [(jobid, "all")])
        return
    output = catalogue.output_partition(job)
    if output.start is not None and all(
        item.mapping.kind == "lag" for item in job.inputs if not item.mapping.is_dynamic
    ):
        decide(tx, catalogue, [(jobid, output.start)])  # the first run of a job that reads only its own past
    for item in job.inputs:
        if item.mapping.is_dynamic:
            continue
        after: Row = ("", "")
        while True:
            page = tx.rows(
                "ready_chunks_page", datasetid=item.datasetid, after_key=after[0], after_dataid=after[1], n=_BATCH
            )
            if not page:
                break
            pairs: dict[PairId, None] = {}
            for dataid, _ in page:
                try:
                    pairs |= {(jobid, out): None for out in catalogue.outputs_of(job, item, dataid)}
                except (BadDataid, BadId):
                    continue
            decide(tx, catalogue, pairs)
            after = (page[-1][1], page[-1][0])
    for datasetid in job.outputs:
        resubmitted = tx.rows("resubmitted_chunks", datasetid=datasetid)
        decide(tx, catalogue, [(jobid, row[0]) for row in resubmitted])
