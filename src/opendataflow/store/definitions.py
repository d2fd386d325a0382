"""Definitions: datasets, jobs and pools as rows, and the catalogue that they form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ..errors import BadDataid, BadDefinition
from ..model import (
    IN,
    OUT,
    TODAY,
    Catalogue,
    Dataset,
    Input,
    Job,
    Mapping,
    Partition,
    Pool,
    Retry,
    checks_to_data,
    parse_checks,
    sort_key,
)
from ..tokens import is_token
from .backend import Transaction
from .inputs import in_order
from .records import Change, table
from .rows import DatasetRow, JobItem, JobRule, PoolRow, compact


def load(tx: Transaction) -> Catalogue:
    """The catalogue as the store has it now."""
    datasets = [_dataset(row) for row in tx.fetch(DatasetRow._make, "datasets")]
    items: dict[str, list[JobItem]] = {}
    for item in tx.fetch(JobItem._make, "job_items"):
        items.setdefault(item.jobid, []).append(item)
    rules = {rule.jobid: rule for rule in tx.fetch(JobRule._make, "job_rules")}
    jobs = [_job(jobid, rows, rules.get(jobid)) for jobid, rows in items.items()]
    pools = [
        Pool(pool.poolid, pool.slots, table(pool.options, f"pool {pool.poolid}, column options"))
        for pool in tx.fetch(PoolRow._make, "pools")
    ]
    return Catalogue.build(datasets, jobs, pools)


def store_implicit(tx: Transaction, catalogue: Catalogue) -> None:
    """Give a job that writes nothing the marker dataset that its runs are remembered by."""
    for dataset in catalogue.implicit:
        _put_dataset(tx, dataset)
    with_output = {item.jobid for item in tx.fetch(JobItem._make, "job_items") if item.itemtype == OUT}
    for job in catalogue.jobs.values():
        if job.outputs == (job.jobid,) and job.jobid not in with_output:
            tx.run("job_item_put", jobid=job.jobid, itemtype=OUT, datasetid=job.jobid, itemvalue=None)


def register(
    tx: Transaction,
    stored: Catalogue,
    datasets: Iterable[Dataset],
    jobs: Iterable[Job],
    pools: Iterable[Pool],
    *,
    prune: bool,
    dry_run: bool,
) -> list[Change]:
    """Make the store hold these definitions; returns the differences and writes only those."""
    datasets, jobs, pools = list(datasets), list(jobs), list(pools)
    for dataset in datasets:
        if dataset.encryptedpass and not is_token(dataset.encryptedpass):
            raise BadDefinition(
                f"the encryptedpass of dataset {dataset.datasetid} is not a token",
                hint=f"Make one: odf crypt encrypt --for {dataset.datasetid}",
            )
    wanted = Catalogue.build(
        _merged(stored.datasets, {dataset.datasetid: dataset for dataset in datasets}, prune, keep={"today"}).values(),
        _merged(stored.jobs, {job.jobid: job for job in jobs}, prune).values(),
        _merged(stored.pools, {pool.poolid: pool for pool in pools}, prune).values(),
    )
    changes = [
        *_differences("pool", stored.pools, wanted.pools, pool_data),
        *_differences("dataset", stored.datasets, wanted.datasets, dataset_data),
        *_differences("job", stored.jobs, wanted.jobs, job_data),
    ]
    for job in wanted.jobs.values():
        if job.pool and job.pool not in wanted.pools:
            raise BadDefinition(
                f"job {job.jobid} runs in pool {job.pool}, which does not exist",
                hint=f"Declare it, for instance: odf pool set {job.pool} 10",
            )
    if not dry_run:
        _write(tx, stored, wanted, changes)
    return changes


def _merged(stored: dict[str, Any], given: dict[str, Any], prune: bool, keep: set[str] = frozenset()) -> dict[str, Any]:  # type: ignore[assignment]
    base = {name: value for name, value in stored.items() if name in keep} if prune else stored
    return {**base, **given}


def _differences(what: str, stored: dict[str, Any], wanted: dict[str, Any], data: Any) -> list[Change]:
    changes = []
    for name in sorted(stored.keys() | wanted.keys()):
        before = data(stored[name]) if name in stored else None
        after = data(wanted[name]) if name in wanted else None
        if before != after:
            changes.append(
                Change(what, name, "add" if before is None else "remove" if after is None else "change", before, after)
            )
    return changes


def _write(tx: Transaction, stored: Catalogue, wanted: Catalogue, changes: list[Change]) -> None:
    order = {"pool": 0, "dataset": 1, "job": 2}
    adding = [change for change in changes if change.action != "remove"]
    removing = [change for change in changes if change.action == "remove"]
    # A dataset may change its producer: first all items of the changed jobs go, then the new ones come.
    for change in changes:
        if change.what == "job":
            tx.run("job_clear", jobid=change.name)
            if change.action == "remove":
                tx.run("job_rule_drop", jobid=change.name)
    for change in sorted(adding, key=lambda change: order[change.what]):
        if change.what == "pool":
            pool = wanted.pools[change.name]
            tx.run("pool_put", poolid=pool.poolid, slots=pool.slots, options=compact(dict(pool.options)))
        elif change.what == "dataset":
            dataset = wanted.datasets[change.name]
            if change.action == "change" and stored.datasets[change.name].partition.type != dataset.partition.type:
                resort(tx, dataset)
            _put_dataset(tx, dataset)
        else:
            _put_job(tx, wanted.jobs[change.name])
    for change in removing:
        if change.what == "dataset":
            if tx.rows("chunks_page", datasetid=change.name, after_key="", after_dataid="", n=1):
                raise BadDefinition(
                    f"dataset {change.name} has chunks and cannot be removed",
                    hint=f"Forget them first: odf forget {change.name} --all",
                )
            for query in ("readings_mark", "readings_forget", "dataset_drop"):
                tx.run(query, datasetid=change.name)
        elif change.what == "pool":
            tx.run("pool_drop", poolid=change.name)


def resort(tx: Transaction, dataset: Dataset) -> None:
    """Give all chunks of a dataset their positions anew: its type changed."""
    keys = []
    for chunk in in_order(tx, dataset.datasetid):
        try:
            keys.append((dataset.datasetid, chunk.dataid, sort_key(dataset.partition, chunk.dataid)))
        except BadDataid as error:
            raise BadDefinition(
                f"dataset {dataset.datasetid} cannot become {dataset.partition.type}: it has the chunk {chunk.dataid}",
                hint=error.message,
            ) from None
    if keys:
        tx.run("chunk_sort_keys_put", chunks=compact(keys))


def _put_dataset(tx: Transaction, dataset: Dataset) -> None:
    data = dataset_data(dataset)
    tx.run("dataset_put", **{name: value if isinstance(value, str) else compact(value) for name, value in data.items()})


def _put_job(tx: Transaction, job: Job) -> None:
    for item in job.inputs:
        mapping = None if item.mapping == Mapping() else str(item.mapping)
        tx.run("job_item_put", jobid=job.jobid, itemtype=IN, datasetid=item.datasetid, itemvalue=mapping)
    for datasetid in job.outputs:
        tx.run("job_item_put", jobid=job.jobid, itemtype=OUT, datasetid=datasetid, itemvalue=None)
    for name, value in job.env.items():
        tx.run("job_item_put", jobid=job.jobid, itemtype=name, datasetid=None, itemvalue=value)
    tx.run(
        "job_rule_put",
        jobid=job.jobid,
        retries=job.retry.retries,
        backoff=job.retry.backoff,
        backoff_max=job.retry.backoff_max,
        retry_on=",".join(job.retry.on),
        lease=job.lease,
        timeout=job.timeout,
        pool=job.pool,
        options=compact(dict(job.options)),
    )


def dataset_data(dataset: Dataset) -> dict[str, Any]:
    """A dataset as the columns of its table."""
    return {
        "datasetid": dataset.datasetid,
        "kind": dataset.kind,
        "hostname": dataset.hostname,
        "database": dataset.database,
        "schemaname": dataset.schemaname,
        "tablename": dataset.tablename,
        "username": dataset.username,
        "encryptedpass": dataset.encryptedpass,
        "location": dataset.location,
        "format": dataset.format,
        "partition": dataset.partition.to_data(),
        "checks": checks_to_data(dataset.checks),
        "options": dict(dataset.options),
    }


def job_data(job: Job) -> dict[str, Any]:
    """A job as plain data."""
    return {
        "reads": {item.datasetid: str(item.mapping) for item in job.inputs},
        "writes": sorted(job.outputs),
        "env": dict(job.env),
        "retries": job.retry.retries,
        "backoff": job.retry.backoff,
        "backoff_max": job.retry.backoff_max,
        "retry_on": list(job.retry.on),
        "lease": job.lease,
        "timeout": job.timeout,
        "pool": job.pool,
        "options": dict(job.options),
    }


def pool_data(pool: Pool) -> dict[str, Any]:
    """A pool as plain data."""
    return {"slots": pool.slots, "options": dict(pool.options)}


_TEXTS = ("kind", "hostname", "database", "schemaname", "tablename", "username", "encryptedpass", "location", "format")


def _dataset(row: DatasetRow) -> Dataset:
    where = f"dataset {row.datasetid}"
    if row.datasetid == TODAY.datasetid:  # built in: of its row, only the time zone counts
        options = table(row.options, f"{where}, column options")
        return replace(TODAY, options={"timezone": options.get("timezone", "UTC")})
    partition = row.partition or "text"
    texts: Any = {name: getattr(row, name) or "" for name in _TEXTS}
    return Dataset(
        row.datasetid,
        **texts,
        partition=Partition.from_data(
            table(partition, f"{where}, column partition") if partition.lstrip().startswith("{") else partition, where
        ),
        checks=parse_checks(table(row.checks, f"{where}, column checks"), where),
        options=table(row.options, f"{where}, column options"),
    )


def _job(jobid: str, items: list[JobItem], rule: JobRule | None) -> Job:
    inputs = tuple(
        Input(item.datasetid, Mapping.from_data(item.itemvalue, f"job {jobid}, input {item.datasetid}"))
        for item in items
        if item.itemtype == IN
    )
    outputs = tuple(item.datasetid for item in items if item.itemtype == OUT)
    if len(outputs) > 1:
        # The marker of a job that had no output until now; a declared output replaces it.
        outputs = tuple(name for name in outputs if name != jobid) or outputs
    env = {item.itemtype: item.itemvalue or "" for item in items if item.itemtype not in (IN, OUT)}
    if rule is None:
        return Job(jobid, inputs, outputs, env)
    retry_on = tuple(filter(None, (rule.retry_on or "").split(",")))
    return Job(
        jobid,
        inputs,
        outputs,
        env,
        Retry(rule.retries, rule.backoff, rule.backoff_max, retry_on),
        rule.lease,
        rule.timeout,
        rule.pool or "",
        table(rule.options, f"job {jobid}, column options"),
    )
