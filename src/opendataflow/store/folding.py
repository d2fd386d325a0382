"""Folding: what was changed from outside, by SQL or by definition, becomes part of the flow before the next claim looks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import BadDataid, BadId
from ..model import FAILED, IN, OUT, READY, RESUBMIT, RUNNING, Catalogue, sort_key, takes_all
from . import candidates, definitions, freshness, records, status_rows
from .backend import Retry, Transaction
from .endings import lose
from .inputs import ChunkId
from .rows import EventRow, Note, OutRow, Reader, Standing, as_objects, compact
from .steering import recalled_versions

_BATCH = 50_000


def fold(tx: Transaction, catalogue: Catalogue) -> None:
    """Take all notes and act on them."""
    if catalogue.broken:
        candidates.catch_up(tx, catalogue)
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
                definitions.resort(tx, catalogue.datasets[datasetid], tolerant=True)
                producer = catalogue.producer(datasetid)
                jobs |= dict.fromkeys(job.jobid for job, _ in catalogue.consumers(datasetid))
                jobs |= {producer.jobid: None} if producer else {}
        for jobid in jobs:
            candidates.rebuild(tx, catalogue, str(jobid))
        changed = {str(note.datasetid) for note in chunk_notes} | set(datasets)
        if jobs:  # one that is no longer there does not say what it had a part in
            changed |= catalogue.datasets.keys()
        for job in (
            candidates.dynamic_consumers(catalogue, changed) | candidates.consumers_of_the_whole(catalogue, changed)
        ).values():
            waiting = {*(["all"] if takes_all(job) else []), *tx.values("candidate_dataids", jobid=job.jobid)}
            candidates.derive(tx, catalogue, [(job.jobid, dataid) for dataid in sorted(waiting)])


def check(tx: Transaction, changed: Iterable[Sequence[Any]]) -> None:
    """Begin again where somebody changed one of these chunks by SQL before we got hold of it, after the fold: that came first."""
    if is_typed(tx, [change[:2] for change in changed]):
        raise Retry


def is_typed(tx: Transaction, chunks: Sequence[Sequence[Any]]) -> bool:
    """Whether somebody changed one of these chunks since the last fold."""
    return bool(chunks and tx.value("typed_given", chunks=compact(chunks)))


def _fold_chunks(tx: Transaction, catalogue: Catalogue, notes: Sequence[Note]) -> None:
    if not notes:
        return
    chunks = list(dict.fromkeys(_chunk(note) for note in notes if note.locktype == OUT))
    candidates.lock_rows(tx, candidates.touched(catalogue, chunks))
    rows = list(status_rows.standing(tx, chunks).values())
    notes, unfit = _sorted_out(tx, notes, rows)
    events = [
        EventRow("unfit note", *_chunk(note), note.jobid, who=note.who, why=f"it says {note.before} → {note.after}")
        for note in unfit
    ]
    tx.run("events_put", events=as_objects(events))
    tx.run("chunks_noted", chunks=compact([(*_id(row), _position(catalogue, row)) for row in rows]))
    tx.run("remake_drop", chunks=compact(chunks))  # a person decides anew
    _keep_recalled(tx, rows)
    deleted = {_chunk(note): note for note in notes if _is_deletion(note)}
    _end_lost_runs(tx, notes, rows, deleted)
    _forget_readings(tx, catalogue, deleted)
    gone = deleted.keys() - set(map(_id, rows))
    siblings = _siblings(tx, catalogue, {*(_id(row) for row in rows if row.status == RESUBMIT), *gone})
    status_rows.put(
        tx,
        [OutRow(*_id(row), row.jobid, RESUBMIT, row.epoch, row.version, None, row.sort_key) for row in siblings],
    )
    told = "another output of its run was resubmitted or removed"
    resubmitted = [EventRow("resubmitted", *_id(row), row.jobid, row.status, RESUBMIT, why=told) for row in siblings]
    tx.run("events_put", events=as_objects(resubmitted))
    who = next((str(note.who) for note in notes if note.who is not None), "")
    freshness.restore(tx, catalogue, [_id(row) for row in rows if row.status == READY], who)
    pairs = candidates.touched(catalogue, [*chunks, *map(_id, siblings)])
    pairs |= _pairs_of_readings(catalogue, (note for note in notes if note.locktype != OUT))
    candidates.derive(tx, catalogue, pairs)


def _sorted_out(tx: Transaction, notes: Sequence[Note], rows: Sequence[Standing]) -> tuple[list[Note], list[Note]]:
    """The notes that tell what happened, and those that do not fit: their chunk never became what they say.

    What a note says last of a row is its status now, or what somebody found who has changed it since.
    """
    now: dict[tuple[str, ...], set[str | None]] = {}
    for row in rows:
        now[OUT, row.datasetid, row.dataid] = {row.status}
    read = list(dict.fromkeys(_chunk(note) for note in notes if note.locktype == IN))
    for reader in tx.fetch(Reader._make, "readers_given", chunks=compact(read)) if read else ():
        now.setdefault((IN, reader.datasetid, reader.dataid), {None}).add(reader.status)  # of whichever job
    fits, unfit = [], []
    for note in reversed(notes):
        key = (str(note.locktype), *_chunk(note))
        expected = now.setdefault(key, {None})
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
    """What changed IN rows decide about: the outputs that their job makes of these chunks."""
    pairs: dict[candidates.PairId, None] = {}
    for note in notes:
        datasetid, dataid = _chunk(note)
        for job, item in catalogue.consumers(datasetid):
            if job.jobid == note.jobid and not item.mapping.is_dynamic:
                pairs |= {(job.jobid, output): None for output in catalogue.outputs_of_all(job, item, [dataid])}
    return pairs


def _siblings(tx: Transaction, catalogue: Catalogue, given: set[ChunkId]) -> list[Standing]:
    """The other outputs of runs of which one was resubmitted or removed: one run writes them all."""
    wanted = []
    for datasetid, dataid in given:
        producer = catalogue.producer(datasetid)
        if producer is not None:
            wanted += [(other, dataid) for other in producer.outputs if (other, dataid) not in given]
    return [row for row in status_rows.standing(tx, sorted(wanted)).values() if row.status in (READY, FAILED)]


def _end_lost_runs(
    tx: Transaction, notes: Sequence[Note], rows: Sequence[Standing], deleted: Mapping[ChunkId, Note]
) -> None:
    """A chunk that was taken away from its running attempt: the attempt is over, and can neither commit nor fail."""
    who = {_chunk(note): note.who for note in notes}
    lost = {row.runid: who.get(_id(row)) for row in rows if row.run_status == RUNNING and row.status != RUNNING}
    gone: dict[int | None, list[str]] = {}
    for (datasetid, dataid), note in deleted.items():
        for run in tx.fetch(records.run, "runs_of_dataid", jobid=note.jobid, dataid=dataid):
            if run.status == RUNNING:
                lost.setdefault(run.runid, note.who)
                gone.setdefault(run.runid, []).append(datasetid)
    for runid, by in lost.items():
        told = "its row was deleted from outside" if runid in gone else "the status was changed from outside"
        lose(tx, runid, told, who=by, gone=gone.get(runid, ()))


def _keep_recalled(tx: Transaction, rows: Sequence[Standing]) -> None:
    """A version that was recalled does not become readable because somebody writes READY: it has to be made again."""
    ready = {(*_id(row), row.version): row for row in rows if row.status == READY}
    called_back = recalled_versions(tx, [key[:2] for key in ready]) if ready else {}
    found = [(ready[key], row) for key, row in called_back.items() if key in ready]
    status_rows.put(
        tx, [OutRow(*_id(row), row.jobid, RESUBMIT, row.epoch, row.version, None, row.sort_key) for row, _ in found]
    )
    events = [
        EventRow("recalled", *_id(row), row.jobid, READY, RESUBMIT, by.who, f"it stays recalled: {by.why}", row.epoch)
        for row, by in found
    ]
    tx.run("events_put", events=as_objects(events))


def _is_deletion(note: Note) -> bool:
    return note.locktype == OUT and note.who is not None and note.after is None


def _forget_readings(tx: Transaction, catalogue: Catalogue, deleted: Iterable[ChunkId]) -> None:
    """Somebody deleted the row of a chunk: it was never produced, and what its run read is as if it had never been."""
    for datasetid, dataid in deleted:
        producer = catalogue.producer(datasetid)
        if producer is not None:
            try:
                status_rows.remove(tx, status_rows.readings_of(tx, catalogue, producer, [dataid]))
            except (BadDataid, BadId):
                continue  # a malformed dataid has no inputs


def _id(row: Standing) -> ChunkId:
    return row.datasetid, row.dataid


def _position(catalogue: Catalogue, row: Standing) -> str:
    """The position that the dataid of a row has, or none where it is malformed."""
    if row.datasetid not in catalogue.datasets:
        return row.sort_key
    try:
        return sort_key(catalogue.datasets[row.datasetid].partition, row.dataid)
    except (BadDataid, BadId):
        return ""
