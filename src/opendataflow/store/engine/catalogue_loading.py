"""Load rows into a catalogue; a row that does not load breaks only the definitions that need it."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from ...errors import BadDefinition, OdfError
from ...model import (
    IN,
    OUT,
    TODAY,
    Broken,
    Catalogue,
    Dataset,
    Input,
    Job,
    Mapping,
    Partition,
    Pause,
    Pool,
    RetryRule,
    checks_to_data,
    parse_checks,
)
from ...model.timezone import time_zone
from ..drivers.base import Transaction
from ..records import moment, table
from ..rows import DatasetRow, JobItem, JobRule, PauseRow, PoolRow

_T = TypeVar("_T")


def load(tx: Transaction) -> Catalogue:
    """The catalogue in the store, with its broken definitions."""
    broken: list[Broken] = []
    job_items, job_rules = tx.fetch_later(JobItem._make, "job_items"), tx.fetch_later(JobRule._make, "job_rules")
    dataset_rows, pool_rows = tx.fetch_later(DatasetRow._make, "datasets"), tx.fetch_later(PoolRow._make, "pools")
    pauses = tx.fetch_later(PauseRow._make, "pauses")

    def loaded(
        what: str, name: str, make: Callable[..., _T], as_data: Callable[..., dict[str, Any]], *rows: Any
    ) -> Iterator[_T]:
        statement = ""
        try:
            yield make(*rows)
            return
        except _InvalidColumn as invalid:
            problem, statement = invalid.problem, invalid.statement
        except OdfError as error:
            problem = error
        except (TypeError, ValueError, AttributeError) as error:  # SQLite may store text in a numeric column
            problem = BadDefinition(f"{what} {name} does not load: {error}")
        data = as_data(*rows)
        broken.append(Broken(what, name, problem, statement, None, data, tuple(data.get("writes", ()))))

    items: dict[str, list[JobItem]] = {}
    for item in job_items():
        items.setdefault(item.jobid, []).append(item)
    rules = {rule.jobid: rule for rule in job_rules()}
    datasets = [
        dataset for row in dataset_rows() for dataset in loaded("dataset", row.datasetid, _dataset, _dataset_rows, row)
    ]
    jobs = [
        job
        for jobid, rows in items.items()
        for job in loaded("job", jobid, _job, _job_rows, jobid, rows, rules.get(jobid))
    ]
    pools = [pool for row in pool_rows() for pool in loaded("pool", row.poolid, _pool, _pool_rows, row)]
    catalogue = Catalogue.of_what_fits(datasets, jobs, pools, broken)
    stored = {job.jobid: job for job in jobs}
    known = {row.datasetid for row in dataset_rows()} if catalogue.broken else set()
    for name, each in catalogue.broken.items():
        if each.data is None:  # its own rows load
            job = stored[each.name]
            statement = each.statement or _add_datasets(job, known)
            catalogue.broken[name] = each._replace(data=job_data(job), statement=statement)
    paused = (Pause(row.jobid, row.who, row.why, moment(row.since)) for row in pauses())
    return catalogue._replace(paused={pause.jobid: pause for pause in paused})


def _add_datasets(job: Job, known: Container[str]) -> str:
    """SQL that inserts the missing datasets of a job; empty if none is missing."""
    names = (*(item.datasetid for item in job.inputs), *job.outputs)
    missing = ", ".join(f"({_quoted(name)})" for name in dict.fromkeys(names) if name not in known)
    return f"insert into dataset (datasetid) values {missing}" if missing else ""


class _InvalidColumn(Exception):
    """A column with an invalid value, and a statement that repairs it."""

    def __init__(self, problem: OdfError, statement: str) -> None:
        super().__init__(problem.message)
        self.problem, self.statement = problem, statement


def _column(read: Callable[[], _T], statement: str) -> _T:
    try:
        return read()
    except OdfError as problem:
        raise _InvalidColumn(problem, statement) from None


def _quoted(text: object) -> str:
    return "'{}'".format(str(text).replace("'", "''"))


_TEXTS = ("kind", "hostname", "database", "schemaname", "tablename", "username", "encryptedpass", "location", "format")


def _dataset(row: DatasetRow) -> Dataset:
    where = f"dataset {row.datasetid}"
    column = "options"
    try:
        options = table(row.options, f"{where}, column options")
        if row.datasetid == TODAY.datasetid:  # built in: only the time zone of its row is used
            timezone = options.get("timezone", "UTC")
            time_zone(str(timezone), where)
            return replace(TODAY, options={"timezone": timezone})
        column = "partition"
        partition = _partition(row.partition or "text", where)
        column = "checks"
        checks = parse_checks(table(row.checks, f"{where}, column checks"), where)
    except OdfError as problem:
        repair = (
            f"update dataset set {column} = '{_REPAIRED_VALUES[column]}' where datasetid = {_quoted(row.datasetid)}"
        )
        raise _InvalidColumn(problem, repair) from None
    texts = {name: getattr(row, name) or "" for name in _TEXTS}
    return Dataset(row.datasetid, **texts, partition=partition, checks=checks, options=options)


_REPAIRED_VALUES = {"options": "{}", "partition": "day", "checks": "{}"}


def _partition(text: str, where: str) -> Partition:
    if not text.lstrip().startswith("{"):
        return Partition.from_data(text, where)
    return Partition.from_data(table(text, f"{where}, column partition"), where)


def _job(jobid: str, items: list[JobItem], rule: JobRule | None) -> Job:
    match = f"jobid = {_quoted(jobid)}"
    inputs = tuple(
        _column(
            lambda item=item: Input(  # type: ignore[misc]
                item.datasetid, Mapping.from_data(item.itemvalue, f"job {jobid}, input {item.datasetid}")
            ),
            f"update job set itemvalue = 'identity' where {match} and itemtype = 'IN' and datasetid = {_quoted(item.datasetid)}",
        )
        for item in items
        if item.itemtype == IN
    )
    outputs = tuple(item.datasetid for item in items if item.itemtype == OUT)
    if len(outputs) > 1:
        # A declared output replaces the marker dataset of a job without outputs.
        outputs = tuple(name for name in outputs if name != jobid) or outputs
    env = {item.itemtype: item.itemvalue or "" for item in items if item.itemtype not in (IN, OUT)}
    for name, value in env.items():
        remove = f"delete from job where {match} and itemtype = {_quoted(name)}"
        _column(lambda name=name, value=value: Job(jobid, outputs=(jobid,), env={name: value}), remove)  # type: ignore[misc]
    if rule is None:
        return _column(lambda: Job(jobid, inputs, outputs, env), f"delete from job where {match}")
    options = _column(
        lambda: table(rule.options, f"job {jobid}, column options of table jobrule"),
        f"update jobrule set options = '{{}}' where {match}",
    )
    on = tuple(filter(None, (rule.retry_on or "").split(",")))
    retry = _column(
        lambda: RetryRule(rule.retries, rule.backoff, rule.backoff_max, on),
        f"update jobrule set retries = 0, backoff = 10, backoff_max = 3600, retry_on = '' where {match}",
    )
    return Job(jobid, inputs, outputs, env, retry, rule.lease, rule.timeout, rule.pool or "", options)


def _pool(row: PoolRow) -> Pool:
    def read() -> Pool:
        return Pool(row.poolid, row.slots, table(row.options, f"pool {row.poolid}, column options"))

    return _column(read, f"update pool set slots = 1, options = '{{}}' where poolid = {_quoted(row.poolid)}")


def dataset_data(dataset: Dataset) -> dict[str, Any]:
    """The columns of a dataset."""
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


def _as_stored(text: object) -> Any:
    """The parsed JSON of a column, or its text if it is not JSON."""
    try:
        return json.loads(str(text))
    except (ValueError, RecursionError):
        return text


def _dataset_rows(row: DatasetRow) -> dict[str, Any]:
    texts = {name: getattr(row, name) or "" for name in ("datasetid", *_TEXTS)}
    return texts | {name: _as_stored(getattr(row, name)) for name in ("partition", "checks", "options")}


def _job_rows(jobid: str, items: list[JobItem], rule: JobRule | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "reads": {item.datasetid: item.itemvalue or "identity" for item in items if item.itemtype == IN},
        "writes": sorted(item.datasetid for item in items if item.itemtype == OUT),
        "env": {item.itemtype: item.itemvalue or "" for item in items if item.itemtype not in (IN, OUT)},
    }
    if rule is not None:
        outcomes = [each for each in str(rule.retry_on or "").split(",") if each]
        data |= rule._asdict() | {"retry_on": outcomes, "options": _as_stored(rule.options)}
        del data["jobid"]
    return data


def _pool_rows(row: PoolRow) -> dict[str, Any]:
    return {"slots": row.slots, "options": _as_stored(row.options)}
