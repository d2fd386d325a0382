"""Change the status of chunks for an operator, by a table of verbs and transitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...errors import BadTransition, Locked
from ...model import FAILED, HOLD, OUT, PENDING, READY, RESUBMIT, RUNNING, Catalogue, check_dataid, sort_key
from ...model.definitions.calendar import comes_by_clock
from ..drivers.base import Transaction
from ..records import Steered
from ..rows import ChunkRow, EventRow, OutRow, PairKey, StatusKey, as_objects, compact
from ..version_records import Recalled
from ..version_records import recalled as recalled
from . import candidates, status_rows
from .announcing import OUTSIDE, OperatorAct
from .inputs import ChunkId
from .run_end import lose

GONE = "GONE"
BACK = "BACK"

# verb → (current status → new status). None: no row; BACK: the status before hold; GONE: the row is removed.
TRANSITIONS: dict[str, dict[str | None, str]] = {
    "resubmit": {READY: RESUBMIT, FAILED: RESUBMIT, HOLD: RESUBMIT, PENDING: RESUBMIT, RESUBMIT: RESUBMIT},
    "hold": {None: HOLD, READY: HOLD, FAILED: HOLD, RESUBMIT: HOLD, PENDING: HOLD, HOLD: HOLD},
    "release": {HOLD: BACK, PENDING: BACK},
    "fail": {None: FAILED, READY: FAILED, RESUBMIT: FAILED, HOLD: FAILED, PENDING: FAILED, FAILED: FAILED},
    "forget": {READY: GONE, FAILED: GONE, RESUBMIT: GONE, HOLD: GONE, PENDING: GONE},
    "recall": {READY: RESUBMIT, FAILED: FAILED, RESUBMIT: RESUBMIT, HOLD: HOLD, PENDING: PENDING},
    "recall and hold": {READY: HOLD, FAILED: HOLD, RESUBMIT: HOLD, HOLD: HOLD, PENDING: PENDING},
}
# The new status of a RUNNING chunk that is taken away from its run.
FORCED = {"release": FAILED, "hold": HOLD, "resubmit": RESUBMIT, "fail": FAILED, "forget": GONE}
EVENT_KINDS = {
    "resubmit": "resubmitted",
    "hold": "held",
    "release": "released",
    "fail": "failed",
    "forget": "forgotten",
    "recall": "recalled",
    "recall and hold": "recalled",
}


def steer(
    tx: Transaction,
    catalogue: Catalogue,
    verb: str,
    datasetid: str,
    dataids: Iterable[str],
    act: OperatorAct,
    *,
    force: bool,
    dry_run: bool,
) -> list[Steered]:
    """Apply one verb to chunks and their siblings; all of them or none."""
    dataset = catalogue.dataset(datasetid)
    wanted = list(dict.fromkeys(check_dataid(dataset.partition, dataid, datasetid) for dataid in dataids))
    producer = catalogue.producer(datasetid)
    if verb == "resubmit" and comes_by_clock(dataset):
        _refuse_by_clock(catalogue, datasetid, wanted)
    group = catalogue.written_together(datasetid)
    # One run writes all outputs of a job, so a verb on one output applies to all.
    chunks = [(name, dataid) for dataid in wanted for name in group]
    deferred = _deferred(tx, catalogue, chunks)
    rows = status_rows.locked_rows(tx, chunks)
    recalled = recalled_versions(tx, chunks) if verb == "release" else {}
    changed: list[Steered] = []
    put, gone, events, lost_runs = [], [], [], []
    for name, dataid in chunks:
        row = rows.get((name, dataid))
        before = row.status if row else None
        if name != datasetid and (before is None or (verb == "release" and before not in (HOLD, PENDING))):
            continue
        after = _next_status(verb, row, name, dataid, force)
        if row is not None and after == READY and (name, dataid, row.version) in recalled:
            after = RESUBMIT  # a recalled version is never READY again
        if row is not None and before == RUNNING:
            lost_runs.append(row.runid)  # even if it just ended: lose() locks it and checks
        # Another RESUBMIT ends the backoff before the next retry, as an UPDATE by SQL does.
        ends_backoff = verb == "resubmit" and producer is not None and (producer.jobid, dataid) in deferred
        if before == after and not ends_backoff:
            continue
        jobid = row.jobid if row else producer.jobid if producer else OUTSIDE
        epoch = row.epoch if row else None
        if after is None:
            gone.append(StatusKey(name, dataid, jobid, OUT))
        else:
            key = sort_key(catalogue.dataset(name).partition, dataid)
            version = row.version if row else 0
            held = _held(row) if after == HOLD else None
            put.append(OutRow(name, dataid, jobid, after, epoch or 0, version, held, key, is_new=row is None))
        events.append(EventRow(EVENT_KINDS[verb], name, dataid, jobid, before, after, *act, epoch))
        changed.append(Steered(name, dataid, before, after))
    if dry_run:
        return changed
    tx.run("remake_drop", chunks=compact(chunks))  # an operator's change replaces a pending remake
    if verb == "forget" and producer is not None:
        gone += status_rows.readings_of(tx, catalogue, producer, wanted)
    for runid in dict.fromkeys(lost_runs):
        lose(tx, runid, f"{EVENT_KINDS[verb]} by {act.who}")
    if lost_runs:  # continue the event chain after the event of the lost run
        now = status_rows.locked_rows(tx, chunks)
        events = [
            event._replace(before=now[chunk].status) if (chunk := (event.datasetid, event.dataid)) in now else event
            for event in events
        ]
    if put:
        status_rows.put(tx, put)
    status_rows.remove(tx, gone)
    if events:
        tx.run("events_put", events=as_objects(events))
        candidates.update_candidates(tx, catalogue, chunks, by_operator=True)
    return changed


def _refuse_by_clock(catalogue: Catalogue, datasetid: str, dataids: Sequence[str]) -> None:
    """A chunk that the clock announced stays RESUBMIT: no job makes it, and the clock announces it only once."""
    readers = [job.outputs[0] for job, _ in catalogue.consumers(datasetid)]
    for dataid in dataids:
        raise BadTransition(
            f"{datasetid} {dataid} comes from the calendar, and no job makes it again",
            hint=" ".join(
                [
                    *(f"To make what is made from it again: odf resubmit {name} {dataid}." for name in readers[:1]),
                    f"If it is not READY, announce it: odf ready {datasetid} {dataid}",
                ]
            ),
        )


def lock_chunks(tx: Transaction, catalogue: Catalogue, datasetid: str, dataids: Iterable[str]) -> list[ChunkId]:
    """Lock these chunks, their siblings and all candidates that they affect; returns the chunks."""
    chunks = [(name, dataid) for dataid in dataids for name in catalogue.written_together(datasetid)]
    candidates.lock_candidates(tx, candidates.affected_pairs(catalogue, chunks))
    status_rows.locked_rows(tx, chunks)
    return chunks


def recalled_versions(tx: Transaction, chunks: Sequence[ChunkId]) -> dict[tuple[str, str, int], Recalled]:
    """The recalled versions of these chunks."""
    rows = tx.fetch(recalled, "recalled_given", chunks=compact(chunks))
    return {(row.datasetid, row.dataid, row.version): row for row in rows}


def _deferred(tx: Transaction, catalogue: Catalogue, chunks: Sequence[ChunkId]) -> set[candidates.PairId]:
    """The deferred candidates that these chunks affect; read before the status rows, in the lock order of a claim."""
    pairs = list(candidates.affected_pairs(catalogue, chunks))
    return set(tx.fetch(PairKey._make, "deferred_given", pairs=compact(pairs)))


def _held(row: ChunkRow | None) -> str | None:
    """The status that `release` restores: for a PENDING chunk, the one stored when it was set aside."""
    if row is None:
        return None
    return row.held if row.status == PENDING else row.status


def _next_status(verb: str, row: ChunkRow | None, datasetid: str, dataid: str, force: bool) -> str | None:
    transitions = TRANSITIONS[verb]
    before = row.status if row else None
    here = f"{datasetid} {dataid}"
    if row is not None and before == RUNNING:
        if not force:
            raise Locked(
                f"{here} is RUNNING (run {row.runid})",
                hint="Wait until the run ends, or take the chunk away from it: --force",
            )
        after = FORCED[verb]
    elif before in transitions:
        after = transitions[before]
    elif before is None:
        raise BadTransition(
            f"{here} was never produced: there is nothing to {verb}", hint=f"See: odf status {datasetid}"
        )
    else:
        possible = ", ".join(status for status in transitions if status)
        raise BadTransition(f"{here} is {before}: {verb} needs {possible}", hint=f"See: odf explain {here}")
    if after == BACK:
        held = row.held if row else None
        return FAILED if held == RUNNING else held
    return None if after == GONE else after
