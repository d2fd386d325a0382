"""Announcing: something outside produced chunks, and says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ..errors import Locked
from ..model import HOLD, PENDING, READY, RUNNING, TYPES, Catalogue, Job, Manifest, checked_positions
from ..model.calendar import comes_by_clock, due, period_at, zone_of
from ..shapes import NamedTuple
from . import candidates, records, status_rows
from .backend import Retry, Transaction
from .inputs import ChunkId
from .links import Recalled, VersionId, recalled
from .records import Announced
from .repeats import Repeat, refuse_repeat
from .rows import AnnouncedRow, EventRow, Standing, as_objects, compact, manifest_data

OUTSIDE = "outside"
_BATCH = 10_000
_EVERY_KEY = (" ", "\x7f")  # every dataid but malformed ones, whose key is empty


class Act(NamedTuple):
    """Who does something by hand, and why: for the history."""

    who: str
    why: str | None = None


class Ends(NamedTuple):
    """The first and the last dataid of a stretch; None where it has no chunk."""

    first_dataid: str | None
    last_dataid: str | None


class Announcement(NamedTuple):
    """What an outside producer says is there: chunks of one dataset, with what is known of them."""

    datasetid: str
    dataids: Sequence[str]
    manifests: Mapping[str, Manifest] = MappingProxyType({})
    bounds: Mapping[str, tuple[str, str]] = MappingProxyType({})
    repeats: bool = False  # chunks may have the content of others
    only_new: bool = False  # chunks that are there at all are refused
    jobid: str = OUTSIDE  # who made them, where one of our own runs did
    runid: int | None = None
    again: bool = False  # chunks that are READY with the same content get a new version


class _Version(NamedTuple):
    dataid: str
    version: int


def announce(tx: Transaction, catalogue: Catalogue, announcement: Announcement, act: Act) -> Announced:
    """Make chunks READY that something outside produced; what is READY already, with the same content, stays as it is."""
    datasetid = announcement.datasetid
    partition = catalogue.dataset(datasetid).partition
    keys = checked_positions(partition, announcement.dataids, datasetid)
    wanted = list(keys)
    tx.lock("lock_dataset", datasetid=datasetid)
    ready: list[str] = []
    renewed: list[str] = []
    contents: dict[str, str] = {}
    told = {"runid": announcement.runid, "who": act.who, "why": act.why}
    for start in range(0, len(wanted), _BATCH):
        batch = wanted[start : start + _BATCH]
        chunks = [(datasetid, dataid) for dataid in batch]
        there = status_rows.standing(tx, chunks)
        had = tx.fetch(_Version._make, "versions_given", datasetid=datasetid, dataids=compact(batch))
        newest = {row.dataid: row.version for row in had}
        called_back = _called_back(tx, chunks) if announcement.manifests else {}
        news: dict[tuple[int, str, str | None], list[AnnouncedRow]] = {}  # by version, jobid and status before
        written, published = [], []
        for chunk in chunks:
            _, dataid = chunk
            before = there.get(chunk)
            if before is not None and not _is_news(tx, announcement, before):
                continue
            manifest = announcement.manifests.get(dataid)
            if manifest is not None and not announcement.again:
                _refuse_recalled(tx, manifest, called_back.get(chunk, ()))
            if manifest is not None and manifest.fingerprint and not announcement.repeats:
                refuse_repeat(tx, datasetid, dataid, manifest.fingerprint, contents)
            version, jobid, status = 1 + newest.get(dataid, 0), announcement.jobid, None
            if before is not None:
                version, status = max(version, 1 + before.epoch, 1 + before.version), before.status
                jobid = before.jobid if announcement.runid is None else jobid
            bounds = announcement.bounds.get(dataid, (None, None))
            news.setdefault((version, jobid, status), []).append(AnnouncedRow(dataid, keys[dataid], *bounds))
            written.append(chunk)
            if manifest is not None:
                published.append(manifest_data(chunk, version, jobid, announcement.runid, manifest))
            if before is not None or dataid in newest:  # also where a forced run read it before it was there
                renewed.append(dataid)
        for (version, jobid, status), rows in news.items():
            how = {"version": version, "jobid": jobid, "before": status, **told}
            if tx.value("chunks_announce", datasetid=datasetid, chunks=compact(rows), **how) < len(rows):
                raise Retry  # somebody began to produce one meanwhile, or wrote its row: look again
        if published:
            tx.run("manifests_put", manifests=compact(published))
        if written:
            candidates.settle(tx, catalogue, written, by_person=True, ready=datasetid)
            ready += [dataid for _, dataid in written]
    became = set(ready)
    unchanged = tuple(dataid for dataid in wanted if dataid not in became)
    return Announced(tuple(ready), unchanged, renewed=tuple(renewed))


def _is_news(tx: Transaction, announcement: Announcement, before: Standing) -> bool:
    """Whether an announced chunk that is there has to be written; Locked when it may not be."""
    here = f"{announcement.datasetid} {before.dataid}"
    if before.status == RUNNING:
        raise Locked(f"{here} is RUNNING", hint="It is being produced right now. Wait for it.")
    if before.status in (HOLD, PENDING):
        raise Locked(f"{here} is {before.status}", hint=f"Somebody set it aside. To release it: odf release {here}")
    if announcement.only_new:
        raise Locked(f"{here} is there already", hint=f"See: odf explain {here}")
    manifest = announcement.manifests.get(before.dataid)
    return (
        announcement.again
        or before.status != READY
        or not _is_same(tx, VersionId(before.datasetid, before.dataid, before.version), manifest)
    )


def _called_back(tx: Transaction, chunks: Sequence[ChunkId]) -> dict[ChunkId, list[Recalled]]:
    found: dict[ChunkId, list[Recalled]] = {}
    for row in tx.fetch(recalled, "recalled_given", chunks=compact(chunks)):
        found.setdefault((row.datasetid, row.dataid), []).append(row)
    return found


def _refuse_recalled(tx: Transaction, manifest: Manifest, called_back: Sequence[Recalled]) -> None:
    """What was recalled does not come back because the same file still lies there."""
    for by in called_back:
        here = f"{by.datasetid} {by.dataid}"
        if _is_same(tx, VersionId(*by[:3]), manifest):
            raise Repeat(
                f"{here} has exactly the content of its version {by.version}, which {by.who} recalled: {by.why}",
                hint=f"Deliver it anew. If it is right after all: odf ready {here} --again",
                dataid=by.dataid,
            )


def _is_same(tx: Transaction, version: VersionId, manifest: Manifest | None) -> bool:
    if manifest is None:
        return True
    stored = tx.first(records.published, "manifest", **version._asdict())
    if stored is None:
        return False
    if stored.manifest.files and manifest.files:  # the question that every reader asks
        return stored.manifest.has_files_of(manifest)
    if manifest.fingerprint:
        return stored.manifest.fingerprint == manifest.fingerprint
    return (stored.manifest.location, stored.manifest.bytes) == (manifest.location, manifest.bytes)


def remember_refusal(tx: Transaction, datasetid: str, dataid: str, name: str, act: Act) -> None:
    """Remember that a chunk was not taken, for whoever asks why it is not there; once, however often it is offered."""
    last = tx.first(records.event, "events_of_chunk_newest", datasetid=datasetid, dataid=dataid, n=1)
    if last is None or (last.after, last.why) != (name, act.why):
        refusal = EventRow("refused", datasetid, dataid, OUTSIDE, None, name, *act)
        tx.run("events_put", events=as_objects([refusal]))


def announce_by_clock(
    tx: Transaction, catalogue: Catalogue, job: Job, now: float, known: tuple[str, Mapping[str, tuple[str, int]]]
) -> dict[str, tuple[str, int]]:
    """Announce the current day, and every period of a calendar that is over, where the job reads it.

    known says at which revision, and in which period, each dataset was announced last; returns the same as of now.
    """
    revision, before = known
    announced = dict(before)
    for dataset in (catalogue.dataset(item.datasetid) for item in job.inputs):
        name, partition = dataset.datasetid, dataset.partition
        if not comes_by_clock(dataset):
            continue
        current = period_at(TYPES[partition.type], now, zone_of(catalogue.datasets))
        if before.get(name) != (revision, current):
            (ends,) = tx.fetch(Ends._make, "ends_given", spans=compact([(name, *_EVERY_KEY)]))
            if new := due(dataset, current, (ends.first_dataid, ends.last_dataid)):
                announce(tx, catalogue, Announcement(name, new, repeats=True), Act("clock"))
            announced[name] = (revision, current)
    return announced
