"""Gives each file output of an attempt a staging location, and publishes it at the chunk's location in the commit.

A script gets `<dataset>_location`, a path in a folder that only this attempt writes. With `layout = "versioned"`, and in an
object store, the version stays there and the store points to it. Otherwise one rename inside the commit moves it to the
chunk's fixed location. An attempt that lost its chunk changes nothing that is read.
"""

from __future__ import annotations

import errno
import os
import posixpath
from _blake2 import blake2b  # hashlib would load OpenSSL
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from .. import faults, files
from ..errors import InvalidPath, NoSpace, NotValidated
from ..files import replacement
from ..files.versions import (
    VERSIONED,
    another_version_location,
    chunk_location,
    is_mark,
    names_chunk,
    staging_location,
    version_name,
)
from ..model import Dataset, Manifest
from ..project import Project
from ..project.trust import may_write
from ..store import Claim
from .process.logs import log_path
from .process.pruning import BEFORE
from .process.pruning import MARK as LOG_MARK

if TYPE_CHECKING:
    from datetime import datetime

    from .records import Attempt


class StagedOutput(NamedTuple):
    """The paths of one output: the attempt's folder, the path in it that is written, and the path that is published."""

    folder: str
    written: str
    published: str


def staged_outputs(project: Project, attempt: Attempt, suffix: str = "") -> dict[str, StagedOutput]:
    """The staged outputs of an attempt, by dataset; a script writes other outputs directly.

    `suffix` distinguishes the folders of this attempt from those of other attempts with the same epoch.
    """
    read = {item.datasetid for item in attempt.job.inputs}  # the variables of these datasets are the input locations
    found = {
        name: _staged_output(project, attempt, attempt.catalogue.dataset(name), suffix)
        for name in attempt.claim.outputs
        if name not in read
    }
    return {name: output for name, output in found.items() if output is not None}


def _staged_output(project: Project, attempt: Attempt, dataset: Dataset, suffix: str) -> StagedOutput | None:
    """None for tables, for locations of several chunks, and for locations that this project may not write."""
    claim, dataid, location = attempt.claim, attempt.claim.dataid, ""
    if dataset.kind != "table" and may_write(project, dataset):
        location = attempt.location(dataset.datasetid)
    # Object stores cannot rename: the manifest points to the attempt's folder.
    if location and (dataset.options.get("layout") == VERSIONED or "://" in location):
        location = chunk_location(dataset, location, dataid)
        folder, published = posixpath.join(location, version_name(claim.epoch)), ""
    elif location.startswith("/") and names_chunk(dataset, dataid):
        folder, published = staging_location(location, claim.epoch), location
    else:
        return None
    return _in_folder(f"{folder}-{suffix}" if suffix else folder, posixpath.basename(location), published)


def _in_folder(folder: str, name: str, published: str) -> StagedOutput:
    written = posixpath.join(folder, name)
    return StagedOutput(folder, written, published or written)


def handshake_suffix(started: datetime | None, runid: int) -> str:
    """The folder suffix of a handshake, which both processes derive; unique also after the store is restored."""
    return blake2b(f"{runid} {started}".encode(), digest_size=4).hexdigest()


def prepare(project: Project, attempt: Attempt, mark: str, suffix: str = "") -> dict[str, StagedOutput]:
    """Create the folders of an attempt. If a folder exists, it belongs to another attempt, and a new name is used.

    Versioned folders get a marker that identifies the run.
    """
    created: dict[str, StagedOutput] = {}
    for name, output in staged_outputs(project, attempt, suffix).items():
        if "://" in output.folder and not suffix:  # object stores have no folders to create: use a random name
            output = _renamed(output)
        here = f"{name} {attempt.claim.dataid}"
        while "://" not in output.folder and not _created(output.folder, here):
            output = _renamed(output)
        if "://" not in output.folder and output.published == output.written:
            _created(posixpath.join(output.folder, mark), here)
        created[name] = output
    return created


def _renamed(output: StagedOutput) -> StagedOutput:
    published = "" if output.published == output.written else output.published
    return _in_folder(another_version_location(output.folder), posixpath.basename(output.written), published)


def _created(folder: str, here: str) -> bool:
    """Create a folder; False if it exists, since only its creator may write to it."""
    try:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        os.mkdir(folder)
    except OSError as error:
        if error.errno == errno.EEXIST and os.path.lexists(folder):
            return False
        raise _not_created(error, folder, here) from None
    return True


def _not_created(error: OSError, path: str, here: str) -> InvalidPath | NoSpace:
    problem = NoSpace if error.errno in replacement.FULL else InvalidPath
    return problem(f"{here}: {path} cannot be created: {error.strerror}")


Snapshots = dict[str, str]  # dataset → digest of the files at a location; empty if there are none


def take_snapshots(attempt: Attempt, outputs: Mapping[str, StagedOutput]) -> Snapshots:
    """Digests of names, sizes and times at the outputs' fixed locations, before the script starts.

    Versioned outputs need none: their folders are new.
    """
    found: Snapshots = {}
    for name in attempt.claim.outputs:
        output, dataset = outputs.get(name), attempt.catalogue.dataset(name)
        if dataset.kind != "table" and (output is None or output.published != output.written):
            found[name] = _digest_of(attempt.location(name))
    return found


def save_snapshots(project: Project, attempt: Attempt, outputs: Mapping[str, StagedOutput], suffix: str) -> None:
    """Save the snapshots of the outputs' locations for the process that ends the attempt."""
    for name, digest in take_snapshots(attempt, outputs).items():
        if digest:
            path = _snapshot_path(project, attempt.claim, name, outputs.get(name), suffix)
            try:
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
                with open(path, "w") as file:
                    file.write(f"{LOG_MARK.decode()}\n{digest}")
            except OSError as error:
                raise _not_created(error, path, f"{name} {attempt.claim.dataid}") from None


def load_snapshots(project: Project, claim: Claim, outputs: Mapping[str, StagedOutput], suffix: str) -> Snapshots:
    """The saved snapshots of the outputs' locations at the start of the attempt."""
    found: Snapshots = {}
    for name in claim.outputs:
        with suppress(OSError), open(_snapshot_path(project, claim, name, outputs.get(name), suffix)) as file:
            found[name] = file.read().partition("\n")[2]
    return found


def _snapshot_path(project: Project, claim: Claim, name: str, output: StagedOutput | None, suffix: str) -> str:
    """In the folder of the attempt or, without one, among the logs, with whose retention it is removed."""
    if output is not None:
        return posixpath.join(output.folder, "_before")
    path = log_path(project.logs, jobid=claim.jobid, dataid=name, epoch=claim.epoch, runid=suffix)
    return str(path.with_suffix(BEFORE))


def check_written(attempt: Attempt, name: str, output: StagedOutput | None, before: Snapshots) -> None:
    """NotValidated if the script wrote neither to the attempt's location nor to the chunk's fixed location.

    The fixed location of a versioned output contains other versions and is never published.
    """
    if output is not None and output.published == output.written:
        why, other = f"the script wrote nothing to ${name}_location ({output.written})", ""
    elif before.get(name):
        location = attempt.location(name)
        if before[name] != _digest_of(location):
            return
        why = f"the script wrote nothing: {location} is unchanged since the script started"
        other = ", or remove the old output"
    else:
        return
    raise NotValidated(f"{name} {attempt.claim.dataid}: {why}", hint=f"Write to ${name}_location{other}.")


def _digest_of(location: str) -> str:
    if not location.startswith("/"):
        return ""
    found = []
    for folder, _, names in os.walk(location) if os.path.isdir(location) else [(location, [], [""])]:
        for name in names:
            path = os.path.join(folder, name) if name else folder
            with suppress(OSError):
                facts = os.stat(path)
                found.append((path, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino))
    return blake2b(repr(sorted(found)).encode(), digest_size=16).hexdigest() if found else ""


def check_nothing_beside(name: str, output: StagedOutput) -> None:
    """NotValidated for data beside the published path, which would be lost silently."""
    published = posixpath.basename(output.written)
    beside = [each for each in files.names(output.folder) if each != published and files.is_data(each)]
    if beside:
        raise NotValidated(
            f"{name}: the script wrote {beside[0]} beside its location, where it is not read",
            hint=f"Only ${name}_location is published: make it a folder, or write other files elsewhere.",
        )


def publish_files(claim: Claim, outputs: Mapping[str, StagedOutput], manifests: Mapping[str, Manifest]) -> None:
    """Inside the commit, move staged outputs to their fixed locations and verify all manifests.

    Must be idempotent: the store may retry its transaction.
    """
    moved = [name for name, each in outputs.items() if each.published != each.written and files.exists(each.written)]
    for name in moved:  # check all before any is replaced
        replacement.check_kinds(outputs[name].written, outputs[name].published)
    for name, manifest in manifests.items():
        output = outputs.get(name)
        if output is not None and output.published != output.written:
            if name in moved:
                faults.point("settling")
                replacement.revoke(output.published, claim.epoch)
                replacement.swap_in(output.written, output.published, output.folder)
                faults.point("settled")
            with suppress(OSError):
                files.remove(output.folder)
        difference = files.difference(manifest)
        if difference:
            raise NotValidated(
                f"{name} {claim.dataid} changed after its script ended: {difference}",
                hint=f"Something else writes to {manifest.location}, perhaps an earlier attempt on another host. "
                f"Produce the chunk again: odf resubmit {name} {claim.dataid}",
            )


def discard(outputs: Mapping[str, StagedOutput]) -> None:
    """Remove the empty folders of an attempt; folders with files stay, for debugging."""
    for output in outputs.values():
        with suppress(OSError):
            if all(map(is_mark, names := os.listdir(output.folder))):
                for name in (*names, ""):
                    os.rmdir(os.path.join(output.folder, name))


def full_disk(outputs: Mapping[str, StagedOutput]) -> str:
    """The location of an output whose disk is full; empty if there is none."""
    for output in outputs.values():
        with suppress(OSError):
            if not os.statvfs(output.folder).f_bavail:
                return output.published
    return ""
