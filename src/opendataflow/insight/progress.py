"""Progress of a drain: how far it is, how fast, and in the end what went wrong and which command would help."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from ..errors import BadDataid, JobFailed, OdfError, Stopped
from ..model import CLAIMABLE, DEFERRED, FAILED, READY, WAITING, Catalogue, Limit, sort_key
from ..model.decision.cause import cause_key
from ..model.definitions.partition import TEXT
from ..run.drain_summary import AttemptDuration, DrainSummary, Failure
from ..store import Store
from .axis import LAST_KEY, ranges
from .recovery import waiting
from .words import duration

_MOST = 100_000
_SPAN = 60.0  # the rate is that of the last minute
_NAMED = 20
MOST_LINES = 10  # of one kind at the end of a drain: beyond that they are grouped


@dataclass(frozen=True, slots=True)
class JobProgress:
    """One job: what this drain did of it, and what is left for all workers."""

    jobid: str
    done: int
    running: int
    failed: int
    waiting: int


@dataclass(frozen=True, slots=True)
class DrainProgress:
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
        """Seconds until what waits now is done at this rate; None without a rate."""
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

    def look(self, drained: DrainSummary) -> DrainProgress:
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
        failed = Counter(failure.jobid for failure in drained.failures if failure.outcome != Stopped.name)
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
        return DrainProgress(jobs, self._limits, now - self._start, (done - first.done) / max(now - first.at, 0.001))

    def _ask(self) -> None:
        catalogue = self._store.catalogue()
        known = [jobid for jobid in self._jobids if jobid in catalogue.jobs]
        claimable = self._store.views.claimable_jobs()
        deferred = self._store.views.deferred_counts()
        self._waiting = {
            jobid: deferred.get(jobid, 0) + (self._store.views.claimable(jobid, _MOST) if jobid in claimable else 0)
            for jobid in known
        }
        self._limits = tuple(dict.fromkeys(limit for jobid in known for limit in self._store.views.limits(jobid)))


# The end ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures that look alike, of one job or, in a wide outage, of several: how many, the first one, and which chunks.

    dataids are the first of them in order, spans the same as ranges: of one job, all of its chunks.
    """

    jobs: tuple[str, ...]
    outcome: str
    chunks: int
    example: Failure
    dataids: tuple[str, ...]
    spans: tuple[str, ...]


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
    """What is left of a job, for all workers: chunks that are FAILED, can still run, are deferred, or wait for their inputs."""

    jobid: str
    failed: int
    claimable: int
    deferred: int
    waiting: int
    at_least: bool = False  # more may wait: very many chunks are not READY


@dataclass(frozen=True, slots=True)
class DrainReport:
    """What a drain did, once it is over, and what it left."""

    outcomes: dict[str, int]
    seconds: float
    causes: tuple[FailureGroup, ...]
    slowest: tuple[AttemptDuration, ...]
    commands: tuple[str, ...]
    left: tuple[Left, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    @property
    def outcome(self) -> str:
        """The name of what went wrong, the worst first; READY when nothing did.

        A chunk that is FAILED counts, of this drain or not, until it is resubmitted or set aside.
        """
        failed = any(not cause.example.is_refused for cause in self.causes) or any(job.failed for job in self.left)
        if failed:
            return JobFailed.name
        return next(iter([*(cause.outcome for cause in self.causes), *(job.outcome for job in self.left_out)]), READY)


def report(
    store: Store,
    drained: DrainSummary,
    jobids: Sequence[str] = (),
    refused: Mapping[str, OdfError] = MappingProxyType({}),
) -> DrainReport:
    """The end of a drain: failures by their cause, the slowest chunks, what is left, and what would have it run again.

    jobids: the jobs of the drain. refused: jobs that cannot run here. Those of them with work are listed as left out; their
    FAILED chunks count too.
    """
    broken = store.catalogue().broken
    work = {
        # The candidates of a broken job are not derived: what it has not read yet counts.
        jobid: store.views.claimable(jobid, _MOST)
        or (store.views.unread(jobid, _MOST) if ("job", jobid) in broken else 0)
        for jobid in refused
    }
    left = (*_left(store, jobids), *_failed_of(store, [jobid for jobid in refused if jobid not in jobids]))
    return DrainReport(
        dict(sorted(drained.outcomes.items())),
        drained.seconds,
        tuple(causes(drained.failures, store.catalogue())),
        tuple(sorted(drained.slowest, reverse=True)[:5]),
        tuple(_commands(store, drained.failures, left)),
        left,
        tuple(
            LeftOut(jobid, work[jobid], error.name, error.message, error.hint)
            for jobid, error in refused.items()
            if work[jobid]
        ),
    )


def causes(failures: Iterable[Failure], catalogue: Catalogue) -> list[FailureGroup]:
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
    return sorted((_cause(alike, catalogue) for alike in groups.values()), key=lambda cause: -cause.chunks)


def _cause(alike: Sequence[Failure], catalogue: Catalogue) -> FailureGroup:
    jobs = tuple(dict.fromkeys(failure.jobid for failure in alike))
    dataids = list(dict.fromkeys(failure.dataid for failure in alike))
    job = catalogue.jobs.get(alike[0].jobid)
    partition = catalogue.output_partition(job) if job is not None else TEXT
    with suppress(BadDataid):  # the partition changed while the drain ran
        dataids.sort(key=lambda dataid: sort_key(partition, dataid))
    spans = tuple(map(str, ranges(partition, dataids[:_MOST])))
    return FailureGroup(jobs, alike[0].outcome, len(alike), alike[0], tuple(dataids[:_NAMED]), spans[:_NAMED])


def _left(store: Store, jobids: Sequence[str]) -> Iterator[Left]:
    catalogue = store.catalogue()
    jobs = [catalogue.jobs[jobid] for jobid in jobids if jobid in catalogue.jobs]
    candidates = store.views.candidate_counts()
    counted = store.views.span_counts([(job.outputs[0], "", LAST_KEY) for job in jobs], _MOST)
    behind = waiting(store)
    for job, counts in zip(jobs, counted, strict=True):
        states = candidates.get(job.jobid, {})
        waits = states.get(WAITING, 0)
        if also := (behind or {}).get(job.jobid):
            waits += len(also.keys() - {each.dataid for each in store.views.candidates_sample(job.jobid, _MOST)})
        some = counts[FAILED], states.get(CLAIMABLE, 0), states.get(DEFERRED, 0), waits
        if any(some):
            yield Left(job.jobid, *some, behind is None and waits > 0)


def _failed_of(store: Store, refused: Iterable[str]) -> Iterator[Left]:
    """What is FAILED of jobs that could not run here; what else they have to do, they are left out with."""
    catalogue = store.catalogue()
    outputs = {jobid: job.outputs for jobid, job in catalogue.jobs.items()}
    outputs |= {name: broken.outputs for (what, name), broken in catalogue.broken.items() if what == "job"}
    written = {jobid: outputs[jobid][0] for jobid in refused if outputs.get(jobid)}
    counted = store.views.span_counts([(name, "", LAST_KEY) for name in written.values()], _MOST)
    for jobid, counts in zip(written, counted, strict=True):
        if counts[FAILED]:
            yield Left(jobid, counts[FAILED], 0, 0, 0)


def _commands(store: Store, failures: Sequence[Failure], left: Sequence[Left]) -> list[str]:
    catalogue = store.catalogue()
    chunks = [
        (catalogue.jobs[failure.jobid].outputs[0], failure.dataid)
        for failure in failures
        if failure.jobid in catalogue.jobs
    ]
    failed: dict[str, list[str]] = {}
    for (datasetid, dataid), status in store.views.given_chunks(chunks).items():
        if status == FAILED:
            failed.setdefault(datasetid, []).append(dataid)
    counts = {name: len(dataids) for name, dataids in failed.items()}
    counts |= {
        catalogue.jobs[each.jobid].outputs[0]: each.failed
        for each in left
        if each.failed and each.jobid in catalogue.jobs
    }
    commands = []
    for datasetid, n in counts.items():
        dataids = sorted(failed.get(datasetid, []), key=lambda dataid: (len(dataid), dataid))  # 2 before 10
        are_named = n == len(dataids) <= _NAMED  # else others failed too, or they are too many for a line
        commands.append(f"odf resubmit {datasetid} {' '.join(dataids) if are_named else '--failed'} --yes")
    return commands if len(commands) <= MOST_LINES else ["odf recover"]
