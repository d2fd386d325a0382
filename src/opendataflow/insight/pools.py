"""Pools and limited datasets: how many chunks may run, how many do, and how many wait for a slot."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from ..model.moment import written
from ..store import Store

_MOST = 10_000

Change = tuple[float, int | None]


@dataclass(frozen=True, slots=True)
class PoolUsage:
    """A pool, or a dataset that limits its readers, and its use; slots is None without a limit.

    now is how many there are at this moment, by the hours of a pool; changes is when that changes next, and to what.
    """

    poolid: str
    slots: int | None
    taken: int
    waiting: int
    at_least: bool
    jobs: tuple[str, ...]
    what: str = "pool"
    now: int | None = None
    changes: Change | None = None
    hours: tuple[str, ...] = ()

    @property
    def waiting_text(self) -> str:
        """How many wait; ≥ where counting stopped."""
        return f"≥{self.waiting:,}" if self.at_least else f"{self.waiting:,}"

    @property
    def now_text(self) -> str:
        """How many slots there are now, and until when."""
        change = change_text(self.changes)
        return slots_text(self.now) + (f", {change}" if change else "")


def slots_text(slots: int | None) -> str:
    """A number of slots in words."""
    return "unlimited" if slots is None else "0 (paused)" if slots == 0 else f"{slots:,}"


def change_text(change: Change | None) -> str:
    """When the number of slots changes next, and to what: 20 from 2026-11-16 18:00:00+01:00."""
    if change is None:
        return ""
    moment, slots = change
    return f"{slots_text(slots)} from {written(datetime.fromtimestamp(moment, UTC))}"


def pools(store: Store) -> list[PoolUsage]:
    """All pools with their use, then all datasets that limit their readers."""
    catalogue = store.catalogue()
    uses = []
    for poolid, pool in sorted(catalogue.pools.items()):
        jobs = tuple(sorted(job.jobid for job in catalogue.jobs.values() if job.pool == poolid))
        now, changes = store.views.pool_now(poolid)
        lines = pool.options.get("hours")
        uses.append(
            PoolUsage(
                poolid,
                pool.slots,
                store.views.slots_taken(poolid),
                *_waiting(store, jobs),
                jobs,
                now=now,
                changes=changes,
                hours=tuple(map(str, lines)) if isinstance(lines, list) else (),
            )
        )
    for datasetid, dataset in sorted(catalogue.datasets.items()):
        readers = dataset.options.get("readers")
        if isinstance(readers, int):
            jobs = tuple(sorted(job.jobid for job, _ in catalogue.consumers(datasetid)))
            taken = store.views.readers_running(datasetid)
            uses.append(PoolUsage(datasetid, readers, taken, *_waiting(store, jobs), jobs, what="dataset", now=readers))
    return uses


def _waiting(store: Store, jobs: tuple[str, ...]) -> tuple[int, bool]:
    counts = [store.views.claimable(jobid, _MOST) for jobid in jobs]
    return sum(counts), any(n >= _MOST for n in counts)
