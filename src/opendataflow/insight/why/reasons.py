"""Reasons: what stands in the way, and the details that chunks and jobs are both told about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ...errors import BadConfig, DataNotReady, Locked, OdfError, UntrustedDefinition
from ...model import FAILED, HOLD, PENDING, RESUBMIT, Answer, Catalogue, Facts, Job, Limit
from ...project import Project
from ...project.trust import reasons_text
from ...run.audit import check_engine
from ...run.context import Vault
from ...run.decorated_jobs import expected_distrust, expected_on_spark, has_code
from ...store import Chunk, Run, Store
from ..pools import change_text
from ..stale import STALE, stale_of_outputs, why_stale
from ..usual import so_far
from ..words import are, duration, exit_text, many, said, when

NOT_READY, LOCKED = DataNotReady.name, Locked.name

MOST_COUNTED = 10_000
SHOWN = 5
_LONGEST = 1500
_LOOK_BACK = 20  # events of a chunk
_NEW_VERSION = ("announced", "rolled back")  # kinds of events that change a chunk, also from READY to READY


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that stands in the way: its name, what it is, and the commands that would help."""

    name: str
    text: str
    commands: tuple[str, ...] = ()
    because: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Why:
    """The answer about one job, or about one chunk of it: then with the five answers that the verdict comes from."""

    jobid: str
    dataid: str | None
    verdict: str
    reasons: tuple[Reason, ...]
    answers: tuple[Answer, ...] = ()
    pending: tuple[str, ...] = ()  # what the next claim will fold in: the answer is as after it


@dataclass(frozen=True, slots=True)
class ChunkQuestion:
    """What the question is about, and where its details are read."""

    store: Store
    catalogue: Catalogue
    job: Job
    dataid: str
    facts: Facts
    project: Project | None
    deferred: float = 0.0  # seconds until its turn, for which a run that names it does not wait


def stale_of_job(store: Store, job: Job) -> Iterator[Reason]:
    """What a job published, and would make differently now: no obstacle, but worth knowing."""
    chunks, are_all = stale_of_outputs(store, job.outputs)
    if chunks:
        first = ", ".join(dict.fromkeys(dataid for _, dataid in chunks[:SHOWN])) + "…" * (len(chunks) > SHOWN)
        text = f"{many(len(chunks), None if are_all else 0)} of {job.jobid} {are(len(chunks))} made from an older version: {first}"
        yield Reason(STALE, text, (f"odf resubmit --stale --job {job.jobid}",))


def stale_chunk(store: Store, job: Job, dataid: str) -> Iterator[Reason]:
    """The same about one chunk, with what is newer."""
    for datasetid in job.outputs:
        for cause in why_stale(store, datasetid, dataid):
            yield Reason(STALE, f"{datasetid} {dataid}: {cause}", (f"odf resubmit --stale {datasetid} {dataid}",))


def untrusted(project: Project, catalogue: Catalogue, job: Job) -> Iterator[Reason]:
    """The reason why no chunk of a job may run here: the store says what the project's own files do not."""
    problems = expected_distrust(project, catalogue, job)
    if problems:
        yield Reason(UntrustedDefinition.name, reasons_text(problems), ways_to_trust(project))


def cannot_run_here(catalogue: Catalogue, job: Job, vault: Vault) -> Iterator[Reason]:
    """Why no chunk of a job can run here, whatever the store says: no code, no key, no Spark."""
    project = vault.project
    try:
        if project.job(job.jobid) is not None and "copy" not in job.options and not has_code(project, job.jobid):
            folders = ", ".join(map(str, project.job_folders))
            yield Reason(BadConfig.name, f"no code for job {job.jobid} was found in {folders}")
        vault.passwords(catalogue, job)
        check_engine(project, catalogue, job, on_spark=expected_on_spark(project, job))
    except OdfError as problem:
        yield Reason(problem.name, problem.message, because=(problem.hint,) if problem.hint else ())


def only_its_caller_knows_its_script(project: Project, job: Job) -> bool:
    """Whether a job runs by RunJob and a path alone: neither the project's file nor its folders know it."""
    try:
        is_known = project.job(job.jobid) is not None or has_code(project, job.jobid)
    except OdfError:
        return False
    return not is_known and "copy" not in job.options


def by_script(reason: Reason, jobid: str) -> Reason:
    """The same for a job whose script only its caller knows: RunJob is given the path."""
    asked = re.compile(rf"^odf run {re.escape(jobid)}(?= |$)(.*)")
    commands = tuple(asked.sub(lambda found: f"RunJob{found[1]} ./{jobid}.sh", each) for each in reason.commands)
    return replace(reason, commands=commands)


def ways_to_trust(project: Project) -> tuple[str, ...]:
    """The commands that bring store and project in line, where there is a project to apply."""
    return ("odf apply --dry-run", "odf apply") if project.is_toml else ()


def limits_in_the_way(store: Store, limits: Iterable[Limit], project: Project | None = None) -> Iterator[Reason]:
    """A reason for each limit that is used up; how many slots a pool should have, only a project's file can say."""
    for limit in limits:
        if limit.free:
            continue
        if limit.what == "job":
            yield Reason(LOCKED, str(limit), (f"odf resume {limit.name}",))
        elif limit.what == "pool":
            _, change = store.views.pool_now(limit.name)
            declared = (
                next((each.slots for each in project.pools if each.poolid == limit.name), None) if project else None
            )
            more = f"odf pool set {limit.name} {declared if declared and declared > limit.slots else 'N'}"
            because = (f"by its hours it will have {change_text(change)}",) if change else ()
            yield Reason(LOCKED, str(limit), ("odf pool", more), because)
        else:
            yield Reason(LOCKED, str(limit), ("odf pool", f"odf datasets {limit.name}"))


def ways_to_produce(catalogue: Catalogue, datasetid: str, dataid: str | None = None) -> tuple[str, ...]:
    """The commands that lead to chunks of a dataset: ask its job, or announce them."""
    producer = catalogue.producer(datasetid)
    if producer is not None:
        return (f"odf why {producer.jobid}" + (f" {dataid}" if dataid else ""),)
    partition = catalogue.datasets[datasetid].partition
    if partition.type == "range":
        return (f"odf shard {datasetid}" + ("" if partition.count else " --rows 1000000"),)
    announce = f"odf ready {datasetid} {dataid or 'DATAID'}"
    return (announce, f"odf discover {datasetid}") if catalogue.datasets[datasetid].location else (announce,)


def ways_to_ready(catalogue: Catalogue, datasetid: str, dataid: str, status: str | None) -> tuple[str, ...]:
    """The command that makes one chunk READY that has this status; of one that its job can still produce, why it does not."""
    here = f"{datasetid} {dataid}"
    is_from_outside = catalogue.producer(datasetid) is None
    if status in (HOLD, PENDING):
        return (f"odf release {here}",)
    if is_from_outside and status in (FAILED, RESUBMIT):
        return (f"odf ready {here}",)
    return (f"odf resubmit {here}",) if status == FAILED else ways_to_produce(catalogue, datasetid, dataid)[:1]


def log_of(run: Run | None) -> tuple[str, ...]:
    """The command that shows what a run printed, if that was kept."""
    return (f"odf log {run.runid}",) if run and run.log else ()


def not_retried(*runs: Run | None) -> str:
    """The cause that these failed runs have in common, for the beginning of a message."""
    (outcome, *others) = {run.outcome if run else None for run in runs}
    return f"{outcome}, not retried: " if outcome and not others else ""


def how_it_ended(run: Run | None) -> tuple[str, ...]:
    """The last that is known of a run."""
    if run is None:
        return ()
    code = run.exit_code
    exit_code = f" ({'exit code ' * (code >= 0)}{exit_text(code)})" if code is not None else ""
    detail = f": {said(run.detail, _LONGEST)}" if run.detail else ""
    return (f"run {run.runid} of {run.jobid} ended {run.outcome or run.status}{exit_code}{detail}",)


def who_runs(store: Store, run: Run) -> str:
    """Who runs something since when, and how long its lease lasts."""
    text = (
        f"run {run.runid} of {run.jobid} {run.dataid} by {run.owner}, since {when(run.started)}, {so_far(store, run)}"
    )
    if run.lease_until is None:
        return text
    left = run.lease_until - store.views.clock()
    if left > 0:
        return f"{text}; its lease lasts another {duration(left)}"
    return f"{text}; its lease ran out {duration(-left)} ago: odf rescue"


def running_chunk(store: Store, name: str, text: str, chunk: tuple[str, str], run: Run | None) -> Reason:
    """A RUNNING chunk: who runs it or, where no run holds it, the command that takes it."""
    if store.views.unheld(*chunk):
        way = f"odf resubmit {' '.join(chunk)} --force"
        return Reason(name, f"{text}, and no run holds it", (way,), last_words(store, *chunk))
    return Reason(name, text, log_of(run), (who_runs(store, run),) if run else ())


def last_words(store: Store, datasetid: str, dataid: str) -> tuple[str, ...]:
    """The last event that changed a chunk: who did what when, and why."""
    for event in store.views.last_events(datasetid, dataid, _LOOK_BACK):
        if (
            event.before != event.after or event.kind in _NEW_VERSION
        ):  # a run that lost its chunk changes nothing about it
            reason = f": {event.why}" if event.why else ""
            what = "changed by SQL" if event.kind == "sql" else event.kind
            return (f"{what} by {event.who or 'an unknown user'} at {when(event.at)}{reason}",)
    return ()


def run_of(store: Store, chunk: Chunk | None) -> Run | None:
    """The last run that had a chunk."""
    return store.views.run(chunk.runid) if chunk and chunk.runid else None


def since_text(chunk: Chunk | None) -> str:
    """Since when a chunk has its status."""
    return f" since {when(chunk.modified)}" if chunk and chunk.modified else ""
