"""Arrival: chunks that something outside produced are looked at, validated and announced."""

from __future__ import annotations

import os
import posixpath
import re
import time
from collections.abc import Mapping, Sequence

from .. import files
from ..errors import BadDataid, BadDefinition, BadId, InvalidPath, NotValidated, OdfError, WrongData
from ..model import READY, Dataset, File, Manifest, check_dataid
from ..model.ids import shown
from ..model.remarks import remarks
from ..pause import pause
from ..project import Environment, Project, is_inside, misplaced
from ..project.locations import absolute
from ..project.trust import require
from ..shapes import dataclass
from ..store import Announced
from .audit import NothingThere, seen_at_location
from .worker import Worker

Seen = tuple[File, ...] | OdfError | None

_QUIET, _LONGEST_QUIET = 2.0, 24 * 60 * 60  # seconds
_is_name = re.compile(r"[^/\0]+").fullmatch
_UNSEEN = "Is it there yet? To announce it without a look, add --unseen."


@dataclass(frozen=True, slots=True)
class Arrived:
    """One chunk that was found at a location, and what came of it."""

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
    """Announce chunks, all of them or none; with a look at each first where the dataset has a location.

    again accepts them as they are now, as a new version of each, also where nobody can tell that they changed.
    """
    store = worker.store
    store.check_environment(worker.project.environment.name)
    for dataid in dataids:
        check_dataid(dataset.partition, dataid, dataset.datasetid)
    seen = {dataid: _seen(worker, dataset, dataid, dry_run) for dataid in dataids if look}
    manifests = {dataid: manifest for dataid, manifest in seen.items() if manifest is not None}
    told = remarks({f"{dataset.datasetid} {dataid}": manifest for dataid, manifest in manifests.items()})
    if dry_run:
        chunks = {dataid: store.chunk(dataset.datasetid, dataid) for dataid in dataids}
        known = tuple(
            dataid for dataid, chunk in chunks.items() if chunk is not None and chunk.status == READY and not again
        )
        return Announced(tuple(dataid for dataid in dataids if dataid not in known), known, told)
    announced = store.announce(dataset.datasetid, dataids, manifests=manifests, why=why, again=again)
    return announced._replace(remarks=told)


def _seen(worker: Worker, dataset: Dataset, dataid: str, dry_run: bool) -> Manifest | None:
    """A look at one chunk; what came and may not be taken is remembered, unlike what is not there."""
    try:
        return seen_at_location(worker, dataset, dataid, hint=_UNSEEN)
    except (WrongData, NotValidated, InvalidPath) as problem:
        if not dry_run and not isinstance(problem, NothingThere):
            _remember(worker, dataset, dataid, problem)
        raise


def _remember(worker: Worker, dataset: Dataset, dataid: str, problem: OdfError) -> None:
    worker.store.refuse_arrival(dataset.datasetid, dataid, problem.name, worker.vault.redact(problem.message))


def discover(
    worker: Worker, dataset: Dataset, *, quiet_for: float | None = None, dry_run: bool = False
) -> list[Arrived]:
    """Find what arrived at the location's template, and announce each chunk on its own: one bad file stops no other."""
    store, project = worker.store, worker.project
    store.check_environment(project.environment.name)
    require(project, dataset, store.applied, on_spark=False)
    marker, quiet = _rule(dataset)
    quiet = quiet if quiet_for is None else quiet_for
    found = {
        dataid: location
        for dataid, location in candidates(project, dataset)
        if not marker or _has_marker(location, marker, dataid)
    }
    before: dict[str, Seen] = {}
    for dataid, location in found.items():
        try:
            if not _is_known(worker, dataset, dataid):
                before[dataid] = _look(location)
        except BadDefinition as problem:  # its row in the store
            before[dataid] = problem
    refused = {dataid: problem for dataid, problem in before.items() if isinstance(problem, OdfError)}
    new = list(before)
    if new and not marker:
        times = (file.mtime or 0.0 for seen in before.values() if isinstance(seen, tuple) for file in seen)
        pause(min(quiet, max(times, default=0.0) + quiet - time.time()))
        new = [dataid for dataid in new if dataid in refused or _is_quiet(before[dataid], _look(found[dataid]), quiet)]
    for dataid, trouble in refused.items():
        if isinstance(trouble, InvalidPath) and not dry_run:
            _remember(worker, dataset, dataid, trouble)
    return [
        _refused(dataid, refused[dataid], worker) if dataid in refused else _arrived(worker, dataset, dataid, dry_run)
        for dataid in new
    ]


def _rule(dataset: Dataset) -> tuple[str, float]:
    """How a chunk shows that it is complete: the name of its marker, or empty, and the seconds without a change."""
    rule = dataset.options.get("ready")
    given = rule if isinstance(rule, Mapping) else {}
    marker, quiet = given.get("marker"), given.get("quiet", _QUIET)
    if marker is not None and (not isinstance(marker, str) or not _is_name(marker) or marker in (".", "..")):
        raise BadDefinition(
            f"dataset {dataset.datasetid}: the marker of ready cannot be {shown(marker)}",
            hint='It is the name of a file beside the data or in its folder, without a slash: "{dataid}.done".',
        )
    if isinstance(quiet, bool) or not isinstance(quiet, (int, float)) or not 0 <= quiet <= _LONGEST_QUIET:
        raise BadDefinition(
            f"dataset {dataset.datasetid}: the quiet of ready cannot be {shown(quiet)}",
            hint=f"It is a number of seconds, from 0 to {_LONGEST_QUIET}.",
        )
    return marker or "", float(quiet)


def _look(location: str) -> Seen:
    """What lies at a location, or why nobody can tell: the trouble of one chunk is none of the others'."""
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


def _is_quiet(before: Seen, seen: Seen, quiet: float) -> bool:
    now = time.time()
    listed = seen if isinstance(seen, tuple) else ()
    return seen == before and all(now - (file.mtime or 0.0) >= quiet * 0.99 for file in listed)


def _is_known(worker: Worker, dataset: Dataset, dataid: str) -> bool:
    """Whether this very content was announced before; a changed file is a new version."""
    store, environment = worker.store, worker.project.environment
    chunk = store.chunk(dataset.datasetid, dataid)
    if chunk is None or chunk.status != READY:
        return False
    published = store.manifest(dataset.datasetid, dataid)
    if published is None:
        return True
    try:
        return not misplaced(environment, published.manifest) and not files.difference(published.manifest)
    except OdfError:
        return False  # announcing it tells what is wrong


def _has_marker(location: str, marker: str, dataid: str) -> bool:
    folder = location if files.is_folder(location) or os.path.isdir(location) else posixpath.dirname(location)
    return files.exists(posixpath.join(folder, marker.replace("{dataid}", dataid)))


def candidates(project: Project, dataset: Dataset) -> list[tuple[str, str]]:
    """(dataid, location) of everything that lies where the location's template points, in the order of the dataids."""
    from ..model import sort_key

    sample, environment = "\0", project.environment
    template = re.sub(r"\{(\w+)\}", lambda found: sample + found[1] + sample, dataset.location)
    base = environment.roots[0] if environment.roots else ""
    pattern = absolute(template, base) if base else template
    parts = pattern.split(sample)
    fixed = parts[0].rpartition("/")[0] or "/"
    if environment.is_declared:
        _check_root(environment, dataset, fixed)
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
    paths = [fixed]
    for segment in pattern[len(fixed) :].lstrip("/").split("/"):
        fits = re.compile("[A-Za-z0-9._=-]+".join(map(re.escape, segment.split(sample)[::2]))).fullmatch
        paths = [posixpath.join(path, name) for path in paths for name in files.names(path) if fits(name)]
    found: dict[str, str] = {}
    for path in paths:
        match = matcher.fullmatch(path)
        dataid = _dataid(dataset, match.groupdict()) if match else None
        if dataid is not None and files.is_data(posixpath.basename(path)):
            found[dataid] = path
    return sorted(found.items(), key=lambda item: sort_key(dataset.partition, item[0]))


def _check_root(environment: Environment, dataset: Dataset, fixed: str) -> None:
    """InvalidPath where the location lies outside the roots, or its root is not there: then nothing can be discovered."""
    root = next((root for root in environment.roots if is_inside(fixed, [root])), None)
    if root is None:
        raise InvalidPath(
            f"dataset {dataset.datasetid}: {fixed} is outside the roots of environment {environment.name}",
            hint=f"Its location is {dataset.location}. Is this the right environment?",
        )
    scheme, separator, rest = root.partition("://")
    bucket = f"{scheme}{separator}{rest.partition('/')[0]}" if separator and not rest.startswith("/") else root
    if not files.exists(bucket):
        raise InvalidPath(
            f"dataset {dataset.datasetid}: the root {bucket} of environment {environment.name} is not there",
            hint="Is it mounted, and is its address right?",
        )


def _dataid(dataset: Dataset, parts: dict[str, str]) -> str | None:
    dataid = parts.get("dataid") or "-".join(parts[name] for name in ("year", "month", "day") if name in parts)
    if "dataid" not in parts and "hour" in parts:
        dataid += f"T{parts['hour']}"
    try:
        return check_dataid(dataset.partition, dataid, dataset.datasetid)
    except (BadDataid, BadId):
        return None
