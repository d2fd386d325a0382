"""Builds manifests of locations without Spark, and compares locations with their manifests.

A file is unchanged if its size and time, or its content, are the same. The content is read if the dataset declares
`verify = "content"`, if the time changed, and if the run reads little data:

| `verify`  | recorded when published                 | compared before a run                                          |
| --------- | --------------------------------------- | -------------------------------------------------------------- |
| `content` | a checksum of every file                | the content of every file                                      |
| `stat`    | a checksum of files up to 1 MiB         | size and time; the content if the time changed                 |
| (default) | a checksum of every file, see below     | the content if all inputs of the run are at most 64 MiB; else  |
|           |                                         | size and time, and the content if the time changed             |

By default, output of Spark gets checksums up to 64 MiB, and files behind a URL are treated as with `stat`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

from ..errors import InvalidPath
from ..model import Manifest, ManifestFile
from ..model.definitions.ids import shown
from .data_files import is_data
from .filesystems import FileSystem
from .listing import filesystem_at, list_files

Open = Callable[[ManifestFile], BinaryIO]

CONTENT, STAT = "content", "stat"
SMALL = 1 << 20  # files up to this size always get a checksum
LITTLE = 64 << 20  # bytes, read in about 0.1 s
_SAMPLE = 1 << 20
_leads_elsewhere = re.compile(r"[\x00-\x1f\x7f\\]|(?:^|/)\.\.(?:/|$)").search


def reads_content(verify: object, location: str, together: int) -> bool:
    """Whether the contents of files of this total size are compared: as declared, or by default if they are small."""
    return verify == CONTENT or (verify != STAT and together <= LITTLE and "://" not in location)


def light_manifest(location: str, format: str = "", verify: object = None, **facts: Any) -> Manifest:
    """The manifest of a location: files, sizes, times, checksums, and a fingerprint of the content."""
    listed = list_files(location)
    if listed is None:
        raise InvalidPath(
            f"nothing is at {location}", hint="Check the location, and whether the producer has finished."
        )
    with filesystem_at(location) as system:
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


def with_checksums(location: str, files: tuple[ManifestFile, ...], verify: object) -> tuple[ManifestFile, ...]:
    """Files that were just written, with checksums if their contents will be compared later."""
    if not reads_content(verify, location, sum(file.bytes for file in files)):
        return files
    with filesystem_at(location) as system:
        return tuple(_with_checksums(_opener(system, location), files, reads_all=True))


def _with_checksums(opened: Open, files: Iterable[ManifestFile], reads_all: bool) -> Iterator[ManifestFile]:
    for file in files:
        yield file._replace(checksum=_checksum(opened(file))) if reads_all or file.bytes <= SMALL else file


def unsafe_name(manifest: Manifest) -> str:
    """The problem with the first path in a manifest that could escape its location; empty if all are safe."""
    # Hadoop reads a location as a glob: a backslash escapes a character, and braces hold alternatives.
    names = [manifest.location] if _leads_elsewhere(manifest.location) or set("{}") & set(manifest.location) else []
    names += [file.path for file in manifest.files if file.path.startswith("/") or _leads_elsewhere(file.path)]
    return f"{shown(names[0], 200)} is not a valid path of a version" if names else ""


def difference(manifest: Manifest, *, by_content: bool = False) -> str:
    """The first difference between a location and its manifest; empty if there is none."""
    return next(differences(manifest, by_content=by_content), "")


def differences(manifest: Manifest, *, by_content: bool) -> Iterator[str]:
    """Every difference between a location and its manifest.

    With by_content, every file with a checksum is read, otherwise only files whose time changed.
    """
    if not manifest.location or not manifest.files:
        return
    if unsafe_name(manifest):
        yield unsafe_name(manifest)
        return
    listed = list_files(manifest.location)
    if listed is None:
        yield f"{manifest.location} is gone"
        return
    there = {file.path: file for file in listed}
    for file in manifest.files:
        now = there.pop(file.path, None)
        if now is None and not is_data(file.path):
            continue  # recorded by an older version of this program
        if now is None:
            yield f"file {file.path} is gone"
        elif now.bytes != file.bytes:
            yield f"file {file.path} has {now.bytes} bytes instead of {file.bytes}"
        elif file.checksum and (by_content or file.was_touched(now)):
            with filesystem_at(manifest.location) as system:
                if _checksum(_opener(system, manifest.location)(now)) != file.checksum:
                    yield f"the content of file {file.path} is not what was published"
        elif file.was_touched(now):
            yield f"file {file.path} was modified after it was published"
    for path in there:
        yield f"file {path} was added"


def _opener(system: FileSystem, location: str) -> Open:
    """A function that opens the files of a location; is_file is called once, since it may cost a request."""
    if system.is_file(location):
        return lambda file: system.open(location)
    return lambda file: system.open(f"{location.rstrip('/')}/{file.path}")


def _checksum(stream: BinaryIO) -> str:
    import hashlib

    with stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()  # type: ignore[arg-type]


def _fingerprint(opened: Open, files: list[ManifestFile]) -> str | None:
    """A digest of the contents without the names: equal for the same bytes under other names.

    A large file without a checksum is represented by its size, head and tail.
    """
    import hashlib

    if not any(file.bytes for file in files):
        return None  # empty chunks are not repeats of one another
    parts = (f"{file.bytes} {file.checksum or _sample(opened(file), file.bytes)}" for file in files)
    return "bytes:" + hashlib.blake2b("\n".join(sorted(parts)).encode(), digest_size=16).hexdigest()


def _sample(stream: BinaryIO, size: int) -> str:
    import hashlib

    with stream:
        digest = hashlib.blake2b(stream.read(_SAMPLE), digest_size=16)
        stream.seek(max(size - _SAMPLE, 0))
        digest.update(stream.read(_SAMPLE))
    return digest.hexdigest()
