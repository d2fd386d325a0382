"""Recalling: published data was bad, and nobody reads it again; where somebody says so, nor what was made from it."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import BadTransition
from ..model import READY, RESUBMIT, RUNNING, TODAY, Catalogue, check_dataid
from ..shapes import NamedTuple
from . import candidates, records, status_rows, steering
from .announcing import Act
from .backend import Transaction
from .endings import lose
from .inputs import ChunkId
from .links import VersionId
from .records import Run, Steered
from .rows import EventRow, Standing, as_objects, compact

_MOST = 1_000_000


class Recall(NamedTuple):
    """What a recall does: the versions that nobody reads again, what their chunks become, and the runs that lose their input."""

    versions: tuple[VersionId, ...]
    changed: tuple[Steered, ...]
    lost: tuple[Run, ...]


def recall(
    tx: Transaction,
    catalogue: Catalogue,
    chunk: ChunkId,
    act: Act,
    *,
    cascade: bool,
    hold: bool,
    dry_run: bool,
) -> Recall:
    """Call back the current version of a chunk and, with cascade, every version that was really made from it."""
    datasetid, dataid = chunk
    check_dataid(catalogue.dataset(datasetid).partition, dataid, datasetid)
    if datasetid == TODAY.datasetid:
        raise BadTransition("today is not data that anybody published", hint="See: odf datasets")
    _keep_from_claims(tx, catalogue, [chunk])
    bad, lost = _found(tx, catalogue, _published(tx, chunk), cascade)
    there = status_rows.standing(tx, sorted({version[:2] for version in bad}))
    current = [version for version in bad if there.get(version[:2]) and there[version[:2]].version == version.version]
    standing = [version[:2] for version in current if there[version[:2]].status != RUNNING]
    verb = "recall and hold" if hold else "recall"
    changed: list[Steered] = []
    for name, dataids in _by_dataset(catalogue, standing).items():
        changed += steering.steer(tx, catalogue, verb, name, dataids, act, force=False, dry_run=dry_run)
    again = [
        (name, run.dataid) for run in lost for name in tx.values("outputs_of_run", runid=run.runid, dataid=run.dataid)
    ]
    if not dry_run:
        for run in lost:
            lose(tx, run.runid, f"what it read was recalled by {act.who}: {act.why}", who=act.who)
        tx.run("recalled_put", versions=compact(bad), who=act.who, why=act.why or "")
        told = {(change.datasetid, change.dataid) for change in changed}
        rest = [version for version in bad if version[:2] not in told or version not in current]
        tx.run("events_put", events=as_objects([_event(version, there.get(version[:2]), act) for version in rest]))
    for name, dataids in _by_dataset(catalogue, again).items():
        changed += [Steered(name, each, RUNNING, RESUBMIT) for each in dataids]
        if not dry_run:
            steering.steer(tx, catalogue, "resubmit", name, dataids, act, force=False, dry_run=False)
    return Recall(tuple(bad), tuple(changed), tuple(lost))


def _keep_from_claims(tx: Transaction, catalogue: Catalogue, chunks: Sequence[ChunkId]) -> None:
    """Claims of what is made from these chunks are waited for, and wait; nobody makes a candidate of it meanwhile."""
    pairs = list(candidates.touched(catalogue, chunks))
    candidates.lock(tx, pairs)
    candidates.lock_rows(tx, pairs)


def _found(tx: Transaction, catalogue: Catalogue, first: VersionId, cascade: bool) -> tuple[list[VersionId], list[Run]]:
    """The versions that are bad, and the runs that read one of them now; who claims or publishes one now is waited for."""
    waited_for: set[int] = set()
    kept = 1
    while True:
        bad = _bad_versions(tx, first, cascade)
        if len(bad) > kept:
            _keep_from_claims(tx, catalogue, sorted({version[:2] for version in bad}))
            kept = len(bad)
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
    row = status_rows.standing(tx, [chunk]).get(chunk)
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
            hint="Recall it without --cascade, and what was made from it bit by bit.",
        )
    return found


def _by_dataset(catalogue: Catalogue, chunks: Sequence[ChunkId]) -> dict[str, list[str]]:
    """The dataids of each dataset, one dataset of those that one run writes together."""
    found: dict[str, list[str]] = {}
    seen: set[tuple[tuple[str, ...], str]] = set()
    for datasetid, dataid in chunks:
        group = tuple(catalogue.written_together(datasetid))
        if (group, dataid) not in seen:
            seen.add((group, dataid))
            found.setdefault(datasetid, []).append(dataid)
    return found


def _event(version: VersionId, row: Standing | None, act: Act) -> EventRow:
    jobid = row.jobid if row else None
    why = f"version {version.version}" + (f": {act.why}" if act.why else "")
    return EventRow("recalled", version.datasetid, version.dataid, jobid, None, None, act.who, why, version.version)
