"""The command line: parse, call one function, show."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script `odf`."""
    from .door import open_door

    sys.exit(open_door(list(sys.argv[1:] if arguments is None else arguments)))


def run_job(arguments: Sequence[str] | None = None) -> None:
    """The console script `RunJob`: the same as `odf run`."""
    main(["run", *(sys.argv[1:] if arguments is None else arguments)])


def force_job(arguments: Sequence[str] | None = None) -> None:
    """The console script `ForceJob`: the same as `odf ForceJob`."""
    main(["ForceJob", *(sys.argv[1:] if arguments is None else arguments)])
