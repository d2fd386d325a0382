"""Limits: how many chunks may run at the same time, in a pool or as readers of a dataset, and how many do."""

from __future__ import annotations

import json
from functools import lru_cache

from ..model import Catalogue, Job, Limit, Pool
from .backend import Transaction


def of_job(tx: Transaction, catalogue: Catalogue, job: Job, *, lock: bool) -> list[Limit]:
    """What limits the running chunks of a job, with its use; locked for a claim, in one order, so that nobody waits in a circle."""
    limits = []
    row = tx.row("pool_lock" if lock else "pool_row", pool=job.pool) if job.pool else None
    if row is not None:
        slots = row[0] if row[1] == "{}" else _pool(job.pool, *row[:2]).slots_at(row[2])
        if slots is not None:
            limits.append(Limit("pool", job.pool, slots, tx.rows("slots_taken", pool=job.pool)[0][0]))
    limited = {item.datasetid: catalogue.datasets[item.datasetid].options.get("readers") for item in job.inputs}
    for datasetid, readers in sorted(limited.items()):
        if isinstance(readers, int):
            if lock:
                tx.run("lock_readers", datasetid=datasetid)
            taken = tx.rows("readers_running", datasetid=datasetid)[0][0]
            limits.append(Limit("dataset", datasetid, readers, taken))
    return limits


@lru_cache(100)
def _pool(poolid: str, slots: int | None, options: str) -> Pool:
    return Pool(poolid, slots, json.loads(options))


def pool_now(
    poolid: str, slots: int | None, options: str, now: float
) -> tuple[int | None, tuple[float, int | None] | None]:
    """How many slots a pool has at a moment, and when that changes to how many."""
    pool = _pool(poolid, slots, options)
    return pool.slots_at(now), pool.next_change(now)
