"""Points at which a test, or `odf chaos`, may break this process. They do nothing unless its environment armed one of them.

`ODF_FAULT="in commit"` names a point, `ODF_FAULT="in commit:3"` the third time that it is reached, and `ODF_FAULT="*:17"` the
17th point of whatever name. There the process kills itself; where `ODF_FAULT_FILE` names a file, it writes its process id
into it and waits until somebody has removed it. Nothing that the process starts inherits either variable.
"""

from __future__ import annotations

import os
from collections.abc import Callable, MutableMapping

Point = Callable[..., None]  # of a name, or of a moment (before, in, after) and the step that it is a moment of


def _pass(name: str, step: str = "", /) -> None:
    """Nothing is armed."""


def armed(fault: str, file: str) -> Point:
    """What happens at each point: nothing, until the one that is named was reached often enough."""
    import signal
    import threading

    from .pause import pause

    wanted, _, times = fault.partition(":")
    left = int(times) if times.isdigit() else 1
    lock = threading.Lock()

    def point(name: str, step: str = "", /) -> None:
        nonlocal left
        name = f"{name} {step}".rstrip()
        if wanted not in (name, "*"):
            return
        with lock:
            left -= 1
            is_here = left == 0
        if not is_here:
            return
        if not file:
            os.kill(os.getpid(), signal.SIGKILL)
        with open(f"{file}.new", "w", encoding="utf-8") as told:
            told.write(f"{os.getpid()} {name}")
        os.rename(f"{file}.new", file)
        while os.path.exists(file):
            pause(0.01)

    return point


def _from(environ: MutableMapping[str, str]) -> Point:
    fault, file = environ.pop("ODF_FAULT", ""), environ.pop("ODF_FAULT_FILE", "")
    return armed(fault, file) if fault else _pass


point = _from(os.environ)
