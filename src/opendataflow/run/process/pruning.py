"""Removes old and surplus logs automatically."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress

KEEP_BYTES = 2**30
KEEP_DAYS = 30.0
MARK = b"# odf log"  # the first bytes of every log
NEW = ".new"  # suffix of a log that is being shortened
BEFORE = ".before"  # suffix of the snapshot of an output at the start of a run

_DAY = 86400.0
_STAMP = ".pruned"


def prune_daily(folder: str | os.PathLike[str]) -> None:
    """Prune at most once a day, when a log is created. Errors are ignored."""
    stamp = os.path.join(folder, _STAMP)
    with suppress(OSError):
        try:
            if abs(time.time() - os.stat(stamp).st_mtime) < _DAY:
                return
        except FileNotFoundError:
            pass
        # Stamp first, so that concurrent processes skip the pruning.
        os.close(os.open(stamp, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        os.utime(stamp)
        prune(folder)


def prune(
    folder: str | os.PathLike[str], *, keep_bytes: int | None = KEEP_BYTES, keep_days: float | None = KEEP_DAYS
) -> int:
    """Remove logs that are too old, then the oldest until the rest is small enough; returns their number.

    Logs in use and files that are not logs are never removed.
    """
    logs: list[tuple[float, int, str]] = []
    folders = [entry.path for entry in _entries(folder) if entry.is_dir(follow_symlinks=False)]
    for entry in (entry for job in folders for entry in _entries(job)):
        if entry.name.endswith((".log", ".log" + NEW, BEFORE)) and entry.is_file(follow_symlinks=False):
            with suppress(OSError):
                facts = entry.stat(follow_symlinks=False)
                logs.append((facts.st_mtime, facts.st_size, entry.path))
    total, removed = sum(size for _, size, _ in logs), 0
    oldest = time.time() - keep_days * _DAY if keep_days is not None else float("-inf")
    for modified, size, path in sorted(logs):
        if (modified < oldest or (keep_bytes is not None and total > keep_bytes)) and _remove_unused(path):
            total -= size
            removed += 1
    for job in folders:
        with suppress(OSError):
            os.rmdir(job)
    return removed


def _remove_unused(path: str) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.pread(handle, len(MARK), 0) not in (MARK, b""):  # empty: the disk was full when the log was created
            return False
        os.unlink(path)
        return True
    except OSError:
        return False
    finally:
        os.close(handle)


def _entries(folder: str | os.PathLike[str]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
