"""Lists, measures and removes the contents of a location."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ..model import ManifestFile
from .data_files import is_data
from .filesystems import FileSystem, access_error, filesystem_for


def list_files(location: str) -> tuple[ManifestFile, ...] | None:
    """The data files at a location with size and time, ordered by path; None if the location does not exist."""
    with filesystem_at(location) as filesystem:
        if filesystem.is_file(location):
            return (filesystem.file(location),)
        if not filesystem.is_folder(location):
            # For a pipe, a socket or a device, file() raises an error that names it.
            return (filesystem.file(location),) if os.path.exists(location) else None
        return tuple(sorted(filesystem.walk(location, is_data)))


def names(folder: str) -> list[str]:
    """The names of all direct entries of a folder, data or not, in order; none if there is no folder."""
    with filesystem_at(folder) as filesystem:
        return sorted(filesystem.names(folder))


def exists(location: str) -> bool:
    """Whether anything is at this location, even a broken link."""
    with filesystem_at(location) as filesystem:
        return filesystem.exists(location)


def size(location: str) -> int:
    """The bytes of everything in a folder, data or not."""
    with filesystem_at(location) as filesystem:
        return filesystem.size(location)


def written(folder: str) -> float | None:
    """When a folder was written: its own time on a disk, that of its oldest file elsewhere; None if unknown."""
    with filesystem_at(folder) as filesystem:
        return filesystem.written(folder)


def is_folder(location: str) -> bool:
    """Whether the location is a folder, and not a link to one."""
    with filesystem_at(location) as filesystem:
        return filesystem.is_folder(location) and not os.path.islink(location)


def links(location: str) -> Iterator[str]:
    """The symbolic links inside a local folder, at any depth; links are not followed."""
    folders = [location] if os.path.isdir(location) else []  # object stores have no links
    for folder in folders:
        with filesystem_at(folder), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink():
                    yield entry.path
                elif entry.is_dir():
                    folders.append(entry.path)


def is_writable(location: str) -> bool:
    """Whether the location can be written; on a disk, whether the nearest existing folder is writable."""
    return filesystem_for(location).is_writable(location)


def remove(location: str) -> None:
    """Remove everything at this location; of a link only the link. Idempotent."""
    filesystem_for(location).remove(location)


@contextmanager
def filesystem_at(location: str) -> Iterator[FileSystem]:
    """The file system of a location; an OSError inside becomes InvalidPath."""
    filesystem = filesystem_for(location)
    try:
        yield filesystem
    except OSError as error:
        raise access_error(location, error, filesystem.hint) from None
