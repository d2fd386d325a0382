"""Definitions as people may see them: never with a password, encrypted or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import OdfError, UsageError
from ..model import Catalogue, Dataset, Job
from ..model.definitions.broken import Definition
from ..project import Project
from ..run.decorated_jobs import unapplied
from ..store import Change, Store
from ..store.engine.catalogue_loading import dataset_data, job_data
from ..tokens import shown_facts

SIGNS = {"add": "+", "change": "~", "remove": "-"}
_MOST = 3


def job_facts(job: Job) -> dict[str, Any]:
    """Everything that is registered about a job, without secrets in plain text."""
    return {"jobid": job.jobid, **shown_facts(job_data(job))}


def dataset_facts(dataset: Dataset) -> dict[str, Any]:
    """Everything that is registered about a dataset, without secrets in plain text; of its password only that there is one."""
    facts: dict[str, Any] = shown_facts(dataset_data(dataset))
    return facts | {"encryptedpass": "(encrypted)" if dataset.encryptedpass else ""}


@dataclass(frozen=True, slots=True)
class BrokenFact:
    """One definition in the store that does not load or fit: which jobs it stops, and how to put it right."""

    what: str
    name: str
    problem: str
    jobs: tuple[str, ...]
    mend: str


def broken_facts(catalogue: Catalogue, project: Project) -> list[BrokenFact]:
    """Every definition whose rows are wrong, with the jobs that it concerns."""
    declared = declared_by(project) if catalogue.broken else set()
    return [
        BrokenFact(
            *definition,
            broken.message,
            tuple(each.name for each in catalogue.broken.values() if each.what == "job" and each.rows_of == definition),
            broken.way_out(declared),
        )
        for definition, broken in catalogue.broken.items()
        if broken.rows_of == definition
    ]


def unapplied_line(project: Project, store: Store, *, with_code: bool = True) -> str:
    """How the project file and the store differ, in one line, with the way out; empty where they do not."""
    try:
        changes = unapplied(project, store, with_code=with_code)
        if changes:
            store.check_environment(project.environment.name)  # a store of another one is never applied to
    except UsageError as problem:
        return f"dataflow.toml and the store differ, and odf apply would be refused: {problem.name}: {problem.message}"
    except OdfError:
        return ""  # of the store: the look itself meets it
    if not changes:
        return ""
    file = project.file.name if project.file is not None else "the project"
    shown = ", ".join(f"{SIGNS[each.action]} {each.what} {each.name}{_changed(each)}" for each in changes[:_MOST])
    more = f", and {len(changes) - _MOST:,} more" if len(changes) > _MOST else ""
    return f"{file} and the store differ: {shown}{more}; see: odf apply --dry-run, then: odf apply"


def _changed(change: Change) -> str:
    before, after = change.before or {}, change.after or {}
    names = [name for name in dict.fromkeys((*before, *after)) if before.get(name) != after.get(name)]
    return f" ({', '.join(names)})" if change.action == "change" else ""


def declared_by(project: Project) -> set[Definition]:
    """What `odf apply` would store."""
    if not project.is_toml:
        return set()
    declared = {("dataset", dataset.datasetid) for dataset in project.datasets}
    return declared | {("job", job.jobid) for job in project.jobs} | {("pool", pool.poolid) for pool in project.pools}
