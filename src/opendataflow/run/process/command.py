"""Finds the program of a command, checks it, and starts its process."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import BadConfig, JobFailed
from ...secrets import child_environment
from . import reaper
from .process_group import ProcessGroup
from .process_tree import MARKER

Child = reaper.Reaped | ProcessGroup


@dataclass(frozen=True, slots=True)
class Command:
    """The words, environment and working directory of a command; without `stdin` its input is empty."""

    argv: str | Sequence[str | os.PathLike[str]]
    env: Mapping[str, str] = field(repr=False)  # it may hold passwords
    cwd: str | os.PathLike[str]
    stdin: int | None = None

    def words(self) -> list[str]:
        """The words of the command line."""
        return [self.argv] if isinstance(self.argv, str) else [os.fspath(word) for word in self.argv]

    def program(self) -> Program:
        """Find the program of this command, and check it without starting it."""
        words, cwd = self.words(), Path(self.cwd)
        if not cwd.is_dir():
            raise BadConfig(f"the working directory {cwd} does not exist or is not a directory")
        _check_words(words)
        # Defence in depth: remove key variables again.
        env = child_environment(self.env)
        _check_environment(env)
        words, executable = _find(words, env, cwd)
        return Program(words, executable, env, cwd, self.stdin)


@dataclass(frozen=True, slots=True)
class Program:
    """A resolved command: the words to run, and the file to execute."""

    words: list[str]
    executable: str
    env: dict[str, str] = field(repr=False)
    cwd: Path
    stdin: int | None

    def start(self) -> Child:
        """Start the process as the leader of a new session."""
        try:
            try:
                return self._run(self.words, self.executable)
            except OSError as error:
                if error.errno != errno.ENOEXEC:
                    raise
            # The kernel knows no format and no interpreter: do as a shell does.
            interpreter = _usual_interpreter(self.executable, self.env, self.cwd) or [_shell(self.env, self.cwd)]
            return self._run([*interpreter, self.executable, *self.words[1:]], interpreter[0])
        except OSError as error:
            raise _not_started(self.words[0], self.executable, self.cwd, error) from None

    def _run(self, words: list[str], file: str) -> Child:
        def begin(**streams: Any) -> subprocess.Popen[bytes]:
            stdin = subprocess.DEVNULL if self.stdin is None else self.stdin
            place: Any = {"executable": file, "env": self.env, "cwd": self.cwd, "stdin": stdin}
            return subprocess.Popen(words, bufsize=0, start_new_session=True, **place, **streams)

        if sys.platform == "linux":
            return reaper.start(begin, self.stdin, self.env.get(MARKER, ""))
        return ProcessGroup(begin)


def _check_words(argv: Sequence[str]) -> None:
    if not argv or not argv[0]:
        raise BadConfig("there is no command to run")
    for word in argv:
        if "\0" in word:
            raise BadConfig("NUL bytes are not allowed in the command line")
        _check_encodable(word, "a word of the command line")


def _check_environment(env: Mapping[str, str]) -> None:
    for name, value in env.items():
        # Never the value: it may be a password.
        if not name or "=" in name or "\0" in name:
            raise BadConfig(f"{name!r} is not a valid name of an environment variable")
        if "\0" in value:
            raise BadConfig(f"NUL bytes are not allowed in the environment variable {name}")
        _check_encodable(name, f"the name of the environment variable {name!r}")
        _check_encodable(value, f"the environment variable {name}")


def _check_encodable(text: str, what: str) -> None:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        pass
    else:
        return
    raise BadConfig(f"{what} contains characters that cannot be encoded")  # outside `except`: no value in a traceback


def _find(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> tuple[list[str], str]:
    """The words to run, and the file to execute."""
    name = argv[0]
    path = _locate(name, env, cwd)
    if path is None:
        raise BadConfig(f"there is no command {name!r}", hint=f"Not on the PATH and no file in {cwd}.")
    full = cwd / path
    if full.is_dir():
        raise BadConfig(f"{name} is a directory, not a command")
    if not full.exists():
        raise BadConfig(f"there is no file {name}", hint=f"The working directory is {cwd}.")
    if os.access(full, os.X_OK):
        return list(argv), path
    interpreter = _named_interpreter(full) or _usual_interpreter(path, env, cwd)
    if interpreter is None:
        raise BadConfig(f"{name} is not executable", hint=f"Run: chmod +x {full}; or name it .sh or .py.")
    return [*interpreter, path, *argv[1:]], interpreter[0]


def _locate(name: str, env: Mapping[str, str], cwd: Path) -> str | None:
    if "/" in name:
        return f"./{name}" if name.startswith("-") else name
    here = cwd / name
    # With a script suffix, a file here takes precedence; without one, a stray file must not shadow a command.
    if name.endswith((".sh", ".py")) and here.is_file():
        return f"./{name}"
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        full = cwd / folder / name
        if full.is_file() and os.access(full, os.X_OK):
            return str(full)
    return f"./{name}" if here.is_file() else None


def _named_interpreter(path: Path) -> list[str] | None:
    """The interpreter in the first line of a script, parsed as the kernel does."""
    try:
        with open(path, "rb") as file:
            first = file.readline(512)
    except OSError as error:
        raise BadConfig(f"{path} cannot be read: {error.strerror}") from None
    words = first[2:].strip().split(None, 1) if first.startswith(b"#!") else []
    return [os.fsdecode(word) for word in words] or None


def _usual_interpreter(path: str, env: Mapping[str, str], cwd: Path) -> list[str] | None:
    if path.endswith(".py"):
        return [sys.executable]
    if path.endswith(".sh"):
        return [_shell(env, cwd)]
    return None


def _shell(env: Mapping[str, str], cwd: Path) -> str:
    return _locate("bash", env, cwd) or "/bin/sh"


def _not_started(name: str, executable: str, cwd: Path, error: OSError) -> BadConfig | JobFailed:
    if error.errno == errno.E2BIG:
        return BadConfig(f"{name} cannot be started: its arguments and environment are too large for the system")
    if error.errno == errno.ENOENT and (cwd / executable).exists():
        with open(cwd / executable, "rb") as file:
            if file.readline(256).endswith(b"\r\n"):
                return BadConfig(
                    f"{name} cannot be started: it has Windows line ends (CRLF)",
                    hint=f"Remove the carriage returns: sed -i 's/\\r$//' {name}",
                )
        interpreter = _named_interpreter(cwd / executable) or [""]
        return BadConfig(f"{name} cannot be started: its interpreter {interpreter[0]} does not exist")
    if error.errno in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG):
        return BadConfig(f"{name} cannot be started: {error.strerror}")
    # Transient: too many processes or files, too little memory, a file being written.
    return JobFailed(f"{name} cannot be started: {error.strerror}")
