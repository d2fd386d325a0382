"""Listing: what lies at a location, how large and how old it is, whether it can be written, and taking it away."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import InvalidPath
from ..model import File
from .rule import is_data
from .systems import System, system_of


def list_files(location: str) -> tuple[File, ...] | None:
    """The data files at a location with size and time, in the order of their paths; None when nothing is there."""
    with looking_at(location) as system:
        if system.is_file(location):
            return (system.file(location),)
        if not system.is_folder(location):
            # A pipe, a socket or a device is something, but no data: the system says what it is.
            return (system.file(location),) if os.path.exists(location) else None
        return tuple(sorted(system.walk(location, is_data)))


def names(folder: str) -> list[str]:
    """The names of everything that lies directly in a folder, data or not, in order; none where there is no folder."""
    with looking_at(folder) as system:
        return sorted(system.names(folder))


def exists(location: str) -> bool:
    """Whether anything is at this location, if only a link that leads nowhere."""
    with looking_at(location) as system:
        return system.exists(location)


def size(location: str) -> int:
    """How many bytes would be free without this folder: everything in it counts, data or not."""
    with looking_at(location) as system:
        return system.size(location)


def written(folder: str) -> float | None:
    """When a folder was written: its own time on a disk, that of its oldest file elsewhere; None where nobody knows."""
    with looking_at(folder) as system:
        return system.written(folder)


def is_folder(location: str) -> bool:
    """Whether the location is a folder of its own, and not a link to one."""
    with looking_at(location) as system:
        return system.is_folder(location) and not os.path.islink(location)


def links(location: str) -> Iterator[str]:
    """The symbolic links inside a local folder, at whatever depth; none of them is followed."""
    folders = [location] if os.path.isdir(location) else []  # elsewhere there are none, and no driver is needed
    for folder in folders:
        with looking_at(folder), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink():
                    yield entry.path
                elif entry.is_dir():
                    folders.append(entry.path)


def is_writable(location: str) -> bool:
    """Whether something could be written there: on a disk, the nearest folder that exists lets us."""
    return system_of(location).is_writable(location)


def remove(location: str) -> None:
    """Remove everything at this location; of a link only the link, and nothing there is fine."""
    system_of(location).remove(location)


@contextmanager
def looking_at(location: str) -> Iterator[System]:
    """The system of a location; what it cannot tell is InvalidPath."""
    system = system_of(location)
    try:
        yield system
    except OSError as error:
        raise InvalidPath(f"{location} cannot be looked at: {error.strerror or error}", hint=system.hint) from None
