"""Fold changes made by SQL or to definitions into candidates and runs before the next claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...errors import BadDataid, BadId
from ...model import FAILED, IN, OUT, READY, RESUBMIT, RUNNING, Catalogue, sort_key, takes_all
from .. import records
from ..drivers.base import Retry, Transaction
from ..rows import ChunkRow, EventRow, Note, ReaderStatus, as_objects, compact
from . import candidates, definitions, freshness, transition
from .inputs import ChunkId
from .transition import OperatorAct, StatusChange

_BATCH = 50_000


def fold(tx: Transaction, catalogue: Catalogue) -> None:
    """Take all notes and apply them."""
    if catalogue.broken:
        candidates.record_broken_jobs(tx, catalogue)
    if not tx.value("any_note"):
        return
    tx.lock("lock_folding")
    while notes := tx.fetch(Note._make, "notes_take", n=_BATCH):
        chunk_notes = sorted((note for note in notes if note.dataid is not None), key=lambda note: note.noteid)
        datasets = {note.datasetid: note.who for note in notes if note.datasetid is not None and note.dataid is None}
        jobs = dict.fromkeys(note.jobid for note in notes if note.datasetid is None)
        _fold_chunks(tx, catalogue, chunk_notes)
        for datasetid, who in datasets.items():
            if who is not None and datasetid in catalogue.datasets:
                definitions.update_positions(tx, catalogue.datasets[datasetid], tolerant=True)
                producer = catalogue.producer(datasetid)
                jobs |= dict.fromkeys(job.jobid for job, _ in catalogue.consumers(datasetid))
                jobs |= {producer.jobid: None} if producer else {}
        for jobid in jobs:
            candidates.rebuild(tx, catalogue, str(jobid))
        changed = {str(note.datasetid) for note in chunk_notes} | set(datasets)
        if jobs:  # a removed job no longer says what it read and wrote
            changed |= catalogue.datasets.keys()
        for job in (
            candidates.dynamic_consumers(catalogue, changed) | candidates.consumers_of_all(catalogue, changed)
        ).values():
            waiting = {*(["all"] if takes_all(job) else []), *tx.values("candidate_dataids", jobid=job.jobid)}
            candidates.derive(tx, catalogue, [(job.jobid, dataid) for dataid in sorted(waiting)])


def retry_if_changed(tx: Transaction, changed: Iterable[Sequence[Any]]) -> None:
    """Retry if SQL changed one of these chunks after the fold and before this transaction locked it."""
    if is_changed_by_sql(tx, [change[:2] for change in changed]):
        raise Retry


def is_changed_by_sql(tx: Transaction, chunks: Sequence[Sequence[Any]]) -> bool:
    """Whether SQL changed one of these chunks since the last fold."""
    return bool(chunks and tx.value("typed_given", chunks=compact(chunks)))


def _fold_chunks(tx: Transaction, catalogue: Catalogue, notes: Sequence[Note]) -> None:
    if not notes:
        return
    chunks = list(dict.fromkeys(_chunk(note) for note in notes if note.locktype == OUT))
    candidates.lock_candidates(tx, candidates.affected_pairs(catalogue, chunks))
    rows = list(transition.locked_rows(tx, chunks).values())
    notes, unfit = _split_notes(tx, notes, rows)
    events = [
        EventRow(
            "unfit note", *_chunk(note), note.jobid, who=note.who, why=f"the note says {note.before} → {note.after}"
        )
        for note in unfit
    ]
    tx.run("events_put", events=as_objects(events))
    tx.run("chunks_noted", chunks=compact([(*_id(row), _position(catalogue, row)) for row in rows]))
    tx.run("remake_drop", chunks=compact(chunks))  # an operator's change replaces a pending remake
    recalled = _resubmit_recalled(tx, catalogue, rows)
    deleted = {_chunk(note): note for note in notes if _is_deletion(note)}
    _end_lost_runs(tx, notes, rows, deleted)
    _end_replaced_runs(tx, notes, rows)
    _remove_exclusive_reads(tx, catalogue, deleted)
    gone = deleted.keys() - set(map(_id, rows))
    siblings = _siblings(tx, catalogue, {*(_id(row) for row in rows if row.status == RESUBMIT), *recalled, *gone})
    act = OperatorAct(None, "another output of its run was resubmitted or removed")
    transition.transition(tx, catalogue, "resubmit", [StatusChange(_id(row), row, RESUBMIT) for row in siblings], act)
    who = next((str(note.who) for note in notes if note.who is not None), "")
    freshness.restore(
        tx, catalogue, [_id(row) for row in rows if row.status == READY and _id(row) not in recalled], who
    )
    pairs = candidates.affected_pairs(catalogue, chunks)
    pairs |= _pairs_of_readings(catalogue, (note for note in notes if note.locktype != OUT))
    candidates.derive(tx, catalogue, pairs)


def _split_notes(tx: Transaction, notes: Sequence[Note], rows: Sequence[ChunkRow]) -> tuple[list[Note], list[Note]]:
    """Split notes into those that match what happened and those that do not: the chunk never had their status.

    The last note of a row must lead to its current status, or to the status that a later change began with.
    """
    expected_of: dict[tuple[str, ...], set[str | None]] = {}
    for row in rows:
        expected_of[OUT, row.datasetid, row.dataid] = {row.status}
    read = list(dict.fromkeys(_chunk(note) for note in notes if note.locktype == IN))
    for reader in tx.fetch(ReaderStatus._make, "readers_given", chunks=compact(read)) if read else ():
        expected_of.setdefault((IN, reader.datasetid, reader.dataid), {None}).add(reader.status)  # of any job
    fits, unfit = [], []
    for note in reversed(notes):
        key = (str(note.locktype), *_chunk(note))
        expected = expected_of.setdefault(key, {None})
        if note.who is None or note.after in expected or note.after in _changed_since(tx, note):
            fits.append(note)
            expected.add(note.before)
        else:
            unfit.append(note)
    return fits[::-1], unfit[::-1]


def _changed_since(tx: Transaction, note: Note) -> list[str | None]:
    chunk = {"datasetid": note.datasetid, "dataid": note.dataid, "locktype": note.locktype}
    return tx.values("changed_since", at=note.at, **chunk)


def _chunk(note: Note) -> ChunkId:
    return str(note.datasetid), str(note.dataid)


def _pairs_of_readings(catalogue: Catalogue, notes: Iterable[Note]) -> dict[candidates.PairId, None]:
    """The pairs that changed IN rows affect: the outputs that their job makes from these chunks."""
    pairs: dict[candidates.PairId, None] = {}
    for note in notes:
        datasetid, dataid = _chunk(note)
        for job, item in catalogue.consumers(datasetid):
            if job.jobid == note.jobid and not item.mapping.is_dynamic:
                pairs |= {(job.jobid, output): None for output in catalogue.outputs_of_all(job, item, [dataid])}
    return pairs


def _siblings(tx: Transaction, catalogue: Catalogue, given: set[ChunkId]) -> list[ChunkRow]:
    """The other outputs of runs with a resubmitted or removed output: one run writes all of them."""
    wanted = []
    for datasetid, dataid in given:
        producer = catalogue.producer(datasetid)
        if producer is not None:
            wanted += [(other, dataid) for other in producer.outputs if (other, dataid) not in given]
    return [row for row in transition.locked_rows(tx, sorted(wanted)).values() if row.status in (READY, FAILED)]


def _end_lost_runs(
    tx: Transaction, notes: Sequence[Note], rows: Sequence[ChunkRow], deleted: Mapping[ChunkId, Note]
) -> None:
    """End runs whose chunk was changed or deleted by SQL; they can neither commit nor fail."""
    who = {_chunk(note): note.who for note in notes}
    lost_by = {row.runid: who.get(_id(row)) for row in rows if row.run_status == RUNNING and row.status != RUNNING}
    gone: set[int | None] = set()
    for (_, dataid), note in deleted.items():
        for run in tx.fetch(records.run, "runs_of_dataid", jobid=note.jobid, dataid=dataid):
            if run.status == RUNNING:
                lost_by.setdefault(run.runid, note.who)
                gone.add(run.runid)
    for runid, by in lost_by.items():
        why = "the row was deleted by SQL" if runid in gone else "the status was changed by SQL"
        transition.lose(tx, runid, why, who=by)


def _end_replaced_runs(tx: Transaction, notes: Sequence[Note], rows: Sequence[ChunkRow]) -> None:
    """End runs whose row was replaced by an inserted or a moved one (INSERT OR REPLACE): no note says that it is gone."""
    typed = {_chunk(note): note for note in notes if note.locktype == OUT and note.before is None and note.after}
    if not typed:
        return
    holder = {_id(row): row.runid for row in rows}
    for run in tx.fetch(records.run, "runs_running"):
        claimed = ((datasetid, run.dataid) for datasetid in transition.outputs_claimed(tx, run))
        lost = next((chunk for chunk in claimed if chunk in typed and holder.get(chunk) != run.runid), None)
        if lost is not None:
            transition.lose(tx, run.runid, "the row was replaced by SQL", who=typed[lost].who)


def _resubmit_recalled(tx: Transaction, catalogue: Catalogue, rows: Sequence[ChunkRow]) -> list[ChunkId]:
    """Set chunks whose current version is recalled from READY to RESUBMIT; returns them."""
    ready = {(*_id(row), row.version): row for row in rows if row.status == READY}
    recalls = transition.recalled_versions(tx, [key[:2] for key in ready]) if ready else {}
    changes = [
        StatusChange(key[:2], row, RESUBMIT, act=OperatorAct(by.who, f"it stays recalled: {by.why}"))
        for key, row in ready.items()
        if (by := recalls.get(key)) is not None
    ]
    if changes:
        transition.transition(tx, catalogue, "recall", changes, OperatorAct(None))
    return [change.chunk for change in changes]


def _is_deletion(note: Note) -> bool:
    return note.locktype == OUT and note.who is not None and note.after is None


def _remove_exclusive_reads(tx: Transaction, catalogue: Catalogue, deleted: Iterable[ChunkId]) -> None:
    """Remove the exclusive IN rows of chunks whose OUT row was deleted: they count as never produced."""
    for datasetid, dataid in deleted:
        producer = catalogue.producer(datasetid)
        if producer is not None:
            try:
                transition.remove(tx, transition.readings_of(tx, catalogue, producer, [dataid]))
            except (BadDataid, BadId):
                continue  # a malformed dataid has no inputs


def _id(row: ChunkRow) -> ChunkId:
    return row.datasetid, row.dataid


def _position(catalogue: Catalogue, row: ChunkRow) -> str:
    """The position of the row's dataid; empty if the dataid is malformed."""
    if row.datasetid not in catalogue.datasets:
        return row.sort_key
    try:
        return sort_key(catalogue.datasets[row.datasetid].partition, row.dataid)
    except (BadDataid, BadId):
        return ""
