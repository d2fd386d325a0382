"""Finds the code file of a job by the job's name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ..errors import BadConfig, InvalidPath
from ..model import check_id
from .config import refuse_foreign
from .locations import is_inside
from .settings import Project

SUFFIXES = (".py", ".sql", ".sh")


def code_of(project: Project, jobid: str) -> Path | None:
    """The code file of a job: its declared script, or the one file in the job folders with its name."""
    check_id("job", jobid)
    options = next((job.options for job in project.jobs if job.jobid == jobid), {})
    where = f"{project.file.name}: [job.{jobid}]" if project.file else f"job {jobid}"
    if "script" in options:
        path = _script(project, str(options["script"]), where)
        refuse_foreign(path, project.folder)
        return path
    files = list(dict.fromkeys(path for folder in project.job_folders for path in _named(folder, jobid)))
    if files and "copy" in options:
        raise BadConfig(
            f"{where} copy: the job also has code: {files[0]}", hint="A copy has no code. Keep one of the two."
        )
    if len(files) > 1:
        names = " and ".join(map(str, files))
        raise BadConfig(f"{where}: several files match: {names}", hint="Keep one of them, or name it: script = …")
    if files:
        refuse_foreign(files[0], project.folder)
    return files[0] if files else None


def _named(folder: Path, jobid: str) -> Iterator[Path]:
    for name in (*(jobid + suffix for suffix in SUFFIXES), jobid):
        path = folder / name
        if os.path.isfile(path) and (name != jobid or os.access(path, os.X_OK)):
            _check_inside(path, folder)
            yield path


def _script(project: Project, script: str, where: str) -> Path:
    path = Path(os.path.normpath(project.folder / script))
    _check_inside(path, project.folder)
    if not os.path.isfile(path):
        raise BadConfig(f"{where} script: there is no file {path}")
    return path


def _check_inside(path: Path, folder: Path) -> None:
    if not is_inside(str(path), [str(folder)]):
        raise InvalidPath(
            f"{path} points outside {folder}, to {os.path.realpath(path)}",
            hint="Move the job code into the project.",
        )


def is_for_spark(path: Path) -> bool:
    """Whether a file of job code is run by Spark rather than as a process: SQL, or Python with an @job function.

    Python that cannot be parsed runs as a process only if its first line names an interpreter.
    """
    if path.suffix != ".py":
        return path.suffix == ".sql"
    from .job_file import job_file  # lazy: not needed for code in other languages

    file = job_file(path)
    return file.has_jobs or (file.problem is not None and not file.is_script)
