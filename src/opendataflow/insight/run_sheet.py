"""A run on one sheet: why it was let in, what it was given, how it went, and the other attempts at its chunk."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ..errors import OdfError
from ..model import RUNNING, Answer, Catalogue, Job
from ..project import Project
from ..run.context import variable_names
from ..run.decorated_jobs import expected_on_spark
from ..store import Event, Run, Store
from .run_log import spark_ui
from .usual import seconds_so_far, usual_seconds
from .words import evidence, question_text

_LOOK_BACK = 200  # events of a chunk among which its receipt is
_MOST_ATTEMPTS = 50
_MARGIN = timedelta(minutes=1)  # in which the end of a run is told


class RunChunk(NamedTuple):
    """A chunk that the run makes, and what it is now."""

    datasetid: str
    dataid: str
    status: str | None
    is_of_run: bool  # whether the version that stands is the one that this run made


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """One of the five questions: the answer that let the run in, or kept it out, with its evidence in words."""

    question: str
    text: str
    answer: str  # yes, no, or not asked
    refusal: str
    why: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VariableNames:
    """The names of environment variables that are about one dataset, or about the run itself; never their values."""

    datasetid: str  # empty for those of the run
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunSheet:
    """Everything that the page of a run tells, but for its log."""

    run: Run
    outputs: tuple[RunChunk, ...]
    verdict: str
    asked_at: datetime | None
    asked: tuple[AnswerLine, ...]
    seconds: float | None
    usual: float | None
    lease_left: float | None  # while it runs; negative when it ran out
    attempts: tuple[Run, ...]  # all at the same chunk, this one included, newest first
    environment: tuple[VariableNames, ...]  # as the job is declared now
    on_spark: bool
    spark_ui: str

    @property
    def is_running(self) -> bool:
        """Whether it still holds its chunk."""
        return self.run.status == RUNNING

    @property
    def part(self) -> float | None:
        """How far it is, from 0 to 1; None when nobody can tell."""
        if not self.is_running or not self.usual or self.seconds is None or self.seconds > self.usual:
            return None
        return self.seconds / self.usual


def run_sheet(store: Store, project: Project, runid: int) -> RunSheet:
    """The sheet of a run, or UnknownRun."""
    run = store.views.run(runid)
    catalogue = store.catalogue()
    job = catalogue.jobs.get(run.jobid)
    receipt = _receipt(store, job.outputs[0], run) if job else None
    is_running = run.status == RUNNING
    return RunSheet(
        run,
        tuple(_outputs(store, job.outputs, run)) if job else (),
        receipt.receipt.verdict if receipt and receipt.receipt else "",
        receipt.at if receipt else None,
        tuple(map(asked, receipt.receipt.answers)) if receipt and receipt.receipt else (),
        seconds_so_far(run) if is_running else _took(run),
        usual_seconds(store, run.jobid),
        run.lease_until - store.views.clock() if is_running and run.lease_until is not None else None,
        tuple(store.views.runs(jobid=run.jobid, dataid=run.dataid, n=_MOST_ATTEMPTS)),
        _environment(catalogue, run.jobid),
        job is not None and _is_on_spark(project, job),
        spark_ui(store, project, run),
    )


def asked(answer: Answer) -> AnswerLine:
    """An answer in words."""
    told = tuple(evidence(answer.evidence))
    return AnswerLine(answer.question, question_text(answer.question), answer.word, answer.refusal, answer.why, told)


def _outputs(store: Store, names: tuple[str, ...], run: Run) -> list[RunChunk]:
    found = []
    for name in names:
        chunk = store.views.chunk(name, run.dataid)
        is_of_run = chunk is not None and chunk.version == run.epoch and run.status == "READY"
        found.append(RunChunk(name, run.dataid, chunk.status if chunk else None, is_of_run))
    return found


def _receipt(store: Store, datasetid: str, run: Run) -> Event | None:
    """What was answered before the run began: the last receipt that is about it."""
    until = (run.ended or datetime.now(UTC)) + _MARGIN
    events = store.views.events_until(datasetid, run.dataid, until, _LOOK_BACK)
    mine = [event for event in events if event.runid == run.runid and event.receipt is not None]
    return next((event for event in mine if event.kind in ("admitted", "refused")), mine[0] if mine else None)


def _took(run: Run) -> float | None:
    return (run.ended - run.started).total_seconds() if run.started and run.ended else None


def _is_on_spark(project: Project, job: Job) -> bool:
    try:
        return expected_on_spark(project, job)
    except OdfError:
        return False  # its code is not to be found: the page of the job says so


def _environment(catalogue: Catalogue, jobid: str) -> tuple[VariableNames, ...]:
    job = catalogue.jobs.get(jobid)
    return tuple(VariableNames(*each) for each in variable_names(catalogue, job).items()) if job else ()
