"""Staging: the location of its own that an attempt writes each file output to, and how the commit makes it the chunk's.

A script gets `<dataset>_location`: a name in a folder that this attempt created, and no other attempt writes to. With
`layout = "versioned"`, and in an object store, the version stays there, and the store points to it. Otherwise one rename
inside the commit puts it at the chunk's fixed location. An attempt that lost its chunk changes nothing that is read.
"""

from __future__ import annotations

import errno
import os
import posixpath
from _blake2 import blake2b  # as hashlib takes it, which loads OpenSSL
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from .. import faults, files
from ..errors import InvalidPath, NoSpace, NotValidated
from ..files import replacing
from ..files.versions import (
    VERSIONED,
    another_version_location,
    chunk_location,
    names_chunk,
    staging_location,
    version_name,
)
from ..model import Dataset, Manifest
from ..project import Project, location_of
from ..project.trust import may_write
from ..shapes import NamedTuple
from ..store import Claim

if TYPE_CHECKING:
    from datetime import datetime

    from .parts import Attempt


class Home(NamedTuple):
    """Where one output of an attempt goes: its own folder, the name in it that is written, and where that is published."""

    folder: str
    written: str
    published: str


def homes(project: Project, attempt: Attempt, suffix: str = "") -> dict[str, Home]:
    """Where the outputs of an attempt go that have a location of their own; a script writes to the others itself.

    suffix tells the folders of this attempt from those of all others that ever had its epoch.
    """
    read = {item.datasetid for item in attempt.job.inputs}  # the variables of those tell where the input is
    found = {
        name: _home(project, attempt.catalogue.dataset(name), attempt.claim, suffix)
        for name in attempt.claim.outputs
        if name not in read
    }
    return {name: home for name, home in found.items() if home is not None}


def _home(project: Project, dataset: Dataset, claim: Claim, suffix: str) -> Home | None:
    """None for what is no file, for what several chunks are written to, and for what we may not touch."""
    dataid, location = claim.dataid, ""
    if dataset.kind != "table" and may_write(project, dataset):
        location = location_of(project.environment, dataset, dataid)
    # An object store cannot rename: there the manifest points to what the attempt wrote.
    if location and (dataset.options.get("layout") == VERSIONED or "://" in location):
        location = chunk_location(dataset, location, dataid)
        folder, published = posixpath.join(location, version_name(claim.epoch)), ""
    elif location.startswith("/") and names_chunk(dataset, dataid):
        folder, published = staging_location(location, claim.epoch), location
    else:
        return None
    return _in_folder(f"{folder}-{suffix}" if suffix else folder, posixpath.basename(location), published)


def _in_folder(folder: str, name: str, published: str) -> Home:
    written = posixpath.join(folder, name)
    return Home(folder, written, published or written)


def handshake_suffix(started: datetime | None, runid: int) -> str:
    """The suffix of a run that another process ends: both work it out, and no run of a restored store has the same."""
    return blake2b(f"{runid} {started}".encode(), digest_size=4).hexdigest()


def prepare(project: Project, attempt: Attempt, suffix: str = "") -> dict[str, Home]:
    """Create the folders of an attempt. One that is there already is another attempt's: then its own gets another name."""
    made: dict[str, Home] = {}
    for name, home in homes(project, attempt, suffix).items():
        if "://" in home.folder and not suffix:  # where no folder can be created, a random name is as good
            home = _renamed(home)
        while "://" not in home.folder and not _created(home.folder, f"{name} {attempt.claim.dataid}"):
            home = _renamed(home)
        made[name] = home
    return made


def _renamed(home: Home) -> Home:
    published = "" if home.published == home.written else home.published
    return _in_folder(another_version_location(home.folder), posixpath.basename(home.written), published)


def _created(folder: str, here: str) -> bool:
    """Whether the folder is new; only its creator may write to it."""
    try:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        os.mkdir(folder)
    except OSError as error:
        if error.errno == errno.EEXIST and os.path.lexists(folder):
            return False
        problem = NoSpace if error.errno in replacing.FULL else InvalidPath
        raise problem(f"{here}: {folder} cannot be created: {error.strerror}") from None
    return True


Before = dict[str, tuple[tuple[object, ...], ...]]


def before(project: Project, attempt: Attempt, own: Iterable[str]) -> Before:
    """What lies at the chunk's own locations before its script starts, by dataset: names, sizes and times."""
    return {
        name: _signs(location_of(project.environment, attempt.catalogue.dataset(name), attempt.claim.dataid))
        for name in own
    }


def check_written(project: Project, attempt: Attempt, name: str, home: Home, seen: Before) -> None:
    """NotValidated when nothing is at the location of the attempt, and the chunk's own holds nothing that is new.

    Where versions stay with their attempts, the chunk's own location holds those of others: it is never published.
    """
    location = location_of(project.environment, attempt.catalogue.dataset(name), attempt.claim.dataid)
    if home.published == home.written:
        why = f"the script wrote nothing to ${name}_location ({home.written})"
    elif seen.get(name) and seen[name] == _signs(location):
        why = f"the script wrote nothing: what is at {location} lay there before it started"
    else:
        return
    raise NotValidated(
        f"{name} {attempt.claim.dataid}: {why}", hint=f"Let it write to ${name}_location, or remove what lies there."
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


def settle(claim: Claim, own: Mapping[str, Home], manifests: Mapping[str, Manifest]) -> None:
    """Inside the commit: put what was prepared at its fixed location, and see that everything is what was looked at.

    Must be idempotent: the store may begin its transaction anew.
    """
    for each in own.values():  # first of all of them: what one cannot replace keeps the others as they are
        if each.published != each.written and files.exists(each.written):
            replacing.check_kinds(each.written, each.published)
    for name, manifest in manifests.items():
        home = own.get(name)
        if home is not None and home.published != home.written:
            if files.exists(home.written):
                replacing.revoke(home.published, claim.epoch)
                replacing.swap_in(home.written, home.published, home.folder)
                faults.point("settled")
            with suppress(OSError):
                files.remove(home.folder)
        difference = files.difference(manifest)
        if difference:
            raise NotValidated(
                f"{name} {claim.dataid} changed after its script ended: {difference}",
                hint=f"Something else writes to {manifest.location}, perhaps an earlier attempt on another host. "
                f"Have it produced again: odf resubmit {name} {claim.dataid}",
            )


def discard(own: Mapping[str, Home]) -> None:
    """Remove the folders of an attempt in which nothing was written; all else somebody may want to look at."""
    for home in own.values():
        with suppress(OSError):
            os.rmdir(home.folder)


def full_disk(own: Mapping[str, Home]) -> str:
    """The location of an output whose disk is full; empty where none is."""
    for home in own.values():
        with suppress(OSError):
            if not os.statvfs(home.folder).f_bavail:
                return home.published
    return ""
