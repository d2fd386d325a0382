"""Recall published versions and, with cascade, all versions made from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...errors import BadTransition
from ...model import READY, RESUBMIT, RUNNING, TODAY, Catalogue, check_dataid
from .. import records
from ..drivers.base import Transaction
from ..records import Run, Steered
from ..rows import ChunkRow, EventRow, as_objects, compact
from ..version_records import VersionId
from . import candidates, steering, transition
from .inputs import ChunkId
from .transition import OperatorAct

_MOST = 1_000_000


class Recall(NamedTuple):
    """The result of a recall: the recalled versions, the status changes, and the runs that lost their input."""

    versions: tuple[VersionId, ...]
    changed: tuple[Steered, ...]
    lost: tuple[Run, ...]


def recall(
    tx: Transaction,
    catalogue: Catalogue,
    chunk: ChunkId,
    act: OperatorAct,
    *,
    cascade: bool,
    hold: bool,
    dry_run: bool,
) -> Recall:
    """Recall the current version of a chunk and, with cascade, every version that was made from it."""
    datasetid, dataid = chunk
    check_dataid(catalogue.dataset(datasetid).partition, dataid, datasetid)
    if datasetid == TODAY.datasetid:
        raise BadTransition("today is a built-in dataset and has no published versions", hint="See: odf datasets")
    _lock_against_claims(tx, catalogue, [chunk])
    bad, lost = _versions_and_readers(tx, catalogue, _published(tx, chunk), cascade)
    rows = transition.locked_rows(tx, sorted({version[:2] for version in bad}))
    current = [version for version in bad if rows.get(version[:2]) and rows[version[:2]].version == version.version]
    current_chunks = [version[:2] for version in current if rows[version[:2]].status != RUNNING]
    verb = "recall and hold" if hold else "recall"
    changed = steering.steer(tx, catalogue, verb, _one_of_each_product(catalogue, current_chunks), act, dry_run=dry_run)
    resubmitted = [
        (name, run.dataid) for run in lost for name in tx.values("outputs_of_run", runid=run.runid, dataid=run.dataid)
    ]
    if not dry_run:
        for run in lost:
            transition.lose(tx, run.runid, f"an input was recalled by {act.who}: {act.why}", who=act.who)
        tx.run("recalled_put", versions=compact(bad), who=act.who, why=act.why or "")
        steered = {(change.datasetid, change.dataid) for change in changed}
        rest = [version for version in bad if version[:2] not in steered or version not in current]
        tx.run("events_put", events=as_objects([_event(version, rows.get(version[:2]), act) for version in rest]))
    again = _one_of_each_product(catalogue, resubmitted)
    changed += [Steered(*each, RUNNING, RESUBMIT) for each in again]
    if not dry_run:
        steering.steer(tx, catalogue, "resubmit", again, act)
    return Recall(tuple(bad), tuple(changed), tuple(lost))


def _lock_against_claims(tx: Transaction, catalogue: Catalogue, chunks: Sequence[ChunkId]) -> None:
    """Lock everything made from these chunks: waits for running claims, and blocks new claims and new candidates."""
    pairs = list(candidates.affected_pairs(catalogue, chunks))
    candidates.lock_pairs(tx, pairs)
    candidates.lock_candidates(tx, pairs)


def _versions_and_readers(
    tx: Transaction, catalogue: Catalogue, first: VersionId, cascade: bool
) -> tuple[list[VersionId], list[Run]]:
    """The versions to recall, and the running runs that read one; waits for concurrent claims and commits of them."""
    waited_for: set[int] = set()
    locked = 1
    while True:
        bad = _bad_versions(tx, first, cascade)
        if len(bad) > locked:
            _lock_against_claims(tx, catalogue, sorted({version[:2] for version in bad}))
            locked = len(bad)
            continue
        recalled = set(map(tuple, bad))
        readers = [
            run for run in tx.fetch(records.run, "runs_running") if any(tuple(item) in recalled for item in run.inputs)
        ]
        runids = {run.runid for run in readers}
        if runids <= waited_for:
            return bad, readers
        tx.lock("lock_runs", runids=compact(sorted(runids)))
        waited_for |= runids


def _published(tx: Transaction, chunk: ChunkId) -> VersionId:
    row = transition.locked_rows(tx, [chunk]).get(chunk)
    if row is None or not (row.version or row.status == READY):
        state = "was never produced" if row is None else f"is {row.status}, and was never published"
        raise BadTransition(
            f"{' '.join(chunk)} {state}: there is nothing to recall", hint=f"See: odf status {chunk[0]}"
        )
    return VersionId(*chunk, row.version)


def _bad_versions(tx: Transaction, first: VersionId, cascade: bool) -> list[VersionId]:
    if not cascade:
        return [first]
    found = tx.fetch(VersionId._make, "made_from_version", **first._asdict(), n=_MOST + 1)
    if len(found) > _MOST:
        raise BadTransition(
            f"more than {_MOST:,} versions were made from {first.datasetid} {first.dataid}",
            hint="Recall the version without --cascade, then its downstream versions in smaller parts.",
        )
    return found


def _one_of_each_product(catalogue: Catalogue, chunks: Sequence[ChunkId]) -> list[ChunkId]:
    """One chunk of each product: a verb applies to everything that the same run writes."""
    first: dict[tuple[ChunkId, ...], ChunkId] = {}
    for chunk in chunks:
        first.setdefault(tuple(transition.product_of(catalogue, *chunk)), chunk)
    return list(first.values())


def _event(version: VersionId, row: ChunkRow | None, act: OperatorAct) -> EventRow:
    jobid = row.jobid if row else None
    why = f"version {version.version}" + (f": {act.why}" if act.why else "")
    return EventRow("recalled", version.datasetid, version.dataid, jobid, None, None, act.who, why, version.version)
