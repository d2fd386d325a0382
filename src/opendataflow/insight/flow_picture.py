"""The whole flow at a glance: every dataset and job with the worst that is the matter with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..errors import UnknownDataset, UsageError
from ..model import FAILED, READY, RESUBMIT, RUNNING, TODAY, Catalogue
from ..store import Chunk, Store
from .absent import MISSING, REFUSED, refused_chunks
from .axis import FIRST_KEY, LAST_KEY
from .flow import datasets_in_order
from .flow_of import Arrow
from .late import LATE, is_declared, late
from .matrix import WORST_FIRST
from .stale import STALE, stale_chunks

BROKEN, PAUSED = "BROKEN", "PAUSED"
NOT_WELL = (BROKEN, *WORST_FIRST[:-1], LATE, PAUSED, STALE)
STATES = (*NOT_WELL, RUNNING, READY)  # the worst first
MOST_COUNTED = 1000  # chunks of one dataset with one status
_MOST_LISTED = 20
_MOST_GRAPHS = 8  # that are kept: definitions change rarely
_OF_JOBS = (FAILED, RESUBMIT, RUNNING)  # what a job did to its outputs, and does


@dataclass(frozen=True, slots=True)
class FlowNode:
    """One dataset or job: the worst that is the matter with it, and how many of its chunks are not READY, by status.

    state is None where there are no chunks yet. Counting stops at 1,000.
    """

    id: str
    kind: str  # dataset | job
    name: str
    state: str | None
    counts: Mapping[str, int]
    has_more: bool = False  # it has neighbours that are not in the picture

    @property
    def is_well(self) -> bool:
        """Whether it needs no attention."""
        return self.state not in NOT_WELL

    @property
    def words(self) -> str:
        """What is the matter, in a few words: 3 FAILED, 1 RUNNING."""
        if not self.counts:
            return self.state or "no chunks"
        told = [f"{n:,}{'+' * (n >= MOST_COUNTED)} {status}" for status, n in self.counts.items()]
        return ", ".join([self.state, *told] if self.state in (BROKEN, PAUSED) and self.state else told)


@dataclass(frozen=True, slots=True)
class Picture:
    """Datasets, jobs and what leads where; of how many there are in all, and which part of them it shows."""

    nodes: tuple[FlowNode, ...]
    edges: tuple[Arrow, ...]
    total: int
    not_well: int  # of all
    around: str | None = None
    depth: int | None = None
    only_not_well: bool = False


@dataclass(frozen=True, slots=True)
class NodeChunks:
    """The chunks of a node: those that are not READY, the last ones, and how many there are; for a job, what it takes next."""

    node: FlowNode
    datasets: tuple[str, ...]  # whose chunks they are
    jobs: tuple[str, ...]  # that write or read the dataset
    not_ready: tuple[Chunk, ...]
    last: tuple[Chunk, ...]
    chunks: int
    at_least: bool
    next: tuple[str, ...]


_graphs: dict[int, tuple[Catalogue, dict[str, None], tuple[Arrow, ...]]] = {}  # of the last catalogues, by identity


def flow_graph(catalogue: Catalogue) -> tuple[dict[str, None], tuple[Arrow, ...]]:
    """The ids of all datasets and jobs along the flow, and what leads where, broken definitions included."""
    known = _graphs.get(id(catalogue))
    if known is None or known[0] is not catalogue:
        while len(_graphs) >= _MOST_GRAPHS:
            _graphs.pop(next(iter(_graphs)), None)
        _graphs[id(catalogue)] = known = (catalogue, *_graph(catalogue))
    return known[1:]


def _graph(catalogue: Catalogue) -> tuple[dict[str, None], tuple[Arrow, ...]]:
    nodes: dict[str, None] = dict.fromkeys(f"dataset {name}" for name in datasets_in_order(catalogue))
    arrows: dict[Arrow, None] = {}
    for jobid in catalogue.order():
        job, here = catalogue.jobs[jobid], f"job {jobid}"
        nodes[here] = None
        for item in job.inputs:
            if item.datasetid != TODAY.datasetid:
                arrows[Arrow(f"dataset {item.datasetid}", here, str(item.mapping))] = None
        arrows |= dict.fromkeys(Arrow(here, f"dataset {name}") for name in job.outputs)
    for what, name in catalogue.broken:
        if what in ("dataset", "job"):
            nodes[f"{what} {name}"] = None
    for each in catalogue.broken.values():
        arrows |= dict.fromkeys(Arrow(f"job {each.name}", f"dataset {name}") for name in each.outputs)
    known = [arrow for arrow in arrows if arrow.source in nodes and arrow.target in nodes]
    return nodes, tuple(known)


def flow_picture(store: Store, *, around: str | None = None, depth: int = 2, only_not_well: bool = False) -> Picture:
    """Every dataset and job, or those around one of them, so many jobs far; or only those that are not well.

    around is the id of a node, "dataset X" or "job X", also with a colon, or the name alone.
    """
    catalogue = store.catalogue()
    ids, arrows = flow_graph(catalogue)
    states = node_states(store, catalogue, ids)
    not_well = {node for node, state in states.items() if state.state in NOT_WELL}
    centre = node_id(ids, around) if around else None
    shown = {*ids}
    if centre is not None:
        shown = _near(centre, arrows, 2 * depth)
    if only_not_well:
        shown &= not_well | ({centre} if centre else set())
    ends = [(arrow.source, arrow.target) for arrow in arrows] if len(shown) < len(ids) else []
    more = {a for a, b in ends if b not in shown} | {b for a, b in ends if a not in shown}
    return Picture(
        tuple(replace(states[node], has_more=True) if node in more else states[node] for node in ids if node in shown),
        tuple(arrow for arrow in arrows if arrow.source in shown and arrow.target in shown),
        len(ids),
        len(not_well),
        centre,
        depth if centre else None,
        only_not_well,
    )


def node_id(ids: Iterable[str], word: str) -> str:
    """The id of the node that is meant: by its id, also as job:X, or by its name alone, where a dataset comes before a job."""
    known = {*ids}
    for each in (word, word.replace(":", " ", 1), f"dataset {word}", f"job {word}"):
        if each in known:
            return each
    if not word.strip():
        raise UsageError("no dataset or job is named")
    raise UnknownDataset(f"there is no dataset or job {word.removeprefix('dataset ')}", hint="See: odf datasets")


def _near(centre: str, arrows: Iterable[Arrow], hops: int) -> set[str]:
    """What comes before a node and after it, so many arrows far; not what comes after something before it."""
    ways: tuple[dict[str, list[str]], dict[str, list[str]]] = ({}, {})
    for arrow in arrows:
        ways[0].setdefault(arrow.source, []).append(arrow.target)
        ways[1].setdefault(arrow.target, []).append(arrow.source)
    found = {centre}
    for way in ways:
        here, seen = [centre], {centre}
        for _ in range(hops):
            here = [other for node in here for other in way.get(node, ()) if other not in seen]
            seen.update(here)
            here = list(dict.fromkeys(here))
        found |= seen
    return found


def node_states(store: Store, catalogue: Catalogue, ids: Iterable[str]) -> dict[str, FlowNode]:
    """What is the matter with each node, by a few looks whose cost does not depend on what is READY."""
    counts = _counts(store, catalogue)
    with_chunks = store.views.datasets_with_chunks()
    found = {}
    for node in ids:
        kind, _, name = node.partition(" ")
        if kind == "job":
            job = catalogue.jobs.get(name)
            outputs = job.outputs if job else catalogue.broken["job", name].outputs
            own = {
                status: most
                for status in _OF_JOBS
                if (most := max((counts.get(output, {}).get(status, 0) for output in outputs), default=0))
            }
            has_chunks = any(output in with_chunks for output in outputs)
            marks = [BROKEN] * (job is None) + [PAUSED] * (name in catalogue.paused)
        else:
            own = counts.get(name, {})
            has_chunks = name in with_chunks
            marks = [BROKEN] * (name not in catalogue.datasets)
        worst = next((state for state in STATES if state in marks or state in own), READY if has_chunks else None)
        told = {state: own[state] for state in STATES if state in own}
        found[node] = FlowNode(node, kind, name, worst, told)
    return found


def _counts(store: Store, catalogue: Catalogue) -> dict[str, dict[str, int]]:
    """How many chunks of each dataset are not READY, late, missing, refused or stale."""
    counts = store.views.unsettled_counts(MOST_COUNTED)
    refused = {chunk: status for chunk, status, _ in refused_chunks(store.views, store.views.refusals())}
    marked = [(name, REFUSED) for (name, _), status in refused.items() if status != READY]
    if is_declared(catalogue) or any("expected" in dataset.options for dataset in catalogue.datasets.values()):
        overdue = late(store, chains=False, most=MOST_COUNTED).late
        marked += [(each.datasetid, each.sign) for each in overdue if (each.datasetid, each.dataid) not in refused]
    marked += [(name, STALE) for name, _ in stale_chunks(store, MOST_COUNTED)]
    for (name, sign), n in Counter(marked).items():
        counts.setdefault(name, {})[sign] = n
    return counts


def chunks_of_node(store: Store, word: str) -> NodeChunks:
    """The chunks of one dataset, or of what a job writes, as far as a person reads them."""
    catalogue = store.catalogue()
    ids, _ = flow_graph(catalogue)
    here = node_id(ids, word)
    node = node_states(store, catalogue, [here])[here]
    if node.kind == "job":
        job = catalogue.jobs.get(node.name)
        datasets = job.outputs if job else ()
        jobs: tuple[str, ...] = ()
    else:
        job = None
        datasets = (node.name,) if node.name in catalogue.datasets else ()
        producer = catalogue.producer_id(node.name)
        readers = (reader.jobid for reader, _ in catalogue.consumers(node.name))
        jobs = tuple(dict.fromkeys([*([producer] if producer else []), *readers]))
    not_ready = [
        chunk
        for name in datasets
        for status in WORST_FIRST
        if status not in (REFUSED, MISSING)
        for chunk in store.views.chunks(name, status=status, n=_MOST_LISTED)
    ]
    last = [
        chunk
        for name in datasets
        for dataid in store.views.newest_dataids(name, FIRST_KEY, LAST_KEY, _MOST_LISTED // 2)
        if (chunk := store.views.chunk(name, dataid)) is not None
    ]
    counted = store.views.span_counts([(name, FIRST_KEY, LAST_KEY) for name in datasets], 10 * MOST_COUNTED)
    total = max((each[""] for each in counted), default=0)
    return NodeChunks(
        node,
        tuple(datasets),
        jobs,
        tuple(not_ready[:_MOST_LISTED]),
        tuple(last),
        total,
        total >= 10 * MOST_COUNTED,
        tuple(store.views.next_dataids(node.name, 10)) if job is not None else (),
    )
