"""Inspect the file of the embedded store: its file system, whether WAL is safe there, and whether it was replaced."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from ...errors import StoreMissing

# 3.7.0–3.51.2 can corrupt a WAL file when two connections write and checkpoint together (fixed in these two as well).
_WAL_SAFE_FROM = (3, 51, 3)
_WAL_SAFE_TOO = {(3, 44, 6), (3, 50, 7)}
_MIN_SPACE = 65_536  # bytes that SQLite needs for a new transaction
_NETWORK_FILE_SYSTEMS = {
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "fuse.sshfs",
    "afs",
    "ceph",
    "glusterfs",
    "lustre",
}


def wal_is_safe(version: str, file_system: str) -> tuple[bool, str]:
    """Whether write-ahead logging is safe, and the reason if not."""
    number = tuple(int(part) for part in version.split(".")[:3])
    if number < _WAL_SAFE_FROM and number not in _WAL_SAFE_TOO:
        return False, f"SQLite {version} has the WAL-reset bug"
    if file_system in _NETWORK_FILE_SYSTEMS:
        return False, f"the file lies on a network file system ({file_system})"
    return True, ""


def file_system_of(path: Path, mounts: str | None = None) -> str:
    """The file system type of the mount that holds a path; "" if unknown."""
    if mounts is None:
        try:
            mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
    best, kind = "", ""
    where = str(path.resolve())
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) > 2:
            point = fields[1].replace("\\040", " ")
            inside = where == point or where.startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best):
                best, kind = point, fields[2]
    return kind


def boot_id() -> str:
    """Identifies the current boot of the machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return sys.platform


def utc_now() -> str:
    """The current time in the store's format."""
    now = time.time()
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06d}"


def stat_store(path: str | Path) -> os.stat_result:
    """The stat result of a store's file; StoreMissing if it was removed."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        raise StoreMissing(f"the store {path} was removed", hint="Restore the file or a backup.") from None


def check_same(path: str, opened: os.stat_result) -> None:
    """Refuse a file that replaced the one that is open: writes to the open file would be lost."""
    if not os.path.samestat(stat_store(path), opened):
        raise StoreMissing(
            f"the store {path} was replaced by another file", hint="Restart the program to use the new file."
        )


def has_no_space(path: Path) -> bool:
    """Whether the disk of the store is full."""
    disk = os.statvfs(path.parent)
    return disk.f_bavail * disk.f_frsize < _MIN_SPACE
