"""Now: what runs at this moment and how long it may take, and how much was published and failed lately."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ..store import Run, Store
from .usual import usual_of

_PERIOD = 300.0  # seconds
_MOST_EVENTS = 20_000  # on a busy store the period is shorter
_MARGIN = 4000  # numbers, by which transactions that overlapped may be out of order
_LISTED = 50


@dataclass(frozen=True, slots=True)
class RunningNow:
    """One run that goes on: how long it has, how long runs of its job usually take, and what is left of that."""

    runid: int
    jobid: str
    dataid: str
    datasetid: str | None  # the first that it writes
    owner: str
    pool: str
    started: datetime | None
    seconds: float
    usual: float | None
    left: float | None
    is_lost: bool  # its lease ran out

    @property
    def part(self) -> float | None:
        """How much of the usual time is over, from 0 to 1."""
        return min(self.seconds / self.usual, 1.0) if self.usual else None


@dataclass(frozen=True, slots=True)
class Rates:
    """What happened to chunks in the last seconds."""

    seconds: float
    announced: int
    published: int
    failed: int
    refused: int

    def per_minute(self, n: int) -> float:
        """So many in the period, as a rate."""
        return n * 60 / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Activity:
    """What goes on: the runs, the longest first and at most 50 of them, and what could run and waits."""

    running: int
    lost: int
    runs: tuple[RunningNow, ...]
    claimable: int  # of each job at most 10,000 are counted
    deferred: int
    rates: Rates


def now(store: Store) -> Activity:
    """What goes on at this moment, in a few looks that cost the same however long the history is."""
    clock = store.views.clock()
    running = sorted(store.views.running(), key=lambda run: (run.started is None, run.started, run.runid))
    figures = store.views.figures_now()
    return Activity(
        len(running),
        sum(_is_lost(run, clock) for run in running),
        tuple(_with_times(store, running[:_LISTED], clock)),
        sum(figures.claimable.values()),
        sum(figures.deferred.values()),
        rates(store, clock),
    )


def rates(store: Store, clock: float) -> Rates:
    """How much was announced, published, failed and refused in the last five minutes, or in less on a busy store."""
    since = datetime.fromtimestamp(clock - _PERIOD, UTC)
    newest = store.views.newest_event()
    floor, begin = max(store.views.event_before(since) - _MARGIN, 0), since
    if newest - floor > _MOST_EVENTS:
        floor = newest - _MOST_EVENTS
        first = next(iter(store.views.events(after=floor, n=1)), None)
        if first is not None and first.at is not None:
            begin = max(since, first.at)
    counts = store.views.event_counts(floor, since)
    seconds = max(clock - begin.timestamp(), 1.0)
    return Rates(seconds, *(counts.get(kind, 0) for kind in ("announced", "published", "failed", "refused")))


def _is_lost(run: Run, clock: float) -> bool:
    return run.lease_until is not None and run.lease_until < clock


def _with_times(store: Store, runs: Iterable[Run], clock: float) -> list[RunningNow]:
    runs = list(runs)
    jobs, usual = store.catalogue().jobs, usual_of(store, [run.jobid for run in runs])
    moment = datetime.fromtimestamp(clock, UTC)
    listed = []
    for run in runs:
        seconds = max((moment - run.started) / timedelta(seconds=1), 0.0) if run.started else 0.0
        usually = usual.get(run.jobid)
        job = jobs.get(run.jobid)
        listed.append(
            RunningNow(
                run.runid,
                run.jobid,
                run.dataid,
                job.outputs[0] if job and job.outputs else None,
                run.owner,
                run.pool,
                run.started,
                seconds,
                usually,
                max(usually - seconds, 0.0) if usually is not None else None,
                _is_lost(run, clock),
            )
        )
    return listed
