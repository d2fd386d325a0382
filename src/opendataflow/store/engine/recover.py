"""RESUBMIT for FAILED chunks of any number of datasets, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...model import FAILED, RESUBMIT, Catalogue
from ..drivers.base import Transaction
from ..records import Rescued, Steered
from . import candidates, transition
from .freshness import SET_ASIDE_OR_RUNNING
from .inputs import ChunkId
from .transition import OperatorAct, StatusChange


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
    groups = {chunk: transition.product_of(catalogue, *chunk) for chunk in selected if chunk[0] in catalogue.datasets}
    everything = sorted({chunk for group in groups.values() for chunk in group})
    candidates.lock_candidates(tx, candidates.affected_pairs(catalogue, everything))
    locked = transition.locked_rows(tx, everything)
    changes: dict[ChunkId, StatusChange] = {}
    skipped: list[Steered] = []
    for chunk in selected:
        rows = {each: locked[each] for each in groups.get(chunk, ()) if each in locked}
        statuses = {row.status for row in rows.values()}
        # One run writes all of them: one that is set aside or RUNNING blocks the others.
        if FAILED in statuses and not statuses & SET_ASIDE_OR_RUNNING:
            changes |= {each: StatusChange(each, row, RESUBMIT) for each, row in rows.items() if row.status != RESUBMIT}
        else:
            now = locked.get(chunk)
            skipped.append(Steered(*chunk, now.status if now else None, now.status if now else None))
    if not dry_run:
        transition.transition(tx, catalogue, "resubmit", list(changes.values()), act)
    changed = tuple(Steered(*change.chunk, change.before, change.after) for change in changes.values())
    return Recovered(changed, tuple(skipped), tuple(rescued))
