"""The command of a launch: what may be run, which file that is, and its start."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from opendataflow.errors import BadConfig, JobFailed


def check_folder(cwd: str | os.PathLike[str]) -> Path:
    """The working directory, which must be one."""
    path = Path(cwd)
    if not path.is_dir():
        raise BadConfig(f"the working directory {path} does not exist or is not a directory")
    return path


def check_words(argv: Sequence[str]) -> None:
    """Refuse words that no program can be given."""
    if not argv or not argv[0]:
        raise BadConfig("there is no command to run")
    for word in argv:
        if "\0" in word:
            raise BadConfig("a word of the command line holds a NUL character")
        _check_encodable(word, "a word of the command line")


def check_environment(env: dict[str, str]) -> dict[str, str]:
    """The environment, which a program must be able to get."""
    for name, value in env.items():
        # Never the value itself: it may be a password.
        if not name or "=" in name or "\0" in name:
            raise BadConfig(f"{name!r} cannot be the name of an environment variable")
        if "\0" in value:
            raise BadConfig(f"the environment variable {name} holds a NUL character")
        _check_encodable(name, f"the name of the environment variable {name!r}")
        _check_encodable(value, f"the environment variable {name}")
    return env


def _check_encodable(text: str, what: str) -> None:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        pass
    else:
        return
    raise BadConfig(f"{what} holds characters that no program can be given")  # out here: no value in a traceback


def find(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> tuple[list[str], str]:
    """The words to run, and the file to execute."""
    name = argv[0]
    path = _locate(name, env, cwd)
    if path is None:
        raise BadConfig(f"there is no command {name!r}", hint=f"It is neither on the PATH nor a file in {cwd}.")
    full = cwd / path
    if full.is_dir():
        raise BadConfig(f"{name} is a directory, not a command")
    if not full.exists():
        raise BadConfig(f"there is no file {name}", hint=f"It was looked for in {cwd}.")
    if os.access(full, os.X_OK):
        return list(argv), path
    interpreter = _named_interpreter(full) or _usual_interpreter(path, env, cwd)
    if interpreter is None:
        raise BadConfig(f"{name} is not executable", hint=f"chmod +x {full}, or name it .sh or .py.")
    return [*interpreter, path, *argv[1:]], interpreter[0]


def _locate(name: str, env: Mapping[str, str], cwd: Path) -> str | None:
    if "/" in name:
        return f"./{name}" if name.startswith("-") else name
    here = cwd / name
    # A script is a file of the project; what has no such suffix is a command, and must not be shadowed by a stray file.
    if name.endswith((".sh", ".py")) and here.is_file():
        return f"./{name}"
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        full = cwd / folder / name
        if full.is_file() and os.access(full, os.X_OK):
            return str(full)
    return f"./{name}" if here.is_file() else None


def _named_interpreter(path: Path) -> list[str] | None:
    """What the first line of a script asks for, read as the kernel reads it."""
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


def start(
    command: list[str], executable: str, env: dict[str, str], cwd: Path, stdin: int | None
) -> subprocess.Popen[bytes]:
    """The process, in a session of its own; without `stdin` its input is empty."""

    def run(words: list[str], file: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            words,
            executable=file,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )

    try:
        try:
            return run(command, executable)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
        # No format the kernel knows and no first line that names an interpreter: what a shell would do.
        interpreter = _usual_interpreter(executable, env, cwd) or [_shell(env, cwd)]
        return run([*interpreter, executable, *command[1:]], interpreter[0])
    except OSError as error:
        raise _not_started(command[0], executable, cwd, error) from None


def _not_started(name: str, executable: str, cwd: Path, error: OSError) -> BadConfig | JobFailed:
    if error.errno == errno.E2BIG:
        return BadConfig(f"{name} cannot be started: its arguments and environment are too large for the system")
    if error.errno == errno.ENOENT and (cwd / executable).exists():
        wanted = _named_interpreter(cwd / executable)
        return BadConfig(f"{name} cannot be started: its interpreter {wanted[0] if wanted else ''} does not exist")
    if error.errno in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG):
        return BadConfig(f"{name} cannot be started: {error.strerror}")
    # Too many processes or files, too little memory, a file being written: another time it may work.
    return JobFailed(f"{name} cannot be started: {error.strerror}")
