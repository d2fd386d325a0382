"""Count the state and the history for monitoring; each event is counted once, from where the last count ended."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ..drivers.base import Transaction
from ..rows import JobCount, StatusCount, compact
from .view import View

BUCKETS = (
    0.1,
    1.0,
    5.0,
    15.0,
    60.0,
    300.0,
    900.0,
    3600.0,
    14400.0,
    86400.0,
)  # seconds; must match query run_counts
_MOST_CLAIMABLE = 10_000  # upper limit per job
_PAGE = 100_000  # runs or events per call


class RunningCount(NamedTuple):
    """The number of running chunks of a job in a pool, and of those with an expired lease."""

    jobid: str
    pool: str
    n: int
    expired: int


class RunCount(NamedTuple):
    """The number of attempts of a job with one outcome and duration bucket; new ones were not counted before."""

    jobid: str
    status: str
    outcome: str | None
    is_new: int
    bucket: int
    n: int
    seconds: float


class NameCount(NamedTuple):
    """A count with a name."""

    name: str
    n: int


class CountsNow(NamedTuple):
    """The current counts: chunks that are not READY, candidates and runs."""

    unsettled: list[StatusCount]
    claimable: dict[str, int]
    deferred: dict[str, int]
    running: list[RunningCount]
    messages: dict[str, int]


class Cursor(NamedTuple):
    """A position in the history: the last counted run and event, and the runs that were unfinished then."""

    runid: int = 0
    eventid: int = 0
    running: frozenset[int] = frozenset()


class Since(NamedTuple):
    """Counts since a cursor, the next cursor, and whether the end of the history is reached."""

    runs: list[RunCount]
    refusals: dict[str, int]
    mark: Cursor
    is_all: bool


class CountViews(View):
    """Counts whose cost does not grow with the number of chunks or the length of the history."""

    def figures_now(self) -> CountsNow:
        """The current counts; claimable chunks are counted up to 10,000 per job."""

        def work(tx: Transaction) -> CountsNow:
            claimable = tx.fetch(JobCount._make, "claimable_counts", most=_MOST_CLAIMABLE)
            return CountsNow(
                tx.fetch(StatusCount._make, "unsettled_counts"),
                {jobid: n for jobid, n in claimable if n},
                dict(tx.fetch(JobCount._make, "deferred_counts")),
                tx.fetch(RunningCount._make, "running_counts"),
                dict(tx.fetch(NameCount._make, "message_counts")),
            )

        return self._read(work)

    def unsettled_counts(self, most: int) -> dict[str, dict[str, int]]:
        """The number of chunks by dataset and status other than READY, counted up to `most`."""
        counts: dict[str, dict[str, int]] = {}
        for datasetid, status, n in self._fetch(StatusCount._make, "unsettled_bounded", most=most):
            counts.setdefault(datasetid, {})[status] = n
        return counts

    def datasets_with_chunks(self) -> set[str]:
        """The datasets with at least one chunk."""
        return set(self._values("datasets_with_chunks"))

    def newest(self) -> Cursor:
        """The cursor at the end of the history."""
        return self._read(_newest)

    def figures_since(self, mark: Cursor, until: Cursor | None = None) -> Since:
        """Counts between two cursors, or up to now; at most 100,000 runs and events per call."""

        def work(tx: Transaction) -> Since:
            end = until or _newest(tx)
            running: Collection[int] = frozenset(tx.values("running_runids"))
            runid = max(min(mark.runid + _PAGE, end.runid), mark.runid)
            eventid = max(min(mark.eventid + _PAGE, end.eventid), mark.eventid)
            over = sorted(mark.running - frozenset(running))
            runs = tx.fetch(RunCount._make, "run_counts", after=mark.runid, upto=runid, ended=compact(over))
            names = tx.fetch(NameCount._make, "refusal_counts", after=mark.eventid, upto=eventid)
            open_runs = frozenset(each for each in running if each <= runid)
            is_all = runid >= end.runid and eventid >= end.eventid
            return Since(runs, dict(names), Cursor(runid, eventid, open_runs), is_all)

        return self._read(work)

    def added_up(self, name: str) -> int:
        """The value of such a counter; 0 by default."""
        return int(self._value("counter", name=name) or 0)


def _newest(tx: Transaction) -> Cursor:
    return Cursor(int(tx.value("newest_run") or 0), int(tx.value("newest_event") or 0))
