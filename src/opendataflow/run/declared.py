"""Declared jobs: those that a decorator declares in the project's own code, beside those of dataflow.toml."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..api import declared
from ..errors import BadConfig, MissingDependency, OdfError, UnknownPool, install_command
from ..model import Catalogue, Job
from ..project import Project, code_of, is_for_spark
from ..project.jobs import check_env, is_one_at_a_time
from ..project.trust import Distrust, digest, distrust
from ..store import Applied, Change, Store

# What a decorator can say; a job of dataflow.toml may say more.
_SAID: tuple[tuple[str, Callable[[Job], Any]], ...] = (
    ("reads", lambda job: job.inputs),
    ("writes", lambda job: job.outputs),
    ("env", lambda job: dict(job.env)),
    ("retries", lambda job: job.retry.retries),
    ("timeout", lambda job: job.timeout),
    ("pool", lambda job: job.pool),
)

_DECORATED = re.compile(r"^@job\((.*?)\)\s*\n(?:@[^\n]*\n)*def\s+(\w+)", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"\bname\s*=\s*[\"']([^\"']+)[\"']")


def jobs_of(project: Project) -> tuple[Job, ...]:
    """Every job of the project: those of its file, and those that only a decorator declares."""
    in_file = {job.jobid: job for job in project.jobs}
    found: dict[str, tuple[Job, Path]] = {}
    for path in _files(project, "@job("):
        for function in _jobs_in(path).values():
            job = declared(function)
            if job is None:
                continue
            if job.jobid in found:
                raise BadConfig(f"job {job.jobid} is declared in {found[job.jobid][1]} and in {path}", hint="Use one.")
            if not is_one_at_a_time(project, in_file.get(job.jobid, job)):
                _check_beside_others(path, job.jobid)
            if job.jobid in in_file:
                _must_agree(project, in_file[job.jobid], job, path)
            else:
                _check(project, job, path)
                found[job.jobid] = job, path
    return (*project.jobs, *(job for job, _ in found.values()))


def file_of(project: Project, jobid: str) -> Path | None:
    """The file with the @job function of a job that no file is named after."""
    broken: OdfError | None = None
    found = []
    for path in _files(project, "@job"):
        try:
            if jobid in _jobs_in(path):
                found.append(path)
        except OdfError as error:
            broken = error  # it may be the one, or none of our business
    if len(found) > 1:
        raise BadConfig(f"job {jobid}: its code could be {found[0]} and {found[1]}", hint="Keep one of them.")
    if not found and broken is not None:
        raise broken
    return found[0] if found else None


def files_with_jobs(project: Project) -> list[Path]:
    """The files whose decorators declare jobs; nothing is loaded."""
    return list(_files(project, "@job("))


def is_mentioned(project: Project, jobid: str, word: str = "@job(") -> bool:
    """Whether the project's code seems to declare this job; nothing is loaded."""
    return mentioned_in(project, jobid, word) is not None


def mentioned_in(project: Project, jobid: str, word: str = "@job") -> Path | None:
    """The first file that seems to have the function of this job; nothing is loaded."""
    pattern = re.compile(rf"def\s+{re.escape(jobid)}\s*\(|name\s*=\s*[\"']{re.escape(jobid)}[\"']")
    return next((path for path in _files(project, word) if pattern.search(_text(path))), None)


def has_code(project: Project, jobid: str) -> bool:
    """Whether the project seems to have the code of a job; nothing is loaded."""
    return code_of(project, jobid) is not None or is_mentioned(project, jobid, word="@job")


def unapplied(project: Project, store: Store, *, with_code: bool = True) -> list[Change]:
    """What odf apply would change in the store, without loading any of the project's code.

    Of jobs that only a decorator declares it finds those that the store does not have, unless with_code is off.
    """
    if not project.is_toml:
        return []
    applied = Applied(digest(project), project.name)
    changes = store.unapplied(project.datasets, project.jobs, project.pools, applied)
    changes = [each for each in changes if each.action != "remove" or not is_mentioned(project, each.name)]
    in_code = _names_in_code(project) - {job.jobid for job in project.jobs} if with_code else set()
    if in_code:
        known = store.catalogue()
        in_code -= {*known.jobs, *(name for what, name in known.broken if what == "job")}
    return [*changes, *(Change("job", name, "add", None, None) for name in sorted(in_code))]


def _names_in_code(project: Project) -> set[str]:
    """The jobs whose decorators say what they read or write, as far as the text shows."""
    return {
        given.group(1) if (given := _NAME.search(said)) else function
        for path in _files(project, "@job(")
        for said, function in _DECORATED.findall(_text(path))
        if "reads" in said or "writes" in said
    }


def foreseen_distrust(project: Project, catalogue: Catalogue, job: Job) -> list[Distrust]:
    """What a run of this job would be refused for as untrusted, without loading any of the project's code."""
    on_spark = foreseen_on_spark(project, job)
    return distrust(project, catalogue, job, project.job(job.jobid), on_spark=on_spark)


def foreseen_on_spark(project: Project, job: Job) -> bool:
    """Whether a run of this job would be one on Spark, without loading any of the project's code."""
    path = code_of(project, job.jobid)
    return "copy" in job.options or (is_for_spark(path) if path else is_mentioned(project, job.jobid))


def _files(project: Project, word: str) -> Iterator[Path]:
    for folder in dict.fromkeys(project.job_folders):
        for path in sorted(folder.glob("*.py")) if folder.is_dir() else ():
            if word in _text(path):
                yield path


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _jobs_in(path: Path) -> dict[str, Callable[..., Any]]:
    if find_spec("pyspark") is None:
        raise MissingDependency(
            f"{path} declares jobs for Spark, and pyspark is not installed",
            hint=f"Install it: {install_command('spark')}",
        )
    from ..spark.code import jobs_in

    return jobs_in(path)


def _check_beside_others(path: Path, jobid: str) -> None:
    from ..spark.code import check_beside_others

    check_beside_others(path, jobid)


def _must_agree(project: Project, in_file: Job, job: Job, path: Path) -> None:
    """What the decorator says must be what the file says; where it says nothing, the file alone counts."""
    unsaid = Job(job.jobid, outputs=("unsaid",))
    for word, said in _SAID:
        is_said = bool(said(job)) if word == "writes" else said(job) != said(unsaid)
        if is_said and said(job) != said(in_file):
            raise BadConfig(
                f"job {job.jobid}: {word} is declared in {project.file} [job.{job.jobid}] and otherwise in {path}",
                hint="Use one: leave it out of the decorator, or take the table out of the file.",
            )


def _check(project: Project, job: Job, path: Path) -> None:
    try:
        check_env(job.env)
    except BadConfig as error:
        raise BadConfig(f"{path}: job {job.jobid}: {error.message}", hint=error.hint) from None
    if job.pool and job.pool not in {pool.poolid for pool in project.pools}:
        raise UnknownPool(
            f"{path}: job {job.jobid}: there is no pool {job.pool}", hint=f"Declare it: [pool.{job.pool}]."
        )
