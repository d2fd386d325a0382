"""Leftovers: what a chaos that was killed itself left of its scratch is removed by the next one, and nothing else."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from ..errors import BadConfig, OdfError, StoreReadOnly, UsageError
from ..project import Project, load
from ..project.locations import store_address
from ..store.drivers import postgres_schema
from .places import FileScratch, ScratchStore, place_of
from .scratch import MARK, Where, is_name, records_of, remove, remove_folder

_LARGEST = 10_000  # characters of a record

Say = Callable[[str], None]


def sweep(project: Project, store_url: str, password: str | None, say: Say) -> None:
    """Remove what a chaos left that was killed itself; one that lives holds the locks of its record and of its mark.

    Records may be copies, broken, or made up: only what is this project's and marked is removed, and the password goes to
    no server but that of the store that is used now.
    """
    for path in sorted(records_of(project).glob("*.json")):
        if path.is_symlink() or not path.is_file():
            _set_aside(path, say)
            continue
        try:
            with path.open("r+", encoding="utf-8") as record:
                if _is_free(record) and path.exists():
                    _sweep(project, path, record, store_address(store_url, project.folder), password, say)
        except FileNotFoundError:
            continue  # another chaos was faster
        except OSError as problem:
            say(f"{path}: what an earlier chaos left is still there: {problem.strerror}")


def _sweep(project: Project, path: Path, record: IO[str], url: str, password: str | None, say: Say) -> None:
    try:
        left = _read(record)
        is_ours = _belongs(project, left, url)
    except (OdfError, ValueError, KeyError, TypeError, RecursionError):
        _set_aside(path, say)
        return
    if not is_ours:
        path.unlink()
        say(f"{left.folder} and {left.store.shown} are not this project's: left alone, and {path} is forgotten")
        return
    try:
        with _Mark(left) as is_free:
            if not is_free:
                return  # it lives, and this is a copy of its record
            here = _as_used_now(left.store, url, left.id)
            if here is None:
                remove_folder(left)
                address = shlex.quote(postgres_schema.split(left.store.address)[0])
                say(
                    f"{left.store.shown}, which an earlier chaos left, is on another server; odf chaos --store {address} removes it"
                )
                return
            remove(left._replace(store=here), password)
    except UsageError as refused:
        is_final = not isinstance(refused, StoreReadOnly)  # a right can still be granted
        if is_final:
            path.unlink()
        say(f"{path}{' is forgotten' if is_final else ''}: {refused.name}: {refused.message}. {refused.hint}")
    except OdfError as problem:
        say(f"{path}: what an earlier chaos left is still there: {problem.name}: {problem.message}")
    else:
        path.unlink()
        say(f"removed {left.folder} and {left.store.shown}, which an earlier chaos left")


class _Mark:
    """The lock of a scratch's mark; whether it is free, as it also is where there is no mark."""

    def __init__(self, at: Where) -> None:
        self._path = at.folder / MARK
        self._file: IO[str] | None = None

    def __enter__(self) -> bool:
        if self._path.is_symlink() or not self._path.is_file():
            return True
        self._file = self._path.open("r+", encoding="utf-8")
        return _is_free(self._file)

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def _is_free(file: IO[str]) -> bool:
    """Take the lock of a file, unless somebody holds it; a disk without locks has nobody who does."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _set_aside(path: Path, say: Say) -> None:
    """Nobody can read it: it is told once, and never looked at again."""
    aside = path.with_suffix(".unreadable")
    try:
        path.rename(aside)
    except OSError as problem:
        say(f"{path} is no record of a scratch, and cannot be moved: {problem.strerror}")
        return
    say(f"{aside} is no record of a scratch: look for folders that begin with .odf-chaos, then remove it")


def _read(record: IO[str]) -> Where:
    facts: Any = json.loads(record.read(_LARGEST))
    folder, address = Path(facts["folder"]), str(facts["store"])
    if not is_name(folder.name) or not folder.is_absolute():
        raise ValueError
    return Where(folder, place_of(address, folder.name.rpartition("-")[2]))


def _belongs(project: Project, left: Where, url: str) -> bool:
    """Whether a scratch is where this project makes its own: a copy of the project has copies of its records."""
    folders, stores = {project.folder}, {url}
    for each in _environments(project):
        folders |= {Path(root) for root in each.environment.roots if "://" not in root}
        stores.add(store_address(each.environment.store_url, project.folder))
    if not _is_one_of(left.folder.parent, folders):
        return False
    files = {Path(each.removeprefix("sqlite:///")).parent for each in stores if each.startswith("sqlite:///")}
    return not isinstance(left.store, FileScratch) or _is_one_of(left.store.path.parent, files)


def _environments(project: Project) -> Iterator[Project]:
    yield project
    for name in project.environments if project.file is not None else ():
        if name != project.environment.name:
            try:
                yield load(project.file, name)  # type: ignore[arg-type]
            except BadConfig:
                continue  # nobody could have begun a chaos in it


def _is_one_of(folder: Path, folders: set[Path]) -> bool:
    return os.path.realpath(folder) in {os.path.realpath(each) for each in folders}


def _as_used_now(store: ScratchStore, url: str, id: str) -> ScratchStore | None:
    """The same place by the address that is used now, which knows the password; None where that leads elsewhere."""
    if isinstance(store, FileScratch):
        return store
    from ..store.drivers.scratch_schema import is_same_database

    is_server = url.startswith(("postgresql://", "postgres://"))
    return place_of(url, id) if is_server and is_same_database(store.address, url) else None
