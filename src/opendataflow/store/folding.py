"""Folding: what was changed from outside, by SQL or by definition, becomes part of the flow before the next claim looks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..errors import BadDataid, BadId, LeaseLost
from ..model import FAILED, IN, OUT, READY, RESUBMIT, RUNNING, Catalogue, sort_key, takes_all
from . import candidates, definitions
from .backend import Row, Transaction
from .records import compact

_BATCH = 50_000


def fold(tx: Transaction, catalogue: Catalogue) -> None:
    """Take all notes and act on them."""
    while notes := tx.rows("notes_take", n=_BATCH):
        chunk_notes = [note for note in notes if note[2] is not None]
        datasets = {note[1]: note[7] for note in notes if note[1] is not None and note[2] is None}
        jobs = dict.fromkeys(note[3] for note in notes if note[1] is None)
        _fold_chunks(tx, catalogue, chunk_notes)
        for datasetid, who in datasets.items():
            if who is not None and datasetid in catalogue.datasets:
                definitions.resort(tx, catalogue.datasets[datasetid])
                producer = catalogue.producer(datasetid)
                jobs |= dict.fromkeys(job.jobid for job, _ in catalogue.consumers(datasetid))
                jobs |= {producer.jobid: None} if producer else {}
        for jobid in jobs:
            candidates.rebuild(tx, catalogue, jobid)
        changed = {note[1] for note in chunk_notes} | set(datasets)
        for job in (
            candidates.dynamic_consumers(catalogue, changed) | candidates.consumers_of_the_whole(catalogue, changed)
        ).values():
            waiting = ["all"] if takes_all(job) else [row[0] for row in tx.rows("candidate_dataids", jobid=job.jobid)]
            candidates.decide(tx, catalogue, [(job.jobid, dataid) for dataid in waiting])


def _fold_chunks(tx: Transaction, catalogue: Catalogue, notes: list[Row]) -> None:
    if not notes:
        return
    chunks = list(dict.fromkeys((note[1], note[2]) for note in notes if note[4] == OUT))
    read = [(note[1], note[2], note[3]) for note in notes if note[4] != OUT]
    tx.rows("lock_candidates", pairs=compact(list(candidates.touched(catalogue, chunks))))
    rows = tx.rows("chunks_given", chunks=compact(chunks))
    _end_lost_runs(tx, rows)
    _forget_deleted_runs(tx, notes, rows)
    siblings = _siblings(tx, catalogue, rows)
    tx.run(
        "chunks_put",
        chunks=compact([_as_it_is(catalogue, row) for row in rows] + [_resubmitted(row) for row in siblings]),
    )
    events = [
        {
            "kind": "sql",
            "datasetid": note[1],
            "dataid": note[2],
            "jobid": note[3],
            "before": note[5],
            "after": note[6],
            "who": note[7],
        }
        for note in notes
        if note[7] is not None
    ]
    events += [
        {
            "kind": "resubmitted",
            "datasetid": row[0],
            "dataid": row[1],
            "jobid": row[2],
            "before": row[3],
            "after": RESUBMIT,
            "why": "its sibling was resubmitted",
        }
        for row in siblings
    ]
    tx.run("events_put", events=compact(events))
    pairs = candidates.touched(catalogue, chunks + [(row[0], row[1]) for row in siblings])
    for datasetid, dataid, jobid in read:
        for job, item in catalogue.consumers(datasetid):
            if job.jobid == jobid and not item.mapping.is_dynamic:
                try:
                    pairs |= {(jobid, output): None for output in catalogue.outputs_of(job, item, dataid)}
                except (BadDataid, BadId):
                    continue
    candidates.decide(tx, catalogue, pairs)


def _siblings(tx: Transaction, catalogue: Catalogue, rows: list[Row]) -> list[Row]:
    """The other outputs of a run that was resubmitted by one of its outputs: one run writes them all."""
    wanted = []
    given = {(row[0], row[1]) for row in rows}
    for row in rows:
        producer = catalogue.producer(row[0])
        if row[3] == RESUBMIT and producer is not None:
            wanted += [(other, row[1]) for other in producer.outputs if (other, row[1]) not in given]
    if not wanted:
        return []
    return [row for row in tx.rows("chunks_given", chunks=compact(wanted)) if row[3] in (READY, FAILED)]


def _end_lost_runs(tx: Transaction, rows: list[Row]) -> None:
    """A chunk that was taken away from its running attempt: the attempt is over, and can neither commit nor fail."""
    lost = dict.fromkeys(row[6] for row in rows if row[10] == RUNNING and row[3] != RUNNING)
    for runid in lost:
        end_lost_run(tx, runid, "the status was changed from outside")


def _forget_deleted_runs(tx: Transaction, notes: list[Row], rows: list[Row]) -> None:
    """Somebody deleted the row of a running chunk: its attempt is over, and its inputs are as if it had never been.

    Where the status was changed first, it was that which ended the attempt, and it was made in vain.
    """
    there = {(row[0], row[1]) for row in rows}
    for _, datasetid, dataid, jobid, locktype, before, after, _ in notes:
        if locktype == OUT and before == RUNNING and (datasetid, dataid) not in there:
            for run in tx.rows("runs_of_dataid", jobid=jobid, dataid=dataid):
                if run[4] == RUNNING:
                    end_lost_run(tx, run[0], f"its row was {'changed and ' * (after is not None)}deleted from outside")
                    for name, input_id, _ in json.loads(run[8]) if after is None else ():
                        names = {"datasetid": name, "jobid": jobid, "locktype": IN, "dataids": compact([input_id])}
                        tx.run("chunks_mark", **names)
                        tx.run("chunks_forget", **names)


def end_lost_run(tx: Transaction, runid: int, detail: str) -> None:
    """End an attempt whose chunk is no longer its own."""
    row = tx.row("run_row", runid=runid)
    if row is not None:
        tx.rows(
            "end_run",
            **lost_run(runid, row[1], row[2], row[3], row[6], row[8], outputs_of_run(tx, runid, row[2]), detail),
        )


def outputs_of_run(tx: Transaction, runid: int, dataid: str) -> list[str]:
    """The datasets whose chunk an attempt holds: its job may have been changed or removed meanwhile."""
    return [row[0] for row in tx.rows("outputs_of_run", runid=runid, dataid=dataid)]


def lost_run(
    runid: int, jobid: str, dataid: str, epoch: int, owner: str, inputs: str, outputs: Sequence[str], detail: str
) -> dict[str, Any]:
    """How an attempt ends that lost its lease, as the query end_run takes it."""
    return {
        "runid": runid,
        "jobid": jobid,
        "dataid": dataid,
        "epoch": epoch,
        "owner": owner,
        "inputs": inputs,
        "outputs": compact(outputs),
        "kind": "lost",
        "run_status": "LOST",
        "out_status": FAILED,
        "in_status": FAILED,
        "outcome": LeaseLost.name,
        "detail": detail,
        "exit_code": None,
    }


def _as_it_is(catalogue: Catalogue, row: Row) -> dict[str, Any]:
    datasetid, dataid, jobid, status, epoch, version, _, _, held, key, _ = row
    if datasetid in catalogue.datasets:
        try:
            key = sort_key(catalogue.datasets[datasetid].partition, dataid)
        except (BadDataid, BadId):
            key = ""
    return {
        "datasetid": datasetid,
        "dataid": dataid,
        "jobid": jobid,
        "status": status,
        "epoch": epoch,
        "version": version,
        "held": held,
        "sort_key": key,
    }


def _resubmitted(row: Row) -> dict[str, Any]:
    return {
        "datasetid": row[0],
        "dataid": row[1],
        "jobid": row[2],
        "status": RESUBMIT,
        "epoch": row[4],
        "version": row[5],
        "held": None,
        "sort_key": row[9],
    }
