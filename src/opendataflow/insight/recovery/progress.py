"""Progress of a recovery: how far it is, and when it will be over by now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ...model import FAILED, READY, RUNNING
from ...store import Store
from ..words import count, duration
from .estimate import estimate
from .graph import graph
from .nodes import NEW, Graph, RecoveryNode
from .plan import RecoveryPlan, heal
from .ways import ChunkId, Ways

_ALL_OF_ONE = "The chunk of this recovery is READY"


@dataclass(frozen=True, slots=True)
class RecoveryProgress:
    """A recovery at one moment: its runs by what became of them, and how long the rest will take."""

    runs: int
    done: int
    running: int
    stuck: int  # FAILED again, or behind something that is or that waits for people
    waiting: int
    seconds: float | None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen by itself."""
        return not self.running and not self.waiting

    @property
    def headline(self) -> str:
        """What became of this recovery, which says nothing about anything else."""
        if not self.is_over:
            return "Under way"
        if self.stuck:
            return f"Over, with {count(self.stuck, 'chunk')} stuck"
        return f"All {count(self.runs, 'chunk')} of this recovery are READY" if self.runs != 1 else _ALL_OF_ONE

    @property
    def line(self) -> str:
        """All of it in one line."""
        counts = f"{self.done:,} of {self.runs:,} done, {self.running:,} running, {self.waiting:,} waiting"
        stuck = f", {self.stuck:,} stuck" if self.stuck else ""
        left = f", about {duration(self.seconds)} left" if self.seconds is not None and not self.is_over else ""
        return counts + stuck + left


def progress(store: Store, plan: RecoveryPlan) -> RecoveryProgress:
    """How far a plan is: what it foresaw, as it stands now."""
    statuses = store.views.given_chunks(plan.follows)
    counts = Counter(statuses.get(chunk) for chunk in plan.follows)
    open_chunks = {chunk for chunk in plan.follows if statuses.get(chunk) != READY}
    seconds, stuck = None, counts[FAILED]
    if open_chunks:
        found = graph(store)
        healed = [node for node in heal(found, lambda node: False) if node.chunks[0] in open_chunks]
        known = {chunk for node in found.nodes.values() for chunk in node.chunks}
        coming = _coming(found, [chunk for chunk in plan.follows if chunk in open_chunks and chunk not in known])
        seconds = estimate(store, found, [*healed, *coming]).seconds
        # What hangs behind a new failure, or behind people, does not come by itself any more.
        stuck = len(open_chunks) - len(healed) - len(coming)
    running = counts[RUNNING]
    done = counts[READY]
    return RecoveryProgress(
        len(plan.follows), done, running, stuck, max(len(plan.follows) - done - running - stuck, 0), seconds
    )


def _coming(found: Graph, chunks: Iterable[ChunkId]) -> list[RecoveryNode]:
    """Runs that only somebody has to take: what they need is READY, or comes from another one of them."""
    ways = Ways(found.catalogue)
    nodes: dict[ChunkId, RecoveryNode] = {}
    for chunk in chunks:
        job = found.catalogue.producer(chunk[0])
        if job is not None and job.jobid not in found.catalogue.paused:
            nodes[chunk] = RecoveryNode((job.jobid, job.outputs[0], chunk[1]), job, NEW, (chunk,))
    made = {(name, chunk[1]): node for chunk, node in nodes.items() if node.job for name in node.job.outputs}
    for node in nodes.values():
        inputs = ways.inputs(node.job, node.dataid) if node.job else []
        node.needs = [made[each] for each in dict.fromkeys(inputs) if each in made and made[each] is not node]
        for need in node.needs:
            need.feeds.append(node)
    return list(nodes.values())
