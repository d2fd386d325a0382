"""The worker's own configuration, beside all projects: which folders of others it obeys, and what it lets the store do."""

from __future__ import annotations

import os
import pwd
import shlex
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadConfig
from ..shapes import NamedTuple, fields
from .declared import Trust

if TYPE_CHECKING:
    from .section import Section

CONFIG = "ODF_CONFIG"

_KEYS = tuple(field.name for field in fields(Trust))
_FLAGS = ("sql_checks",)


class Config(NamedTuple):
    """What whoever works here has said, for whichever project."""

    file: str
    safe: tuple[str, ...] = ()
    trust: Trust = Trust()


def read_config() -> Config:
    """The configuration of whoever works here; an empty one where there is no file."""
    named = os.environ.get(CONFIG, "")
    home = os.environ.get("XDG_CONFIG_HOME", "")
    path = named or os.path.join(home if os.path.isabs(home) else os.path.expanduser("~/.config"), "odf", "config.toml")
    try:
        status = os.stat(path)
    except OSError as problem:
        if named:
            raise BadConfig(f"{CONFIG}={path}: {problem.strerror}") from None
        return Config(path)
    if status.st_uid not in _ours():
        raise BadConfig(
            f"{path} belongs to {_user(status.st_uid)}, not to you", hint=f"Name a file of your own by {CONFIG}."
        )
    if status.st_mode & 0o022:
        raise BadConfig(f"{path} can be written by others", hint=f"Take it from them: chmod go-w {path}")
    from .section import Section  # here, since most have no such file
    from .text import read_tables

    root = Section(path, (), read_tables(Path(path)))
    root.only(("safe", "trust"))
    safe = root.texts("safe")
    for folder in safe:
        if not os.path.isabs(folder):
            raise root.wrong("safe", "expected the absolute path of a project's folder")
    return Config(path, safe, read_trust(root.inner("trust")))


def refuse_foreign(file: Path, folder: Path, config: Config | None = None) -> None:
    """Refuse a project file or job code that another user owns or can write: it says what is run and where passwords go."""
    ours = _ours()
    try:  # a link, what it leads to, and the folder, in which the code lies
        found = {file: (os.lstat(file), os.stat(file)), file.parent: (os.stat(file.parent),)}
    except OSError:
        return  # whoever reads it says so
    for path, states in found.items():
        stranger = next((state.st_uid for state in states if state.st_uid not in ours), None)
        if stranger is not None:
            problem = f"{file} belongs to {_user(stranger)}, not to you, and says what is run here"
            mend = "If you trust it, say so"
        elif _is_open(states[-1]):
            problem = f"{path} can be written by every user of this machine, and says what is run here"
            mend = f"Take it from them: chmod o-w {shlex.quote(str(path))}. Or, if you trust them, say so"
        else:
            continue
        config = config or read_config()
        if os.path.realpath(folder) not in map(os.path.realpath, config.safe):
            raise BadConfig(problem, hint=f'{mend} in {config.file}: safe = ["{folder}"]')


def _is_open(state: os.stat_result) -> bool:
    """Whether every user can write a file, or put another in its place in a folder."""
    is_guarded = stat.S_ISDIR(state.st_mode) and state.st_mode & stat.S_ISVTX
    return bool(state.st_mode & stat.S_IWOTH) and not is_guarded


def read_trust(section: Section) -> Trust:
    """What a table [trust] lets definitions in the store do."""
    from .section import FLAG

    section.only(_KEYS)
    said: dict[str, Any] = {
        name: section.get(name, FLAG, False) if name in _FLAGS else section.texts(name) for name in _KEYS
    }
    return Trust(**said)


def together(one: Trust, other: Trust) -> Trust:
    """What at least one of the two allows."""
    said: dict[str, Any] = {}
    for name in _KEYS:
        both = getattr(one, name), getattr(other, name)
        said[name] = any(both) if name in _FLAGS else tuple(dict.fromkeys(both[0] + both[1]))
    return Trust(**said)


def _ours() -> set[int]:
    """Whom we obey: ourselves and root; and, where root works for somebody by sudo, that user too."""
    ours = {os.geteuid(), 0}
    behind = os.environ.get("SUDO_UID", "")
    return ours | {int(behind)} if os.geteuid() == 0 and behind.isascii() and behind.isdigit() else ours


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
