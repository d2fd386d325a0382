"""How long a run takes, and how long runs of its job usually take."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from statistics import median

from ..model import READY
from ..store import Run, Store
from .words import duration

_LAST = 20  # good runs of a job
_LOOK_BACK = 4000  # runs of all jobs
_RARE = 50  # jobs that did not run well lately and are asked one by one


def usual_of(store: Store, jobids: Iterable[str]) -> dict[str, float]:
    """How long the last good runs of these jobs took, in the middle, without jobs that have none. Every view uses this function."""
    wanted = list(dict.fromkeys(jobids))
    seconds: dict[str, list[float]] = {}
    for each in store.views.took(wanted, _LOOK_BACK, _LAST) if wanted else ():
        seconds.setdefault(each.jobid, []).append(each.seconds)
    for jobid in [jobid for jobid in wanted if jobid not in seconds][:_RARE]:
        good = [run for run in store.views.runs(jobid=jobid, n=_LAST) if run.status == READY]
        took = [(run.ended - run.started).total_seconds() for run in good if run.started and run.ended]
        if took:
            seconds[jobid] = took
    return {jobid: median(each) for jobid, each in seconds.items()}


def usual_seconds(store: Store, jobid: str) -> float | None:
    """How long a job usually takes; None when it never ran well."""
    return usual_of(store, [jobid]).get(jobid)


def seconds_so_far(run: Run) -> float:
    """How long a run has been running."""
    return max((datetime.now(UTC) - run.started).total_seconds(), 0.0) if run.started else 0.0


def so_far(store: Store, run: Run) -> str:
    """How long a run has been running, and how long its job usually takes."""
    usual = usual_seconds(store, run.jobid)
    known = f", usually {duration(usual)}" if usual is not None else ""
    return f"{duration(seconds_so_far(run))} so far{known}"
