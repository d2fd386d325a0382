"""Figures: counts for machines that watch. What history says is counted once, from where the last look ended."""

from __future__ import annotations

from collections.abc import Collection

from ..shapes import NamedTuple
from .backend import Transaction
from .rows import JobCount, StatusCount, compact
from .session import Session

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
)  # seconds, as the query run_counts has them
_MOST_CLAIMABLE = 10_000  # that are counted for one job
_PAGE = 100_000  # runs or events that one look goes through


class RunningCount(NamedTuple):
    """How many chunks of a job run in a pool, and how many of these runs have lost their lease."""

    jobid: str
    pool: str
    n: int
    expired: int


class RunCount(NamedTuple):
    """How many attempts of a job ended in one way and took about as long; new ones were never counted before."""

    jobid: str
    status: str
    outcome: str | None
    is_new: int
    bucket: int
    n: int
    seconds: float


class NameCount(NamedTuple):
    """How many there are of a name."""

    name: str
    n: int


class Now(NamedTuple):
    """What is so at this moment: chunks that are not READY, and what could run, waits and runs."""

    unsettled: list[StatusCount]
    claimable: dict[str, int]
    deferred: dict[str, int]
    running: list[RunningCount]
    messages: dict[str, int]


class Mark(NamedTuple):
    """How far history was counted: the last run and event, and the runs that were not over then."""

    runid: int = 0
    eventid: int = 0
    running: frozenset[int] = frozenset()


class Since(NamedTuple):
    """What history says since a mark, the mark to go on from, and whether that is the end of it."""

    runs: list[RunCount]
    refusals: dict[str, int]
    mark: Mark
    is_all: bool


class Figures(Session):
    """Counts that cost little, whatever the number of chunks and the length of the history."""

    def figures_now(self) -> Now:
        """What is so at this moment; what a job could take is counted up to 10,000."""

        def work(tx: Transaction) -> Now:
            claimable = tx.fetch(JobCount._make, "claimable_counts", most=_MOST_CLAIMABLE)
            return Now(
                tx.fetch(StatusCount._make, "unsettled_counts"),
                {jobid: n for jobid, n in claimable if n},
                dict(tx.fetch(JobCount._make, "deferred_counts")),
                tx.fetch(RunningCount._make, "running_counts"),
                dict(tx.fetch(NameCount._make, "message_counts")),
            )

        return self._do(work, reading=True)

    def unsettled_counts(self, most: int) -> dict[str, dict[str, int]]:
        """How many chunks of each dataset have each status other than READY; counting stops at most."""
        counts: dict[str, dict[str, int]] = {}
        for datasetid, status, n in self._fetch(StatusCount._make, "unsettled_bounded", most=most):
            counts.setdefault(datasetid, {})[status] = n
        return counts

    def datasets_with_chunks(self) -> set[str]:
        """The datasets that have any chunk."""
        return set(self._values("datasets_with_chunks"))

    def newest(self) -> Mark:
        """The numbers of the newest run and event."""
        return self._do(_newest, reading=True)

    def figures_since(self, mark: Mark, until: Mark | None = None) -> Since:
        """What history says from one mark up to another, or up to now; at most 100,000 runs and events at a time."""

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
            return Since(runs, dict(names), Mark(runid, eventid, open_runs), is_all)

        return self._do(work, reading=True)

    def add_up(self, figures: dict[str, int]) -> None:
        """Add to figures about the store that no row of its history tells."""

        def work(tx: Transaction) -> None:
            for name, n in sorted(figures.items()):
                tx.run("meta_add", name=name, n=str(n))

        self._do(work)

    def added_up(self, name: str) -> int:
        """A figure that was added up; 0 where nobody did."""
        return int(self._value("meta_get", name=name) or 0)


def _newest(tx: Transaction) -> Mark:
    return Mark(int(tx.value("newest_run") or 0), int(tx.value("newest_event") or 0))
