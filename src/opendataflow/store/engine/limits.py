"""Read the limits of a job's running chunks, pool slots and readers of a dataset, with their use."""

from __future__ import annotations

from functools import lru_cache

from ...model import Catalogue, Job, Limit, Pool
from .. import records
from ..drivers.base import Transaction
from ..rows import PoolNow


def of_job(tx: Transaction, catalogue: Catalogue, job: Job, *, lock: bool) -> list[Limit]:
    """The limits of a job's running chunks, with their use; a claim locks them in one order, to avoid deadlocks."""
    if job.jobid in catalogue.paused:
        return [Limit("job", job.jobid, 0, 0, str(catalogue.paused[job.jobid]))]
    limits = []
    if job.pool and lock:
        tx.lock("lock_pool", pool=job.pool)
    pool = tx.first(PoolNow._make, "pool_row", pool=job.pool) if job.pool else None
    slots = slots_now(job.pool, pool) if pool else None
    if slots is not None:
        limits.append(Limit("pool", job.pool, slots, tx.value("slots_taken", pool=job.pool)))
    limited = {item.datasetid: catalogue.datasets[item.datasetid].options.get("readers") for item in job.inputs}
    for datasetid, readers in sorted(limited.items()):
        if isinstance(readers, int):
            if lock:
                tx.lock("lock_readers", datasetid=datasetid)
            limits.append(Limit("dataset", datasetid, readers, tx.value("readers_running", datasetid=datasetid)))
    return limits


def slots_now(poolid: str, row: PoolNow) -> int | None:
    """The pool's slots now; None for no limit."""
    return row.slots if row.options == "{}" else _pool(poolid, row.slots, row.options).slots_at(row.now)


def next_change(poolid: str, row: PoolNow) -> tuple[float, int | None] | None:
    """When (seconds since 1970) the pool's hours next change its slots, and to how many."""
    return _pool(poolid, row.slots, row.options).next_change(row.now)


@lru_cache(100)
def _pool(poolid: str, slots: int | None, options: str) -> Pool:
    return Pool(poolid, slots, records.table(options, f"pool {poolid}, column options"))
