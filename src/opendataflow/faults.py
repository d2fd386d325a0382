"""Fault points at which a test or `odf chaos` can kill or stop this process; no-ops unless the environment arms one.

`ODF_FAULT="in commit"` names a point, `ODF_FAULT="in commit:3"` its third occurrence, and `ODF_FAULT="*:17"` the 17th point
of any name. There the process kills itself. If `ODF_FAULT_FILE` names a file, the process writes its process id to that
file and waits until the file is removed. Child processes inherit neither variable.
"""

from __future__ import annotations

import os
from collections.abc import Callable, MutableMapping

Point = Callable[..., None]  # called with a name, or with a phase (before, in, after) and a step


def _pass(name: str, step: str = "", /) -> None:
    """The point of a process in which no fault is armed."""


def armed(fault: str, file: str) -> Point:
    """The point function that triggers a fault at the given occurrence of a point."""
    import signal
    import threading

    from .pause import pause

    target, _, times = fault.partition(":")
    left = int(times) if times.isdigit() else 1
    lock = threading.Lock()

    def point(name: str, step: str = "", /) -> None:
        nonlocal left
        name = f"{name} {step}".rstrip()
        if target not in (name, "*"):
            return
        with lock:
            left -= 1
            is_due = left == 0
        if not is_due:
            return
        if not file:
            os.kill(os.getpid(), signal.SIGKILL)
        with open(f"{file}.new", "w", encoding="utf-8") as handle:
            handle.write(f"{os.getpid()} {name}")
        os.rename(f"{file}.new", file)
        while os.path.exists(file):
            pause(0.01)

    return point


def _from(environ: MutableMapping[str, str]) -> Point:
    fault, file = environ.pop("ODF_FAULT", ""), environ.pop("ODF_FAULT_FILE", "")
    return armed(fault, file) if fault else _pass


point = _from(os.environ)
