"""Scratch: a project, a store and data of chaos's own, beside the user's, marked as such; only what is marked is removed."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ..errors import BadConfig, NoSpace, OdfError, StoreTaken
from ..model import Dataset
from ..project import Project
from ..project.locations import store_address
from ..secrets import Key, dataset_context, encrypt
from ..spark.settings import spark_settings
from .places import ScratchStore, place_of
from .plan import Settings

TEMPLATES = Path(__file__).parent.parent / "templates"
MARK = ".odf-chaos"
is_name = re.compile(r"\.odf-chaos-[0-9a-f]{8}").fullmatch
_LEAST_SPACE = 200_000_000  # bytes; a run needs a hundredth of it, and the disk is the user's
_ROWS = 50  # of a raw file


class Where(NamedTuple):
    """Where a scratch is: its folder, what its store is called, and why it is not where one would look for it."""

    folder: Path
    store: ScratchStore
    note: str = ""

    @property
    def id(self) -> str:
        """What tells it from every other scratch."""
        return self.folder.name.rpartition("-")[2]


class Scratch(NamedTuple):
    """A scratch that is there: its project's folder, the address of its store, and two secrets that nothing may show.

    The key is in the environment of the workers, the password that it decrypts in that of their scripts.
    """

    where: Where
    store_url: str
    key: str
    password: str

    @property
    def folder(self) -> Path:
        return self.where.folder

    @property
    def project_file(self) -> Path:
        return self.folder / "dataflow.toml"

    @property
    def logs(self) -> Path:
        """What the workers said."""
        return self.folder / ".odf" / "workers"


def state_of(project: Project) -> Path:
    """The folder in which the project keeps what chaos remembers."""
    return project.logs.parent


def where(project: Project, store_url: str) -> Where:
    """Where a new scratch would be: on the disk of the data, and in the database or on the disk of the store."""
    name = secrets.token_hex(4)
    folder, note = project.folder, ""
    local = [root for root in project.environment.roots if "://" not in root]
    if not local:
        note = "the environment has no local root: its data is not where yours is"
    elif not os.path.isdir(local[0]):
        note = f"{local[0]} is not there yet: its data is beside the project"
    else:
        folder = Path(local[0])
    return Where(folder / f"{MARK}-{name}", place_of(store_address(store_url, project.folder), name), note)


def check(at: Where, password: str | None) -> None:
    """Refuse before anything is made: a full disk, a folder that cannot be written, a store that cannot be had."""
    folder = at.folder.parent
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadConfig(f"{folder} cannot be written, and the data of the scratch would be there")
    if shutil.disk_usage(folder).free < _LEAST_SPACE:
        raise NoSpace(f"{folder} has less than 200 MB left", hint="Chaos never fills a disk: free some space.")
    at.store.check(password)


@contextmanager
def made(project: Project, at: Where, password: str | None, settings: Settings, *, keep: bool) -> Iterator[Scratch]:
    """A scratch that is removed at the end, unless it is to be kept; its mark says meanwhile that we live."""
    with _recorded(project, at) as record, ExitStack() as held:
        try:
            at.folder.mkdir(mode=0o700)
        except OSError:
            record.unlink()
            raise
        has_store = True
        try:
            held.enter_context(_marked(at))
            key, secret = secrets.token_hex(16), secrets.token_hex(16)
            _fill(at.folder, project, settings, encrypt(secret, Key(key), dataset_context(Dataset("made"))))
            try:
                url = at.store.create(password)
            except StoreTaken:
                has_store = False  # what is there under its name is not ours
                raise
            yield Scratch(at, url, key, secret)
        finally:
            if not keep:
                remove(at, password, has_store=has_store)
            record.unlink(missing_ok=True)  # what could not be removed, the next chaos finds by it


def remove(at: Where, password: str | None, *, has_store: bool = True) -> None:
    """Remove a scratch whose lock the caller holds: its store, and its folder; refuses whatever is not marked as one."""
    is_marked = _is_marked(at)
    try:
        if has_store:
            at.store.remove(password, is_marked=is_marked)
    except OdfError:
        remove_folder(at)  # what a server keeps has a mark of its own, and may be out of reach for long
        raise
    remove_folder(at)


def remove_folder(at: Where) -> None:
    """Remove the folder of a scratch, the mark last: a process that is killed meanwhile leaves one that is recognised."""
    if not _is_marked(at):
        return
    for path in at.folder.iterdir():
        if path.name != MARK:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    (at.folder / MARK).unlink()
    at.folder.rmdir()


def _is_marked(at: Where) -> bool:
    """Whether the folder is there and says that it is this scratch; BadConfig where it is something else."""
    if at.folder.is_symlink() or not at.folder.is_dir():
        return False
    mark = at.folder / MARK
    if is_name(at.folder.name):
        if not mark.is_symlink() and mark.is_file() and mark.read_bytes() == at.id.encode():
            return True
        with suppress(OSError):  # its process was killed at once: it is empty
            at.folder.rmdir()
            return False
    raise BadConfig(f"{at.folder} is not a scratch of odf chaos", hint="Nothing of it was removed. Look into it.")


# That it lives ------------------------------------------------------------------------------------------------------


def records_of(project: Project) -> Path:
    """The folder in which a project remembers its scratches."""
    return state_of(project) / "chaos"


def is_recorded(project: Project, at: Where) -> bool:
    """Whether something of a scratch is left, which the next chaos removes."""
    return (records_of(project) / f"{at.id}.json").exists()


@contextmanager
def _recorded(project: Project, at: Where) -> Iterator[Path]:
    folder = records_of(project)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{at.id}.json"
    new = path.with_suffix(".new")  # no process finds it before it is locked and whole
    with new.open("x", encoding="utf-8") as record:
        fcntl.flock(record, fcntl.LOCK_EX)
        record.write(json.dumps({"folder": str(at.folder), "store": at.store.address}))
        record.flush()
        new.rename(path)
        try:
            yield path
        finally:
            with suppress(OSError):  # not where the report, or another scratch, is
                folder.rmdir()
                folder.parent.rmdir()


@contextmanager
def _marked(at: Where) -> Iterator[None]:
    """Mark a folder as this scratch, and hold the lock of the mark: a record can be copied, the scratch is there once."""
    with (at.folder / MARK).open("x", encoding="utf-8") as mark:
        with suppress(OSError):  # a disk without locks: then only the record is locked
            fcntl.flock(mark, fcntl.LOCK_EX)
        mark.write(at.id)
        mark.flush()
        yield


# What is in it ------------------------------------------------------------------------------------------------------


def dataids(chunks: int) -> list[str]:
    """The chunks of the scratch flow."""
    return [str(number) for number in range(1, chunks + 1)]


def golden(chunks: int, spark: bool) -> dict[tuple[str, str], bytes]:
    """What every chunk must hold in the end."""
    found: dict[tuple[str, str], bytes] = {}
    for dataid in dataids(chunks):
        made_of = f"made of\n{_raw(dataid)}"
        found["made", dataid] = made_of.encode()
        found["used", dataid] = f"{made_of.upper()}used {dataid}\n".encode()
        if spark:
            found["counted", dataid] = f"dataid,count\n{dataid},{_ROWS}\n".encode()
    return found


def _raw(dataid: str) -> str:
    rows = (f"{dataid},{number},row {number} of {dataid}\n" for number in range(_ROWS))
    return f"dataid,number,text\n{''.join(rows)}"


def _fill(folder: Path, project: Project, settings: Settings, token: str) -> None:
    text = (TEMPLATES / "chaos" / "dataflow.toml").read_text(encoding="utf-8").replace('"TOKEN"', f'"{token}"')
    names = ["jobs/make.sh", "jobs/use.sh"]
    if settings.spark:
        text += (TEMPLATES / "chaos" / "spark.toml").read_text(encoding="utf-8")
        for key, value in spark_settings(project.spark).items():
            text += f"{json.dumps(key)} = {json.dumps(value)}\n"
        names.append("jobs/count.py")
    for name in names:
        target = folder / name
        target.parent.mkdir(exist_ok=True)
        target.write_text((TEMPLATES / "chaos" / name).read_text(encoding="utf-8"), encoding="utf-8")
        target.chmod(0o700)
    (folder / "dataflow.toml").write_text(text, encoding="utf-8")
    raw = folder / "data" / "raw"
    raw.mkdir(parents=True)
    for dataid in dataids(settings.chunks):
        (raw / f"{dataid}.csv").write_text(_raw(dataid), encoding="utf-8")
