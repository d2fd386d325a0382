"""Staging: the location of its own that an attempt writes each file output to, and how the commit makes it the chunk's.

A script is told `<dataset>_location`: a name in a folder of this attempt alone. With `layout = "versioned"` that is
where the version stays, and the store points to it. Otherwise one rename inside the commit puts it at the chunk's fixed
location. An attempt that lost its chunk therefore changes nothing that anybody reads.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from .. import faults, files
from ..errors import InvalidPath, NoSpace, NotValidated
from ..files import replacing
from ..files.versions import VERSIONED, chunk_location, names_chunk, staging_location, version_name
from ..model import Dataset, Manifest
from ..project import Project, location_of
from ..project.trust import may_write
from ..shapes import NamedTuple
from ..store import Claim

if TYPE_CHECKING:
    from .parts import Attempt


class Home(NamedTuple):
    """Where one output of an attempt goes: its own folder, the name in it that is written, and where that is published."""

    folder: str
    written: str
    published: str


def homes(project: Project, attempt: Attempt) -> dict[str, Home]:
    """Where the outputs of an attempt go that have a location of their own; a script writes to the others itself."""
    read = {item.datasetid for item in attempt.job.inputs}  # the variables of those tell where the input is
    found = {
        name: _home(project, attempt.catalogue.dataset(name), attempt.claim)
        for name in attempt.claim.outputs
        if name not in read
    }
    return {name: home for name, home in found.items() if home is not None}


def _home(project: Project, dataset: Dataset, claim: Claim) -> Home | None:
    """None for what is no file, for what several chunks are written to, and for what we may not touch."""
    dataid, location = claim.dataid, ""
    if dataset.kind != "table" and may_write(project, dataset):
        location = location_of(project.environment, dataset, dataid)
    if dataset.options.get("layout") == VERSIONED and location:
        location = chunk_location(dataset, location, dataid)
        folder = posixpath.join(location, version_name(claim.epoch))
        is_moved = False
    elif location.startswith("/") and names_chunk(dataset, dataid):
        folder = staging_location(location, claim.epoch)
        is_moved = True
    else:
        return None
    # Of a store that was deleted and made again, an attempt of the same number may have left that folder.
    another = _another(folder, claim)
    folder = another if files.exists(another) else folder
    written = posixpath.join(folder, posixpath.basename(location))
    return Home(folder, written, location if is_moved else written)


def _another(folder: str, claim: Claim) -> str:
    return f"{folder}-{claim.runid:06x}"


def prepare(project: Project, attempt: Attempt) -> dict[str, str]:
    """Make the folders of an attempt: the location that each of its outputs is to be written to, by dataset."""
    for name, home in homes(project, attempt).items():
        if "://" in home.folder:
            continue
        folder = _another(home.folder, attempt.claim) if os.path.lexists(home.folder) else home.folder
        try:
            os.makedirs(folder)
        except OSError as error:
            problem = NoSpace if error.errno in replacing.FULL else InvalidPath
            raise problem(f"{name} {attempt.claim.dataid}: {folder} cannot be made: {error.strerror}") from None
    return {name: home.written for name, home in homes(project, attempt).items()}


Before = dict[str, tuple[tuple[object, ...], ...]]


def before(project: Project, attempt: Attempt) -> Before:
    """What lies at the chunk's own locations before its script starts, by dataset: names, sizes and times."""
    return {
        name: _signs(location_of(project.environment, attempt.catalogue.dataset(name), attempt.claim.dataid))
        for name in homes(project, attempt)
    }


def check_written(project: Project, attempt: Attempt, name: str, seen: Before) -> None:
    """NotValidated when what lies at the chunk's location lay there before its script started: nobody knows whose it is."""
    location = location_of(project.environment, attempt.catalogue.dataset(name), attempt.claim.dataid)
    if seen.get(name) and seen[name] == _signs(location):
        raise NotValidated(
            f"{name} {attempt.claim.dataid}: the script wrote nothing: what is at {location} lay there before it started",
            hint=f"Let it write to ${name}_location, or remove what lies there.",
        )


def _signs(location: str) -> tuple[tuple[object, ...], ...]:
    if not location.startswith("/"):
        return ()
    found = []
    for folder, _, names in os.walk(location) if os.path.isdir(location) else [(location, [], [""])]:
        for name in names:
            path = os.path.join(folder, name) if name else folder
            with suppress(OSError):
                facts = os.stat(path)
                found.append((path, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino))
    return tuple(sorted(found))


def check_nothing_beside(name: str, home: Home) -> None:
    """NotValidated for data beside what is published: it would be lost without a word."""
    own = posixpath.basename(home.written)
    beside = [each for each in files.names(home.folder) if each != own and files.is_data(each)]
    if beside:
        raise NotValidated(
            f"{name}: the script wrote {beside[0]} beside its location, where nobody would find it",
            hint=f"Only what is at ${name}_location is published: make that a folder, or write the rest elsewhere.",
        )


def settle(project: Project, attempt: Attempt, manifests: Mapping[str, Manifest]) -> None:
    """Inside the commit: put what was prepared at its fixed location, and see that everything is what was looked at.

    It may be asked again, when the store has to begin its transaction anew.
    """
    own = homes(project, attempt)
    for each in own.values():  # first of all of them: what one cannot replace keeps the others as they are
        if each.published != each.written and files.exists(each.written):
            replacing.check_kinds(each.written, each.published)
    for name, manifest in manifests.items():
        home = own.get(name)
        if home is not None and home.published != home.written:
            if files.exists(home.written):
                replacing.revoke(home.published, attempt.claim.epoch)
                replacing.swap_in(home.written, home.published, home.folder)
                faults.point("settled")
            with suppress(OSError):
                files.remove(home.folder)
        difference = files.difference(manifest)
        if difference:
            raise NotValidated(
                f"{name} {attempt.claim.dataid} changed after its script ended: {difference}",
                hint=f"Something else writes to {manifest.location}, perhaps an earlier attempt on another host. "
                f"Have it produced again: odf resubmit {name} {attempt.claim.dataid}",
            )


def discard(project: Project, attempt: Attempt) -> None:
    """Remove the folders of an attempt in which nothing was written; all else somebody may want to look at."""
    for home in homes(project, attempt).values():
        with suppress(OSError):
            os.rmdir(home.folder)


def full_disk(project: Project, attempt: Attempt) -> str:
    """The location of an output whose disk is full; empty where none is."""
    for home in homes(project, attempt).values():
        with suppress(OSError):
            if not os.statvfs(home.folder).f_bavail:
                return home.published
    return ""
