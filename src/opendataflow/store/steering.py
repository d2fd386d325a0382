"""Steering: what a person says about chunks, by verbs whose transitions are a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import BadTransition, Locked
from ..model import (
    FAILED,
    HOLD,
    OUT,
    PENDING,
    READY,
    RESUBMIT,
    RUNNING,
    Catalogue,
    check_dataid,
    sort_key,
)
from . import candidates, status_rows
from .announcing import OUTSIDE, Act
from .backend import Transaction
from .endings import lose
from .inputs import ChunkId
from .links import Recalled
from .links import recalled as recalled
from .records import Steered
from .rows import EventRow, OutRow, PairKey, Standing, StatusKey, as_objects, compact

GONE = "GONE"
BACK = "BACK"

# verb → (status now → status then). None is "no row"; BACK is what it was before it was held; GONE removes the row.
TRANSITIONS: dict[str, dict[str | None, str]] = {
    "resubmit": {READY: RESUBMIT, FAILED: RESUBMIT, HOLD: RESUBMIT, PENDING: RESUBMIT, RESUBMIT: RESUBMIT},
    "hold": {None: HOLD, READY: HOLD, FAILED: HOLD, RESUBMIT: HOLD, PENDING: HOLD, HOLD: HOLD},
    "release": {HOLD: BACK, PENDING: BACK},
    "fail": {None: FAILED, READY: FAILED, RESUBMIT: FAILED, HOLD: FAILED, PENDING: FAILED, FAILED: FAILED},
    "forget": {READY: GONE, FAILED: GONE, RESUBMIT: GONE, HOLD: GONE, PENDING: GONE},
    "recall": {READY: RESUBMIT, FAILED: FAILED, RESUBMIT: RESUBMIT, HOLD: HOLD, PENDING: PENDING},
    "recall and hold": {READY: HOLD, FAILED: HOLD, RESUBMIT: HOLD, HOLD: HOLD, PENDING: PENDING},
}
# What becomes of a running chunk that is taken away from its run.
FORCED = {"release": FAILED, "hold": HOLD, "resubmit": RESUBMIT, "fail": FAILED, "forget": GONE}
PAST = {
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
    act: Act,
    *,
    force: bool,
    dry_run: bool,
) -> list[Steered]:
    """Do one verb to chunks, and to their siblings; all of it or nothing."""
    dataset = catalogue.dataset(datasetid)
    wanted = list(dict.fromkeys(check_dataid(dataset.partition, dataid, datasetid) for dataid in dataids))
    producer = catalogue.producer(datasetid)
    group = catalogue.written_together(datasetid)
    # One run writes all its outputs, so what is said about one of them is said about the run.
    chunks = [(name, dataid) for dataid in wanted for name in group]
    deferred = _deferred(tx, catalogue, chunks)
    there = status_rows.standing(tx, chunks)
    recalled = recalled_versions(tx, chunks) if verb == "release" else {}
    changed: list[Steered] = []
    put, gone, events, lost = [], [], [], []
    for name, dataid in chunks:
        row = there.get((name, dataid))
        before = row.status if row else None
        if name != datasetid and (before is None or (verb == "release" and before not in (HOLD, PENDING))):
            continue
        after = _after(verb, row, name, dataid, force)
        if row is not None and after == READY and (name, dataid, row.version) in recalled:
            after = RESUBMIT  # nobody reads again what was recalled
        if row is not None and before == RUNNING:
            lost.append(row.runid)  # whatever became of it: it may have begun at this very moment
        # To say RESUBMIT again ends the pause before the next try, as an UPDATE by SQL does.
        is_due = verb == "resubmit" and producer is not None and (producer.jobid, dataid) in deferred
        if before == after and not is_due:
            continue
        jobid = row.jobid if row else producer.jobid if producer else OUTSIDE
        epoch = row.epoch if row else None
        if after is None:
            gone.append(StatusKey(name, dataid, jobid, OUT))
        else:
            key = sort_key(catalogue.dataset(name).partition, dataid)
            version = row.version if row else 0
            put.append(
                OutRow(name, dataid, jobid, after, epoch or 0, version, _held(row) if after == HOLD else None, key)
            )
        events.append(EventRow(PAST[verb], name, dataid, jobid, before, after, *act, epoch))
        changed.append(Steered(name, dataid, before, after))
    if dry_run:
        return changed
    tx.run("remake_drop", chunks=compact(chunks))  # a person decides anew
    if verb == "forget" and producer is not None:
        gone += status_rows.readings_of(tx, catalogue, producer, wanted)
    for runid in dict.fromkeys(lost):
        lose(tx, runid, f"{PAST[verb]} by {act.who}")
    if lost:  # an event begins where that of the lost run ended
        now = status_rows.standing(tx, chunks)
        events = [
            event._replace(before=now[chunk].status) if (chunk := (event.datasetid, event.dataid)) in now else event
            for event in events
        ]
    if put:
        status_rows.put(tx, put)
    status_rows.remove(tx, gone)
    if events:
        tx.run("events_put", events=as_objects(events))
        candidates.settle(tx, catalogue, chunks, by_person=True)
    return changed


def lock(tx: Transaction, catalogue: Catalogue, datasetid: str, dataids: Iterable[str]) -> list[ChunkId]:
    """Nobody takes or changes these chunks, nor what is written with them, until this transaction ends; returns them."""
    chunks = [(name, dataid) for dataid in dataids for name in catalogue.written_together(datasetid)]
    candidates.lock_rows(tx, candidates.touched(catalogue, chunks))
    status_rows.standing(tx, chunks)
    return chunks


def recalled_versions(tx: Transaction, chunks: Sequence[ChunkId]) -> dict[tuple[str, str, int], Recalled]:
    """The versions of these chunks that somebody called back."""
    rows = tx.fetch(recalled, "recalled_given", chunks=compact(chunks))
    return {(row.datasetid, row.dataid, row.version): row for row in rows}


def _deferred(tx: Transaction, catalogue: Catalogue, chunks: Sequence[ChunkId]) -> set[candidates.PairId]:
    """Which candidates that these chunks decide about are deferred; asked before the status rows, as a claim does."""
    pairs = list(candidates.touched(catalogue, chunks))
    return set(tx.fetch(PairKey._make, "deferred_given", pairs=compact(pairs)))


def _held(row: Standing | None) -> str | None:
    """What a chunk goes back to when it is released: PENDING was set aside already."""
    if row is None:
        return None
    return row.held if row.status == PENDING else row.status


def _after(verb: str, row: Standing | None, datasetid: str, dataid: str, force: bool) -> str | None:
    transitions = TRANSITIONS[verb]
    before = row.status if row else None
    here = f"{datasetid} {dataid}"
    if row is not None and before == RUNNING:
        if not force:
            raise Locked(
                f"{here} is RUNNING (run {row.runid})", hint="Wait for it, or take it away from its run: --force"
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
