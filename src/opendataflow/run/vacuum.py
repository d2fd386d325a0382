"""Vacuum: removes what no version points to, and old versions; never what is current, running, or not ours."""

from __future__ import annotations

import os
import posixpath
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial

from .. import files
from ..errors import BadDataid, BadId, InvalidPath, OdfError
from ..files.quarantine import REJECTED
from ..files.versions import OURS, chunk_location, epoch_of, is_plain, leftover_of, version_folder
from ..model import RUNNING, Catalogue, Dataset, Job
from ..project import Project, is_inside, resolve_location
from ..project.trust import require
from ..shapes import dataclass, field
from ..store import Published, Store

KEEP = 2
ATTEMPT, OLD = "attempt", "version"
# A folder that is older than the attempt it is named after was written by somebody else: another store, or an old one.
_CLOCKS_DIFFER = 300.0
_EVENTS = 1000
_MAY_STILL_WRITE = 24 * 60 * 60.0  # seconds: what lost its chunk may go on on another host, and is looked at again

Attempts = Mapping[int, datetime | None]  # epoch → when it started


@dataclass(frozen=True, slots=True)
class Stray:
    """One folder that may go: what an attempt left that published nothing, or an old version."""

    datasetid: str
    dataid: str
    what: str  # attempt | version
    number: int  # the epoch of the attempt, or the version
    location: str
    bytes: int


@dataclass
class Plan:
    """What may go, and what could not be looked at."""

    strays: list[Stray] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    tables: list[tuple[Dataset, Job]] = field(default_factory=list)
    until: int | None = None  # of all datasets: nothing of attempts up to this run is left once the strays are gone

    @property
    def bytes(self) -> int:
        """How much would be free."""
        return sum(stray.bytes for stray in self.strays)


def plan(store: Store, project: Project, datasetids: Sequence[str] = (), keep: int | None = None) -> Plan:
    """Look for what may go, in these datasets or in all; changes nothing. keep: how many versions of each chunk stay."""
    store.check_environment(project.environment.name)
    catalogue = store.catalogue()
    wanted = [catalogue.dataset(name) for name in dict.fromkeys(datasetids or catalogue.datasets)]
    attempts: dict[str, dict[str, dict[int, datetime | None]]] = {}
    planned = Plan()
    unfinished, until = [run.runid for run in store.running()], store.vacuumed_until()
    for runid, jobid, dataid, epoch, started in store.unpublished_attempts(until):
        attempts.setdefault(jobid, {}).setdefault(dataid, {})[epoch] = started
        until = runid
        if started is None or time.time() - started.timestamp() < _MAY_STILL_WRITE:
            unfinished.append(runid)
    planned.until = min([until, *(runid - 1 for runid in unfinished)])
    for dataset in wanted:
        producer = _producer(catalogue, dataset)
        try:
            require(project, dataset, store.applied)
            if dataset.kind == "table" and producer is not None:
                planned.tables.append((dataset, producer))
            elif dataset.kind == "file":
                of_job = attempts.get(producer.jobid, {}) if producer else {}
                planned.strays += _strays(store, project, dataset, of_job, _kept(dataset, keep))
        except OdfError as error:
            planned.left_out.append(f"{dataset.datasetid}: {error.message}")
    planned.strays = _unused(store, planned.strays)
    if datasetids or planned.left_out:
        planned.until = None
    return planned


def vacuum(store: Store, project: Project, planned: Plan) -> tuple[list[Stray], list[str]]:
    """Remove what was planned and nobody needs meanwhile: what went, and what could not be removed."""
    strays = _unused(store, planned.strays)
    versions: dict[str, list[tuple[str, int]]] = {}
    for stray in strays:
        if stray.what == OLD:
            versions.setdefault(stray.datasetid, []).append((stray.dataid, stray.number))
    free = {
        (datasetid, *version)
        for datasetid, wanted in versions.items()
        for start in range(0, len(wanted), _EVENTS)
        for version in store.vacuumed(datasetid, wanted[start : start + _EVENTS], why="odf vacuum")
    }
    gone, problems = [], []
    for stray in strays:
        if stray.what == OLD and (stray.datasetid, stray.dataid, stray.number) not in free:
            continue  # somebody went back to it, or reads it
        try:
            _remove(project, stray.location)
            gone.append(stray)
        except (OSError, OdfError) as error:
            problems.append(f"{stray.location}: {error.message if isinstance(error, OdfError) else error}")
    if planned.until is not None and not problems:
        store.vacuumed_all(planned.until)
    return gone, problems


def drop_staging_tables(
    store: Store, tables: Sequence[tuple[Dataset, Job]], password: Callable[[Dataset], str]
) -> tuple[int, list[str]]:
    """Drop the staging tables that attempts left behind: how many went, and what could not be looked at."""
    dropped, problems = 0, []
    for dataset, job in tables:
        try:
            from ..spark.formats import POSTGRES
            from ..spark.postgres import drop_staging
        except ImportError as error:
            problems.append(f"{dataset.datasetid}: {error.name} is not installed")
            continue
        if dataset.format in POSTGRES:
            try:
                dropped += drop_staging(dataset, password(dataset), may_go=partial(is_over, store, job.jobid))
            except OdfError as error:
                problems.append(f"{dataset.datasetid}: {error.message}")
    return dropped, problems


def is_over(store: Store, jobid: str, dataid: str, epoch: int) -> bool:
    """Whether an attempt surely runs no more; one that this store does not know may be another store's."""
    runs = [run for run in store.runs(jobid=jobid, dataid=dataid, n=1_000_000) if run.epoch == epoch]
    return bool(runs) and all(run.status != RUNNING for run in runs)


def _producer(catalogue: Catalogue, dataset: Dataset) -> Job | None:
    """The job whose attempts write here; rejected rows are written by whoever writes the good ones."""
    producer = catalogue.producer(dataset.datasetid)
    source = dataset.datasetid.removesuffix(REJECTED)
    return catalogue.producer(source) if producer is None and source in catalogue.datasets else producer


def _kept(dataset: Dataset, keep: int | None) -> int:
    declared = dataset.options.get("keep", KEEP)
    return keep if keep is not None else declared if isinstance(declared, int) else KEEP


def _strays(
    store: Store, project: Project, dataset: Dataset, attempts: Mapping[str, Attempts], keep: int
) -> Iterator[Stray]:
    dataids = {*attempts, *store.dataids_with_versions(dataset.datasetid, keep)}
    for dataid in sorted(dataids):
        try:
            location = chunk_location(dataset, resolve_location(project, dataset, dataid), dataid)
        except (BadDataid, BadId):
            continue  # the dataset was partitioned in another way then
        published = store.manifests(dataset.datasetid, dataid)
        theirs = attempts.get(dataid, {})
        yield from _staged(
            dataset, dataid, location, theirs
        )  # a script's too, which is plain unless declared otherwise
        if not is_plain(dataset):
            yield from _unpublished(dataset, dataid, location, theirs, published)
            yield from _old(store, dataset, dataid, location, published, keep)


def _unpublished(
    dataset: Dataset, dataid: str, location: str, attempts: Attempts, published: Sequence[Published]
) -> Iterator[Stray]:
    if not attempts:
        return
    locations = {version_folder(version.manifest.location, location) for version in published}
    for name in files.names(location):
        folder, epoch = posixpath.join(location, name), epoch_of(name)
        if epoch is not None and epoch in attempts and folder not in locations and _is_of(folder, attempts[epoch]):
            yield Stray(dataset.datasetid, dataid, ATTEMPT, epoch, folder, files.size(folder))


def _staged(dataset: Dataset, dataid: str, location: str, attempts: Attempts) -> Iterator[Stray]:
    """What attempts prepared for a fixed location, and what they moved out of the way for it."""
    if not attempts:
        return
    parent = posixpath.dirname(location)
    names = files.names(parent)
    is_there = posixpath.basename(location) in names
    for name in names:
        leftover, folder = leftover_of(name, location), posixpath.join(parent, name)
        if leftover is None or leftover.epoch not in attempts:
            continue
        # What was moved out of the way is as old as it was; it is the only copy if the attempt died just then.
        if is_there if leftover.is_replaced else _is_of(folder, attempts[leftover.epoch]):
            yield Stray(dataset.datasetid, dataid, ATTEMPT, leftover.epoch, folder, files.size(folder))


def _old(
    store: Store, dataset: Dataset, dataid: str, home: str, published: Sequence[Published], keep: int
) -> Iterator[Stray]:
    chunk = store.chunk(dataset.datasetid, dataid)
    needed = {row.version for row in store.readers(dataset.datasetid, dataid) if row.status == RUNNING}
    needed |= {chunk.version} if chunk else set()
    needed |= {version.version for version in published[:keep]}
    locations = {version.manifest.location for version in published if version.version in needed}
    for version in published:
        if version.version in needed or version.manifest.location in locations:
            continue
        # Where versions of this chunk lie, the folder that an epoch of ours wrote: all else is not ours to remove.
        folder = version_folder(version.manifest.location, home)
        if folder is not None and version.manifest.extra.get("writer") == OURS and files.is_folder(folder):
            yield Stray(dataset.datasetid, dataid, OLD, version.version, folder, files.size(folder))


def _unused(store: Store, strays: Sequence[Stray]) -> list[Stray]:
    """Those of these folders in which no chunk of any dataset has its current version, nor one that is being read."""
    if not strays:
        return []
    by_folder: dict[str, list[Stray]] = {}
    for stray in strays:
        for folder in {stray.location, _real(stray.location)}:
            by_folder.setdefault(folder, []).append(stray)
    used: set[Stray] = set()
    for datasetid in store.catalogue().datasets:
        for location in store.locations_in_use(datasetid):
            for path in {location.rstrip("/"), _real(location)}:
                while path.strip("/"):
                    used.update(by_folder.get(path, ()))
                    path = posixpath.dirname(path)
    return [stray for stray in strays if stray not in used]


def _real(location: str) -> str:
    return location if "://" in location else os.path.realpath(location)


def _is_of(folder: str, started: datetime | None) -> bool:
    """Whether an attempt that started then can have written this; what is older, or no folder, is not its own."""
    if started is None or not files.is_folder(folder):
        return False
    written = files.written(folder)
    return written is None or written >= started.timestamp() - _CLOCKS_DIFFER


def _remove(project: Project, location: str) -> None:
    if not is_inside(location, project.environment.roots):
        raise InvalidPath(f"it lies outside the roots of environment {project.environment.name}")
    if files.exists(location) and not files.is_folder(location):
        raise InvalidPath("it is a file or a link, not a folder of ours")
    files.remove(location)
