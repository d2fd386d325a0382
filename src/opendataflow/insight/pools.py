"""Pools: how many places there are, how many are taken, and how many chunks wait for one."""

from __future__ import annotations

from dataclasses import dataclass

from ..store import Store
from .matrix import see_changes

_MOST = 10_000


@dataclass(frozen=True, slots=True)
class PoolUse:
    """One pool and its use; places is None without a limit."""

    poolid: str
    places: int | None
    taken: int
    waiting: int
    at_least: bool
    jobs: tuple[str, ...]

    @property
    def waiting_text(self) -> str:
        """How many wait, as far as anybody counted."""
        return f"≥{self.waiting:,}" if self.at_least else f"{self.waiting:,}"


def pools(store: Store) -> list[PoolUse]:
    """All pools with their use."""
    see_changes(store)
    catalogue = store.catalogue()
    found = []
    for poolid, pool in sorted(catalogue.pools.items()):
        jobs = tuple(sorted(job.jobid for job in catalogue.jobs.values() if job.pool == poolid))
        counts = [store.claimable(jobid, _MOST) for jobid in jobs]
        found.append(
            PoolUse(poolid, pool.places, store.places_taken(poolid), sum(counts), any(n >= _MOST for n in counts), jobs)
        )
    return found
