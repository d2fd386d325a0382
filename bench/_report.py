"""How a benchmark speaks: one line per figure, one line per bar, exit 1 on a MISS."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from functools import cache

_missed: list[str] = []


@cache
def _head() -> None:
    load = " ".join(f"{load:.1f}" for load in os.getloadavg())
    when = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    print(f"# {when}, {os.cpu_count()} cores, load {load}; a ratio is the median of its rounds", file=sys.stderr)


def say(what: str) -> None:
    """Tell whoever waits what is being done, apart from the figures."""
    _head()
    print(f"# {what}", file=sys.stderr, flush=True)


def figure(name: str, value: float, unit: str) -> None:
    """Print one measured figure."""
    _head()
    shown = value if isinstance(value, int) else f"{value:.4g}"
    print(f"{name} {shown} {unit}", flush=True)


def bar(name: str, value: float, limit: float, *, at_least: bool) -> None:
    """Print one bar, and remember a miss."""
    _head()
    ok = value >= limit if at_least else value <= limit
    shown = value if isinstance(value, int) else f"{value:.3g}"
    print(f"{name} {shown} (bar {'>=' if at_least else '<='} {limit:g}) {'ok' if ok else 'MISS'}", flush=True)
    if not ok:
        _missed.append(name)


def finish() -> None:
    """End the benchmark with the exit code that its bars deserve."""
    if _missed:
        print("missed: " + ", ".join(_missed), file=sys.stderr)
    sys.exit(1 if _missed else 0)
