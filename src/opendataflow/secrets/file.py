"""Writes secrets to a private file that exists only while the script that reads it runs."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ..errors import UsageError
from .key import to_bytes

SECRET_FILE_PREFIX = ".odf-secret-"


@contextmanager
def secret_file(directory: str | os.PathLike[str], values: Mapping[str, str]) -> Iterator[Path]:
    """Yield a 0600 file of shell-quoted NAME=value lines that exists only inside the block."""
    for name, value in values.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or "\0" in value:
            raise UsageError(f"{name!r} cannot be given in a file", hint="A shell must be able to read name and value.")
    from shlex import quote

    content = to_bytes("".join(f"{name}={quote(value)}\n" for name, value in values.items()))
    path = Path(directory) / f"{SECRET_FILE_PREFIX}{os.urandom(8).hex()}"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        # The lock lasts as long as this process: sweep_secret_files recognises orphans by the missing lock.
        fcntl.flock(handle, fcntl.LOCK_EX)
        with open(handle, "wb", closefd=False) as file:
            file.write(content)
        yield path
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def sweep_secret_files(directory: str | os.PathLike[str]) -> int:
    """Remove the secret files that dead processes left behind, and return their number."""
    removed = 0
    try:
        names = os.listdir(directory)
    except OSError:
        return 0
    for path in [Path(directory, name) for name in names if name.startswith(SECRET_FILE_PREFIX)]:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # An empty file holds no secret; its process may not have locked it yet.
            if os.fstat(handle).st_size:
                path.unlink(missing_ok=True)
                removed += 1
        except OSError:  # the file is in use, or belongs to another user
            pass
        finally:
            os.close(handle)
    return removed
