"""Builds and validates a project from the tables of dataflow.toml."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import BadMapping, Cycle, OdfError, UnknownDataset
from ..model import TODAY, Catalogue, Dataset, Job, Pool
from ..model.definitions.ids import shown
from ..model.plain import plain_table
from ..model.timezone import time_zone
from .config import read_trust, union
from .datasets import VERIFY, check_complete, check_references, read_dataset, verified
from .environments import read_environments, select
from .jobs import check_pool, read_job, read_own_pool, read_pools
from .lineage import read_lineage
from .section import FLAG, Section, nearest, quoted
from .settings import DEFAULT_JOBS, DEFAULT_LOGS, Project, Trust, Web

if TYPE_CHECKING:
    from .notify import Notify

_TABLES = (
    *("project", "store", "environment", "dataset", "job", "pool", "pools", "spark", "trust", "notify", "lineage"),
    "web",
)


def from_tables(file: Path, root: Section, env: str | None, trust: Trust) -> Project:
    """The project that these tables declare, in this environment; refuses invalid declarations."""
    folder = file.parent
    for name in root.data:
        if name not in _TABLES:
            raise root.wrong(f"[{quoted(name)}]", "there is no such table", nearest(name, _TABLES))
    project = root.inner("project")
    project.only(("name", "jobs", "logs", "timezone", "keep_log_tail"))
    environments = read_environments(root, folder)
    environment = select(environments, env, file.name)
    timezone = _timezone(project)
    pools = _pools(root)
    datasets = (replace(TODAY, options={"timezone": timezone}), *_datasets(root, environment.name))
    jobs = _jobs(root, folder, pools)
    _check_graph(root, datasets, jobs, pools)
    with root.at("[spark]"):
        spark = plain_table(root.inner("spark").data, "")
    return Project(
        folder,
        file,
        project.text("name", folder.name) or folder.name,
        tuple(Path(os.path.normpath(folder / name)) for name in project.texts("jobs", (DEFAULT_JOBS,))),
        environment,
        tuple(environments),
        Path(os.path.normpath(folder / project.text("logs", DEFAULT_LOGS))),
        datasets,
        jobs,
        pools,
        spark,
        timezone,
        union(read_trust(root.inner("trust")), trust),
        bool(project.get("keep_log_tail", FLAG, False)),
        _notify(root, folder, tuple(environments)),
        read_lineage(root.inner("lineage"), folder),
        _web(root),
    )


def _notify(root: Section, folder: Path, environments: tuple[str, ...]) -> Notify | None:
    if "notify" not in root:
        return None
    from .notify import read_notify  # lazy: most projects have no notifications

    return read_notify(root.inner("notify"), folder, environments)


def _web(root: Section) -> Web:
    if "web" not in root:
        return Web()
    from .web import read_web  # lazy: workers do not need the console

    return read_web(root.inner("web"))


def _timezone(project: Section) -> str:
    name = project.text("timezone", "UTC")
    with project.at("timezone"):
        time_zone(name)
    return name


def _datasets(root: Section, selected: str) -> list[Dataset]:
    sections = {section.name: section for section in root.tables("dataset")}
    datasets = {name: read_dataset(section) for name, section in sections.items()}
    for environment in root.tables("environment"):
        for override in environment.tables("dataset"):
            if override.name not in sections:
                message = f"there is no dataset {shown(override.name)}"
                raise override.wrong("", message, nearest(override.name, sections), UnknownDataset)
            # Overrides of other environments are validated too, before these environments are used.
            changed = read_dataset(sections[override.name], override)
            if environment.name == selected:
                datasets[override.name] = changed
        verify = environment.get("verify", VERIFY)
        if environment.name == selected:
            datasets = {name: verified(dataset, verify) for name, dataset in datasets.items()}
    for name, dataset in datasets.items():
        check_complete(sections[name], dataset)
        check_references(sections[name], dataset, {TODAY.datasetid, *datasets})
    return list(datasets.values())


def _pools(root: Section) -> tuple[Pool, ...]:
    declared = [pool for _, pool in read_pools(root)]
    own = (read_own_pool(section, declared) for section in root.tables("job"))
    return (*declared, *(pool for pool in own if pool is not None))


def _jobs(root: Section, folder: Path, pools: tuple[Pool, ...]) -> tuple[Job, ...]:
    jobs = []
    for section in root.tables("job"):
        job = read_job(section, folder)
        check_pool(section, job, [pool.poolid for pool in pools])
        jobs.append(job)
    return tuple(jobs)


def _check_graph(root: Section, datasets: tuple[Dataset, ...], jobs: tuple[Job, ...], pools: tuple[Pool, ...]) -> None:
    """Refuse an inconsistent graph, and name the first job that makes it inconsistent."""
    if _misfit(datasets, jobs, pools) is None:
        return
    fits, fails = 0, len(jobs)
    while fails - fits > 1:
        middle = (fits + fails) // 2
        if _misfit(datasets, jobs[:middle], pools) is None:
            fits = middle
        else:
            fails = middle
    problem = _misfit(datasets, jobs[:fails], pools)
    if problem is not None:
        section = root.inner("job").inner(jobs[fails - 1].jobid)
        key = _key(problem, jobs[fails - 1], datasets)
        raise section.wrong(key, problem.message, problem.hint, type(problem))


def _misfit(datasets: tuple[Dataset, ...], jobs: tuple[Job, ...], pools: tuple[Pool, ...]) -> OdfError | None:
    try:
        Catalogue.build(datasets, jobs, pools)
    except OdfError as problem:
        return problem
    return None


def _key(problem: OdfError, job: Job, datasets: tuple[Dataset, ...]) -> str:
    known = {dataset.datasetid for dataset in datasets}
    if "copy" in job.options:
        return "copy"
    if isinstance(problem, UnknownDataset):
        return "writes" if known.issuperset(item.datasetid for item in job.inputs) else "reads"
    return "reads" if isinstance(problem, (BadMapping, Cycle)) else "writes"
