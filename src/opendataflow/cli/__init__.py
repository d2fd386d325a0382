"""The command line: parse, call one function, show."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

_MANY = 100_000  # objects that are made before anybody looks for garbage among them: what a start makes stays


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script `odf`."""
    gc.set_threshold(_MANY)
    from .door import open_door

    code = open_door(list(sys.argv[1:] if arguments is None else arguments))
    gc.freeze()  # the rest ends with the process, and is not looked through once more
    sys.exit(code)


def run_job(arguments: Sequence[str] | None = None) -> None:
    """The console script `RunJob`: the same as `odf run`."""
    main(["run", *(sys.argv[1:] if arguments is None else arguments)])


def force_job(arguments: Sequence[str] | None = None) -> None:
    """The console script `ForceJob`: the same as `odf ForceJob`."""
    main(["ForceJob", *(sys.argv[1:] if arguments is None else arguments)])
