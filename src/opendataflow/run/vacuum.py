"""Removes old versions and leftovers of unpublished attempts; never current, running or foreign data."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from .. import files
from ..errors import BadDataid, BadId, InvalidPath, OdfError
from ..files.quarantine import REJECTED
from ..files.versions import OURS, SCRIPT, chunk_location, epoch_of, is_plain, leftover_of, mark_name, version_folder
from ..model import RUNNING, Catalogue, Dataset, Job
from ..project import Project, is_inside, resolve_location
from ..project.locations import check_root
from ..project.trust import require
from ..store import Published, Store, UnpublishedAttempt

KEEP = 2
ATTEMPT, OLD = "attempt", "version"
# A folder older than the attempt with its epoch belongs to another store; allow for differing clocks.
_CLOCKS_DIFFER = 300.0
_EVENTS = 1000
_MAY_STILL_WRITE = 24 * 60 * 60.0  # seconds: attempts without a lease may still write on another host

Attempts = Mapping[int, UnpublishedAttempt]  # by epoch


@dataclass(frozen=True, slots=True)
class Stray:
    """A folder to remove: the leftover of an unpublished attempt, or an old version."""

    datasetid: str
    dataid: str
    what: str  # attempt | version
    number: int  # the epoch of the attempt, or the version
    location: str
    bytes: int


@dataclass
class VacuumPlan:
    """The folders to remove, and the datasets that could not be inspected."""

    strays: list[Stray] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    tables: list[tuple[Dataset, Job]] = field(default_factory=list)
    is_root_missing: bool = False
    until: int | None = None  # after this vacuum of all datasets, no attempt up to this run has leftovers

    @property
    def bytes(self) -> int:
        """The bytes that removal frees."""
        return sum(stray.bytes for stray in self.strays)


def plan(store: Store, project: Project, datasetids: Sequence[str] = (), keep: int | None = None) -> VacuumPlan:
    """Find the folders to remove, in these datasets or in all, without any change. `keep`: versions kept per chunk."""
    store.check_environment(project.environment.name)
    catalogue = store.catalogue()
    selected = [catalogue.dataset(name) for name in dict.fromkeys(datasetids or catalogue.datasets)]
    attempts: dict[str, dict[str, dict[int, UnpublishedAttempt]]] = {}
    planned = VacuumPlan()
    before = store.views.vacuumed_until()
    # The next vacuum starts at this run instead of reading all runs.
    recent = datetime.fromtimestamp(store.views.clock() - _MAY_STILL_WRITE, UTC)
    until = max(before, store.views.newest_run_before(recent))
    unfinished = [run.runid for run in store.views.running()]
    for attempt in store.views.unpublished_attempts(before):
        attempts.setdefault(attempt.jobid, {}).setdefault(attempt.dataid, {})[attempt.epoch] = attempt
        if attempt.started is None or attempt.started > recent:
            unfinished.append(attempt.runid)
    for dataset in selected:
        producer = _producer(catalogue, dataset)
        of_job = attempts.get(producer.jobid, {}) if producer else {}
        try:
            require(project, dataset, store.applied)
            if dataset.kind == "table" and producer is not None:
                planned.tables.append((dataset, producer))
            elif dataset.kind == "file":
                planned.strays += _strays(store, project, dataset, of_job, _versions_to_keep(dataset, keep), unfinished)
        except OdfError as error:
            planned.is_root_missing |= isinstance(error, InvalidPath)
            planned.left_out.append(f"{dataset.datasetid}: {error.message}")
            unfinished += [attempt.runid for theirs in of_job.values() for attempt in theirs.values()]
    planned.strays = _unused(store, planned.strays)
    if not datasetids:
        planned.until = min([until, *(runid - 1 for runid in unfinished)])
    return planned


def vacuum(store: Store, project: Project, planned: VacuumPlan) -> tuple[list[Stray], list[str]]:
    """Remove the planned folders that are still unused; returns the removed ones and the problems."""
    strays = _unused(store, planned.strays)
    versions: dict[str, list[tuple[str, int]]] = {}
    for stray in strays:
        if stray.what == OLD:
            versions.setdefault(stray.datasetid, []).append((stray.dataid, stray.number))
    free = {
        (datasetid, *version)
        for datasetid, old in versions.items()
        for start in range(0, len(old), _EVENTS)
        for version in store.vacuumed(datasetid, old[start : start + _EVENTS], why="odf vacuum")
    }
    removed, problems = [], []
    for stray in strays:
        if stray.what == OLD and (stray.datasetid, stray.dataid, stray.number) not in free:
            continue  # in use again by a rollback or a reader
        try:
            _remove(project, stray.location)
            removed.append(stray)
        except (OSError, OdfError) as error:
            problems.append(f"{stray.location}: {error.message if isinstance(error, OdfError) else error}")
    if planned.until is not None and not problems:
        store.vacuumed_all(planned.until)
    return removed, problems


def drop_staging_tables(
    store: Store, tables: Sequence[tuple[Dataset, Job]], password: Callable[[Dataset], str]
) -> tuple[int, list[str]]:
    """Drop leftover staging tables of attempts; returns their number and the problems."""
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
    """Whether an attempt has ended; False if this store does not know it, since it may belong to another store."""
    runs = [run for run in store.views.runs(jobid=jobid, dataid=dataid, n=1_000_000) if run.epoch == epoch]
    return bool(runs) and all(run.status != RUNNING for run in runs)


def _producer(catalogue: Catalogue, dataset: Dataset) -> Job | None:
    """The job that writes a dataset; rejected rows are written by the job of their source dataset."""
    producer = catalogue.producer(dataset.datasetid)
    source = dataset.datasetid.removesuffix(REJECTED)
    return catalogue.producer(source) if producer is None and source in catalogue.datasets else producer


def _versions_to_keep(dataset: Dataset, keep: int | None) -> int:
    declared = dataset.options.get("keep", KEEP)
    return keep if keep is not None else declared if isinstance(declared, int) else KEEP


def _strays(
    store: Store,
    project: Project,
    dataset: Dataset,
    attempts: Mapping[str, Attempts],
    keep: int,
    unfinished: list[int],
) -> Iterator[Stray]:
    """The folders of a dataset to remove. Runs whose files cannot be inspected, or must stay, are added to unfinished."""
    old = [] if is_plain(dataset) else store.views.dataids_with_versions(dataset.datasetid, keep)
    root = ""
    for dataid in sorted({*attempts, *old}):
        of_chunk = attempts.get(dataid, {})
        runids = [attempt.runid for attempt in of_chunk.values()]
        try:
            location = chunk_location(dataset, resolve_location(project, dataset, dataid), dataid)
        except (BadDataid, BadId):
            unfinished += runids  # the partition type has changed since
            continue
        root = root or check_root(project.environment, dataset, location)
        if "://" not in root and not files.names(root):
            unfinished += runids  # an empty root may be an unmounted mount point
            continue
        published = store.views.manifests(dataset.datasetid, dataid)
        # Staged output exists for scripts too, whose datasets are plain by default.
        yield from _staged(dataset, dataid, location, of_chunk, unfinished)
        if not is_plain(dataset):
            yield from _unpublished(store, dataset, dataid, location, of_chunk, published)
            yield from _old(store, dataset, dataid, location, published, keep)


def _unpublished(
    store: Store,
    dataset: Dataset,
    dataid: str,
    location: str,
    attempts: Attempts,
    published: Sequence[Published],
) -> Iterator[Stray]:
    if not attempts:
        return
    locations = {version_folder(version.manifest.location, location) for version in published}
    for name in files.names(location):
        folder, epoch = posixpath.join(location, name), epoch_of(name)
        if epoch is None or epoch not in attempts or folder in locations or not _is_of(folder, attempts[epoch].started):
            continue
        # Another store may have the same epoch: require the marker, or on object stores, which have no empty folders, the age.
        mark = posixpath.join(folder, mark_name(store.identity(), attempts[epoch].runid))
        if "://" in folder or files.is_folder(mark):
            yield Stray(dataset.datasetid, dataid, ATTEMPT, epoch, folder, files.size(folder))


def _staged(dataset: Dataset, dataid: str, location: str, attempts: Attempts, unfinished: list[int]) -> Iterator[Stray]:
    """Staged output beside a fixed location, and old output that it replaced."""
    if not attempts:
        return
    parent = posixpath.dirname(location)
    names = files.names(parent)
    is_present = posixpath.basename(location) in names
    for name in names:
        leftover, folder = leftover_of(name, location), posixpath.join(parent, name)
        if leftover is None or leftover.epoch not in attempts:
            continue
        attempt = attempts[leftover.epoch]
        if leftover.is_replaced and not is_present:
            unfinished.append(attempt.runid)  # the attempt died during the exchange: this is the only copy
        elif leftover.is_replaced or _is_of(folder, attempt.started):  # replaced output keeps its old time
            yield Stray(dataset.datasetid, dataid, ATTEMPT, leftover.epoch, folder, files.size(folder))


def _old(
    store: Store, dataset: Dataset, dataid: str, home: str, published: Sequence[Published], keep: int
) -> Iterator[Stray]:
    chunk = store.views.chunk(dataset.datasetid, dataid)
    needed = {row.version for row in store.views.readers(dataset.datasetid, dataid) if row.status == RUNNING}
    needed |= {chunk.version} if chunk else set()
    needed |= {version.version for version in published[:keep]}
    locations = {version.manifest.location for version in published if version.version in needed}
    for version in published:
        if version.version in needed or version.manifest.location in locations:
            continue
        # Remove only version folders of this chunk that an attempt wrote.
        folder = version_folder(version.manifest.location, home)
        is_of_attempt = version.manifest.extra.get("writer") in (OURS, SCRIPT)
        if folder is not None and is_of_attempt and files.is_folder(folder):
            yield Stray(dataset.datasetid, dataid, OLD, version.version, folder, files.size(folder))


def _unused(store: Store, strays: Sequence[Stray]) -> list[Stray]:
    """The folders that contain no current version of any chunk, and none that is being read."""
    if not strays:
        return []
    by_folder: dict[str, list[Stray]] = {}
    for stray in strays:
        for folder in {stray.location, _real(stray.location)}:
            by_folder.setdefault(folder, []).append(stray)
    used: set[Stray] = set()
    for datasetid in store.catalogue().datasets:
        for location in store.views.locations_in_use(datasetid):
            for path in {location.rstrip("/"), _real(location)}:
                while path.strip("/"):
                    used.update(by_folder.get(path, ()))
                    path = posixpath.dirname(path)
    return [stray for stray in strays if stray not in used]


def _real(location: str) -> str:
    return location if "://" in location else os.path.realpath(location)


def _is_of(folder: str, started: datetime | None) -> bool:
    """Whether a folder is not older than an attempt that started at this time."""
    if started is None or not files.is_folder(folder):
        return False
    written = files.written(folder)
    return written is None or written >= started.timestamp() - _CLOCKS_DIFFER


def _remove(project: Project, location: str) -> None:
    if not is_inside(location, project.environment.roots):
        raise InvalidPath(f"the folder is outside the roots of environment {project.environment.name}")
    if files.exists(location) and not files.is_folder(location):
        raise InvalidPath("this is a file or a link, not a folder of an attempt")
    files.remove(location)
