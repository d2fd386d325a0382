"""Definitions as people may see them: never with a password, encrypted or not."""

from __future__ import annotations

from typing import Any

from ..model import Catalogue, Dataset, Job
from ..model.broken import Definition
from ..project import Project
from ..shapes import dataclass
from ..store.loading import dataset_data, job_data


def job_facts(job: Job) -> dict[str, Any]:
    """Everything that is registered about a job."""
    return {"jobid": job.jobid, **job_data(job)}


def dataset_facts(dataset: Dataset) -> dict[str, Any]:
    """Everything that is registered about a dataset; of its password only that there is one."""
    return dataset_data(dataset) | {"encryptedpass": "(encrypted)" if dataset.encryptedpass else ""}


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


def declared_by(project: Project) -> set[Definition]:
    """What `odf apply` would store."""
    if not project.is_toml:
        return set()
    declared = {("dataset", dataset.datasetid) for dataset in project.datasets}
    return declared | {("job", job.jobid) for job in project.jobs} | {("pool", pool.poolid) for pool in project.pools}
