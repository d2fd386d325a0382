"""Store datasets, jobs and pools as rows, and compare new definitions with the stored ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ...errors import BadDataid, BadDefinition, BadId
from ...model import IDENTITY, IN, OUT, Catalogue, Dataset, Job, Pool, sort_key
from ...model.definitions.broken import Definition
from ...tokens import is_token
from ..drivers.base import Transaction
from ..records import AppliedProject, Change
from ..rows import JobItem, compact
from .catalogue_loading import dataset_data, job_data, pool_data
from .inputs import chunks_in_order


def store_implicit(tx: Transaction, catalogue: Catalogue) -> None:
    """Store the marker dataset of each job without outputs, which records its runs."""
    for dataset in catalogue.implicit:
        _put_dataset(tx, dataset)
    with_output = {item.jobid for item in tx.fetch(JobItem._make, "job_items") if item.itemtype == OUT}
    for job in catalogue.jobs.values():
        if job.outputs == (job.jobid,) and job.jobid not in with_output:
            tx.run("job_item_put", jobid=job.jobid, itemtype=OUT, datasetid=job.jobid, itemvalue=None)


def plan(
    stored: Catalogue,
    datasets: Iterable[Dataset],
    jobs: Iterable[Job],
    pools: Iterable[Pool],
    *,
    retired: Collection[str] = (),
    prune: bool = False,
) -> tuple[Catalogue, list[Change]]:
    """The catalogue with these definitions merged in and the retired jobs removed, and its differences from the stored one."""
    datasets, jobs, pools = list(datasets), list(jobs), list(pools)
    for dataset in datasets:
        if dataset.encryptedpass and not is_token(dataset.encryptedpass):
            raise BadDefinition(
                f"the encryptedpass of dataset {dataset.datasetid} is not a token",
                hint=f"Make one: odf crypt encrypt --for {dataset.datasetid}",
            )
    given = {("dataset", dataset.datasetid) for dataset in datasets}
    given |= {("job", job.jobid) for job in jobs} | {("pool", pool.poolid) for pool in pools}
    removed = {("job", jobid) for jobid in retired} - given
    # A broken definition that is given again or retired is replaced; the others are kept.
    kept = {name: each for name, each in stored.broken.items() if not prune and name not in given | removed}
    remaining = {name: job for name, job in stored.jobs.items() if ("job", name) not in removed}
    wanted = Catalogue.of_what_fits(
        _merged(stored.datasets, {dataset.datasetid: dataset for dataset in datasets}, prune, keep={"today"}).values(),
        _merged(remaining, {job.jobid: job for job in jobs}, prune).values(),
        _merged(stored.pools, {pool.poolid: pool for pool in pools}, prune).values(),
        [each for each in kept.values() if each.cause is None],
    )
    for name, each in wanted.broken.items():
        if name in given or name not in stored.broken:
            raise each.problem
    before, after = _as_data(stored), _as_data(wanted)
    after |= {name: before[name] for name in kept}
    changes = [change for what in ("pool", "dataset", "job") for change in _differences(what, before, after)]
    for job in wanted.jobs.values():
        if job.pool and job.pool not in wanted.pools:
            raise BadDefinition(
                f"job {job.jobid} runs in pool {job.pool}, which does not exist",
                hint=f"Declare it, for instance: odf pool set {job.pool} 10 --create",
            )
    return wanted, changes


def no_longer_declared(tx: Transaction, applied: AppliedProject, jobs: Iterable[Job]) -> set[str]:
    """The jobs that this project applied before and no longer declares; jobs from SQL or other projects are not included."""
    if not applied.is_whole:
        return set()
    return _applied_before(tx, applied) - {job.jobid for job in jobs}


def remember_applied(tx: Transaction, applied: AppliedProject, jobs: Iterable[Job]) -> None:
    """Record the digest of the applied project and the names of its jobs."""
    before, now = _applied_before(tx, applied), {job.jobid for job in jobs}
    tx.run("meta_put", name="applied", value=applied.digest)
    for jobid in sorted(now - before):
        tx.run("applied_job_put", project=applied.project, jobid=jobid)
    for jobid in sorted(before - now) if applied.is_whole else ():
        tx.run("applied_job_drop", project=applied.project, jobid=jobid)


def _applied_before(tx: Transaction, applied: AppliedProject) -> set[str]:
    return set(tx.values("applied_jobs", project=applied.project))


def _merged(stored: dict[str, Any], given: dict[str, Any], prune: bool, keep: set[str] = frozenset()) -> dict[str, Any]:  # type: ignore[assignment]
    base = {name: value for name, value in stored.items() if name in keep} if prune else stored
    return {**base, **given}


def _as_data(catalogue: Catalogue) -> dict[Definition, dict[str, Any]]:
    """Every definition as plain data; a broken definition as far as its rows can be read."""
    data = {("pool", name): pool_data(pool) for name, pool in catalogue.pools.items()}
    data |= {("dataset", name): dataset_data(dataset) for name, dataset in catalogue.datasets.items()}
    data |= {("job", name): job_data(job) for name, job in catalogue.jobs.items()}
    return data | {name: each.data or {} for name, each in catalogue.broken.items()}


def _differences(
    what: str, stored: Mapping[Definition, dict[str, Any]], wanted: Mapping[Definition, dict[str, Any]]
) -> Iterator[Change]:
    for definition in sorted(name for name in stored.keys() | wanted.keys() if name[0] == what):
        before, after = stored.get(definition), wanted.get(definition)
        if before != after:
            yield Change(
                *definition, "add" if before is None else "remove" if after is None else "change", before, after
            )


def write(tx: Transaction, stored: Catalogue, wanted: Catalogue, changes: list[Change]) -> None:
    """Write the changed definitions."""
    order = {"pool": 0, "dataset": 1, "job": 2}
    adding = [change for change in changes if change.action != "remove"]
    removing = [change for change in changes if change.action == "remove"]
    # A dataset may change its producer: delete all items of the changed jobs before inserting new ones.
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
            known = stored.datasets.get(change.name)
            if change.action == "change" and (known is None or known.partition.type != dataset.partition.type):
                update_positions(tx, dataset)
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


def update_positions(tx: Transaction, dataset: Dataset, *, tolerant: bool = False) -> None:
    """Recompute the positions of a dataset's chunks after its partition type changed; a malformed dataid raises, or gets none."""
    keys = []
    for chunk in chunks_in_order(tx, dataset.datasetid):
        try:
            keys.append((dataset.datasetid, chunk.dataid, sort_key(dataset.partition, chunk.dataid)))
        except (BadDataid, BadId) as error:
            if tolerant:
                keys.append((dataset.datasetid, chunk.dataid, ""))
                continue
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
        mapping = None if item.mapping == IDENTITY else str(item.mapping)
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
