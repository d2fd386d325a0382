"""Versions: letting a chunk be an older published version again, and removing the files of old ones."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import BadTransition
from ..model import FAILED, READY, RESUBMIT, RUNNING, Catalogue, check_dataid
from . import candidates, records, status_rows
from .announcing import OUTSIDE, Act
from .backend import Transaction
from .links import Recalled
from .records import Published, RolledBack
from .repeats import refuse_repeat, wrong_repeat_of
from .rows import EventRow, OutRow, Standing, as_objects
from .steering import recalled_versions

_LOOK_BACK = 1000  # events


def rollback(
    tx: Transaction,
    catalogue: Catalogue,
    datasetid: str,
    dataid: str,
    to: int | None,
    act: Act,
    *,
    dry_run: bool,
) -> list[RolledBack]:
    """Let a chunk be another of its published versions, by default the one before; READY if it was not.

    What a re-run took away from its readers comes back: the version that was current when it was resubmitted.
    One run writes all its outputs, so its other outputs go back with it. Epochs stay: the next one is still a new one.
    """
    dataset = catalogue.dataset(datasetid)
    check_dataid(dataset.partition, dataid, datasetid)
    group = catalogue.written_together(datasetid)
    there = status_rows.standing(tx, [(name, dataid) for name in group])
    current = _settled(datasetid, dataid, there.get((datasetid, dataid)))
    version = _version_to_be(tx, current) if to is None else to
    changed, put, events = [], [], []
    for name in group:
        row = _settled(name, dataid, there.get((name, dataid)))
        if (row.status, row.version) == (READY, version) and name != datasetid:
            continue
        _must_be_there(tx, catalogue, row, version)
        put.append(OutRow(name, dataid, row.jobid, READY, row.epoch, version, None, row.sort_key))
        told = f"version {row.version} → {version}" + (f": {act.why}" if act.why else "")
        events.append(EventRow("rolled back", name, dataid, row.jobid, row.status, READY, act.who, told, row.epoch))
        changed.append(RolledBack(name, dataid, row.version, version))
    if not dry_run:
        status_rows.put(tx, put)
        tx.run("events_put", events=as_objects(events))
        if any(event.before != READY for event in events):
            candidates.settle(tx, catalogue, [(row.datasetid, row.dataid) for row in put], by_person=True)
    return changed


def _settled(datasetid: str, dataid: str, row: Standing | None) -> Standing:
    if row is None or row.status not in (READY, FAILED, RESUBMIT):
        state = "was never produced" if row is None else f"is {row.status}"
        raise BadTransition(
            f"{datasetid} {dataid} {state}: rollback needs READY, FAILED or RESUBMIT",
            hint=f"See: odf explain {datasetid} {dataid}",
        )
    return row


def _version_to_be(tx: Transaction, current: Standing) -> int:
    """The version before; the current one where it is only off line, and nobody called it bad."""
    datasetid, dataid = current.datasetid, current.dataid
    published = _published_versions(tx, datasetid, dataid)
    is_off_line = current.status != READY and not _was_called_bad(tx, datasetid, dataid)
    gone = removed(tx, datasetid, dataid) | {version for _, _, version in recalled_versions(tx, [(datasetid, dataid)])}
    for version in published:
        if (version < current.version or (is_off_line and version == current.version)) and version not in gone:
            return version
    raise BadTransition(
        f"{datasetid} {dataid} has no version before {current.version} that is still there",
        hint=f"See: odf explain {datasetid} {dataid}",
    )


def _was_called_bad(tx: Transaction, datasetid: str, dataid: str) -> bool:
    """Whether somebody said FAILED of the version that is current since it was published."""
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


def _must_be_there(tx: Transaction, catalogue: Catalogue, current: Standing, version: int) -> None:
    """Refuse a version that cannot be the current one, as far as the store can tell."""
    datasetid, dataid = current.datasetid, current.dataid
    dataset = catalogue.dataset(datasetid)
    here = f"{datasetid} {dataid}"
    if dataset.options.get("layout") == "plain" or dataset.kind == "table":
        what = "is a table" if dataset.kind == "table" else 'has layout = "plain"'
        raise BadTransition(
            f"dataset {datasetid} {what}: a new version replaces the old one, which is gone",
            hint=f"Have it produced again: odf resubmit {here}",
        )
    if version == current.version and current.status == READY:
        raise BadTransition(f"{here} is version {version} already")
    published = tx.first(records.published, "manifest", datasetid=datasetid, dataid=dataid, version=version)
    if published is None:
        known = ", ".join(map(str, _published_versions(tx, datasetid, dataid)))
        raise BadTransition(f"{here} has no version {version}", hint=f"It has {known}." if known else "It has none.")
    if version in removed(tx, datasetid, dataid):
        raise BadTransition(
            f"the files of {here} version {version} were removed by odf vacuum",
            hint=f"Have it produced again: odf resubmit {here}",
        )
    if by := _recalled(tx, published):
        raise BadTransition(
            f"version {version} of {here}, or one with the same content, was recalled by {by.who}: {by.why}",
            hint=f"Have it produced again: odf resubmit {here}",
        )
    is_free = bool(dataset.options.get("repeats"))
    if published.manifest.fingerprint and not is_free and wrong_repeat_of(tx, dataset, dataid, published.manifest):
        refuse_repeat(tx, datasetid, dataid, published.manifest.fingerprint, {})


def _recalled(tx: Transaction, published: Published) -> Recalled | None:
    """Who recalled a version, or another one with its content."""
    for (datasetid, dataid, version), by in recalled_versions(tx, [published[:2]]).items():
        if version == published.version:
            return by
        other = tx.first(records.published, "manifest", datasetid=datasetid, dataid=dataid, version=version)
        if other and other.manifest.fingerprint and other.manifest.fingerprint == published.manifest.fingerprint:
            return by
    return None


def vacuumed(tx: Transaction, datasetid: str, versions: Sequence[tuple[str, int]], act: Act) -> list[tuple[str, int]]:
    """Record that the files of old versions are about to be removed; returns those that nobody needs: they may go.

    From here on nobody can roll back to them.
    """
    there = status_rows.standing(tx, sorted({(datasetid, dataid) for dataid, _ in versions}))
    read = {tuple(item) for run in tx.fetch(records.run, "runs_running") for item in run.inputs}
    free, events = [], []
    for dataid, version in versions:
        row = there.get((datasetid, dataid))
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
