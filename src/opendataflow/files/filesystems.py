"""One interface to the local disk and to every file system that fsspec supports."""

from __future__ import annotations

import os
import posixpath
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import InvalidPath, MissingDependency, install_command
from ..model import ManifestFile
from ..model.printable import check_utf8


class FileSystem(ABC):
    """One kind of storage; a location is a path or a URL in it."""

    hint: str  # what to check after an OSError

    @abstractmethod
    def exists(self, location: str) -> bool:
        """Whether anything is at the location."""

    @abstractmethod
    def is_file(self, location: str) -> bool:
        """Whether the location is one file."""

    @abstractmethod
    def is_folder(self, location: str) -> bool:
        """Whether the location is a folder of files."""

    @abstractmethod
    def file(self, location: str) -> ManifestFile:
        """One file, under its base name."""

    @abstractmethod
    def walk(self, location: str, keep: Callable[[str], bool]) -> Iterator[ManifestFile]:
        """The files at any depth for whose relative path `keep` is true."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """The direct entries of a folder."""

    @abstractmethod
    def size(self, location: str) -> int:
        """The bytes of everything in a folder, data or not."""

    @abstractmethod
    def written(self, folder: str) -> float | None:
        """When a folder was written; None if unknown."""

    @abstractmethod
    def open(self, location: str) -> BinaryIO:
        """A stream of one file."""

    @abstractmethod
    def is_writable(self, location: str) -> bool:
        """Whether the location can be written."""

    @abstractmethod
    def remove(self, location: str) -> None:
        """Remove everything at the location. Idempotent."""


def filesystem_for(location: str) -> FileSystem:
    """The file system that a location belongs to."""
    if "\0" in location:
        raise InvalidPath(f"{location!r} is not a location: NUL bytes are not allowed")
    return _Remote(location) if "://" in location else _Disk()


def access_error(location: str, error: OSError, hint: str) -> InvalidPath:
    """The error for a location that cannot be accessed, with the first line of the driver's message."""
    reason = (error.strerror or str(error)).strip().partition("\n")[0]
    return InvalidPath(f"{location} cannot be accessed: {reason}", hint=hint)


class _Disk(FileSystem):
    hint = "Check its permissions."

    def exists(self, location: str) -> bool:
        return os.path.lexists(location)

    def is_file(self, location: str) -> bool:
        return os.path.isfile(location)

    def is_folder(self, location: str) -> bool:
        return os.path.isdir(location)

    def file(self, location: str) -> ManifestFile:
        status = os.stat(location)
        _check_regular(location, status.st_mode)
        check_utf8(location)
        return ManifestFile(os.path.basename(location), status.st_size, status.st_mtime)

    def walk(self, location: str, keep: Callable[[str], bool]) -> Iterator[ManifestFile]:
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
                with suppress(OSError):  # removed concurrently
                    total += os.lstat(os.path.join(folder, name)).st_size
        return total

    def written(self, folder: str) -> float | None:
        return os.lstat(folder).st_mtime

    def open(self, location: str) -> BinaryIO:
        # The location may have become a named pipe: opening it must not block until a writer opens it.
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
            path = os.path.dirname(path)  # the nearest existing folder
        return os.access(path, os.W_OK | (os.X_OK if os.path.isdir(path) else 0))

    def remove(self, location: str) -> None:
        if os.path.isdir(location) and not os.path.islink(location):
            from shutil import rmtree  # costs 2 ms, and most runs remove nothing

            rmtree(location)
        else:
            Path(location).unlink(missing_ok=True)  # removes a link, never its target


class _Remote(FileSystem):
    hint = "Check the address and the credentials."

    def __init__(self, location: str) -> None:
        try:
            import fsspec
        except ImportError:
            raise MissingDependency(
                f"access to {location} needs fsspec", hint=f"Install it: {install_command('remote')}"
            ) from None
        from inspect import signature  # lazy: slow to import, and not needed for disks

        scheme = location.partition("://")[0]
        driver = {"s3a": "s3", "s3n": "s3"}.get(scheme, scheme)
        try:
            # Checked first: a driver whose constructor fails prints a traceback when it is collected.
            signature(fsspec.get_filesystem_class(driver).__init__).bind(None)
            self.system: Any = fsspec.filesystem(driver)
        except (ImportError, ValueError) as error:
            raise MissingDependency(
                f"access to {location} needs more than fsspec: {error}",
                hint=f"Install the fsspec driver for {scheme}.",
            ) from None
        except TypeError as error:  # the driver needs arguments beside the address
            raise InvalidPath(
                f"{location} cannot be accessed: {scheme}: {error}", hint="Use a scheme such as s3 or gs."
            ) from None
        except OSError as error:
            raise access_error(location, error, self.hint) from None
        # fsspec shares a driver within a process, and many drivers keep what they listed for as long as it runs.
        self.system.invalidate_cache()

    def exists(self, location: str) -> bool:
        return bool(self.system.exists(location))

    def is_file(self, location: str) -> bool:
        return bool(self.system.isfile(location))

    def is_folder(self, location: str) -> bool:
        return bool(self.system.exists(location)) and not self.is_file(location)

    def file(self, location: str) -> ManifestFile:
        return _described(posixpath.basename(location), self.system.info(location))

    def walk(self, location: str, keep: Callable[[str], bool]) -> Iterator[ManifestFile]:
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
        return True  # not known without writing

    def remove(self, location: str) -> None:
        if self.system.exists(location):
            self.system.rm(location, recursive=True)


def _check_regular(location: str, mode: int) -> None:
    """Refuse a path that is not a regular file."""
    if not stat.S_ISREG(mode):
        what = _SPECIAL.get(stat.S_IFMT(mode), "not a file")
        raise InvalidPath(f"{location} is {what}, not a regular file", hint="Only regular files are data. Remove it.")


_SPECIAL = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def _raise(problem: OSError) -> None:
    raise problem  # an unreadable folder is an error, not an empty folder


def _described(path: str, details: dict[str, Any]) -> ManifestFile:
    return ManifestFile(path, int(details["size"]), _time(details))


def _time(details: dict[str, Any]) -> float | None:
    """The modification time of a file; each fsspec driver has its own name for it."""
    for name in ("mtime", "LastModified", "updated", "created"):
        value = details.get(name)
        if isinstance(value, (int, float)):
            return float(value)
        if isinstance(value, datetime):
            return value.timestamp()
    return None
