"""Reads the worker's configuration: the foreign folders it accepts, and what it trusts definitions in the store to do."""

from __future__ import annotations

import os
import pwd
import shlex
import stat
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import BadConfig
from .settings import Trust

if TYPE_CHECKING:
    from .section import Section

CONFIG = "ODF_CONFIG"

_KEYS = tuple(field.name for field in fields(Trust))
_FLAGS = ("sql_checks",)


class Config(NamedTuple):
    """The configuration of the current user, for all projects."""

    file: str
    safe: tuple[str, ...] = ()
    trust: Trust = Trust()


def read_config() -> Config:
    """The configuration of the current user; empty if there is no file."""
    named = os.environ.get(CONFIG, "")
    home = os.environ.get("XDG_CONFIG_HOME", "")
    path = named or os.path.join(home if os.path.isabs(home) else os.path.expanduser("~/.config"), "odf", "config.toml")
    try:
        status = os.stat(path)
    except OSError as problem:
        if named:
            raise BadConfig(f"{CONFIG}={path}: {problem.strerror}") from None
        return Config(path)
    if status.st_uid not in _trusted_users():
        raise BadConfig(
            f"{path} belongs to {_user(status.st_uid)}, not to you", hint=f"Set {CONFIG} to a file of your own."
        )
    if status.st_mode & 0o022:
        raise BadConfig(f"{path} is writable by other users", hint=f"Remove that permission: chmod go-w {path}")
    from .section import Section  # lazy: most users have no such file
    from .text import read_tables

    root = Section(path, (), read_tables(Path(path)))
    root.only(("safe", "trust"))
    safe = root.texts("safe")
    for folder in safe:
        if not os.path.isabs(folder):
            raise root.wrong("safe", "expected the absolute path of a project's folder")
    return Config(path, safe, read_trust(root.inner("trust")))


def refuse_foreign(file: Path, folder: Path, config: Config | None = None) -> None:
    """Refuse a project file or job code that another user owns or can write: it decides what runs and where passwords go."""
    trusted = _trusted_users()
    try:  # a link, its target, and the folder
        found = {file: (os.lstat(file), os.stat(file)), file.parent: (os.stat(file.parent),)}
    except OSError:
        return  # the reader of the file raises the error
    for path, states in found.items():
        owner = next((state.st_uid for state in states if state.st_uid not in trusted), None)
        if owner is not None:
            problem = f"{path} belongs to {_user(owner)}, not to you, and decides what runs here"
            remedy = "If you trust it, declare that"
        elif _is_open(states[-1]):
            problem = f"{path} is writable by every user of this machine, and decides what runs here"
            remedy = f"Remove that permission: chmod o-w {shlex.quote(str(path))}. Or, if you trust them, declare that"
        else:
            continue
        config = config or read_config()
        if os.path.realpath(folder) not in map(os.path.realpath, config.safe):
            raise BadConfig(problem, hint=f'{remedy} in {config.file}: safe = ["{folder}"]')


def others_can_write(folder: Path) -> bool:
    """Whether another user owns a folder, or every user can create files in it."""
    state = os.stat(folder)
    return state.st_uid not in _trusted_users() or bool(state.st_mode & stat.S_IWOTH)


def _is_open(state: os.stat_result) -> bool:
    """Whether every user can write a file, or replace files in a folder."""
    is_sticky = stat.S_ISDIR(state.st_mode) and state.st_mode & stat.S_ISVTX
    return bool(state.st_mode & stat.S_IWOTH) and not is_sticky


def read_trust(section: Section) -> Trust:
    """What a table [trust] allows definitions in the store."""
    from .section import FLAG

    section.only(_KEYS)
    section.refuse_passwords("the encryptedpass of a dataset")
    values: dict[str, Any] = {
        name: section.get(name, FLAG, False) if name in _FLAGS else section.texts(name) for name in _KEYS
    }
    return Trust(**values)


def union(one: Trust, other: Trust) -> Trust:
    """Everything that at least one of the two allows."""
    values: dict[str, Any] = {}
    for name in _KEYS:
        both = getattr(one, name), getattr(other, name)
        values[name] = any(both) if name in _FLAGS else tuple(dict.fromkeys(both[0] + both[1]))
    return Trust(**values)


def _trusted_users() -> set[int]:
    """The current user, root and, under sudo, the user who called it."""
    trusted = {os.geteuid(), 0}
    caller = os.environ.get("SUDO_UID", "")
    return trusted | {int(caller)} if os.geteuid() == 0 and caller.isascii() and caller.isdigit() else trusted


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
