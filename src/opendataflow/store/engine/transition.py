"""Change the status of chunks: the only module that writes the statuses of OUT rows, and the events of their changes.

What each verb does to each status is the table in `model.decision.transitions`. One run writes the chunks of all outputs of
its job, its product, so they change together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...errors import BadTransition, LeaseLost, Locked
from ...model import HOLD, IN, OUT, PENDING, READY, RESUBMIT, RUNNING, Catalogue, Job, ReadFact, sort_key
from ...model.decision.transitions import BACK, GONE, VERBS, allows
from .. import records
from ..drivers.base import Retry, Transaction
from ..records import Claim, Run
from ..rows import (
    AnnouncedRow,
    CandidateToTake,
    ChunkRow,
    EventRow,
    Expired,
    OutRow,
    StatusKey,
    TakenRun,
    as_objects,
    compact,
)
from ..version_records import Recalled, recalled
from . import candidates
from .inputs import ChunkId

OUTSIDE = "outside"  # the jobid of chunks that no job of the store produced
_BATCH = 10_000


class OperatorAct(NamedTuple):
    """Who changes a status, and why, for the history."""

    who: str | None
    why: str | None = None


class StatusChange(NamedTuple):
    """A chunk and its new status; None removes its row."""

    chunk: ChunkId
    row: ChunkRow | None  # the locked OUT row; None: the chunk was never produced
    after: str | None
    version: int | None = None  # the version that becomes current; None: unchanged
    act: OperatorAct | None = None  # of this chunk alone, in place of the act of all

    @property
    def before(self) -> str | None:
        """The status before the change."""
        return self.row.status if self.row else None


# Selecting -----------------------------------------------------------------------------------------------------------


def product_of(catalogue: Catalogue, datasetid: str, dataid: str) -> list[ChunkId]:
    """The chunks that one run writes together with this one, itself included."""
    return [(name, dataid) for name in catalogue.written_together(datasetid)]


def locked_rows(tx: Transaction, chunks: Sequence[ChunkId]) -> dict[ChunkId, ChunkRow]:
    """The OUT rows of these chunks, locked until the transaction ends; chunks that were never produced are left out."""
    return {
        (row.datasetid, row.dataid): row
        for start in range(0, len(chunks), _BATCH)
        for row in tx.fetch(ChunkRow._make, "chunks_given", chunks=compact(chunks[start : start + _BATCH]))
    }


def recalled_versions(tx: Transaction, chunks: Sequence[ChunkId]) -> dict[tuple[str, str, int], Recalled]:
    """The recalled versions of these chunks."""
    rows = tx.fetch(recalled, "recalled_given", chunks=compact(chunks))
    return {(row.datasetid, row.dataid, row.version): row for row in rows}


def next_status(verb: str, chunk: ChunkId, row: ChunkRow | None, *, force: bool = False) -> str | None:
    """The status that an operator's verb leads to; BadTransition or Locked if the table has none."""
    rule = VERBS[verb]
    before = row.status if row else None
    here = " ".join(chunk)
    if row is not None and before == RUNNING:
        if rule.by_force is None or not force:
            if row.run_status != RUNNING:  # set by SQL
                force_verb = verb if rule.by_force else "resubmit"
                raise Locked(
                    f"{here} is RUNNING, and no run holds it", hint=f"Take the chunk: odf {force_verb} {here} --force"
                )
            wait = "Wait until the run ends"
            raise Locked(
                f"{here} is RUNNING (run {row.runid})",
                hint=f"{wait}." if rule.by_force is None else f"{wait}, or take the chunk away from it: --force",
            )
        after = rule.by_force
    elif before in rule.becomes:
        after = rule.becomes[before]
    elif before is None:
        raise BadTransition(
            f"{here} was never produced: there is nothing to {verb}", hint=f"See: odf status {chunk[0]}"
        )
    else:
        possible = ", ".join(status for status in rule.becomes if status)
        raise BadTransition(f"{here} is {before}: {verb} needs {possible}", hint=f"See: odf explain {here}")
    if after == BACK:
        held = row.held if row else None
        return rule.by_force if held == RUNNING else held
    return None if after == GONE else after


# Writing -------------------------------------------------------------------------------------------------------------


def transition(
    tx: Transaction,
    catalogue: Catalogue,
    verb: str,
    changes: Sequence[StatusChange],
    act: OperatorAct,
    *,
    also_removed: Iterable[StatusKey] = (),
) -> None:
    """Write the new statuses of chunks whose rows are locked, and update candidates.

    Runs that lose a RUNNING chunk end as lost, and a pending remake of these chunks is replaced.
    """
    kind = VERBS[verb].event
    tx.run("remake_drop", chunks=compact([change.chunk for change in changes]))
    lost = [change.row.runid for change in changes if change.row and change.before == RUNNING]
    for runid in dict.fromkeys(lost):
        lose(tx, runid, f"{kind} by {act.who}")
    now = locked_rows(tx, [change.chunk for change in changes]) if lost else {}
    put: list[OutRow] = []
    gone: list[StatusKey] = []
    events: list[EventRow] = []
    for change in changes:
        chunk, row = change.chunk, change.row
        if not allows(verb, change.before, change.after):
            raise ValueError(f"{verb} does not change {change.before} to {change.after}: {chunk}")
        jobid = row.jobid if row else catalogue.producer_id(chunk[0]) or OUTSIDE
        if change.after is None:
            gone.append(StatusKey(*chunk, jobid, OUT))
        else:
            put.append(_out_row(catalogue, change, jobid))
        before = now[chunk].status if chunk in now else change.before  # continues after the event of the lost run
        epoch = change.version if change.version is not None else row.epoch if row else None
        events.append(EventRow(kind, *chunk, jobid, before, change.after, *(change.act or act), epoch))
    _put(tx, put)
    remove(tx, [*gone, *also_removed])
    if events:
        tx.run("events_put", events=as_objects(events))
    if moved := [change.chunk for change in changes if change.version is None or change.before != change.after]:
        candidates.update_candidates(tx, catalogue, moved, by_operator=True)


def _out_row(catalogue: Catalogue, change: StatusChange, jobid: str) -> OutRow:
    row, after, (datasetid, _) = change.row, str(change.after), change.chunk
    if row is None:
        key = sort_key(catalogue.dataset(datasetid).partition, change.chunk[1])
        return OutRow(*change.chunk, jobid, after, 0, 0, None, key, is_new=True)
    held = None
    if after == HOLD:  # release restores the status from before the chunk was set aside
        held = row.held if row.status == PENDING else row.status
    version = row.version if change.version is None else change.version
    return OutRow(*change.chunk, jobid, after, row.epoch, version, held, row.sort_key)


def _put(tx: Transaction, rows: Sequence[OutRow]) -> None:
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


def announce(tx: Transaction, datasetid: str, rows: Sequence[AnnouncedRow], **group: Any) -> None:
    """Write delivered chunks as READY, with their events; `group` is what they share: version, jobid, before, runid, act."""
    if tx.value("chunks_announce", datasetid=datasetid, chunks=compact(rows), **group) < len(rows):
        raise Retry  # a run claimed a chunk, or another transaction inserted its row


# Runs ----------------------------------------------------------------------------------------------------------------


class Ending(NamedTuple):
    """The statuses and the event that the end of a run writes."""

    kind: str  # the kind of the event
    run_status: str
    out_status: str
    in_status: str
    outcome: str
    detail: str | None = None
    exit_code: int | None = None


class EndedRun(NamedTuple):
    """One of several runs that end the same way, with its own detail and exit code."""

    runid: int
    jobid: str
    dataid: str
    epoch: int
    owner: str | None
    outputs: Sequence[str]
    detail: str | None
    exit_code: int | None


def begin(tx: Transaction, job: Job, takes: Sequence[CandidateToTake], **run: Any) -> dict[str, TakenRun]:
    """Begin runs: their chunks become RUNNING under a new epoch. Returns the runs by dataid.

    `run` is what the runs share: owner, lease, forced and why. A single run is inserted without building a list, which is
    faster.
    """
    values = {"jobid": job.jobid, "pool": job.pool, "outputs": compact(job.outputs), **run}
    if len(takes) == 1:
        (one,) = takes
        rows = tx.fetch(TakenRun._make, "claim_take_one", **one._asdict() | values | {"inputs": compact(one.inputs)})
    else:
        rows = tx.fetch(TakenRun._make, "claim_take", takes=as_objects(takes), **values)
    return {row.dataid: row for row in rows}


def ending(
    verb: str, outcome: str, detail: str | None = None, exit_code: int | None = None, *, is_retried: bool = False
) -> Ending:
    """What a verb writes that ends a run."""
    rule = VERBS[verb]
    if rule.run_end is None:
        raise ValueError(f"{verb} ends no run")
    after = rule.by_retry if is_retried and rule.by_retry else rule.becomes[RUNNING]
    return Ending(rule.event, rule.run_end.run, after, rule.run_end.inputs, outcome, detail, exit_code)


def end(tx: Transaction, run: Claim | Run | Expired, outputs: Sequence[str], ended: Ending) -> Callable[[], set[str]]:
    """End a run; the returned function reads the outputs that it still held."""
    held = tx.send(
        "end_run",
        runid=run.runid,
        jobid=run.jobid,
        dataid=run.dataid,
        epoch=run.epoch,
        owner=run.owner,
        outputs=compact(outputs),
        **ended._asdict(),
    )
    return lambda: {str(name) for (name,) in held()}


def publish(tx: Transaction, done: Sequence[tuple[Claim, str | None, int | None]]) -> Callable[[], Mapping[int, int]]:
    """Publish runs with their remarks and exit codes; the returned function reads how many outputs each run still held."""
    published = ending("publish", READY)
    if len(done) == 1:
        ((only, detail, exit_code),) = done
        held = end(tx, only, only.outputs, published._replace(detail=detail, exit_code=exit_code))
        return lambda: {only.runid: len(held())}
    runs = [EndedRun(*claim[:4], claim.owner, claim.outputs, detail, exit_code) for claim, detail, exit_code in done]
    runids = tx.send("end_runs", runs=as_objects(runs), **published._asdict())
    return lambda: Counter(runid for (runid,) in runids())


def end_with_events(
    tx: Transaction, run: Run | Expired, outputs: Sequence[str], ended: Ending, who: str | None = None
) -> None:
    """End a run; an output with another status keeps it and gets an event with the end of the run."""
    held = end(tx, run, outputs, ended)()
    changed = [(name, run.dataid) for name in outputs if name not in held]
    if not changed:
        return
    common: dict[str, Any] = {"who": who, "why": ended.detail, "epoch": run.epoch, "runid": run.runid}
    rows = locked_rows(tx, changed)
    statuses = {chunk: rows[chunk].status if chunk in rows else None for chunk in changed}
    events = [EventRow(ended.kind, *chunk, run.jobid, status, status, **common) for chunk, status in statuses.items()]
    tx.run("events_put", events=as_objects(events))


def lose(tx: Transaction, runid: int | None, detail: str, *, who: str | None = None) -> None:
    """End a run that no longer holds its chunk, unless it ended already."""
    tx.lock("lock_runs", runids=compact([runid]))  # waits for a commit in progress
    lost = tx.first(records.run, "run_row", runid=runid)
    if lost is not None and lost.status == RUNNING:
        end_with_events(tx, lost, outputs_claimed(tx, lost), ending("lose", LeaseLost.name, detail), who)


def outputs_claimed(tx: Transaction, run: Run | Expired) -> list[str]:
    """The datasets of the chunks that a run claimed; the job and its rows may have changed since."""
    return tx.values("outputs_claimed", runid=run.runid, dataid=run.dataid)


def undo(
    tx: Transaction,
    catalogue: Catalogue,
    claim: Claim,
    held: Mapping[ChunkId, ChunkRow],
    outcome: str,
    detail: str,
    events: Iterable[EventRow],
) -> bool:
    """Undo a claim: its chunks are again what they were before, with these events; False if the run is over.

    `held` are the locked OUT rows of its chunks.
    """
    before = _rows_before(tx, held) if claim.forced else []
    is_ours = tx.value(
        "give_back",
        runid=claim.runid,
        jobid=claim.jobid,
        dataid=claim.dataid,
        outputs=compact(claim.outputs),
        was_resubmit=claim.was_resubmit or bool(before),
        outcome=outcome,
        detail=detail,
    )
    if is_ours is None:
        return False
    _put(tx, before)
    if claim.forced or not claim.was_resubmit:
        existed = {row.datasetid for row in before}
        new = [StatusKey(name, claim.dataid, claim.jobid, OUT) for name in claim.outputs if name not in existed]
        remove(tx, new if existed else new + _held_inputs(tx, claim))
    tx.run("events_put", events=as_objects([*events, *_resubmitted_events(tx, held)]))
    if not claim.was_resubmit:  # the chunk is gone again: consumers and readers of `all` are affected
        candidates.update_candidates(tx, catalogue, list(held), by_operator=True)
    return True


def _rows_before(tx: Transaction, held: Mapping[ChunkId, ChunkRow]) -> list[OutRow]:
    """The OUT rows of a forced run's chunks from before the run; a recalled product becomes RESUBMIT, not READY."""
    recalls = recalled_versions(tx, list(held))
    is_recalled = any((*chunk, row.version) in recalls for chunk, row in held.items())
    return [
        OutRow(
            row.datasetid,
            row.dataid,
            row.jobid,
            RESUBMIT if row.held == READY and is_recalled else row.held,
            row.epoch,
            row.version,
            None,
            row.sort_key,
        )
        for row in held.values()
        if row.held
    ]


def _held_inputs(tx: Transaction, claim: Claim) -> list[StatusKey]:
    """The IN rows that this run holds; another run of the job may hold the others."""
    rows = []
    for item in claim.inputs:
        chunk = {"datasetid": item.datasetid, "dataid": item.dataid, "jobid": claim.jobid}
        row = tx.first(records.input_row, "inputs_of_job", **chunk)
        if row is not None and row.runid == claim.runid:
            rows.append(StatusKey(item.datasetid, item.dataid, claim.jobid, IN))
    return rows


def _resubmitted_events(tx: Transaction, held: Mapping[ChunkId, ChunkRow]) -> list[EventRow]:
    """The events of chunks that became RESUBMIT instead of their status before the claim."""
    now = locked_rows(tx, list(held))
    why = "the run was given back; another of its outputs is RESUBMIT, or the version was recalled during the run"
    return [
        EventRow("resubmitted", *chunk, row.jobid, row.held, now[chunk].status, why=why, epoch=row.epoch)
        for chunk, row in held.items()
        if chunk in now and now[chunk].status != row.held
    ]
