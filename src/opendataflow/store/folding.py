"""Folding: what was changed from outside, by SQL or by definition, becomes part of the flow before the next claim looks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import BadDataid, BadId
from ..model import FAILED, IN, OUT, READY, RESUBMIT, RUNNING, Catalogue, sort_key, takes_all
from . import candidates, definitions, records, status_rows
from .backend import Transaction
from .endings import lose
from .inputs import ChunkId
from .rows import EventRow, Note, OutRow, Reader, Standing, StatusKey, as_objects, compact

_BATCH = 50_000


def fold(tx: Transaction, catalogue: Catalogue) -> None:
    """Take all notes and act on them."""
    if catalogue.broken:
        candidates.catch_up(tx, catalogue)
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
        for job in (
            candidates.dynamic_consumers(catalogue, changed) | candidates.consumers_of_the_whole(catalogue, changed)
        ).values():
            waiting = ["all"] if takes_all(job) else tx.values("candidate_dataids", jobid=job.jobid)
            candidates.derive(tx, catalogue, [(job.jobid, dataid) for dataid in waiting])


def _fold_chunks(tx: Transaction, catalogue: Catalogue, notes: Sequence[Note]) -> None:
    if not notes:
        return
    chunks = list(dict.fromkeys(_chunk(note) for note in notes if note.locktype == OUT))
    # Candidates before status rows, as a claim takes them.
    tx.rows("deferred_given", pairs=compact(list(candidates.touched(catalogue, chunks))))
    rows = list(status_rows.standing(tx, chunks).values())
    notes, unfit = _sorted_out(tx, notes, rows)
    _end_lost_runs(tx, rows)
    _forget_deleted_runs(tx, notes, rows)
    siblings = _siblings(tx, catalogue, rows)
    status_rows.put(
        tx, [*(_as_it_is(catalogue, row) for row in rows), *(_written(row, RESUBMIT, row.sort_key) for row in siblings)]
    )
    events = [
        EventRow("sql", *_chunk(note), note.jobid, note.before, note.after, note.who)
        for note in notes
        if note.who is not None
    ]
    events += [
        EventRow("unfit note", *_chunk(note), note.jobid, who=note.who, why=f"it says {note.before} → {note.after}")
        for note in unfit
    ]
    told = "its sibling was resubmitted"
    events += [
        EventRow("resubmitted", row.datasetid, row.dataid, row.jobid, row.status, RESUBMIT, why=told)
        for row in siblings
    ]
    tx.run("events_put", events=as_objects(events))
    pairs = candidates.touched(catalogue, [*chunks, *((row.datasetid, row.dataid) for row in siblings)])
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
                try:
                    pairs |= {(job.jobid, output): None for output in catalogue.outputs_of(job, item, dataid)}
                except (BadDataid, BadId):
                    continue
    return pairs


def _siblings(tx: Transaction, catalogue: Catalogue, rows: Sequence[Standing]) -> list[Standing]:
    """The other outputs of a run that was resubmitted by one of its outputs: one run writes them all."""
    wanted = []
    given = {(row.datasetid, row.dataid) for row in rows}
    for row in rows:
        producer = catalogue.producer(row.datasetid)
        if row.status == RESUBMIT and producer is not None:
            wanted += [(other, row.dataid) for other in producer.outputs if (other, row.dataid) not in given]
    return [row for row in status_rows.standing(tx, wanted).values() if row.status in (READY, FAILED)]


def _end_lost_runs(tx: Transaction, rows: Sequence[Standing]) -> None:
    """A chunk that was taken away from its running attempt: the attempt is over, and can neither commit nor fail."""
    lost = dict.fromkeys(row.runid for row in rows if row.run_status == RUNNING and row.status != RUNNING)
    for runid in lost:
        lose(tx, runid, "the status was changed from outside")


def _forget_deleted_runs(tx: Transaction, notes: Sequence[Note], rows: Sequence[Standing]) -> None:
    """Somebody deleted the row of a running chunk: its attempt is over, and its inputs are as if it had never been.

    Where the status was changed first, it was that which ended the attempt, and it was made in vain.
    """
    there = {(row.datasetid, row.dataid) for row in rows}
    for note in notes:
        if note.locktype != OUT or note.before != RUNNING or _chunk(note) in there:
            continue
        how = "deleted" if note.after is None else "changed and deleted"
        for run in tx.fetch(records.run, "runs_of_dataid", jobid=note.jobid, dataid=note.dataid):
            if run.status == RUNNING:
                lose(tx, run.runid, f"its row was {how} from outside")
                if note.after is None:
                    status_rows.remove(
                        tx, [StatusKey(item.datasetid, item.dataid, run.jobid, IN) for item in run.inputs]
                    )


def _as_it_is(catalogue: Catalogue, row: Standing) -> OutRow:
    """The same row with the position that its dataid has, or none where it is malformed."""
    key = row.sort_key
    if row.datasetid in catalogue.datasets:
        try:
            key = sort_key(catalogue.datasets[row.datasetid].partition, row.dataid)
        except (BadDataid, BadId):
            key = ""
    return _written(row, row.status, key, row.held)


def _written(row: Standing, status: str, key: str, held: str | None = None) -> OutRow:
    return OutRow(row.datasetid, row.dataid, row.jobid, status, row.epoch, row.version, held, key)
