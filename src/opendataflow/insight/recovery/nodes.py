"""Nodes: runs that have to happen, and chunks that have to come, with what they need and what they feed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ...model import FAILED, HOLD, PENDING, RUNNING, Catalogue, Job
from ...store.views import UnfinishedChunk
from .ways import ChunkId

Key = tuple[str, str, str]  # the job (none for what comes from outside), its first output, the dataid

NEW, MISSING, REFUSED, DEFERRED = "NEW", "MISSING", "REFUSED", "DEFERRED"
PAUSED, OUTSIDE = "PAUSED", "OUTSIDE"
FUTURE = "FUTURE"  # it is not expected by now: not there, and not missing
ORIGINS = (FAILED, DEFERRED, HOLD, PENDING, REFUSED, OUTSIDE)


@dataclass(slots=True, eq=False)
class RecoveryNode:
    """One run that has to happen, or one chunk that has to come from outside, and what it needs and feeds."""

    key: Key
    job: Job | None
    state: str
    chunks: tuple[ChunkId, ...]
    rows: list[UnfinishedChunk] = field(default_factory=list)
    blocked: str = ""  # why no RESUBMIT makes it READY
    outcome: str = ""
    detail: str = ""
    is_expired: bool = False
    # WRONG_DATA of a run of whose inputs no content is known: what it reads from outside may be right by now
    fetches: bool = False
    is_behind: bool = True  # not only needed by something that is
    not_before: float = 0.0
    inputs: list[ChunkId] = field(default_factory=list)
    needs: list[RecoveryNode] = field(default_factory=list)
    any_of: list[list[RecoveryNode]] = field(default_factory=list)  # one of each is enough
    feeds: list[RecoveryNode] = field(default_factory=list)
    may_feed: list[tuple[RecoveryNode, int]] = field(default_factory=list)  # as one of any_of

    @property
    def dataid(self) -> str:
        """The dataid of the run."""
        return self.key[2]

    @property
    def jobid(self) -> str:
        """The job that produces it; empty for what comes from outside."""
        return self.key[0]

    @property
    def is_origin(self) -> bool:
        """Whether something went wrong here, and not only further up."""
        return self.state in ORIGINS

    @property
    def all_needs(self) -> list[RecoveryNode]:
        """Everything that it waits for, also where one of several is enough."""
        return [*self.needs, *(node for nodes in self.any_of for node in nodes)] if self.any_of else self.needs

    @property
    def all_feeds(self) -> list[RecoveryNode]:
        """Everything that waits for it, also where another one would do."""
        return [*self.feeds, *(node for node, _ in self.may_feed)] if self.may_feed else self.feeds

    @property
    def failed(self) -> ChunkId:
        """The chunk to name for this run: one that is FAILED where there is one."""
        wrong = [row for row in self.rows if row.status in (FAILED, RUNNING)] or self.rows
        return (wrong[0].datasetid, wrong[0].dataid) if wrong else self.chunks[0]


@dataclass(slots=True, eq=False)
class Graph:
    """Everything that is not READY and matters, by its key."""

    catalogue: Catalogue
    nodes: dict[Key, RecoveryNode]
    now: float

    def order(self) -> list[RecoveryNode]:
        """All nodes, what is needed before what needs it."""
        left = {node: len(node.all_needs) for node in self.nodes.values()}
        ready = [node for node, n in left.items() if not n]
        for node in ready:
            for fed in node.all_feeds:
                left[fed] -= 1
                if not left[fed]:
                    ready.append(fed)
        return ready


def waits_for_the_future(ordered: Iterable[RecoveryNode]) -> set[RecoveryNode]:
    """What is not expected by now, and what waits for nothing else; what is needed comes before what needs it."""
    found: set[RecoveryNode] = set()
    for node in ordered:
        if node.blocked == FUTURE or (node.state == NEW and node.needs and found.issuperset(node.all_needs)):
            found.add(node)
    return found


def following(nodes: Iterable[RecoveryNode], goes_on: Callable[[RecoveryNode], bool]) -> int:
    """How many others follow from these nodes, through any number of jobs, as far as it goes on."""
    queue = list(nodes)
    seen, n = set(queue), len(queue)
    for node in queue:
        for fed in node.all_feeds:
            if fed not in seen and goes_on(fed):
                seen.add(fed)
                queue.append(fed)
    return len(queue) - n
