"""Lineage: which versions really went into a chunk and came out of it, and how datasets and jobs hang together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ..errors import UnknownVersion
from ..model import check_dataid
from ..store import LineageLink, Store
from .flow_of import BOTH_WAYS, Reach
from .words import count

MOST_VERSIONS = 1000  # that one answer lists

VersionId = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class VersionNode:
    """One version of a chunk: who made it when, how far it is from the one that was asked for, and whether it still stands."""

    id: str
    datasetid: str
    dataid: str
    version: int
    jobid: str | None
    runid: int | None
    at: datetime | None
    distance: int  # jobs: below 0 it went in, above 0 it came out
    status: str | None  # of its chunk
    current: int | None  # the version that its chunk has
    is_current: bool  # its chunk still is this version
    is_recalled: bool = False
    has_more: bool = False  # it has neighbours, further away, that are not listed


@dataclass(frozen=True, slots=True)
class Edge:
    """One version that was made from another one, by their ids."""

    source: str
    target: str
    jobid: str | None
    runid: int | None


@dataclass(frozen=True, slots=True)
class VersionLineage:
    """A version with everything that it was made from and that was made from it, as far as it was followed."""

    datasetid: str
    dataid: str
    root: str
    at: datetime | None
    nodes: tuple[VersionNode, ...]  # the nearest first
    edges: tuple[Edge, ...]
    is_whole: bool  # nothing was left out
    remarks: tuple[str, ...] = ()


class _Walk:
    """Versions that were reached so far, level by level: a job that reads its own previous chunk makes very long chains."""

    def __init__(self, store: Store, at: datetime | None, root: VersionId) -> None:
        self._store, self._at = store, at
        self.root = root
        self._runs = {} if at is None else {"last": store.views.run_before(at)}  # nothing was made by a later run
        self.distance: dict[VersionId, int] = {root: 0}
        self.edges: dict[tuple[VersionId, VersionId], LineageLink] = {}
        self.cut: set[VersionId] = set()
        self.is_full = False

    def follow(self, sign: int, depth: int) -> None:
        """Go up (-1) or down (1) as far as depth says, and find out where it would go on."""
        frontier = [self.root]
        for hop in range(1, depth + 2):
            if not frontier:
                return
            links = self._links(sign, frontier, 1 if hop > depth else MOST_VERSIONS + 1)
            if hop > depth:
                self.cut |= {_ends(link, sign)[0] for link in links}
                return
            found: dict[VersionId, None] = {}
            for link in links:
                here, there = _ends(link, sign)
                if there not in self.distance:
                    if len(self.distance) >= MOST_VERSIONS:
                        self.cut.add(here)
                        self.is_full = True
                        continue
                    self.distance[there] = sign * hop
                    found[there] = None
                self.edges[_source(link), _target(link)] = link
            frontier = list(found)

    def _links(self, sign: int, versions: Sequence[VersionId], most: int) -> list[LineageLink]:
        if sign < 0:
            return self._store.views.links_into(versions)
        links = self._store.views.made_of(versions, most, **self._runs)
        # Nothing is older than what it was made from, so only this direction can leave the time that is asked for.
        return [link for link in links if self._at is None or link.published is None or link.published <= self._at]


def _source(link: LineageLink) -> VersionId:
    return link.in_datasetid, link.in_dataid, link.in_version


def _target(link: LineageLink) -> VersionId:
    return link.datasetid, link.dataid, link.version


def _ends(link: LineageLink, sign: int) -> tuple[VersionId, VersionId]:
    """Where a walk in this direction comes from, and where it goes."""
    return (_source(link), _target(link)) if sign > 0 else (_target(link), _source(link))


def lineage(
    store: Store,
    datasetid: str,
    dataid: str,
    version: int | None = None,
    reach: Reach = BOTH_WAYS,
    at: datetime | None = None,
) -> VersionLineage:
    """The versions that really went into a chunk and came out of it: of its current version, or of the one that it was then."""
    walk = _Walk(store, at, (datasetid, dataid, _root(store, datasetid, dataid, version, at)))
    remarks: list[str] = []
    for sign in reach.signs if walk.root[2] else ():
        walk.follow(sign, reach.depth)
    if not walk.root[2]:
        remarks.append(f"no version of {datasetid} {dataid} was published" + (" yet" if at is None else " by then"))
    if walk.is_full:
        remarks.append(f"only {MOST_VERSIONS:,} versions are listed; narrow it down with --depth, --up or --down")
    elif walk.cut:
        remarks.append(f"it goes on beyond {count(reach.depth, 'job')}; --depth N follows it further")
    edges = tuple(Edge(_id(a), _id(b), link.jobid, link.runid) for (a, b), link in walk.edges.items())
    return VersionLineage(
        datasetid, dataid, _id(walk.root), at, _nodes(store, walk, at), edges, not walk.cut, tuple(remarks)
    )


def _root(store: Store, datasetid: str, dataid: str, version: int | None, at: datetime | None) -> int:
    """The version to begin with; named errors for a dataset, a dataid or a version that cannot be."""
    if version is not None:
        made = store.views.made([(datasetid, dataid, version)]).get((datasetid, dataid, version))
        if made is None or (at is not None and made.at is not None and made.at > at):
            _check(store, datasetid, dataid)
            hint = f"See its versions: odf explain {datasetid} {dataid}"
            raise UnknownVersion(
                f"{datasetid} {dataid} has no version {version}" + " then" * (at is not None), hint=hint
            )
        return version
    if at is not None:
        then = store.views.chunks_then([(datasetid, dataid)], at)[datasetid, dataid]
        if not then.is_known:
            _check(store, datasetid, dataid)
        return then.version
    now = store.views.current([(datasetid, dataid)]).get((datasetid, dataid))
    if now is None:
        _check(store, datasetid, dataid)
    return now.version if now else 0


def _check(store: Store, datasetid: str, dataid: str) -> None:
    """A chunk that cannot be is an error, one that is not yet is a fact. Only the unusual case reads definitions."""
    check_dataid(store.catalogue().dataset(datasetid).partition, dataid, datasetid)


def _id(version: VersionId) -> str:
    datasetid, dataid, number = version
    return f"{datasetid}/{dataid}@{number}"


def _nodes(store: Store, walk: _Walk, at: datetime | None) -> tuple[VersionNode, ...]:
    made = store.views.made(walk.distance)
    standing = _standing(store, dict.fromkeys((name, dataid) for name, dataid, _ in walk.distance), at)
    chunks = dict.fromkeys(version[:2] for version in walk.distance)
    called_back = {each[:3] for each in store.views.recalled(chunks) if at is None or each.at is None or each.at <= at}
    nodes = []
    for version, distance in walk.distance.items():
        known = made.get(version)
        status, current = standing.get(version[:2], (None, None))
        nodes.append(
            VersionNode(
                _id(version),
                *version,
                known.jobid if known else None,
                known.runid if known else None,
                known.at if known else None,
                distance,
                status,
                current,
                current == version[2],
                version in called_back,
                version in walk.cut,
            )
        )
    return tuple(sorted(nodes, key=lambda node: abs(node.distance)))


def _standing(
    store: Store, chunks: Iterable[tuple[str, str]], at: datetime | None
) -> dict[tuple[str, str], tuple[str | None, int | None]]:
    """The status and the version of each chunk that there is, or was then."""
    if at is None:
        return {chunk: (now.status, now.version) for chunk, now in store.views.current(chunks).items()}
    then = store.views.chunks_then(chunks, at)
    return {chunk: (each.status, each.version or None) for chunk, each in then.items() if each.is_known}
