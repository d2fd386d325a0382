"""A job on one sheet: what it reads and writes, what it runs and would take next, what holds it back, how its runs went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from ..errors import OdfError
from ..model import READY, Catalogue, Job, Mapping, Partition, Pause
from ..model.decision.cause import cause_key
from ..project import Project, code_of
from ..run.decorated_jobs import mentioned_in
from ..store import Run, Store
from ..store.views import Attempted
from ..tokens import shown_facts
from .usual import seconds_so_far, usual_seconds
from .why.job import about_job
from .why.reasons import Reason
from .words import count, duration

_NEXT = 10
_MOST_COUNTED = 10_000
_POINTS = 300  # chunks of one plot
_MOST_OUTPUTS = 8  # that are drawn
_MOST_FAILED = 1000
_MOST_CAUSES = 20
_NAMED = 5
_RUNS = 20
_MOST_RUNNING = 200
_LONGEST = 500  # characters of a message


@dataclass(frozen=True, slots=True)
class Reads:
    """One dataset that a job reads: the mapping as it is declared and in words."""

    datasetid: str
    mapping: str
    words: str
    partition: str


@dataclass(frozen=True, slots=True)
class Writes:
    """One dataset that a job writes, and the checks that each chunk must pass."""

    datasetid: str
    partition: str
    checks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunningChunk:
    """One chunk that runs: how far it is, as far as earlier runs of its job tell."""

    runid: int
    dataid: str
    owner: str
    started: datetime | None
    seconds: float
    usual: float | None
    lease_left: float | None  # negative when it ran out

    @property
    def part(self) -> float | None:
        """How far it is, from 0 to 1; None when there is no estimate, or when it takes longer than usual."""
        return self.seconds / self.usual if self.usual and self.seconds <= self.usual else None

    @property
    def left(self) -> float | None:
        """Seconds until it is over if it takes as long as usual; None without an estimate."""
        return self.usual - self.seconds if self.part is not None and self.usual else None


@dataclass(frozen=True, slots=True)
class Point:
    """The current version of one chunk: how long its run took, and how much it holds."""

    dataid: str
    status: str
    runid: int | None
    seconds: float | None
    rows: int | None
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Series:
    """The last chunks of one output in the order of their dataids, and what is usual for them."""

    datasetid: str
    points: tuple[Point, ...]
    usual_seconds: float | None
    usual_rows: float | None


@dataclass(frozen=True, slots=True)
class FailedFor:
    """Failures that say the same: how many runs lately, and which chunks are FAILED by it now."""

    outcome: str
    example: str
    runid: int | None  # of the newest one
    runs: int
    failed_now: int
    dataids: tuple[str, ...]
    last: datetime | None


@dataclass(frozen=True, slots=True)
class JobRuleLine:
    """One rule of a job, as people say it."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class JobSheet:
    """Everything that the page of a job tells."""

    jobid: str
    reads: tuple[Reads, ...]
    writes: tuple[Writes, ...]
    code: str  # the name of its file, within the project
    code_problem: str
    rules: tuple[JobRuleLine, ...]
    items: tuple[str, ...]  # the names of its env items, never their values
    paused: Pause | None
    next: tuple[str, ...]
    claimable: int
    counting_stopped: bool
    running: tuple[RunningChunk, ...]
    more_running: int
    reasons: tuple[Reason, ...]
    series: tuple[Series, ...]
    causes: tuple[FailedFor, ...]
    runs: tuple[Run, ...]
    older: int | None  # the run that the next page of runs begins before


def job_sheet(store: Store, project: Project, jobid: str, before: int | None = None) -> JobSheet:
    """The sheet of a job; before turns to older runs."""
    catalogue = store.catalogue()
    job = catalogue.job(jobid)
    claimable = store.views.claimable(jobid, _MOST_COUNTED)
    usual = usual_seconds(store, jobid)
    now = store.views.clock()
    running = [run for run in store.views.running() if run.jobid == jobid]
    runs = store.views.runs(jobid=jobid, before=before, n=_RUNS)
    code, problem = _code(project, job)
    return JobSheet(
        jobid,
        tuple(_reads(catalogue, job)),
        tuple(_writes(catalogue, job)),
        code,
        problem,
        tuple(_rules(job)),
        tuple(sorted(job.env)),
        catalogue.paused.get(jobid),
        tuple(store.views.next_dataids(jobid, _NEXT)),
        claimable,
        claimable >= _MOST_COUNTED,
        tuple(_going(run, usual, now) for run in running[:_MOST_RUNNING]),
        max(len(running) - _MOST_RUNNING, 0),
        about_job(store, catalogue, job, project).reasons,
        tuple(_series(store, name, usual) for name in job.outputs[:_MOST_OUTPUTS]),
        tuple(_causes(store, job)),
        tuple(runs),
        runs[-1].runid if len(runs) == _RUNS else None,
    )


# Definition ---------------------------------------------------------------------------------------------------------


def _reads(catalogue: Catalogue, job: Job) -> Iterator[Reads]:
    output = catalogue.output_partition(job)
    for item in job.inputs:
        partition = catalogue.dataset(item.datasetid).partition
        words = mapping_words(item.mapping, partition, output)
        yield Reads(item.datasetid, str(item.mapping), words, partition.type)


def _writes(catalogue: Catalogue, job: Job) -> Iterator[Writes]:
    for name in job.outputs:
        dataset = catalogue.dataset(name)
        yield Writes(name, dataset.partition.type, tuple(check.label for check in dataset.checks))


def mapping_words(mapping: Mapping, read: Partition, written: Partition) -> str:
    """What an output chunk needs of an input, in words."""
    mine, theirs = _noun(written), _noun(read)
    match mapping.kind:
        case "identity":
            return f"the same {mine}"
        case "lag":
            return f"the {theirs} before" if mapping.n == 1 else f"the {theirs} {mapping.n:,} before"
        case "window":
            return f"the last {count(mapping.n, theirs)}, with its own"
        case "rollup":
            return f"every {theirs} of the {mine}"
        case "fan_out":
            return f"the {theirs} that the {mine} lies in"
        case "latest":
            return f"the newest READY {theirs} that is not after it"
        case _:
            return f"every {theirs}, once nothing more can come"


def _noun(partition: Partition) -> str:
    return {"text": "dataid", "number": "number", "range": "range of keys"}.get(partition.type, partition.type)


def _code(project: Project, job: Job) -> tuple[str, str]:
    """The name of the file with a job's code, or what is wrong with it."""
    if "copy" in job.options:
        return "a copy, without code", ""
    try:
        path = code_of(project, job.jobid) or mentioned_in(project, job.jobid)
    except OdfError as problem:
        return "", problem.message
    if path is None:
        return "", "this project has no file for it; whoever calls RunJob may name one"
    return str(path.relative_to(project.folder)) if path.is_relative_to(project.folder) else path.name, ""


def _rules(job: Job) -> Iterator[JobRuleLine]:
    retry = job.retry
    if retry.retries:
        after = f"after {duration(retry.backoff)}, then twice as long each time, at most {duration(retry.backoff_max)}"
        only = f", only after {', '.join(retry.on)}" if retry.on else ""
        yield JobRuleLine("retries", f"{retry.retries:,} {after}{only}")
    else:
        yield JobRuleLine("retries", "none; a run that only lost its lease is tried twice more")
    yield JobRuleLine("timeout", duration(job.timeout) if job.timeout else "none")
    yield JobRuleLine("lease", duration(job.lease))
    yield JobRuleLine("pool", job.pool or "none")
    yield JobRuleLine("on_new_version", job.on_new_version)
    for name, value in sorted(shown_facts(job.options).items()):
        if name != "on_new_version":
            # A table of settings may hold secrets: its names are enough.
            text = ", ".join(sorted(value)) if isinstance(value, dict) else str(value)
            yield JobRuleLine(name, text[:_LONGEST])


# Now ----------------------------------------------------------------------------------------------------------------


def _going(run: Run, usual: float | None, now: float) -> RunningChunk:
    left = run.lease_until - now if run.lease_until is not None else None
    return RunningChunk(run.runid, run.dataid, run.owner, run.started, seconds_so_far(run), usual, left)


# Then ---------------------------------------------------------------------------------------------------------------


def _series(store: Store, datasetid: str, usual: float | None) -> Series:
    made = store.views.made_newest(datasetid, _POINTS)[::-1]
    points = tuple(Point(each.dataid, each.status, each.runid, each.seconds, each.rows, each.bytes) for each in made)
    good = [point for point in points if point.status == READY]
    return Series(
        datasetid,
        points,
        usual,
        _middle(point.rows for point in good),
    )


def _middle(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _causes(store: Store, job: Job) -> list[FailedFor]:
    """Why runs of a job failed lately, and why chunks are FAILED now, grouped by what they say."""
    runs: dict[_Key, list[Attempted]] = {}
    keys = _Keys(job.jobid)
    for run in store.views.attempts_failed(job.jobid, _MOST_FAILED):
        runs.setdefault(keys.of(run.dataid, run.outcome or run.status, run.detail), []).append(run)
    now: dict[_Key, list[tuple[str, int | None, datetime | None, str]]] = {}
    for chunk in store.views.failed_newest(job.outputs[0], _MOST_FAILED):
        key = keys.of(chunk.dataid, chunk.outcome or "FAILED", chunk.detail)
        now.setdefault(key, []).append((chunk.dataid, chunk.runid, chunk.modified, chunk.detail or ""))
    causes = []
    for key in {**now, **runs}:
        lately, failed = runs.get(key, []), now.get(key, [])
        first = lately[0] if lately else None
        example, runid, last = (first.detail, first.runid, first.ended) if first else (failed[0][3], *failed[0][1:3])
        names = dict.fromkeys([dataid for dataid, *_ in failed] or [run.dataid for run in lately])
        causes.append(FailedFor(key[0], example or "", runid, len(lately), len(failed), tuple(names)[:_NAMED], last))
    return sorted(causes, key=lambda cause: (-cause.failed_now, -cause.runs, cause.outcome))[:_MOST_CAUSES]


_Key = tuple[str, str]
_DIGITS = str.maketrans("123456789", "000000000")


class _Keys:
    """What failures have in common; texts that differ only in digits are looked at once."""

    def __init__(self, jobid: str) -> None:
        self._jobid, self._known = jobid, dict[str, str]()

    def of(self, dataid: str, outcome: str, detail: str | None) -> _Key:
        text = detail or ""
        looks = text.replace(dataid, "").translate(_DIGITS)
        if looks not in self._known:
            self._known[looks] = cause_key(text, (self._jobid, dataid))
        return outcome, self._known[looks]
