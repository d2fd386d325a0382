"""Vacuum: removes what no version points to, and old versions; never what is current, running, or not ours."""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from .. import probe
from ..errors import BadDataid, BadId, InvalidPath, OdfError
from ..model import RUNNING, Catalogue, Dataset, Job
from ..project import Project, is_inside, resolve_location
from ..secrets import Key
from ..spark.quarantine import REJECTED
from ..spark.versions import OURS, chunk_location, is_plain, is_version, staging_location
from ..store import Published, Store
from .context import passwords

KEEP = 2
ATTEMPT, OLD = "attempt", "version"
# A folder that is older than the attempt it is named after was written by somebody else: another store, or an old one.
_CLOCKS_DIFFER = 300.0
_EVENTS = 1000

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
    for jobid, dataid, epoch, started in store.unpublished_attempts():
        attempts.setdefault(jobid, {}).setdefault(dataid, {})[epoch] = started
    found = Plan()
    for dataset in wanted:
        producer = _producer(catalogue, dataset)
        try:
            if dataset.kind == "table" and producer is not None:
                found.tables.append((dataset, producer))
            elif dataset.kind == "file":
                of_job = attempts.get(producer.jobid, {}) if producer else {}
                found.strays += _strays(store, project, dataset, of_job, _kept(dataset, keep))
        except OdfError as error:
            found.left_out.append(f"{dataset.datasetid}: {error.message}")
    return found


def vacuum(store: Store, project: Project, planned: Plan) -> tuple[list[Stray], list[str]]:
    """Remove what was planned and nobody needs meanwhile: what went, and what could not be removed."""
    versions: dict[str, list[tuple[str, int]]] = {}
    for stray in planned.strays:
        if stray.what == OLD:
            versions.setdefault(stray.datasetid, []).append((stray.dataid, stray.number))
    free = {
        (datasetid, *each)
        for datasetid, wanted in versions.items()
        for start in range(0, len(wanted), _EVENTS)
        for each in store.vacuumed(datasetid, wanted[start : start + _EVENTS], why="odf vacuum")
    }
    gone, problems = [], []
    for stray in planned.strays:
        if stray.what == OLD and (stray.datasetid, stray.dataid, stray.number) not in free:
            continue  # somebody went back to it, or reads it
        try:
            _remove(project, stray.location)
            gone.append(stray)
        except (OSError, OdfError) as error:
            problems.append(f"{stray.location}: {error.message if isinstance(error, OdfError) else error}")
    return gone, problems


def drop_staging_tables(store: Store, tables: Sequence[tuple[Dataset, Job]], key: Key | None) -> tuple[int, list[str]]:
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
                password = passwords(store.catalogue(), job, key).get(dataset.datasetid, "")
                dropped += drop_staging(dataset, password, running=_NotOver(store, job.jobid))
            except OdfError as error:
                problems.append(f"{dataset.datasetid}: {error.message}")
    return dropped, problems


class _NotOver(Collection[tuple[str, int]]):
    """The attempts (dataid, epoch) whose staging tables must stay: those that run, and those of another store.

    It asks when it is asked, so that an attempt that begins after everything else was looked up is not overlooked.
    """

    def __init__(self, store: Store, jobid: str) -> None:
        self._store, self._jobid = store, jobid

    def __contains__(self, attempt: object) -> bool:
        if not isinstance(attempt, tuple) or not isinstance(attempt[0], str):
            return True
        dataid, epoch = attempt
        runs = self._store.runs(jobid=self._jobid, dataid=dataid, n=1_000_000)
        return all(run.status == RUNNING for run in runs if run.epoch == epoch)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter((run.dataid, run.epoch) for run in self._store.running() if run.jobid == self._jobid)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _producer(catalogue: Catalogue, dataset: Dataset) -> Job | None:
    """The job whose attempts write here; rejected rows are written by whoever writes the good ones."""
    found = catalogue.producer(dataset.datasetid)
    source = dataset.datasetid.removesuffix(REJECTED)
    return catalogue.producer(source) if found is None and source in catalogue.datasets else found


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
        if is_plain(dataset):
            yield from _staged(dataset, dataid, location, theirs)
        else:
            yield from _unpublished(dataset, dataid, location, theirs, published)
            yield from _old(store, project, dataset, dataid, published, keep)


def _unpublished(
    dataset: Dataset, dataid: str, location: str, attempts: Attempts, published: Sequence[Published]
) -> Iterator[Stray]:
    if not attempts:
        return
    locations = {each.manifest.location for each in published}
    for name in _names(location):
        folder = posixpath.join(location, name)
        epoch = int(name[1:].partition("-")[0]) if is_version(name) else 0
        if epoch in attempts and folder not in locations and _is_of(folder, attempts[epoch]):
            yield Stray(dataset.datasetid, dataid, ATTEMPT, epoch, folder, _size(folder))


def _staged(dataset: Dataset, dataid: str, location: str, attempts: Attempts) -> Iterator[Stray]:
    """What attempts prepared for a fixed location, and what they moved out of the way for it."""
    parent, names = posixpath.dirname(location), set(_names(posixpath.dirname(location))) if attempts else set()
    for epoch, started in sorted(attempts.items()):
        staged = posixpath.basename(staging_location(location, epoch))
        of_epoch = re.compile(re.escape(staged) + r"(?:-[0-9a-f]{6})?(\.old)?").fullmatch
        for name in sorted(names):
            match = of_epoch(name)
            folder = posixpath.join(parent, name)
            # What was moved out of the way is as old as it was; it is the only copy if the attempt died just then.
            if match and (posixpath.basename(location) in names if match[1] else _is_of(folder, started)):
                yield Stray(dataset.datasetid, dataid, ATTEMPT, epoch, folder, _size(folder))


def _old(
    store: Store, project: Project, dataset: Dataset, dataid: str, published: Sequence[Published], keep: int
) -> Iterator[Stray]:
    chunk = store.chunk(dataset.datasetid, dataid)
    needed = {row.version for row in store.readers(dataset.datasetid, dataid) if row.status == RUNNING}
    needed |= {chunk.version} if chunk else set()
    needed |= {each.version for each in published[:keep]}
    locations = {each.manifest.location for each in published if each.version in needed}
    for each in published:
        location = each.manifest.location
        # Only folders that an epoch of ours wrote: what somebody else announced is not ours to remove.
        ours = each.manifest.extra.get("writer") == OURS and is_version(posixpath.basename(location))
        if (
            each.version in needed
            or location in locations
            or not ours
            or not is_inside(location, project.environment.roots)
        ):
            continue
        if _exists(location):
            yield Stray(dataset.datasetid, dataid, OLD, each.version, location, _size(location))


# Locations: a local disk, or whatever fsspec reaches ----------------------------------------------------------------------


def _names(folder: str) -> list[str]:
    if "://" not in folder:
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    system: Any = probe.file_system(folder)
    if not system.isdir(folder):
        return []
    return sorted(posixpath.basename(path.rstrip("/")) for path in system.ls(folder, detail=False))


def _exists(location: str) -> bool:
    return os.path.isdir(location) if "://" not in location else bool(probe.file_system(location).exists(location))


def _is_of(folder: str, started: datetime | None) -> bool:
    """Whether an attempt that started then can have written this; what is older is not its own."""
    if started is None:
        return False
    if "://" in folder:
        times = [file.mtime for file in probe.files(folder) or () if file.mtime is not None]
    else:
        times = [os.lstat(folder).st_mtime] if os.path.isdir(folder) and not os.path.islink(folder) else [0.0]
    return all(time >= started.timestamp() - _CLOCKS_DIFFER for time in times)


def _size(location: str) -> int:
    if "://" in location:
        return int(probe.file_system(location).du(location))
    total = 0
    for folder, _, names in os.walk(location):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue  # gone meanwhile
    return total


def _remove(project: Project, location: str) -> None:
    if not is_inside(location, project.environment.roots):
        raise InvalidPath(f"it lies outside the roots of environment {project.environment.name}")
    if "://" in location:
        probe.file_system(location).rm(location, recursive=True)
    elif os.path.islink(location):
        raise InvalidPath("it is a symbolic link: nobody knows to what")
    elif os.path.isdir(location):
        shutil.rmtree(location)
