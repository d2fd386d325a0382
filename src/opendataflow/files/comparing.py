"""Comparing: what a location holds, written down without Spark, and how it differs from what was written down."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, BinaryIO

from ..errors import InvalidPath
from ..model import File, Manifest
from ..model.ids import shown
from .listing import list_files, looking_at
from .rule import is_data
from .systems import System

Open = Callable[[File], BinaryIO]

SMALL = 1 << 20  # files up to this size get a checksum of all their bytes
_SAMPLE = 1 << 20
_leads_elsewhere = re.compile(r"[\x00-\x1f\x7f\\]|(?:^|/)\.\.(?:/|$)").search
_SAME_TIME = 1e-6  # seconds; a time loses a little on its way through JSON


def light_manifest(location: str, format: str = "", **facts: Any) -> Manifest:
    """What is there now: files, sizes, times, checksums of small files, and a fingerprint of the content."""
    listed = list_files(location)
    if listed is None:
        raise InvalidPath(
            f"there is nothing at {location}", hint="Check the location, and whether the producer has finished."
        )
    with looking_at(location) as system:
        opened = _opener(system, location)
        files = [file._replace(checksum=_checksum(opened(file))) if file.bytes <= SMALL else file for file in listed]
        fingerprint = _fingerprint(opened, files)
    return Manifest(
        location=location,
        format=format,
        files=tuple(files),
        bytes=sum(file.bytes for file in files),
        fingerprint=fingerprint,
        **facts,
    )


def ill_named(manifest: Manifest) -> str:
    """Which name in a manifest could lead elsewhere than it says, so that nobody may follow it; empty when none could."""
    # Hadoop takes a location for a pattern, in which a backslash hides a dot and braces hold alternatives.
    names = [manifest.location] if _leads_elsewhere(manifest.location) or set("{}") & set(manifest.location) else []
    names += [file.path for file in manifest.files if file.path.startswith("/") or _leads_elsewhere(file.path)]
    return f"{shown(names[0], 200)} is no name that a version could have" if names else ""


def difference(manifest: Manifest) -> str:
    """How what is there now differs from what the manifest says; empty when it does not."""
    if not manifest.location or not manifest.files:
        return ""
    if ill_named(manifest):
        return ill_named(manifest)
    listed = list_files(manifest.location)
    if listed is None:
        return f"{manifest.location} is gone"
    there = {file.path: file for file in listed}
    for file in manifest.files:
        now = there.pop(file.path, None)
        if now is None and not is_data(file.path):
            continue  # an older version of this program counted it
        if now is None:
            return f"file {file.path} is gone"
        if now.bytes != file.bytes:
            return f"file {file.path} has {now.bytes} bytes, it had {file.bytes}"
        if not _was_touched(file, now):
            continue
        if not file.checksum:
            return f"file {file.path} was written again after it was published"
        with looking_at(manifest.location) as system:
            if _checksum(_opener(system, manifest.location)(now)) != file.checksum:
                return f"the content of file {file.path} is not what was published"
    return f"file {next(iter(there))} was added" if there else ""


def _was_touched(file: File, now: File) -> bool:
    return file.mtime is not None and now.mtime is not None and abs(now.mtime - file.mtime) > _SAME_TIME


def _opener(system: System, location: str) -> Open:
    """How the files of a location are opened; whether it is one file is asked once, for it may cost a request."""
    if system.is_file(location):
        return lambda file: system.open(location)
    return lambda file: system.open(f"{location.rstrip('/')}/{file.path}")


def _checksum(stream: BinaryIO) -> str:
    import hashlib

    with stream:
        return hashlib.blake2b(stream.read(), digest_size=16).hexdigest()


def _fingerprint(opened: Open, files: list[File]) -> str | None:
    """The content without the names: equal when the same bytes come under another name.

    Of a large file its size, head and tail stand for the whole: reading 10 GB to say what it is would cost more than it tells.
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
