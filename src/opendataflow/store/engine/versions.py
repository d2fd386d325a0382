"""Roll a chunk back to an older published version, and record removed files of old versions."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import BadTransition
from ...model import FAILED, READY, RUNNING, Catalogue, check_dataid
from ...model.decision.transitions import VERBS
from .. import records
from ..drivers.base import Transaction
from ..records import Published, RolledBack
from ..rows import ChunkRow, EventRow, as_objects
from ..version_records import Recalled
from . import transition
from .inputs import ChunkId
from .repeated_content import refuse_repeat, wrong_repeat_of
from .transition import OUTSIDE, OperatorAct, StatusChange

_LOOK_BACK = 1000  # in events


def rollback(
    tx: Transaction,
    catalogue: Catalogue,
    datasetid: str,
    dataid: str,
    to: int | None,
    act: OperatorAct,
    *,
    dry_run: bool,
) -> list[RolledBack]:
    """Make another published version current and READY; by default the previous one.

    After a resubmit, the default is the version that was current then.
    All outputs of the run go back together. Epochs are unchanged: the next run still gets a new one.
    """
    dataset = catalogue.dataset(datasetid)
    check_dataid(dataset.partition, dataid, datasetid)
    product = transition.product_of(catalogue, datasetid, dataid)
    rows = transition.locked_rows(tx, product)
    current = _rollback_row((datasetid, dataid), rows.get((datasetid, dataid)))
    version = _default_version(tx, current) if to is None else to
    changed, changes = [], []
    for chunk in product:
        row = _rollback_row(chunk, rows.get(chunk))
        if (row.status, row.version) == (READY, version) and chunk[0] != datasetid:
            continue
        _check_version(tx, catalogue, row, version)
        why = f"version {row.version} → {version}" + (f": {act.why}" if act.why else "")
        changes.append(StatusChange(chunk, row, READY, version, act._replace(why=why)))
        changed.append(RolledBack(*chunk, row.version, version))
    if not dry_run:
        transition.transition(tx, catalogue, "roll back", changes, act)
    return changed


def _rollback_row(chunk: ChunkId, row: ChunkRow | None) -> ChunkRow:
    here = " ".join(chunk)
    if row is None or row.status not in VERBS["roll back"].becomes:
        state = "was never produced" if row is None else f"is {row.status}"
        raise BadTransition(
            f"{here} {state}: rollback needs READY, FAILED or RESUBMIT", hint=f"See: odf explain {here}"
        )
    return row


def _default_version(tx: Transaction, current: ChunkRow) -> int:
    """The previous version; or the current one if it is not READY but was not marked as bad."""
    datasetid, dataid = current.datasetid, current.dataid
    published = _published_versions(tx, datasetid, dataid)
    is_withdrawn = current.status != READY and not _was_marked_bad(tx, datasetid, dataid)
    unavailable = removed(tx, datasetid, dataid) | {
        version for _, _, version in transition.recalled_versions(tx, [(datasetid, dataid)])
    }
    for version in published:
        if (version < current.version or (is_withdrawn and version == current.version)) and version not in unavailable:
            return version
    raise BadTransition(
        f"{datasetid} {dataid} has no version before {current.version} that is still there",
        hint=f"See: odf explain {datasetid} {dataid}",
    )


def _was_marked_bad(tx: Transaction, datasetid: str, dataid: str) -> bool:
    """Whether the current version was set to FAILED after it was published."""
    for event in tx.fetch(records.event, "events_of_chunk_newest", datasetid=datasetid, dataid=dataid, n=_LOOK_BACK):
        if (event.before, event.after) == (READY, FAILED):
            return True
        if event.after == READY:
            return False
    return False


def _published_versions(tx: Transaction, datasetid: str, dataid: str) -> list[int]:
    manifests = tx.fetch(records.published, "manifests_of_chunk", datasetid=datasetid, dataid=dataid)
    return [published.version for published in manifests]


def removed(tx: Transaction, datasetid: str, dataid: str) -> set[int]:
    """The versions of a chunk whose files were removed."""
    return set(tx.values("vacuumed_versions", datasetid=datasetid, dataid=dataid))


def way_to_renew(catalogue: Catalogue, datasetid: str, dataid: str) -> str:
    """A hint how to get a new version of a chunk where rollback is not possible."""
    if catalogue.producer_id(datasetid) is None:
        return f"When it has been delivered again: odf ready {datasetid} {dataid} --again"
    return f"Have it produced again: odf resubmit {datasetid} {dataid}"


def _check_version(tx: Transaction, catalogue: Catalogue, current: ChunkRow, version: int) -> None:
    """Refuse a version that cannot become current, as far as the store knows."""
    datasetid, dataid = current.datasetid, current.dataid
    dataset = catalogue.dataset(datasetid)
    here = f"{datasetid} {dataid}"
    if dataset.options.get("layout") == "plain" or dataset.kind == "table":
        what = "is a table" if dataset.kind == "table" else 'has layout = "plain"'
        raise BadTransition(
            f"dataset {datasetid} {what}: a new version replaces the old one, which is gone",
            hint=way_to_renew(catalogue, datasetid, dataid),
        )
    if version == current.version and current.status == READY:
        raise BadTransition(f"{here} already has version {version}")
    published = tx.first(records.published, "manifest", datasetid=datasetid, dataid=dataid, version=version)
    if published is None:
        known = ", ".join(map(str, _published_versions(tx, datasetid, dataid)))
        raise BadTransition(
            f"{here} has no version {version}",
            hint=f"Its versions: {known}." if known else "The chunk has no versions.",
        )
    if version in removed(tx, datasetid, dataid):
        raise BadTransition(
            f"the files of {here} version {version} were removed by odf vacuum",
            hint=way_to_renew(catalogue, datasetid, dataid),
        )
    if by := _recalled(tx, published):
        raise BadTransition(
            f"version {version} of {here}, or one with the same content, was recalled by {by.who}: {by.why}",
            hint=way_to_renew(catalogue, datasetid, dataid),
        )
    repeats_allowed = bool(dataset.options.get("repeats"))
    if (
        published.manifest.fingerprint
        and not repeats_allowed
        and wrong_repeat_of(tx, dataset, dataid, published.manifest, published.runid)
    ):
        refuse_repeat(tx, datasetid, dataid, published.manifest.fingerprint, {})


def _recalled(tx: Transaction, published: Published) -> Recalled | None:
    """The recall of a version, or of another version of the chunk with the same content."""
    for (datasetid, dataid, version), by in transition.recalled_versions(tx, [published[:2]]).items():
        if version == published.version:
            return by
        other = tx.first(records.published, "manifest", datasetid=datasetid, dataid=dataid, version=version)
        if other and other.manifest.fingerprint and other.manifest.fingerprint == published.manifest.fingerprint:
            return by
    return None


def vacuumed(
    tx: Transaction, datasetid: str, versions: Sequence[tuple[str, int]], act: OperatorAct
) -> list[tuple[str, int]]:
    """Record that the files of old versions are about to be removed; returns the versions that are not in use.

    Rollback to these versions is refused from here on.
    """
    rows = transition.locked_rows(tx, sorted({(datasetid, dataid) for dataid, _ in versions}))
    read = {tuple(item) for run in tx.fetch(records.run, "runs_running") for item in run.inputs}
    free, events = [], []
    for dataid, version in versions:
        row = rows.get((datasetid, dataid))
        readers = tx.fetch(records.input_row, "readers_of_chunk", datasetid=datasetid, dataid=dataid)
        is_read = any(reader.status == RUNNING and reader.version == version for reader in readers)
        if is_read or (datasetid, dataid, version) in read or (row and row.version == version):
            continue
        free.append((dataid, version))
        if version not in removed(tx, datasetid, dataid):
            jobid = row.jobid if row else OUTSIDE
            events.append(EventRow("vacuumed", datasetid, dataid, jobid, None, None, *act, version))
    if events:
        tx.run("events_put", events=as_objects(events))
    return free
