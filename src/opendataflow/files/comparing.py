"""Comparing: what a location holds, written down without Spark, and how it differs from what was written down.

A file is what it was when it has the same size and time, or the same content. The content is read where a dataset says
`verify = "content"`, where a time has changed, and where so little is read that nobody notices it:

| `verify`  | written down when published             | compared before a run                                          |
| --------- | --------------------------------------- | -------------------------------------------------------------- |
| `content` | a checksum of every file                | the content of every file                                      |
| `stat`    | a checksum of files up to 1 MiB         | size and time; the content where a time changed                |
| not said  | a checksum of every file, see below     | the content where all that a run reads is at most 64 MiB; else |
|           |                                         | size and time, and the content where a time changed            |

Not said, what Spark writes gets checksums when it is at most 64 MiB, since nothing else reads it again, and files behind a
URL are treated as with `stat`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

from ..errors import InvalidPath
from ..model import File, Manifest
from ..model.ids import shown
from .listing import list_files, looking_at
from .rule import is_data
from .systems import System

Open = Callable[[File], BinaryIO]

CONTENT, STAT = "content", "stat"
SMALL = 1 << 20  # files up to this size always get a checksum
LITTLE = 64 << 20  # bytes that are read in a tenth of a second
_SAMPLE = 1 << 20
_leads_elsewhere = re.compile(r"[\x00-\x1f\x7f\\]|(?:^|/)\.\.(?:/|$)").search


def reads_content(verify: object, location: str, together: int) -> bool:
    """Whether contents are compared of files that hold so many bytes together: as declared, or where nobody notices it."""
    return verify == CONTENT or (verify != STAT and together <= LITTLE and "://" not in location)


def light_manifest(location: str, format: str = "", verify: object = None, **facts: Any) -> Manifest:
    """What is there now: files, sizes, times, checksums, and a fingerprint of the content."""
    listed = list_files(location)
    if listed is None:
        raise InvalidPath(
            f"there is nothing at {location}", hint="Check the location, and whether the producer has finished."
        )
    with looking_at(location) as system:
        opened = _opener(system, location)
        reads_all = verify == CONTENT or (verify != STAT and "://" not in location)
        files = list(_with_checksums(opened, listed, reads_all))
        fingerprint = _fingerprint(opened, files)
    return Manifest(
        location=location,
        format=format,
        files=tuple(files),
        bytes=sum(file.bytes for file in files),
        fingerprint=fingerprint,
        **facts,
    )


def with_checksums(location: str, files: tuple[File, ...], verify: object) -> tuple[File, ...]:
    """Files that were just written, with checksums where their contents are to be compared later."""
    if not reads_content(verify, location, sum(file.bytes for file in files)):
        return files
    with looking_at(location) as system:
        return tuple(_with_checksums(_opener(system, location), files, reads_all=True))


def _with_checksums(opened: Open, files: Iterable[File], reads_all: bool) -> Iterator[File]:
    for file in files:
        yield file._replace(checksum=_checksum(opened(file))) if reads_all or file.bytes <= SMALL else file


def ill_named(manifest: Manifest) -> str:
    """Which name in a manifest could lead elsewhere than it says, so that nobody may follow it; empty when none could."""
    # Hadoop takes a location for a pattern, in which a backslash hides a dot and braces hold alternatives.
    names = [manifest.location] if _leads_elsewhere(manifest.location) or set("{}") & set(manifest.location) else []
    names += [file.path for file in manifest.files if file.path.startswith("/") or _leads_elsewhere(file.path)]
    return f"{shown(names[0], 200)} is no name that a version could have" if names else ""


def difference(manifest: Manifest, *, by_content: bool = False) -> str:
    """The first way in which what is there now differs from what the manifest says; empty when it does not."""
    return next(differences(manifest, by_content=by_content), "")


def differences(manifest: Manifest, *, by_content: bool) -> Iterator[str]:
    """Every way in which what is there now differs from what the manifest says.

    By content, every file that has a checksum is read; else only one whose time has changed.
    """
    if not manifest.location or not manifest.files:
        return
    if ill_named(manifest):
        yield ill_named(manifest)
        return
    listed = list_files(manifest.location)
    if listed is None:
        yield f"{manifest.location} is gone"
        return
    there = {file.path: file for file in listed}
    for file in manifest.files:
        now = there.pop(file.path, None)
        if now is None and not is_data(file.path):
            continue  # an older version of this program counted it
        if now is None:
            yield f"file {file.path} is gone"
        elif now.bytes != file.bytes:
            yield f"file {file.path} has {now.bytes} bytes, it had {file.bytes}"
        elif file.checksum and (by_content or file.was_touched(now)):
            with looking_at(manifest.location) as system:
                if _checksum(_opener(system, manifest.location)(now)) != file.checksum:
                    yield f"the content of file {file.path} is not what was published"
        elif file.was_touched(now):
            yield f"file {file.path} was written again after it was published"
    for path in there:
        yield f"file {path} was added"


def _opener(system: System, location: str) -> Open:
    """How the files of a location are opened; whether it is one file is asked once, for it may cost a request."""
    if system.is_file(location):
        return lambda file: system.open(location)
    return lambda file: system.open(f"{location.rstrip('/')}/{file.path}")


def _checksum(stream: BinaryIO) -> str:
    import hashlib

    with stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()  # type: ignore[arg-type]


def _fingerprint(opened: Open, files: list[File]) -> str | None:
    """The content without the names: equal when the same bytes come under another name.

    Of a large file without a checksum its size, head and tail stand for the whole: nobody wanted to read 10 GB.
    """
    import hashlib

    if not any(file.bytes for file in files):
        return None  # nothing in it: nothing to mistake for something else
    parts = (f"{file.bytes} {file.checksum or _sample(opened(file), file.bytes)}" for file in files)
    return "bytes:" + hashlib.blake2b("\n".join(sorted(parts)).encode(), digest_size=16).hexdigest()


def _sample(stream: BinaryIO, size: int) -> str:
    import hashlib

    with stream:
        digest = hashlib.blake2b(stream.read(_SAMPLE), digest_size=16)
        stream.seek(max(size - _SAMPLE, 0))
        digest.update(stream.read(_SAMPLE))
    return digest.hexdigest()
