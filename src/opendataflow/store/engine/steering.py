"""Select the chunks that an operator's verb changes, and refuse what the table of verbs does not allow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...errors import BadTransition
from ...model import HOLD, PENDING, READY, RESUBMIT, Catalogue, check_dataid
from ...model.definitions.calendar import comes_by_clock
from ..drivers.base import Transaction
from ..records import Steered
from ..rows import PairKey, StatusKey, compact
from . import candidates, transition
from .inputs import ChunkId
from .transition import OperatorAct, StatusChange


def steer(
    tx: Transaction,
    catalogue: Catalogue,
    verb: str,
    chunks: Iterable[ChunkId],
    act: OperatorAct,
    *,
    force: bool = False,
    dry_run: bool = False,
) -> list[Steered]:
    """Apply one verb to chunks and everything that the same runs write; all of them or none."""
    wanted = list(dict.fromkeys(_checked(catalogue, verb, chunks)))
    products = {chunk: transition.product_of(catalogue, *chunk) for chunk in wanted}
    everything = list(dict.fromkeys(each for product in products.values() for each in product))
    deferred = _deferred(tx, catalogue, everything)
    rows = transition.locked_rows(tx, everything)
    recalled = transition.recalled_versions(tx, everything) if verb == "release" else {}
    changes: dict[ChunkId, StatusChange] = {}
    for chunk in wanted:
        # A recalled version is never READY again, nor is anything that the same run wrote.
        is_recalled = any((*each, row.version) in recalled for each in products[chunk] if (row := rows.get(each)))
        for each in products[chunk]:
            row = rows.get(each)
            before = row.status if row else None
            is_named = each in products
            if not is_named and (before is None or (verb == "release" and before not in (HOLD, PENDING))):
                continue
            after = transition.next_status(verb, each, row, force=force)
            if after == READY and is_recalled:
                after = RESUBMIT
            # Another RESUBMIT ends the backoff before the next retry, as an UPDATE by SQL does.
            producer = catalogue.producer(each[0])
            ends_backoff = verb == "resubmit" and producer is not None and (producer.jobid, each[1]) in deferred
            if before != after or ends_backoff:
                changes[each] = StatusChange(each, row, after)
    if not dry_run:
        if unchanged := [each for each in everything if each not in changes]:
            tx.run("remake_drop", chunks=compact(unchanged))  # a chunk that an operator resubmits again has to run
        readings = _readings(tx, catalogue, wanted) if verb == "forget" else []
        transition.transition(tx, catalogue, verb, list(changes.values()), act, also_removed=readings)
    return [Steered(*change.chunk, change.before, change.after) for change in changes.values()]


def _checked(catalogue: Catalogue, verb: str, chunks: Iterable[ChunkId]) -> Iterable[ChunkId]:
    for datasetid, dataid in chunks:
        dataset = catalogue.dataset(datasetid)
        check_dataid(dataset.partition, dataid, datasetid)
        if verb == "resubmit" and comes_by_clock(dataset):
            _refuse_by_clock(catalogue, datasetid, dataid)
        yield datasetid, dataid


def _refuse_by_clock(catalogue: Catalogue, datasetid: str, dataid: str) -> None:
    """A chunk that the clock announced stays RESUBMIT: no job makes it, and the clock announces it only once."""
    readers = [job.outputs[0] for job, _ in catalogue.consumers(datasetid)]
    raise BadTransition(
        f"{datasetid} {dataid} comes from the calendar, and no job makes it again",
        hint=" ".join(
            [
                *(f"To make what is made from it again: odf resubmit {name} {dataid}." for name in readers[:1]),
                f"If it is not READY, announce it: odf ready {datasetid} {dataid}",
            ]
        ),
    )


def _readings(tx: Transaction, catalogue: Catalogue, chunks: Sequence[ChunkId]) -> list[StatusKey]:
    """The IN rows that belong to these chunks alone."""
    by_dataset: dict[str, list[str]] = {}
    for datasetid, dataid in chunks:
        by_dataset.setdefault(datasetid, []).append(dataid)
    return [
        reading
        for datasetid, dataids in by_dataset.items()
        if (producer := catalogue.producer(datasetid)) is not None
        for reading in transition.readings_of(tx, catalogue, producer, dataids)
    ]


def lock_chunks(tx: Transaction, catalogue: Catalogue, chunks: Iterable[ChunkId]) -> list[ChunkId]:
    """Lock these chunks, everything that the same runs write, and all candidates that they affect; returns the chunks."""
    locked = [
        each
        for datasetid, dataid in chunks
        if datasetid in catalogue.datasets
        for each in transition.product_of(catalogue, datasetid, dataid)
    ]
    locked = list(dict.fromkeys(locked))
    candidates.lock_candidates(tx, candidates.affected_pairs(catalogue, locked))
    transition.locked_rows(tx, locked)
    return locked


def _deferred(tx: Transaction, catalogue: Catalogue, chunks: Sequence[ChunkId]) -> set[candidates.PairId]:
    """The deferred candidates that these chunks affect; read before the status rows, in the lock order of a claim."""
    pairs = list(candidates.affected_pairs(catalogue, chunks))
    return set(tx.fetch(PairKey._make, "deferred_given", pairs=compact(pairs)))
