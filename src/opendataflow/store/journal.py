"""Journal: the file of the embedded store, and whether it may use write-ahead logging where that lies."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from ..errors import StoreMissing

# Two connections that write and checkpoint together can corrupt a WAL file in 3.7.0–3.51.2 (fixed in these two as well).
_WAL_SAFE_FROM = (3, 51, 3)
_WAL_SAFE_TOO = {(3, 44, 6), (3, 50, 7)}
_LEAST_SPACE = 65_536  # bytes that SQLite needs to begin anything
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
    """Whether write-ahead logging may be used, and why not."""
    number = tuple(int(part) for part in version.split(".")[:3])
    if number < _WAL_SAFE_FROM and number not in _WAL_SAFE_TOO:
        return False, f"SQLite {version} has the WAL-reset bug"
    if file_system in _NETWORK_FILE_SYSTEMS:
        return False, f"the file lies on a network file system ({file_system})"
    return True, ""


def file_system_of(path: Path, mounts: str | None = None) -> str:
    """The type of the mount that holds a path, or "" where the machine does not tell."""
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
    """What tells one start of this machine from the next."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return sys.platform


def utc_now() -> str:
    """The time as the store writes it."""
    now = time.time()
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06d}"


def found_at(path: str | Path) -> os.stat_result:
    """The file of a store as it lies there; StoreMissing when it does not any more."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        raise StoreMissing(f"there is no store at {path} any more", hint="Put it back, or restore a backup.") from None


def check_same(path: str, opened: os.stat_result) -> None:
    """Refuse a file that was put in the place of the one that is open: nobody would see what is written to that."""
    if not os.path.samestat(found_at(path), opened):
        raise StoreMissing(f"the store {path} is another file than it was", hint="Start again, and look at that one.")


def has_no_space(path: Path) -> bool:
    """Whether the disk of a store is full."""
    disk = os.statvfs(path.parent)
    return disk.f_bavail * disk.f_frsize < _LEAST_SPACE
