"""The command line: parse, call one function, show."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Sequence

_MANY = 100_000  # objects that are made before garbage is collected among them: what a start makes stays
_INTERRUPTED = 130  # Aborted.exit_code, of a module that may not be imported yet


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script `odf`."""
    try:
        gc.set_threshold(_MANY)
        from .door import open_door

        code = open_door(list(sys.argv[1:] if arguments is None else arguments))
        gc.freeze()  # the rest ends with the process, and is not looked through once more
    except KeyboardInterrupt:  # while modules are imported, or a second one while the first is reported
        code = _INTERRUPTED
    if code == _INTERRUPTED and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a further Ctrl-C ends Python's own end without a traceback
    sys.exit(code)


def run_job(arguments: Sequence[str] | None = None) -> None:
    """The console script `RunJob`: the same as `odf run`."""
    main(["run", *(sys.argv[1:] if arguments is None else arguments)])


def force_job(arguments: Sequence[str] | None = None) -> None:
    """The console scripts `ForceJob` and `ForceCmd`: the same as `odf ForceJob`."""
    main(["ForceJob", *(sys.argv[1:] if arguments is None else arguments)])
