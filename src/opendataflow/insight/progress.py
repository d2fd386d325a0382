"""Progress of a drain: how far it is, how fast, and in the end what went wrong and which command would help."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from ..errors import JobFailed, OdfError
from ..model import CLAIMABLE, DEFERRED, FAILED, READY, WAITING, Limit
from ..model.cause import cause_key
from ..run.drained import Drained, Failure, Took
from ..shapes import NamedTuple, dataclass
from ..store import Store
from .axis import LAST_KEY
from .words import duration

_MOST = 100_000
_SPAN = 60.0  # the rate is that of the last minute
_NAMED = 20
MOST_LINES = 10  # of one kind at the end of a drain: beyond that they are grouped


@dataclass(frozen=True, slots=True)
class JobProgress:
    """One job: what this drain did of it, and what everybody still has to do."""

    jobid: str
    done: int
    running: int
    failed: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Progress:
    """A whole drain at one moment; waiting counts what could be claimed, or is tried again later."""

    jobs: tuple[JobProgress, ...]
    limits: tuple[Limit, ...]
    seconds: float
    rate: float

    def total(self, what: str) -> int:
        """The sum over all jobs of done, running, failed or waiting."""
        return sum(getattr(job, what) for job in self.jobs)

    @property
    def left(self) -> float | None:
        """Seconds until what waits now is done at this rate; None when nobody can tell."""
        return (self.total("waiting") + self.total("running")) / self.rate if self.rate else None

    @property
    def line(self) -> str:
        """All of it in one line."""
        counts = ", ".join(f"{self.total(what):,} {what}" for what in ("done", "running", "failed", "waiting"))
        left = self.left
        until = f", {duration(left)} left" if left is not None and self.total("waiting") else ""
        full = "".join(f"; {limit}" for limit in self.limits if not limit.free)
        return f"{counts}, {self.rate:.3g}/s{until}{full if self.total('waiting') else ''}"


class _Sight(NamedTuple):
    """How many chunks were done at one moment."""

    at: float
    done: int


class Watch:
    """Looks at a drain: its own counters at every look, the store now and then."""

    def __init__(self, store: Store, jobids: Sequence[str], every: float = 2.0) -> None:
        self._store, self._jobids, self._every = store, jobids, every
        self._start = time.monotonic()
        self._next = 0.0
        self._waiting: dict[str, int] = {}
        self._limits: tuple[Limit, ...] = ()
        self._seen: deque[_Sight] = deque([_Sight(self._start, 0)])

    def look(self, drained: Drained) -> Progress:
        """How far the drain is now."""
        now = time.monotonic()
        if now >= self._next:
            self._ask()
            # A look at a large or busy store takes longer: then there are fewer of them.
            self._next = time.monotonic() + max(self._every, 40 * (time.monotonic() - now))
        done = sum(drained.done.values())
        self._seen.append(_Sight(now, done))
        while len(self._seen) > 2 and now - self._seen[0].at > _SPAN:
            self._seen.popleft()
        first = self._seen[0]
        failed = Counter(failure.jobid for failure in drained.failures)
        jobs = tuple(
            JobProgress(
                jobid,
                drained.done[jobid],
                drained.running[jobid],
                failed[jobid],
                self._waiting.get(jobid, 0),
            )
            for jobid in self._jobids
        )
        return Progress(jobs, self._limits, now - self._start, (done - first.done) / max(now - first.at, 0.001))

    def _ask(self) -> None:
        catalogue = self._store.catalogue()
        known = [jobid for jobid in self._jobids if jobid in catalogue.jobs]
        claimable = self._store.claimable_jobs()
        deferred = self._store.deferred_counts()
        self._waiting = {
            jobid: deferred.get(jobid, 0) + (self._store.claimable(jobid, _MOST) if jobid in claimable else 0)
            for jobid in known
        }
        self._limits = tuple(dict.fromkeys(limit for jobid in known for limit in self._store.limits(jobid)))


# The end ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cause:
    """Failures that look alike, of one job or, in a wide outage, of several: how many, the first one, and which chunks."""

    jobs: tuple[str, ...]
    outcome: str
    chunks: int
    example: Failure
    dataids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A job that had work and could not run here, and why."""

    jobid: str
    chunks: int
    outcome: str
    why: str
    hint: str


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a job, whoever began it: chunks that are FAILED, can still run, are deferred, or wait for their inputs."""

    jobid: str
    failed: int
    claimable: int
    deferred: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Report:
    """What a drain did, once it is over, and what it left."""

    outcomes: dict[str, int]
    seconds: float
    causes: tuple[Cause, ...]
    slowest: tuple[Took, ...]
    commands: tuple[str, ...]
    left: tuple[Left, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    @property
    def outcome(self) -> str:
        """The name of what went wrong, the worst first; READY when nothing did.

        A chunk that is FAILED counts whoever failed it, until somebody resubmits it or sets it aside.
        """
        failed = any(not cause.example.is_refused for cause in self.causes) or any(job.failed for job in self.left)
        if failed:
            return JobFailed.name
        return next(iter([*(cause.outcome for cause in self.causes), *(job.outcome for job in self.left_out)]), READY)


def report(
    store: Store,
    drained: Drained,
    jobids: Sequence[str] = (),
    refused: Mapping[str, OdfError] = MappingProxyType({}),
) -> Report:
    """The end of a drain: failures by their cause, the slowest chunks, what is left, and what would have it run again.

    jobids: those that it worked for. refused: those that could not run here; one that has work all the same was left out.
    """
    broken = store.catalogue().broken
    work = {
        # Nobody derives the candidates of a broken job: what it has not read yet counts.
        jobid: store.claimable(jobid, _MOST) or (store.unread(jobid, _MOST) if ("job", jobid) in broken else 0)
        for jobid in refused
    }
    left = tuple(_left(store, jobids))
    return Report(
        dict(sorted(drained.outcomes.items())),
        drained.seconds,
        tuple(causes(drained.failures)),
        tuple(sorted(drained.slowest, reverse=True)[:5]),
        tuple(_commands(store, drained.failures, left)),
        left,
        tuple(
            LeftOut(jobid, work[jobid], error.name, error.message, error.hint)
            for jobid, error in refused.items()
            if work[jobid]
        ),
    )


def causes(failures: Iterable[Failure]) -> list[Cause]:
    """Failures that look alike together, the largest group first: those of each job, or of all where that is too long a list."""
    groups: dict[tuple[str, str, str], list[Failure]] = {}
    for failure in failures:
        key = cause_key(failure.detail, (failure.jobid, failure.dataid))
        groups.setdefault((failure.jobid, failure.outcome, key), []).append(failure)
    if len(groups) > MOST_LINES:
        wide: dict[tuple[str, str, str], list[Failure]] = {}
        for (_, outcome, key), alike in groups.items():
            wide.setdefault(("", outcome, key), []).extend(alike)
        groups = wide
    return sorted(map(_cause, groups.values()), key=lambda cause: -cause.chunks)


def _cause(alike: Sequence[Failure]) -> Cause:
    jobs = tuple(dict.fromkeys(failure.jobid for failure in alike))
    dataids = tuple(dict.fromkeys(failure.dataid for failure in alike))
    return Cause(jobs, alike[0].outcome, len(alike), alike[0], dataids[:_NAMED])


def _left(store: Store, jobids: Sequence[str]) -> Iterator[Left]:
    catalogue = store.catalogue()
    jobs = [catalogue.jobs[jobid] for jobid in jobids if jobid in catalogue.jobs]
    candidates = store.candidate_counts()
    counted = store.span_counts([(job.outputs[0], "", LAST_KEY) for job in jobs], _MOST)
    for job, counts in zip(jobs, counted, strict=True):
        states = candidates.get(job.jobid, {})
        some = counts[FAILED], *(states.get(state, 0) for state in (CLAIMABLE, DEFERRED, WAITING))
        if any(some):
            yield Left(job.jobid, *some)


def _commands(store: Store, failures: Sequence[Failure], left: Sequence[Left]) -> list[str]:
    catalogue = store.catalogue()
    chunks = [
        (catalogue.jobs[failure.jobid].outputs[0], failure.dataid)
        for failure in failures
        if failure.jobid in catalogue.jobs
    ]
    failed: dict[str, list[str]] = {}
    for (datasetid, dataid), status in store.given_chunks(chunks).items():
        if status == FAILED:
            failed.setdefault(datasetid, []).append(dataid)
    counts = {name: len(dataids) for name, dataids in failed.items()}
    counts |= {catalogue.jobs[each.jobid].outputs[0]: each.failed for each in left if each.failed}
    commands = []
    for datasetid, n in counts.items():
        dataids = sorted(failed.get(datasetid, []), key=lambda dataid: (len(dataid), dataid))  # 2 before 10
        are_named = n == len(dataids) <= _NAMED  # else others failed too, or they are too many for a line
        commands.append(f"odf resubmit {datasetid} {' '.join(dataids) if are_named else '--failed'} --yes")
    return commands if len(commands) <= MOST_LINES else ["odf recover"]
