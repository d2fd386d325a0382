"""Definitions: datasets, jobs and pools as rows, and the catalogue that they form."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ..errors import BadDataid, BadDefinition
from ..model import (
    IN,
    OUT,
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
from .backend import Row, Transaction
from .records import Change, compact


def load(tx: Transaction) -> Catalogue:
    """The catalogue as the store has it now."""
    datasets = [_dataset(row) for row in tx.rows("datasets")]
    items: dict[str, list[Row]] = {}
    for row in tx.rows("job_items"):
        items.setdefault(row[0], []).append(row)
    rules = {row[0]: row for row in tx.rows("job_rules")}
    jobs = [_job(jobid, rows, rules.get(jobid)) for jobid, rows in items.items()]
    pools = [
        Pool(poolid, slots, _table(options, f"pool {poolid}, column options"))
        for poolid, slots, options in tx.rows("pools")
    ]
    return Catalogue.build(datasets, jobs, pools)


def store_implicit(tx: Transaction, catalogue: Catalogue) -> None:
    """Give a job that writes nothing the marker dataset that its runs are remembered by."""
    for dataset in catalogue.implicit:
        _put_dataset(tx, dataset)
    for job in catalogue.jobs.values():
        if job.outputs == (job.jobid,):
            stored = {row[2] for row in tx.rows("job_items") if row[0] == job.jobid and row[1] == OUT}
            if not stored:
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
    wanted = Catalogue.build(
        _merged(stored.datasets, {each.datasetid: each for each in datasets}, prune, keep={"today"}).values(),
        _merged(stored.jobs, {each.jobid: each for each in jobs}, prune).values(),
        _merged(stored.pools, {each.poolid: each for each in pools}, prune).values(),
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
    for change in sorted(adding, key=lambda each: order[each.what]):
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
            if tx.row("chunks_page", datasetid=change.name, after_key="", after_dataid="", n=1):
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
    for dataid, _ in tx.rows("chunks_in_order", datasetid=dataset.datasetid):
        try:
            keys.append((dataset.datasetid, dataid, sort_key(dataset.partition, dataid)))
        except BadDataid as error:
            raise BadDefinition(
                f"dataset {dataset.datasetid} cannot become {dataset.partition.type}: it has the chunk {dataid}",
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


def _table(text: str | None, where: str) -> dict[str, Any]:
    try:
        data = json.loads(text or "{}")
    except ValueError:
        raise BadDefinition(f"{where} is not JSON: {str(text)[:60]!r}") from None
    if not isinstance(data, dict):
        raise BadDefinition(f"{where} is not a JSON object: {str(text)[:60]!r}")
    return data


_TEXTS = ("kind", "hostname", "database", "schemaname", "tablename", "username", "encryptedpass", "location", "format")


def _dataset(row: Row) -> Dataset:
    datasetid = row[0]
    where = f"dataset {datasetid}"
    partition = row[10] or "text"
    texts: Any = {name: value or "" for name, value in zip(_TEXTS, row[1:10], strict=True)}
    return Dataset(
        datasetid,
        **texts,
        partition=Partition.from_data(
            _table(partition, f"{where}, column partition") if partition.lstrip().startswith("{") else partition, where
        ),
        checks=parse_checks(_table(row[11], f"{where}, column checks"), where),
        options=_table(row[12], f"{where}, column options"),
    )


def _job(jobid: str, items: list[Row], rule: Row | None) -> Job:
    inputs = tuple(
        Input(row[2], Mapping.from_data(row[3], f"job {jobid}, input {row[2]}")) for row in items if row[1] == IN
    )
    outputs = tuple(row[2] for row in items if row[1] == OUT)
    if len(outputs) > 1:
        # The marker of a job that had no output until now; a declared output replaces it.
        outputs = tuple(each for each in outputs if each != jobid) or outputs
    env = {row[1]: row[3] or "" for row in items if row[1] not in (IN, OUT)}
    if rule is None:
        return Job(jobid, inputs, outputs, env)
    _, retries, backoff, backoff_max, retry_on, lease, timeout, pool, options = rule
    retry = Retry(retries, backoff, backoff_max, tuple(filter(None, (retry_on or "").split(","))))
    return Job(
        jobid, inputs, outputs, env, retry, lease, timeout, pool or "", _table(options, f"job {jobid}, column options")
    )
