"""Verbs about what is registered: jobs, datasets."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from ..model import check_id
from ..model.definitions.calendar import comes_by_clock
from ..tokens import shown_facts, without_secrets
from .app import App, Line, named_facts, table
from .common import verb
from .status import broken_lines

if TYPE_CHECKING:
    from ..model import Catalogue, Dataset, Job


@verb("jobs")
@click.argument("job", required=False)
def jobs_verb(app: App, job: str | None) -> int:
    """The registered jobs in the order of the flow, or one of them in full.

    \b
      odf jobs
      odf jobs clean_flights
    """
    from ..insight.definitions import broken_facts, job_facts

    catalogue = app.store.catalogue()
    if job is None:
        jobs = [catalogue.jobs[jobid] for jobid in catalogue.order()]
        broken = broken_facts(catalogue, app.project)
        lines = [*_jobs(jobs, catalogue.paused), *broken_lines(broken)]
        app.show([job_facts(registered) for registered in jobs], lambda: lines, overview=True)
    else:
        one = catalogue.job(check_id("job", job))
        app.show(job_facts(one), lambda: named_facts(_about_job(catalogue, one)))
    return 0


def _jobs(jobs: Sequence[Job], paused: Container[str]) -> Iterable[Line]:
    rows = [
        (job.jobid, _reads(job), ", ".join(job.outputs), job.pool, job.retry.retries or "", "paused" * is_paused)
        for job in jobs
        for is_paused in [job.jobid in paused]
    ]
    if not rows:
        return ["no jobs; declare them in dataflow.toml, then: odf apply"]
    return table(["job", "reads", "writes", "pool", "retries", ""], rows)


def _about_job(catalogue: Catalogue, job: Job) -> Iterator[tuple[str, object]]:
    yield "job", job.jobid
    yield "reads", _reads(job)
    yield "writes", ", ".join(job.outputs)
    yield "partition", catalogue.output_partition(job).type
    yield from ((f"env {name}", value) for name, value in shown_facts(job.env, "env").items())
    yield "lease", f"{job.lease:g} s"
    yield "timeout", f"{job.timeout:g} s" if job.timeout else "none"
    yield "pool", job.pool or "none"
    yield "retries", f"{job.retry.retries}, after {job.retry.backoff:g} s" if job.retry.retries else "none"
    yield from ((name, _shown(value)) for name, value in shown_facts(job.options).items())
    if job.jobid in catalogue.paused:
        yield "paused", str(catalogue.paused[job.jobid])


def _reads(job: Job) -> str:
    return ", ".join(
        item.datasetid + (f" ({item.mapping})" if item.mapping.kind != "identity" else "") for item in job.inputs
    )


@verb("datasets")
@click.argument("dataset", required=False)
def datasets_verb(app: App, dataset: str | None) -> int:
    """The registered datasets in the order of the flow, or one of them in full. Passwords are never shown.

    \b
      odf datasets
      odf datasets flights_raw
    """
    from ..insight.definitions import broken_facts, dataset_facts
    from ..insight.flow import datasets_in_order

    catalogue = app.store.catalogue()
    if dataset is None:
        datasets = [catalogue.datasets[name] for name in datasets_in_order(catalogue)]
        lines = [*_datasets(catalogue, datasets), *broken_lines(broken_facts(catalogue, app.project))]
        app.show([dataset_facts(registered) for registered in datasets], lambda: lines, overview=True)
        return 0
    one = catalogue.dataset(check_id("dataset", dataset))
    data = dataset_facts(one)
    producer = catalogue.producer(one.datasetid)
    facts: list[tuple[str, object]] = [(name, _shown(value)) for name, value in data.items()]
    facts += [
        ("produced by", producer.jobid if producer else "the calendar" if comes_by_clock(one) else "outside"),
        ("read by", ", ".join(job.jobid for job, _ in catalogue.consumers(one.datasetid))),
    ]
    app.show(data, lambda: named_facts(facts))
    return 0


def _datasets(catalogue: Catalogue, datasets: Sequence[Dataset]) -> Iterable[Line]:
    rows = []
    for dataset in datasets:
        producer = catalogue.producer(dataset.datasetid)
        kind = dataset.kind or "tracked"
        by = producer.jobid if producer else ""
        rows.append((dataset.datasetid, kind, dataset.format, _partition(dataset), _location(dataset), by))
    if not rows:
        return ["no datasets"]
    return table(["dataset", "kind", "format", "partition", "location", "produced by"], rows)


def _partition(dataset: Dataset) -> str:
    partition = dataset.partition
    return (
        partition.type
        + (f" of {partition.count:,}" if partition.count else "")
        + (f" by {partition.column}" if partition.column else "")
    )


def _location(dataset: Dataset) -> str:
    table_name = ".".join(filter(None, (dataset.database, dataset.schemaname, dataset.tablename)))
    host = without_secrets(dataset.hostname, "hostname")
    return without_secrets(dataset.location) or (f"{host}/{table_name}" if host else table_name)


def _shown(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return ", ".join(f"{name} = {part if isinstance(part, str) else json.dumps(part)}" for name, part in value.items())
