"""What the unit of docs/how-to/harden.md asks of systemd, made by hand: read-only mounts, private folders, no rights, few calls."""

from __future__ import annotations

import ctypes.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
NEEDED = ("unshare", "mount", "setpriv", "systemd-analyze")
HIDDEN = ("/root", "/home", "/tmp", "/var/tmp")

MOUNTS = """
set -eu
mount -t tmpfs -o mode=0755 none /mnt
{keep}
for path in /root /home; do mount -t tmpfs -o mode=0755 none $path; done
for path in /tmp /var/tmp; do mount -t tmpfs -o mode=1777 none $path; done
{restore}
mount --bind /mnt/srv /srv
for path in {writable}; do mount --bind $path $path; done
mount -t proc -o hidepid=invisible,subset=pid proc /proc
for path in / /mnt /root /home /srv {shown}; do mount -o remount,bind,ro $path; done
umask {umask}
cd {folder}
exec setpriv --reuid nobody --regid nogroup --clear-groups --no-new-privs --bounding-set -all --inh-caps -all "$@"
"""

# Runs inside: only these calls from here on, any other ends with EPERM, as SystemCallErrorNumber says.
FILTER = """
import ctypes, os, sys
library, calls, command = sys.argv[1], sys.argv[2].split(), sys.argv[3:]
seccomp = ctypes.CDLL(library)
seccomp.seccomp_init.restype = ctypes.c_void_p
made = ctypes.c_void_p(seccomp.seccomp_init(0x00050000 | 1))
for name in calls:
    number = seccomp.seccomp_syscall_resolve_name(name.encode())
    assert number < 0 or seccomp.seccomp_rule_add(made, 0x7FFF0000, number, 0) == 0, name
assert seccomp.seccomp_load(made) == 0
os.execvp(command[0], command)
"""


def why_not() -> str:
    """The reason why there can be no sandbox here; empty where there can."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        return f"needs {', '.join(missing)}"
    if os.geteuid() != 0:
        return "needs root, to make mounts and become another user"
    if ctypes.util.find_library("seccomp") is None:
        return "needs libseccomp"
    tried = subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True)
    return "" if tried.returncode == 0 else "mounts are not allowed here"


def settings(unit: str, name: str) -> list[str]:
    """The values of one setting of a unit, in order."""
    return re.findall(rf"^{name}=(.*)$", unit, re.MULTILINE)


def run(unit: str, srv: Path, command: Sequence[str], **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command as the unit would run it, as nobody; what is in `srv` is at /srv."""
    # Our own code may lie where the unit shows nothing: it is put back, read-only.
    code = [Path(path).resolve() for path in (ROOT, sys.prefix, sys.base_prefix)]
    shown = [str(path) for path in code if str(path).startswith(tuple(f"{each}/" for each in HIDDEN))]
    kept = {str(srv): "/mnt/srv", **{path: f"/mnt/{number}" for number, path in enumerate(shown)}}
    script = MOUNTS.format(
        keep="\n".join(f"mkdir {to}; mount --bind {path} {to}" for path, to in kept.items()),
        restore="\n".join(f"mkdir -p {path}; mount --bind {kept[path]} {path}" for path in shown),
        shown=" ".join(shown),
        writable=" ".join(settings(unit, "ReadWritePaths")),
        umask=settings(unit, "UMask")[0],
        folder=settings(unit, "WorkingDirectory")[0],
    )
    library = ctypes.util.find_library("seccomp")
    filtered = [sys.executable, "-c", FILTER, str(library), " ".join(sorted(_calls(unit))), *command]
    return subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "bash", "-c", script, "sandbox", *filtered],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent", **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )


def _calls(unit: str) -> set[str]:
    allowed = _group("@default")
    for line in settings(unit, "SystemCallFilter"):
        for name in line.removeprefix("~").split():
            allowed = allowed - _group(name) if line.startswith("~") else allowed | _group(name)
    return allowed


def _group(name: str) -> set[str]:
    """The calls of a group, as systemd names them."""
    if not name.startswith("@"):
        return {name}
    said = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True)
    lines = [line.strip() for line in said.stdout.splitlines()[1:]]
    return {call for line in lines if line and not line.startswith("#") for call in _group(line)}
