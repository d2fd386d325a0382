"""Inspects, validates and announces chunks of external producers."""

from __future__ import annotations

import os
import posixpath
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .. import files
from ..errors import BadDataid, BadDefinition, BadId, InvalidPath, NotValidated, OdfError, WrongData
from ..model import READY, Dataset, Manifest, ManifestFile, check_dataid
from ..model.decision.remarks import remarks
from ..model.definitions.calendar import check_over, zone_of
from ..model.definitions.ids import shown
from ..model.printable import storable
from ..pause import pause
from ..project import Project, location_of, misplaced
from ..project.locations import absolute, check_root
from ..project.trust import require
from ..store import Announced
from .audit import NothingThere, manifest_at_location
from .worker import Worker

Listing = tuple[ManifestFile, ...] | OdfError | None

_QUIET, _LONGEST_QUIET = 2.0, 24 * 60 * 60  # seconds
_SHOWN = 3  # names that are left out
_is_name = re.compile(r"[^/\0]+").fullmatch
_UNSEEN = "Check that the chunk has arrived. To announce it without inspection: --unseen"


@dataclass(frozen=True, slots=True)
class Arrived:
    """A chunk that was found at a location, and the result of announcing it."""

    dataid: str
    verdict: str
    why: str = ""
    exit_code: int = 0


def announce(
    worker: Worker,
    dataset: Dataset,
    dataids: Sequence[str],
    *,
    look: bool = True,
    why: str | None = None,
    dry_run: bool = False,
    again: bool = False,
) -> Announced:
    """Announce chunks, all or none; each is inspected first if the dataset has a location.

    `again` announces their current state as new versions, even if no change is detected.
    """
    store = worker.store
    store.check_environment(worker.project.environment.name)
    for dataid in dataids:
        check_dataid(dataset.partition, dataid, dataset.datasetid)
    check_over(dataset, dataids, store.views.clock(), zone_of(store.catalogue().datasets))
    if look and dataids:
        require(worker.project, dataset, store.applied, on_spark=False)
    inspected = {dataid: _inspect(worker, dataset, dataid, dry_run) for dataid in dataids if look}
    manifests = {dataid: manifest for dataid, manifest in inspected.items() if manifest is not None}
    texts = remarks({f"{dataset.datasetid} {dataid}": manifest for dataid, manifest in manifests.items()})
    if dry_run:
        chunks = {dataid: store.views.chunk(dataset.datasetid, dataid) for dataid in dataids}
        known = tuple(
            dataid for dataid, chunk in chunks.items() if chunk is not None and chunk.status == READY and not again
        )
        return Announced(tuple(dataid for dataid in dataids if dataid not in known), known, texts)
    announced = store.announce(dataset.datasetid, dataids, manifests=manifests, why=why, again=again)
    return announced._replace(remarks=texts)


def _inspect(worker: Worker, dataset: Dataset, dataid: str, dry_run: bool) -> Manifest | None:
    """The manifest of one chunk; a chunk that exists but is refused is recorded."""
    try:
        location = location_of(worker.project.environment, dataset, dataid)
        return manifest_at_location(worker, dataset, dataid, location, hint=_UNSEEN)
    except (WrongData, NotValidated, InvalidPath) as problem:
        if not dry_run and not isinstance(problem, NothingThere):
            _record_refusal(worker, dataset, dataid, problem)
        raise


def _record_refusal(worker: Worker, dataset: Dataset, dataid: str, problem: OdfError) -> None:
    worker.store.refuse_arrival(dataset.datasetid, dataid, problem.name, worker.vault.redact(problem.message))


def discover(
    worker: Worker,
    dataset: Dataset,
    *,
    quiet_for: float | None = None,
    dry_run: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> list[Arrived]:
    """Find new chunks by the location template and announce each one independently.

    `say` gets the names that are left out because they do not fit the dataset's partition.
    """
    store, project = worker.store, worker.project
    store.check_environment(project.environment.name)
    require(project, dataset, store.applied, on_spark=False)
    marker, quiet = _ready_rule(dataset)
    quiet = quiet if quiet_for is None else quiet_for
    present, not_utf8, unfit = candidates(project, dataset)
    if not present:
        _check_mounted(worker, dataset)
    is_marker = re.compile(".+".join(map(re.escape, marker.split("{dataid}")))).fullmatch
    if unfit := sorted(path for path in unfit if not is_marker(posixpath.basename(path))):
        fit, left = ("name fits", "is left out") if len(unfit) == 1 else ("names fit", "are left out")
        these = ", ".join(unfit[:_SHOWN]) + ", …" * (len(unfit) > _SHOWN)
        say(
            f"{dataset.datasetid}: {len(unfit):,} {fit} no {dataset.partition.type} of its partition, and {left}: {these}"
        )
    found = {dataid: location for dataid, location in present if not marker or _has_marker(location, marker, dataid)}
    before: dict[str, Listing] = {}
    for dataid, location in found.items():
        try:
            if not _is_known(worker, dataset, dataid):
                before[dataid] = _list(location)
        except BadDefinition as problem:  # the chunk's row in the store is invalid
            before[dataid] = problem
    refused = {dataid: problem for dataid, problem in before.items() if isinstance(problem, OdfError)}
    new = list(before)
    if new and not marker:
        times = (file.mtime or 0.0 for listed in before.values() if isinstance(listed, tuple) for file in listed)
        pause(min(quiet, max(times, default=0.0) + quiet - time.time()))
        new = [dataid for dataid in new if dataid in refused or _is_quiet(before[dataid], _list(found[dataid]), quiet)]
    for dataid, refusal in refused.items():
        if isinstance(refusal, InvalidPath) and not dry_run:
            _record_refusal(worker, dataset, dataid, refusal)
    unreadable = [(posixpath.basename(path), InvalidPath(f"the name {path!r} is not UTF-8")) for path in not_utf8]
    return [
        *(_refused(storable(name), problem, worker) for name, problem in unreadable),
        *(
            _refused(dataid, refused[dataid], worker)
            if dataid in refused
            else _arrived(worker, dataset, dataid, dry_run)
            for dataid in new
        ),
    ]


def _check_mounted(worker: Worker, dataset: Dataset) -> None:
    """InvalidPath if the root is empty although a chunk was found in it: so looks the mount point of an unmounted disk."""
    store, environment = worker.store, worker.project.environment
    (known,) = store.views.chunks(dataset.datasetid, status=READY, n=1) or (None,)
    published = store.views.manifest(dataset.datasetid, known.dataid) if known else None
    if known is None or published is None or not published.manifest.location or not environment.is_declared:
        return
    root = check_root(environment, dataset, published.manifest.location)
    if not files.names(root):
        raise InvalidPath(
            f"dataset {dataset.datasetid}: the root {root} of environment {environment.name} is empty, "
            f"and {dataset.datasetid} {known.dataid} was found in it",
            hint="Mount it, or correct its address in the project file.",
        )


def _ready_rule(dataset: Dataset) -> tuple[str, float]:
    """The rule for complete chunks: the name of the marker file, or empty, and the seconds without a change."""
    rule = dataset.options.get("ready")
    settings = rule if isinstance(rule, Mapping) else {}
    marker, quiet = settings.get("marker"), settings.get("quiet", _QUIET)
    if marker is not None and (not isinstance(marker, str) or not _is_name(marker) or marker in (".", "..")):
        raise BadDefinition(
            f"dataset {dataset.datasetid}: the marker of ready cannot be {shown(marker)}",
            hint='Write the name of a file beside the data or in its folder, without a slash: "{dataid}.done"',
        )
    if isinstance(quiet, bool) or not isinstance(quiet, (int, float)) or not 0 <= quiet <= _LONGEST_QUIET:
        raise BadDefinition(
            f"dataset {dataset.datasetid}: the quiet of ready cannot be {shown(quiet)}",
            hint=f"Write a number of seconds, from 0 to {_LONGEST_QUIET}.",
        )
    return marker or "", float(quiet)


def _list(location: str) -> Listing:
    """The files at a location, or the error: one unreadable chunk does not stop the others."""
    try:
        return files.list_files(location)
    except OdfError as problem:
        return problem


def _arrived(worker: Worker, dataset: Dataset, dataid: str, dry_run: bool) -> Arrived:
    try:
        announced = announce(worker, dataset, [dataid], dry_run=dry_run)
    except OdfError as problem:
        return _refused(dataid, problem, worker)
    return Arrived(dataid, READY, announced.remarks)


def _refused(dataid: str, problem: OdfError, worker: Worker) -> Arrived:
    return Arrived(dataid, problem.name, worker.vault.redact(problem.message), problem.exit_code)


def _is_quiet(before: Listing, now_listed: Listing, quiet: float) -> bool:
    now = time.time()
    listed = now_listed if isinstance(now_listed, tuple) else ()
    return now_listed == before and all(now - (file.mtime or 0.0) >= quiet * 0.99 for file in listed)


def _is_known(worker: Worker, dataset: Dataset, dataid: str) -> bool:
    """Whether the current content was announced already; a changed file is a new version."""
    store, environment = worker.store, worker.project.environment
    chunk = store.views.chunk(dataset.datasetid, dataid)
    if chunk is None or chunk.status != READY:
        return False
    published = store.views.manifest(dataset.datasetid, dataid)
    if published is None:
        return True
    try:
        return not misplaced(environment, published.manifest) and not files.difference(published.manifest)
    except OdfError:
        return False  # announcing the chunk reports the error


def _has_marker(location: str, marker: str, dataid: str) -> bool:
    folder = location if files.is_folder(location) or os.path.isdir(location) else posixpath.dirname(location)
    return files.exists(posixpath.join(folder, marker.replace("{dataid}", dataid)))


def candidates(project: Project, dataset: Dataset) -> tuple[list[tuple[str, str]], list[str], list[str]]:
    """(dataid, location) of everything that matches the location template, in the order of the dataids.

    Also returns matching paths whose names are not UTF-8 and therefore not dataids, and those that do not fit the partition.
    """
    from ..model import sort_key

    mark, environment = "\0", project.environment
    template = re.sub(r"\{(\w+)\}", lambda found: mark + found[1] + mark, dataset.location)
    base = environment.roots[0] if environment.roots else ""
    pattern = absolute(template, base) if base else template
    parts = pattern.split(mark)
    fixed = parts[0].rpartition("/")[0] or "/"
    if environment.is_declared:
        check_root(environment, dataset, fixed)
    matcher = re.compile(
        "".join(
            re.escape(part)
            if index % 2 == 0
            else f"(?P<{part}>[A-Za-z0-9._=-]+?)"
            if part not in parts[:index:1][1::2]
            else f"(?P={part})"
            for index, part in enumerate(parts)
        )
    )
    paths, not_utf8 = [fixed], []
    for segment in pattern[len(fixed) :].lstrip("/").split("/"):
        fits = re.compile("[A-Za-z0-9._=-]+".join(map(re.escape, segment.split(mark)[::2]))).fullmatch
        names = [(path, name) for path in paths for name in files.names(path)]
        paths = [posixpath.join(path, name) for path, name in names if fits(name)]
        not_utf8 += [
            posixpath.join(path, name)
            for path, name in names
            if (text := storable(name)) != name and fits(text.replace("\ufffd", "x"))
        ]
    found: dict[str, str] = {}
    unfit: list[str] = []
    for path in paths:
        match = matcher.fullmatch(path)
        if match is None or not files.is_data(posixpath.basename(path)):
            continue
        dataid = _dataid(dataset, match.groupdict())
        if dataid is None:
            unfit.append(posixpath.relpath(path, fixed))
        else:
            found[dataid] = path
    return sorted(found.items(), key=lambda item: sort_key(dataset.partition, item[0])), not_utf8, unfit


def _dataid(dataset: Dataset, parts: dict[str, str]) -> str | None:
    dataid = parts.get("dataid") or "-".join(parts[name] for name in ("year", "month", "day") if name in parts)
    if "dataid" not in parts and "hour" in parts:
        dataid += f"T{parts['hour']}"
    try:
        return check_dataid(dataset.partition, dataid, dataset.datasetid)
    except (BadDataid, BadId):
        return None
