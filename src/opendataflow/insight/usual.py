"""How long a run takes, and how long runs of its job usually take."""

from __future__ import annotations

from datetime import UTC, datetime
from statistics import median

from ..model import READY
from ..store import Run, Store
from .words import duration

_LAST = 20


def usual_seconds(store: Store, jobid: str) -> float | None:
    """How long a job's last good runs took, in the middle; None when there are none."""
    took = [
        (run.ended - run.started).total_seconds()
        for run in store.runs(jobid=jobid, n=_LAST)
        if run.status == READY and run.started and run.ended
    ]
    return median(took) if took else None


def seconds_so_far(run: Run) -> float:
    """How long a run has been running."""
    return max((datetime.now(UTC) - run.started).total_seconds(), 0.0) if run.started else 0.0


def so_far(store: Store, run: Run) -> str:
    """How long a run has been running, and how long its job usually takes."""
    usual = usual_seconds(store, run.jobid)
    known = f", usually {duration(usual)}" if usual is not None else ""
    return f"{duration(seconds_so_far(run))} so far{known}"
