"""Finds the jobs that @job decorators declare in the project's code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..api import declared
from ..errors import BadConfig, MissingDependency, OdfError, UnknownPool, install_command
from ..model import Catalogue, Job
from ..project import Project, code_of, is_for_spark
from ..project.job_file import job_file, job_files
from ..project.jobs import check_env, is_one_at_a_time
from ..project.trust import Distrust, digest, distrust
from ..store import AppliedProject, Change, Store

# The settings that a decorator can declare.
_SETTINGS: tuple[tuple[str, Callable[[Job], Any]], ...] = (
    ("reads", lambda job: job.inputs),
    ("writes", lambda job: job.outputs),
    ("env", lambda job: dict(job.env)),
    ("retries", lambda job: job.retry.retries),
    ("timeout", lambda job: job.timeout),
    ("pool", lambda job: job.pool),
)

Start = Callable[[], object]


def jobs_of(project: Project, start: Start | None = None) -> tuple[Job, ...]:
    """Every job of the project, from its file and from decorators.

    `start` starts Spark, for code that needs Spark at import.
    """
    in_file = {job.jobid: job for job in project.jobs}
    found: dict[str, tuple[Job, Path]] = {}
    for path in files_with_jobs(project):
        for function in _jobs_in(path, start).values():
            job = declared(function)
            if job is None:
                continue
            if job.jobid in found:
                raise BadConfig(f"job {job.jobid} is declared in {found[job.jobid][1]} and in {path}", hint="Keep one.")
            if not is_one_at_a_time(project, in_file.get(job.jobid, job)):
                _check_beside_others(path, job.jobid)
            if job.jobid in in_file:
                _must_agree(project, in_file[job.jobid], job, path)
            else:
                _check(project, job, path)
                found[job.jobid] = job, path
    return (*project.jobs, *(job for job, _ in found.values()))


def file_of(project: Project, jobid: str) -> Path | None:
    """The file with the @job function of a job, if no file has the name of the job; imports nothing."""
    files = list(job_files(project.job_folders))
    found = [file.path for file in files if file.function(jobid)]
    if len(found) > 1:
        raise BadConfig(f"job {jobid} is declared in {found[0]} and in {found[1]}", hint="Keep one of them.")
    broken = next((file.problem for file in files if file.problem is not None), None)
    if not found and broken is not None:
        raise broken  # the malformed file may be the one that declares the job
    return found[0] if found else None


def open_files(project: Project) -> tuple[Path, ...]:
    """The files of which only an import shows the names of their jobs."""
    return tuple(file.path for file in job_files(project.job_folders) if file.is_open)


def imported_file_of(paths: Iterable[Path], jobid: str, start: Start | None = None) -> Path | None:
    """The first of these files that has the job, found by importing them."""
    return next((path for path in paths if jobid in _jobs_in(path, start)), None)


def files_with_jobs(project: Project) -> list[Path]:
    """The files whose decorators declare jobs; imports nothing."""
    return [file.path for file in job_files(project.job_folders) if file.declares or file.problem is not None]


def is_declared(project: Project, jobid: str) -> bool:
    """Whether a decorator in the project's code declares this job; imports nothing."""
    functions = (file.function(jobid) for file in job_files(project.job_folders))
    return any(function is not None and function.declares for function in functions)


def mentioned_in(project: Project, jobid: str) -> Path | None:
    """The first file that has the @job function of this job; imports nothing."""
    return next((file.path for file in job_files(project.job_folders) if file.function(jobid)), None)


def has_code(project: Project, jobid: str) -> bool:
    """Whether the project has, or may have, the code of a job; imports nothing."""
    return code_of(project, jobid) is not None or _may_have(project, jobid)


def _may_have(project: Project, jobid: str) -> bool:
    return any(file.may_have(jobid) for file in job_files(project.job_folders))


def unapplied(project: Project, store: Store, *, with_code: bool = True) -> list[Change]:
    """The changes that odf apply would make, without importing the project's code.

    Of jobs that only a decorator declares, it finds those that are missing in the store, unless with_code is False.
    """
    if not project.is_toml:
        return []
    applied = AppliedProject(digest(project), project.name)
    changes = store.unapplied(project.datasets, project.jobs, project.pools, applied)
    changes = [each for each in changes if each.action != "remove" or not _may_have(project, each.name)]
    in_code = _names_in_code(project) - {job.jobid for job in project.jobs} if with_code else set()
    if in_code:
        known = store.catalogue()
        in_code -= {*known.jobs, *(name for what, name in known.broken if what == "job")}
    return [*changes, *(Change("job", name, "add", None, None) for name in sorted(in_code))]


def _names_in_code(project: Project) -> set[str]:
    """The jobs whose decorators declare reads or writes, as far as parsing the files shows."""
    functions = (function for file in job_files(project.job_folders) for function in file.functions)
    return {function.jobid for function in functions if function.declares}


def expected_distrust(project: Project, catalogue: Catalogue, job: Job) -> list[Distrust]:
    """The untrusted definitions for which a run of this job would be refused, without importing the project's code."""
    on_spark = expected_on_spark(project, job)
    declared_here = project.job(job.jobid)
    if declared_here is None and on_spark and "copy" not in job.options:
        declared_here = decorated(job.jobid, code_of(project, job.jobid) or mentioned_in(project, job.jobid))
    return distrust(project, catalogue, job, declared_here, on_spark=on_spark)


def decorated(jobid: str, path: Path | None) -> Job | None:
    """The job as the decorator in its file declares it; None if it declares nothing, or if only an import shows it."""
    function = job_file(path).declared(jobid) if path is not None and path.suffix == ".py" else None
    return function.job if function is not None else None


def is_trusted(project: Project, catalogue: Catalogue, job: Job) -> bool:
    """Whether a project has a job, and the current definitions of the job are trusted."""
    try:
        is_known = project.job(job.jobid) is not None or has_code(project, job.jobid)
        return is_known and not expected_distrust(project, catalogue, job)
    except OdfError:
        return False


def expected_on_spark(project: Project, job: Job) -> bool:
    """Whether a run of this job would use Spark, without importing the project's code."""
    path = code_of(project, job.jobid)
    return "copy" in job.options or (is_for_spark(path) if path else _may_have(project, job.jobid))


def _jobs_in(path: Path, start: Start | None) -> dict[str, Callable[..., Any]]:
    if find_spec("pyspark") is None:
        raise MissingDependency(
            f"{path} declares jobs for Spark, and pyspark is not installed",
            hint=f"Install it: {install_command('spark')}",
        )
    from ..spark.code import jobs_in

    return jobs_in(path, start)


def _check_beside_others(path: Path, jobid: str) -> None:
    from ..spark.code import check_beside_others

    check_beside_others(path, jobid)


def _must_agree(project: Project, in_file: Job, job: Job, path: Path) -> None:
    """Refuse a decorator that contradicts the project file; settings that it omits come from the file."""
    defaults = Job(job.jobid, outputs=("default",))
    for key, value in _SETTINGS:
        is_declared = bool(value(job)) if key == "writes" else value(job) != value(defaults)
        if is_declared and value(job) != value(in_file):
            raise BadConfig(
                f"job {job.jobid}: {key} differs between {project.file} [job.{job.jobid}] and {path}",
                hint=f"Keep one: remove {key} from the decorator, or the table from the file.",
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
