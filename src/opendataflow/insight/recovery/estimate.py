"""How long a recovery takes: the runs that will happen, as long as their jobs usually take, in the slots of today's pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace
from statistics import median

from ...model import RUNNING
from ...store import Store
from ..usual import usual_of
from .nodes import Graph, RecoveryNode


@dataclass(frozen=True, slots=True)
class PoolUse:
    """The slots of one pool now; None is no limit."""

    poolid: str
    slots: int | None
    runs: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """When the last run ends if workers are there for every slot; None when there is no estimate."""

    seconds: float | None
    pools: tuple[PoolUse, ...]
    unknown: tuple[str, ...]  # jobs that never ran well: as long as the others take


def estimate(store: Store, found: Graph, nodes: Sequence[RecoveryNode]) -> Estimate:
    """The end of these runs, which are given in an order in which they can happen."""
    runs = [node for node in nodes if node.job is not None]
    if not runs:
        return Estimate(0.0 if nodes else None, (), ())
    usual = usual_of(store, [node.jobid for node in runs])
    unknown = tuple(dict.fromkeys(node.jobid for node in runs if node.jobid not in usual))
    slots = {
        pool: store.views.pool_now(pool) for pool in dict.fromkeys(node.job.pool for node in runs if node.job) if pool
    }
    open_slots = {pool: now or (change[1] if change else now) for pool, (now, change) in slots.items()}
    uses = tuple(
        PoolUse(pool, now, sum(node.job is not None and node.job.pool == pool for node in runs))
        for pool, (now, _) in slots.items()
    )
    if not usual:
        return Estimate(None, uses, unknown)
    typical = median(usual.values())
    took = {node: usual.get(node.jobid, typical) for node in runs}
    return Estimate(_end(found, runs, took, open_slots), uses, unknown)


def _end(
    found: Graph, runs: Sequence[RecoveryNode], took: Mapping[RecoveryNode, float], slots: Mapping[str, int | None]
) -> float:
    """Each run begins as soon as what it needs is there and a slot is free, first come, first served."""
    left = {node: sum(each in took for each in node.all_needs) for node in runs}
    free = {pool: [0.0] * n for pool, n in slots.items() if n}
    waiting: list[tuple[float, int, RecoveryNode]] = []
    for n, node in enumerate(runs):
        if not left[node]:
            heappush(waiting, (max(node.not_before - found.now, 0.0), n, node))
    turn, end = len(runs), 0.0
    while waiting:
        since, _, node = heappop(waiting)
        pool = node.job.pool if node.job is not None else ""
        begin = max(since, free[pool][0]) if pool in free else since
        over = begin + (_left(found, node, took[node]) if node.state == RUNNING else took[node])
        if pool in free:
            heapreplace(free[pool], over)
        end = max(end, over)
        for fed in node.all_feeds:
            if fed in left:
                left[fed] -= 1
                if not left[fed]:
                    turn += 1
                    heappush(waiting, (over, turn, fed))
    return end


def _left(found: Graph, node: RecoveryNode, usual: float) -> float:
    """How long a run still takes that runs already."""
    started = node.rows[0].started if node.rows else None
    return max(usual - (found.now - started.timestamp()), 0.0) if started else usual
