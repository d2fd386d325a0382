"""Loading: from rows to the catalogue that they form. A row that does not load concerns whoever needs it, and nobody else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ..errors import BadDefinition, OdfError
from ..model import (
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
    Retry,
    checks_to_data,
    parse_checks,
)
from ..model.timezone import time_zone
from ..shapes import replace
from .backend import Transaction
from .records import moment, table
from .rows import DatasetRow, JobItem, JobRule, PauseRow, PoolRow

_T = TypeVar("_T")


def load(tx: Transaction) -> Catalogue:
    """The catalogue as the store has it now, with what is broken in it."""
    broken: list[Broken] = []
    job_items, job_rules = tx.asked(JobItem._make, "job_items"), tx.asked(JobRule._make, "job_rules")
    dataset_rows, pool_rows = tx.asked(DatasetRow._make, "datasets"), tx.asked(PoolRow._make, "pools")
    pauses = tx.asked(PauseRow._make, "pauses")

    def loaded(
        what: str, name: str, make: Callable[..., _T], as_data: Callable[..., dict[str, Any]], *rows: Any
    ) -> Iterator[_T]:
        statement = ""
        try:
            yield make(*rows)
            return
        except _Wrong as wrong:
            problem, statement = wrong.problem, wrong.statement
        except OdfError as error:
            problem = error
        except (TypeError, ValueError, AttributeError) as error:  # SQLite keeps a text in a column of numbers
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
    for name, each in catalogue.broken.items():
        if each.data is None:  # its own rows load
            catalogue.broken[name] = each._replace(data=job_data(stored[each.name]))
    paused = (Pause(row.jobid, row.who, row.why, moment(row.since)) for row in pauses())
    return catalogue._replace(paused={pause.jobid: pause for pause in paused})


class _Wrong(Exception):
    """One column that holds what it cannot hold, and a statement that would put it right."""

    def __init__(self, problem: OdfError, statement: str) -> None:
        super().__init__(problem.message)
        self.problem, self.statement = problem, statement


def _column(read: Callable[[], _T], statement: str) -> _T:
    try:
        return read()
    except OdfError as problem:
        raise _Wrong(problem, statement) from None


def _quoted(text: object) -> str:
    return "'{}'".format(str(text).replace("'", "''"))


_TEXTS = ("kind", "hostname", "database", "schemaname", "tablename", "username", "encryptedpass", "location", "format")


def _dataset(row: DatasetRow) -> Dataset:
    where = f"dataset {row.datasetid}"
    column = "options"
    try:
        options = table(row.options, f"{where}, column options")
        if row.datasetid == TODAY.datasetid:  # built in: of its row, only the time zone counts
            timezone = options.get("timezone", "UTC")
            time_zone(str(timezone), where)
            return replace(TODAY, options={"timezone": timezone})
        column = "partition"
        partition = _partition(row.partition or "text", where)
        column = "checks"
        checks = parse_checks(table(row.checks, f"{where}, column checks"), where)
    except OdfError as problem:
        mended = f"update dataset set {column} = '{_MENDED[column]}' where datasetid = {_quoted(row.datasetid)}"
        raise _Wrong(problem, mended) from None
    texts = {name: getattr(row, name) or "" for name in _TEXTS}
    return Dataset(row.datasetid, **texts, partition=partition, checks=checks, options=options)


_MENDED = {"options": "{}", "partition": "day", "checks": "{}"}


def _partition(text: str, where: str) -> Partition:
    if not text.lstrip().startswith("{"):
        return Partition.from_data(text, where)
    return Partition.from_data(table(text, f"{where}, column partition"), where)


def _job(jobid: str, items: list[JobItem], rule: JobRule | None) -> Job:
    own = f"jobid = {_quoted(jobid)}"
    inputs = tuple(
        _column(
            lambda item=item: Input(  # type: ignore[misc]
                item.datasetid, Mapping.from_data(item.itemvalue, f"job {jobid}, input {item.datasetid}")
            ),
            f"update job set itemvalue = 'identity' where {own} and itemtype = 'IN' and datasetid = {_quoted(item.datasetid)}",
        )
        for item in items
        if item.itemtype == IN
    )
    outputs = tuple(item.datasetid for item in items if item.itemtype == OUT)
    if len(outputs) > 1:
        # The marker of a job that had no output until now; a declared output replaces it.
        outputs = tuple(name for name in outputs if name != jobid) or outputs
    env = {item.itemtype: item.itemvalue or "" for item in items if item.itemtype not in (IN, OUT)}
    for name, value in env.items():
        remove = f"delete from job where {own} and itemtype = {_quoted(name)}"
        _column(lambda name=name, value=value: Job(jobid, outputs=(jobid,), env={name: value}), remove)  # type: ignore[misc]
    if rule is None:
        return _column(lambda: Job(jobid, inputs, outputs, env), f"delete from job where {own}")
    options = _column(
        lambda: table(rule.options, f"job {jobid}, column options of table jobrule"),
        f"update jobrule set options = '{{}}' where {own}",
    )
    on = tuple(filter(None, (rule.retry_on or "").split(",")))
    retry = _column(
        lambda: Retry(rule.retries, rule.backoff, rule.backoff_max, on),
        f"update jobrule set retries = 0, backoff = 10, backoff_max = 3600, retry_on = '' where {own}",
    )
    return Job(jobid, inputs, outputs, env, retry, rule.lease, rule.timeout, rule.pool or "", options)


def _pool(row: PoolRow) -> Pool:
    def read() -> Pool:
        return Pool(row.poolid, row.slots, table(row.options, f"pool {row.poolid}, column options"))

    return _column(read, f"update pool set slots = 1, options = '{{}}' where poolid = {_quoted(row.poolid)}")


# As plain data -------------------------------------------------------------------------------------------------------


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


def _as_stored(text: object) -> Any:
    """The data in a column, or the text itself where it holds none."""
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
        del data["jobid"]  # it is what the data is about
    return data


def _pool_rows(row: PoolRow) -> dict[str, Any]:
    return {"slots": row.slots, "options": _as_stored(row.options)}
