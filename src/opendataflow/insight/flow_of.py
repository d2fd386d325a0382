"""The flow around a dataset: the jobs and datasets before and after it, with what their chunks are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from ..model import READY, TODAY, Catalogue
from .axis import FIRST_KEY, LAST_KEY
from .seen import StoreViews
from .words import count

MOST_COUNTED = 10_000  # chunks of one dataset
MOST_NODES = 1000


class Reach(NamedTuple):
    """How far a look goes: up, down or both, and so many jobs far."""

    up: bool = True
    down: bool = True
    depth: int = 10

    @property
    def signs(self) -> list[int]:
        """The directions: -1 is up, 1 is down."""
        return [sign for sign, is_wanted in ((-1, self.up), (1, self.down)) if is_wanted]


BOTH_WAYS = Reach()


@dataclass(frozen=True, slots=True)
class Node:
    """One dataset, with how many of its chunks have which status, or one job."""

    id: str
    kind: str  # dataset | job
    name: str
    distance: int  # arrows: below 0 it comes before the dataset that was asked for, above 0 after it
    counts: dict[str, int]
    at_least: bool = False  # counting stopped there
    has_more: bool = False  # it has neighbours, further away, that are not listed


@dataclass(frozen=True, slots=True)
class Arrow:
    """A dataset that a job reads, by which mapping, or that it writes."""

    source: str
    target: str
    mapping: str = ""


@dataclass(frozen=True, slots=True)
class Flow:
    """A dataset with the jobs and datasets that it comes from and goes to, as they are declared now."""

    datasetid: str
    root: str
    nodes: tuple[Node, ...]
    edges: tuple[Arrow, ...]
    is_whole: bool
    at: datetime | None = None
    remarks: tuple[str, ...] = ()


def flow(store: StoreViews, datasetid: str, reach: Reach = BOTH_WAYS, at: datetime | None = None) -> Flow:
    """The jobs and datasets around one dataset, so many jobs far."""
    catalogue = store.catalogue()
    root = f"dataset {catalogue.dataset(datasetid).datasetid}"
    distance, cut = {root: 0}, set[str]()
    arrows: dict[Arrow, None] = {}
    for sign in reach.signs:
        frontier = [root]
        for hop in range(1, 2 * reach.depth + 1):  # from a dataset to a job, and on to a dataset
            found: dict[str, None] = {}
            for here in frontier:
                for arrow in _beside(catalogue, here, sign):
                    there = arrow.target if sign > 0 else arrow.source
                    if there not in distance:
                        if len(distance) >= MOST_NODES:
                            cut.add(here)
                            continue
                        distance[there] = sign * hop
                        found[there] = None
                    arrows[arrow] = None
            frontier = list(found)
        cut |= {here for here in frontier if _beside(catalogue, here, sign)}
    if len(distance) >= MOST_NODES:
        remarks = [f"only {MOST_NODES:,} jobs and datasets are listed; narrow it down with --depth, --up or --down"]
    else:
        remarks = [f"it goes on beyond {count(reach.depth, 'job')}; --depth N follows it further"] if cut else []
    return Flow(datasetid, root, tuple(_nodes(store, distance, cut)), tuple(arrows), not cut, at, tuple(remarks))


def _beside(catalogue: Catalogue, here: str, sign: int) -> list[Arrow]:
    """The arrows that lead out of a node, or into it."""
    kind, _, name = here.partition(" ")
    if kind == "job":
        job = catalogue.jobs[name]
        if sign > 0:
            return [Arrow(here, f"dataset {output}") for output in job.outputs]
        return [
            Arrow(f"dataset {item.datasetid}", here, str(item.mapping))
            for item in job.inputs
            if item.datasetid != TODAY.datasetid
        ]
    if sign > 0:
        return [Arrow(here, f"job {job.jobid}", str(item.mapping)) for job, item in catalogue.consumers(name)]
    producer = catalogue.producer(name)
    return [Arrow(f"job {producer.jobid}", here)] if producer else []


def _nodes(store: StoreViews, distance: dict[str, int], cut: set[str]) -> list[Node]:
    names = [here.partition(" ")[2] for here in distance if here.startswith("dataset ")]
    spans = [(name, FIRST_KEY, LAST_KEY) for name in names]
    counted = dict(zip(names, store.span_counts(spans, MOST_COUNTED), strict=True))
    nodes = []
    for here, hops in distance.items():
        kind, _, name = here.partition(" ")
        counts = dict(counted[name]) if kind == "dataset" else {}
        total = counts.pop("", 0)
        others = {status: n for status, n in counts.items() if n}
        ready = max(total - sum(others.values()), 0)
        shown = ({READY: ready} if ready else {}) | others
        nodes.append(Node(here, kind, name, hops, shown, total >= MOST_COUNTED, here in cut))
    return sorted(nodes, key=lambda node: abs(node.distance))
