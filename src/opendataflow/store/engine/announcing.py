"""Announce chunks that an outside producer delivered, and calendar periods that are over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple

from ...errors import BadDefinition, Locked
from ...model import READY, RUNNING, TYPES, Catalogue, Dataset, Job, Manifest, checked_positions
from ...model.decision.transitions import VERBS
from ...model.definitions.calendar import comes_by_clock, period_at, periods_over, unannounced, zone_of
from .. import records
from ..drivers.base import Transaction
from ..records import Announced
from ..rows import AnnouncedRow, ChunkRow, EventRow, Status, as_objects, compact, manifest_data
from ..version_records import Recalled, VersionId, recalled
from . import candidates, transition
from .inputs import ChunkId
from .repeated_content import Repeat, refuse_repeat
from .transition import OUTSIDE, OperatorAct

_BATCH = 10_000


class FirstAndLast(NamedTuple):
    """The first and last dataid of a range; None if the range has no chunk."""

    first_dataid: str | None
    last_dataid: str | None


class Announcement(NamedTuple):
    """Chunks of one dataset that an outside producer delivered, with the known facts about them."""

    datasetid: str
    dataids: Sequence[str]
    manifests: Mapping[str, Manifest] = MappingProxyType({})
    bounds: Mapping[str, tuple[str, str]] = MappingProxyType({})
    repeats: bool = False  # chunks may have the same content as other chunks
    only_new: bool = False  # refuse chunks that have a row already
    jobid: str = OUTSIDE  # the producing job, if it is one of this store
    runid: int | None = None
    again: bool = False  # give READY chunks with the same content a new version


class _Version(NamedTuple):
    dataid: str
    version: int


def announce(tx: Transaction, catalogue: Catalogue, announcement: Announcement, act: OperatorAct) -> Announced:
    """Make delivered chunks READY; a chunk that is READY with the same content is left unchanged."""
    datasetid = announcement.datasetid
    partition = catalogue.dataset(datasetid).partition
    keys = checked_positions(partition, announcement.dataids, datasetid)
    dataids = list(keys)
    tx.lock("lock_dataset", datasetid=datasetid)
    ready: list[str] = []
    renewed: list[str] = []
    contents: dict[str, str] = {}
    author = {"runid": announcement.runid, "who": act.who, "why": act.why}
    for start in range(0, len(dataids), _BATCH):
        batch = dataids[start : start + _BATCH]
        chunks = [(datasetid, dataid) for dataid in batch]
        existing_rows = transition.locked_rows(tx, chunks)
        versions = tx.fetch(_Version._make, "versions_given", datasetid=datasetid, dataids=compact(batch))
        newest = {row.dataid: row.version for row in versions}
        recalls = _recalled_versions(tx, chunks) if announcement.manifests else {}
        groups: dict[tuple[int, str, str | None], list[AnnouncedRow]] = {}  # by version, jobid and previous status
        written, published = [], []
        for chunk in chunks:
            _, dataid = chunk
            before = existing_rows.get(chunk)
            if before is not None and not _needs_write(tx, announcement, before):
                continue
            manifest = announcement.manifests.get(dataid)
            if manifest is not None and not announcement.again:
                _refuse_recalled(tx, manifest, recalls.get(chunk, ()))
            if manifest is not None and manifest.fingerprint and not announcement.repeats:
                refuse_repeat(tx, datasetid, dataid, manifest.fingerprint, contents)
            version, jobid, status = 1 + newest.get(dataid, 0), announcement.jobid, None
            if before is not None:
                version, status = max(version, 1 + before.epoch, 1 + before.version), before.status
                jobid = before.jobid if announcement.runid is None else jobid
            bounds = announcement.bounds.get(dataid, (None, None))
            groups.setdefault((version, jobid, status), []).append(AnnouncedRow(dataid, keys[dataid], *bounds))
            written.append(chunk)
            if manifest is not None:
                published.append(manifest_data(chunk, version, jobid, announcement.runid, manifest))
            if before is not None or dataid in newest:  # a forced run may have read the chunk before it existed
                renewed.append(dataid)
        for (version, jobid, status), rows in groups.items():
            transition.announce(tx, datasetid, rows, version=version, jobid=jobid, before=status, **author)
        if published:
            tx.run("manifests_put", manifests=compact(published))
        if written:
            candidates.update_candidates(tx, catalogue, written, by_operator=True, ready=datasetid)
            ready += [dataid for _, dataid in written]
    announced = set(ready)
    unchanged = tuple(dataid for dataid in dataids if dataid not in announced)
    return Announced(tuple(ready), unchanged, renewed=tuple(renewed))


def _needs_write(tx: Transaction, announcement: Announcement, before: ChunkRow) -> bool:
    """Whether the announcement of an existing chunk needs a write; raises Locked if the chunk may not be announced."""
    here = f"{announcement.datasetid} {before.dataid}"
    if before.status == RUNNING and before.run_status != RUNNING:  # set by SQL
        raise Locked(f"{here} is RUNNING, and no run holds it", hint=f"Take the chunk: odf resubmit {here} --force")
    if before.status == RUNNING:
        raise Locked(f"{here} is RUNNING", hint="A run is producing it. Wait until the run ends.")
    if before.status not in VERBS["announce"].becomes:
        raise Locked(f"{here} is {before.status}", hint=f"The chunk is set aside. Release it: odf release {here}")
    if announcement.only_new:
        raise Locked(f"{here} exists already", hint=f"See: odf explain {here}")
    manifest = announcement.manifests.get(before.dataid)
    return (
        announcement.again
        or before.status != READY
        or not _is_same(tx, VersionId(before.datasetid, before.dataid, before.version), manifest)
    )


def _recalled_versions(tx: Transaction, chunks: Sequence[ChunkId]) -> dict[ChunkId, list[Recalled]]:
    found: dict[ChunkId, list[Recalled]] = {}
    for row in tx.fetch(recalled, "recalled_given", chunks=compact(chunks)):
        found.setdefault((row.datasetid, row.dataid), []).append(row)
    return found


def _refuse_recalled(tx: Transaction, manifest: Manifest, recalls: Sequence[Recalled]) -> None:
    """Refuse content that an earlier version had when that version was recalled."""
    for by in recalls:
        here = f"{by.datasetid} {by.dataid}"
        if _is_same(tx, VersionId(*by[:3]), manifest):
            raise Repeat(
                f"{here} has exactly the content of its version {by.version}, which {by.who} recalled: {by.why}",
                hint=f"Deliver a corrected file. To accept this content anyway: odf ready {here} --again",
                dataid=by.dataid,
            )


def _is_same(tx: Transaction, version: VersionId, manifest: Manifest | None) -> bool:
    if manifest is None:
        return True
    stored = tx.first(records.published, "manifest", **version._asdict())
    if stored is None:
        return False
    if stored.manifest.files and manifest.files:  # the same comparison as question 4
        return stored.manifest.has_files_of(manifest)
    if manifest.fingerprint:
        return stored.manifest.fingerprint == manifest.fingerprint
    return (stored.manifest.location, stored.manifest.bytes) == (manifest.location, manifest.bytes)


def remember_refusal(tx: Transaction, datasetid: str, dataid: str, name: str, act: OperatorAct) -> None:
    """Write an event for a refused chunk; idempotent while the refusal stays the same."""
    last = tx.first(records.event, "events_of_chunk_newest", datasetid=datasetid, dataid=dataid, n=1)
    if last is None or (last.after, last.why) != (name, act.why):
        refusal = EventRow("refused", datasetid, dataid, OUTSIDE, None, name, *act)
        tx.run("events_put", events=as_objects([refusal]))


def announce_by_clock(
    tx: Transaction, catalogue: Catalogue, job: Job, now: float, known: tuple[str, Mapping[str, tuple[str, int]]]
) -> dict[str, tuple[str, int]]:
    """Announce the current day, and every calendar period that is over, for the inputs of the job.

    `known` is the catalogue revision and, by dataset, the revision and period of the last announcement; the result
    replaces it.
    """
    revision, before = known
    announced = dict(before)
    for dataset in (catalogue.dataset(item.datasetid) for item in job.inputs):
        if comes_by_clock(dataset):
            current = period_at(TYPES[dataset.partition.type], now, zone_of(catalogue.datasets))
            if before.get(dataset.datasetid) != (revision, current):
                _announce_periods(tx, catalogue, dataset.datasetid, _due(tx, dataset, current))
                announced[dataset.datasetid] = (revision, current)
    return announced


def due_by_clock(tx: Transaction, catalogue: Catalogue, now: float) -> dict[str, list[str]]:
    """By calendar dataset with a consumer, the periods that the next claims announce; no query without calendars.

    Excludes `today`: the store announces a day only when a job claims on that day.
    """
    read = (catalogue.datasets[name] for name in catalogue.readers if name in catalogue.datasets)
    found = {}
    for dataset in (each for each in read if each.options.get("calendar")):
        with suppress(BadDefinition):  # the claim of a consumer reports it
            current = period_at(TYPES[dataset.partition.type], now, zone_of(catalogue.datasets))
            found[dataset.datasetid] = _due(tx, dataset, current)
    return {name: dataids for name, dataids in sorted(found.items()) if dataids}


def _due(tx: Transaction, dataset: Dataset, current: int) -> list[str]:
    periods, format = periods_over(dataset, current), TYPES[dataset.partition.type].format
    if not periods:
        return []
    span = {"first": format(periods[0]), "last": format(periods[-1])}
    (ends,) = tx.fetch(FirstAndLast._make, "ends_by_clock", datasetid=dataset.datasetid, **span)
    dataids = unannounced(dataset, periods, (ends.first_dataid, ends.last_dataid))
    existing: set[str] = set()
    for start in range(0, len(dataids), _BATCH):
        chunks = [(dataset.datasetid, dataid) for dataid in dataids[start : start + _BATCH]]
        existing.update(row.dataid for row in tx.fetch(Status._make, "statuses_given", chunks=compact(chunks)))
    return [dataid for dataid in dataids if dataid not in existing]


def _announce_periods(tx: Transaction, catalogue: Catalogue, datasetid: str, dataids: Sequence[str]) -> None:
    if dataids:
        announce(tx, catalogue, Announcement(datasetid, dataids, repeats=True), OperatorAct("clock"))
