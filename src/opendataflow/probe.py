"""Looks at what lies at a location, a local path or a URL through fsspec, and never changes anything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from typing import Any, BinaryIO

from .errors import InvalidPath, MissingDependency
from .model import File, Manifest

SMALL = 1 << 20  # files up to this size get a checksum of all their bytes
_SAMPLE = 1 << 20
_IGNORED = ("_SUCCESS", "_committed_", "_started_")


def files(location: str) -> list[File] | None:
    """The files at a location with size and time, in order; None when nothing is there."""
    if "://" in location:
        return _remote_files(location)
    try:
        if os.path.isfile(location):
            status = os.stat(location)
            return [File(os.path.basename(location), status.st_size, status.st_mtime)]
        if not os.path.isdir(location):
            return None
        found = []
        for folder, folders, names in os.walk(location):
            folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
            for name in sorted(names):
                if not name.startswith((".", *_IGNORED)):
                    path = os.path.join(folder, name)
                    status = os.stat(path)
                    found.append(File(os.path.relpath(path, location), status.st_size, status.st_mtime))
        return found
    except OSError as error:
        raise InvalidPath(
            f"{location} cannot be looked at: {error.strerror or error}", hint="check its permissions"
        ) from None


def links(location: str) -> Iterator[str]:
    """The symbolic links inside a local folder, at whatever depth; none of them is followed."""
    folders = [location] if os.path.isdir(location) else []
    try:
        for folder in folders:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        yield entry.path
                    elif entry.is_dir():
                        folders.append(entry.path)
    except OSError as error:
        raise InvalidPath(
            f"{location} cannot be looked at: {error.strerror or error}", hint="check its permissions"
        ) from None


def is_writable(location: str) -> bool:
    """Whether something could be written there: the nearest folder that exists lets us."""
    if "://" in location:
        file_system(location)
        return True
    path = os.path.abspath(location)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return os.access(path, os.W_OK | (os.X_OK if os.path.isdir(path) else 0))


def light_manifest(location: str, format: str = "", **facts: Any) -> Manifest:
    """What is there now: files, sizes, times, checksums of small files, and a fingerprint of the content."""
    found = files(location)
    if found is None:
        raise InvalidPath(f"nothing is at {location}", hint="is the location right, and did the producer finish?")
    listed = [file._replace(checksum=_checksum(location, file)) if file.bytes <= SMALL else file for file in found]
    return Manifest(
        location=location,
        format=format,
        files=tuple(listed),
        bytes=sum(file.bytes for file in listed),
        fingerprint=_fingerprint(location, listed),
        **facts,
    )


def difference(manifest: Manifest) -> str:
    """How what is there now differs from what the manifest says; empty when it does not."""
    if not manifest.location or not manifest.files:
        return ""
    found = files(manifest.location)
    if found is None:
        return f"{manifest.location} is gone"
    there = {file.path: file for file in found}
    for file in manifest.files:
        now = there.pop(file.path, None)
        if now is None:
            return f"file {file.path} is gone"
        if now.bytes != file.bytes:
            return f"file {file.path} has {now.bytes} bytes, it had {file.bytes}"
        touched = file.mtime is not None and now.mtime is not None and abs(now.mtime - file.mtime) > 1e-6
        if touched and file.checksum and _checksum(manifest.location, now) != file.checksum:
            return f"the content of file {file.path} is not what was published"
        if touched and not file.checksum:
            return f"file {file.path} was written again after it was published"
    if there:
        return f"file {next(iter(there))} was added"
    return ""


def _read(location: str, file: File) -> BinaryIO:
    if "://" in location:
        system = file_system(location)
        path = location if system.isfile(location) else location.rstrip("/") + "/" + file.path
        opened: BinaryIO = system.open(path, "rb")
        return opened
    return open(location if os.path.isfile(location) else os.path.join(location, file.path), "rb")


def _checksum(location: str, file: File) -> str:
    import hashlib

    with _read(location, file) as stream:
        return hashlib.blake2b(stream.read(), digest_size=16).hexdigest()


def _fingerprint(location: str, listed: list[File]) -> str | None:
    """The content without the names: equal when the same bytes come under another name.

    Of a large file its size, head and tail stand for the whole: reading 10 GB to say what it is would cost more than it tells.
    """
    import hashlib

    parts = []
    for file in listed:
        if file.checksum:
            parts.append(f"{file.bytes} {file.checksum}")
        else:
            with _read(location, file) as stream:
                digest = hashlib.blake2b(stream.read(_SAMPLE), digest_size=16)
                stream.seek(max(file.bytes - _SAMPLE, 0))
                digest.update(stream.read(_SAMPLE))
            parts.append(f"{file.bytes} {digest.hexdigest()}")
    if not any(file.bytes for file in listed):
        return None  # nothing in it: nothing to mistake for something else
    return "bytes:" + hashlib.blake2b("\n".join(sorted(parts)).encode(), digest_size=16).hexdigest()


def file_system(location: str) -> Any:
    try:
        import fsspec
    except ImportError:
        raise MissingDependency(
            f"looking at {location} needs fsspec", hint="pip install 'opendataflow[remote]'"
        ) from None
    scheme = location.partition("://")[0]
    try:
        return fsspec.filesystem({"s3a": "s3", "s3n": "s3"}.get(scheme, scheme))
    except (ImportError, ValueError) as error:
        raise MissingDependency(
            f"looking at {location} needs more than fsspec: {error}", hint=f"install the fsspec driver for {scheme}"
        ) from None


def _remote_files(location: str) -> list[File] | None:
    system = file_system(location)
    try:
        if system.isfile(location):
            details = system.info(location)
            return [File(location.rsplit("/", 1)[-1], int(details["size"]), _time(details))]
        if not system.exists(location):
            return None
        return list(_walked(system, location))
    except OSError as error:
        raise InvalidPath(
            f"{location} cannot be looked at: {error}", hint="check the address and the credentials"
        ) from None


def _walked(system: Any, location: str) -> Iterator[File]:
    root = system._strip_protocol(location).rstrip("/")
    for path, details in sorted(system.find(location, detail=True).items()):
        relative = path.removeprefix(root).lstrip("/")
        if not any(part.startswith((".", "_")) for part in relative.split("/")):
            yield File(relative, int(details["size"]), _time(details))


def _time(details: dict[str, Any]) -> float | None:
    for name in ("mtime", "LastModified", "updated", "created"):
        value = details.get(name)
        if isinstance(value, (int, float)):
            return float(value)
        if isinstance(value, datetime):
            return value.timestamp()
    return None
