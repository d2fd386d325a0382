"""Journal: whether the embedded store may use write-ahead logging where its file lies."""

from __future__ import annotations

import sys
from pathlib import Path

# Two connections that write and checkpoint together can corrupt a WAL file in 3.7.0–3.51.2 (fixed in these two as well).
_WAL_SAFE_FROM = (3, 51, 3)
_WAL_SAFE_TOO = {(3, 44, 6), (3, 50, 7)}
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
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return sys.platform
