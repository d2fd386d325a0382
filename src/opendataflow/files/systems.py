"""Systems: the disk of this machine, and whatever fsspec reaches, behind the same few questions."""

from __future__ import annotations

import os
import posixpath
import shutil
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import InvalidPath, MissingDependency, install_command
from ..model import File


class System(ABC):
    """One kind of storage; a location is a path or a URL of it."""

    hint: str  # what to look at when it does not answer

    @abstractmethod
    def exists(self, location: str) -> bool:
        """Whether anything is there."""

    @abstractmethod
    def is_file(self, location: str) -> bool:
        """Whether the location is one file."""

    @abstractmethod
    def is_folder(self, location: str) -> bool:
        """Whether the location is a folder of files."""

    @abstractmethod
    def file(self, location: str) -> File:
        """One file, under its own name."""

    @abstractmethod
    def walk(self, location: str, keep: Callable[[str], bool]) -> Iterator[File]:
        """The files at whatever depth whose path below the location is to be kept."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """What lies directly in a folder."""

    @abstractmethod
    def size(self, location: str) -> int:
        """The bytes of everything in a folder, data or not."""

    @abstractmethod
    def written(self, folder: str) -> float | None:
        """When a folder was written; None where nobody knows."""

    @abstractmethod
    def open(self, location: str) -> BinaryIO:
        """The bytes of one file."""

    @abstractmethod
    def is_writable(self, location: str) -> bool:
        """Whether something could be written there."""

    @abstractmethod
    def remove(self, location: str) -> None:
        """Remove everything there; nothing there is fine."""


def system_of(location: str) -> System:
    """The system that a location belongs to."""
    if "\0" in location:
        raise InvalidPath(f"{location!r} is no location: it holds a zero byte")
    return _Remote(location) if "://" in location else _Disk()


class _Disk(System):
    hint = "Check its permissions."

    def exists(self, location: str) -> bool:
        return os.path.lexists(location)

    def is_file(self, location: str) -> bool:
        return os.path.isfile(location)

    def is_folder(self, location: str) -> bool:
        return os.path.isdir(location)

    def file(self, location: str) -> File:
        status = os.stat(location)
        _check_regular(location, status.st_mode)
        _check_name(location)
        return File(os.path.basename(location), status.st_size, status.st_mtime)

    def walk(self, location: str, keep: Callable[[str], bool]) -> Iterator[File]:
        for folder, folders, names in os.walk(location, onerror=_raise):
            below = os.path.relpath(folder, location)
            prefix = "" if below == "." else f"{below}/"
            folders[:] = [name for name in folders if keep(prefix + name)]
            for name in names:
                if keep(prefix + name):
                    yield self.file(os.path.join(folder, name))._replace(path=prefix + name)

    def names(self, folder: str) -> list[str]:
        return os.listdir(folder) if os.path.isdir(folder) else []

    def size(self, location: str) -> int:
        total = 0
        for folder, _, names in os.walk(location):
            for name in names:
                with suppress(OSError):  # gone meanwhile
                    total += os.lstat(os.path.join(folder, name)).st_size
        return total

    def written(self, folder: str) -> float | None:
        return os.lstat(folder).st_mtime

    def open(self, location: str) -> BinaryIO:
        # Whatever was there before, it may be a pipe by now: opening one must not wait for whoever writes into it.
        descriptor = os.open(location, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            _check_regular(location, os.fstat(descriptor).st_mode)
        except InvalidPath:
            os.close(descriptor)
            raise
        return open(descriptor, "rb")

    def is_writable(self, location: str) -> bool:
        path = os.path.abspath(location)
        while not os.path.exists(path):
            path = os.path.dirname(path)  # the nearest folder that is there
        return os.access(path, os.W_OK | (os.X_OK if os.path.isdir(path) else 0))

    def remove(self, location: str) -> None:
        if os.path.isdir(location) and not os.path.islink(location):
            shutil.rmtree(location)
        else:
            Path(location).unlink(missing_ok=True)  # of a link the link itself, never what it leads to


class _Remote(System):
    hint = "Check the address and the credentials."

    def __init__(self, location: str) -> None:
        try:
            import fsspec
        except ImportError:
            raise MissingDependency(
                f"looking at {location} needs fsspec", hint=f"Install it: {install_command('remote')}"
            ) from None
        scheme = location.partition("://")[0]
        try:
            self.system: Any = fsspec.filesystem({"s3a": "s3", "s3n": "s3"}.get(scheme, scheme))
        except (ImportError, ValueError) as error:
            raise MissingDependency(
                f"looking at {location} needs more than fsspec: {error}",
                hint=f"Install the fsspec driver for {scheme}.",
            ) from None
        except TypeError as error:  # a driver that is not told everything by an address
            raise InvalidPath(
                f"{location} cannot be looked at: {scheme}: {error}", hint="Use a scheme such as s3 or gs."
            ) from None

    def exists(self, location: str) -> bool:
        return bool(self.system.exists(location))

    def is_file(self, location: str) -> bool:
        return bool(self.system.isfile(location))

    def is_folder(self, location: str) -> bool:
        return bool(self.system.exists(location)) and not self.is_file(location)

    def file(self, location: str) -> File:
        return _described(posixpath.basename(location), self.system.info(location))

    def walk(self, location: str, keep: Callable[[str], bool]) -> Iterator[File]:
        root = self.system._strip_protocol(location).rstrip("/")
        for path, details in self.system.find(location, detail=True).items():
            below = path.removeprefix(root).lstrip("/")
            if keep(below):
                yield _described(below, details)

    def names(self, folder: str) -> list[str]:
        if not self.system.isdir(folder):
            return []
        return [posixpath.basename(path.rstrip("/")) for path in self.system.ls(folder, detail=False)]

    def size(self, location: str) -> int:
        return int(self.system.du(location))

    def written(self, folder: str) -> float | None:
        times = [file.mtime for file in self.walk(folder, lambda path: True) if file.mtime is not None]
        return min(times, default=None)

    def open(self, location: str) -> BinaryIO:
        stream: BinaryIO = self.system.open(location, "rb")
        return stream

    def is_writable(self, location: str) -> bool:
        return True  # nobody can tell without writing

    def remove(self, location: str) -> None:
        if self.system.exists(location):
            self.system.rm(location, recursive=True)


def _check_name(location: str) -> None:
    """Refuse a name that is not text: a manifest could not hold it, nor any store."""
    try:
        location.encode()
    except UnicodeEncodeError:
        raise InvalidPath(f"the name {location!r} is not UTF-8", hint="Rename the file or folder.") from None


def _check_regular(location: str, mode: int) -> None:
    """Refuse what is no data because it has no end, no size or no content of its own."""
    if not stat.S_ISREG(mode):
        what = _SPECIAL.get(stat.S_IFMT(mode), "not a file")
        raise InvalidPath(
            f"{location} is {what}, not a regular file", hint="Only regular files are data: take it away."
        )


_SPECIAL = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def _raise(problem: OSError) -> None:
    raise problem  # a folder that cannot be listed is not an empty one


def _described(path: str, details: dict[str, Any]) -> File:
    return File(path, int(details["size"]), _time(details))


def _time(details: dict[str, Any]) -> float | None:
    """Every driver of fsspec has its own name for when a file was written."""
    for name in ("mtime", "LastModified", "updated", "created"):
        value = details.get(name)
        if isinstance(value, (int, float)):
            return float(value)
        if isinstance(value, datetime):
            return value.timestamp()
    return None
