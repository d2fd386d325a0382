"""RESUBMIT for FAILED chunks of any number of datasets, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...model import FAILED, RESUBMIT, Catalogue
from ..drivers.base import Transaction
from ..records import Rescued, Steered
from ..rows import ChunkRow, EventRow, OutRow, as_objects
from . import candidates, status_rows
from .announcing import OperatorAct
from .freshness import SET_ASIDE_OR_RUNNING
from .inputs import ChunkId


class Recovered(NamedTuple):
    """The result of a recovery: resubmitted chunks, chunks that were no longer FAILED, and rescued runs."""

    changed: tuple[Steered, ...]
    skipped: tuple[Steered, ...]
    rescued: tuple[Rescued, ...]


def recover(
    tx: Transaction,
    catalogue: Catalogue,
    selected: Sequence[ChunkId],
    rescued: list[Rescued],
    act: OperatorAct,
    dry_run: bool,
) -> Recovered:
    """Resubmit these chunks where they are FAILED; chunks that one run writes go together."""
    groups = {
        chunk: [(name, chunk[1]) for name in catalogue.written_together(chunk[0])]
        for chunk in selected
        if chunk[0] in catalogue.datasets
    }
    everything = sorted({chunk for group in groups.values() for chunk in group})
    candidates.lock_candidates(tx, candidates.affected_pairs(catalogue, everything))
    locked = status_rows.locked_rows(tx, everything)
    changes: dict[ChunkId, ChunkRow] = {}
    skipped: list[Steered] = []
    for chunk in selected:
        rows = [locked[each] for each in groups.get(chunk, ()) if each in locked]
        # One run writes all of them: one that is set aside or RUNNING blocks the others.
        if any(row.status == FAILED for row in rows) and all(row.status not in SET_ASIDE_OR_RUNNING for row in rows):
            changes |= {(row.datasetid, row.dataid): row for row in rows if row.status != RESUBMIT}
        else:
            now = locked.get(chunk)
            skipped.append(Steered(*chunk, now.status if now else None, now.status if now else None))
    changed = [Steered(*chunk, row.status, RESUBMIT) for chunk, row in changes.items()]
    if changes and not dry_run:
        status_rows.put(
            tx,
            [
                OutRow(*chunk, row.jobid, RESUBMIT, row.epoch, row.version, None, row.sort_key)
                for chunk, row in changes.items()
            ],
        )
        events = [
            EventRow("resubmitted", *chunk, row.jobid, row.status, RESUBMIT, *act, row.epoch)
            for chunk, row in changes.items()
        ]
        tx.run("events_put", events=as_objects(events))
        candidates.update_candidates(tx, catalogue, list(changes), by_operator=True)
    return Recovered(tuple(changed), tuple(skipped), tuple(rescued))
