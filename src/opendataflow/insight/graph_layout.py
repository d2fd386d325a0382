"""Where to draw the nodes of a graph: in columns from left to right, so that few arrows cross, the same every time."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

Edge = tuple[str, str]

_SWEEPS = 4  # there and back
_FEW_SWEEPS = 2
_MANY = 2000  # nodes, for which few sweeps have to do
_MOST_BENDS = 20_000  # places where long arrows pass a column; beyond that they are drawn straight through
_PASSES = 3  # of moving nodes towards what they are joined with


class Sizes(NamedTuple):
    """How large a node is, and how far apart nodes are."""

    width: int = 152
    height: int = 34
    across: int = 34  # between columns
    down: int = 14  # between nodes of a column
    lane: int = 14  # what a passing arrow takes


SIZES = Sizes()


class NodePlace(NamedTuple):
    """The column of a node, and its upper left corner."""

    level: int
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of all nodes, the path of each arrow, and how large the whole is."""

    places: Mapping[str, NodePlace]
    paths: Mapping[Edge, str]
    width: int
    height: int
    sizes: Sizes = SIZES


def layout(nodes: Iterable[str], edges: Iterable[Edge], sizes: Sizes = SIZES) -> Layout:
    """The places of nodes and arrows; what hangs together stands together, and what stands alone comes last."""
    known = dict.fromkeys(nodes)
    drawn = [edge for edge in dict.fromkeys(edges) if edge[0] in known and edge[1] in known and edge[0] != edge[1]]
    places: dict[str, NodePlace] = {}
    paths: dict[Edge, str] = {}
    top = width = 0
    alone = []
    for part, joins in _parts(known, drawn):
        if not joins:
            alone += part
            continue
        found = _Part(part, joins, sizes)
        found.arrange(top)
        places |= found.places()
        paths |= found.paths()
        width = max(width, max(place.x for place in found.places().values()) + sizes.width)
        top = found.bottom + sizes.height
    if alone:
        columns = max((width + sizes.across) // (sizes.width + sizes.across), min(len(alone), 4))
        for number, node in enumerate(alone):
            row, column = divmod(number, columns)
            x = column * (sizes.width + sizes.across)
            places[node] = NodePlace(column, x, top + row * (sizes.height + sizes.down))
            width = max(width, x + sizes.width)
    height = max((place.y for place in places.values()), default=-sizes.height) + sizes.height
    return Layout(places, paths, width, height, sizes)


def levels(nodes: Iterable[str], edges: Iterable[Edge]) -> dict[str, int]:
    """The column of each node: right of everything that leads to it, and left of what it leads to, but for cycles."""
    known = list(nodes)
    forward = _without_circles(known, edges)
    after: dict[str, list[str]] = {node: [] for node in known}
    waits = dict.fromkeys(known, 0)
    for source, target in forward:
        after[source].append(target)
        waits[target] += 1
    level = dict.fromkeys(known, 0)
    begin = [node for node in known if not waits[node]]
    queue = list(begin)
    for node in queue:
        for target in after[node]:
            level[target] = max(level[target], level[node] + 1)
            waits[target] -= 1
            if not waits[target]:
                queue.append(target)
    for node in begin:  # what comes in late stands where it is used
        if after[node]:
            level[node] = min(level[target] for target in after[node]) - 1
    return level


def _without_circles(nodes: Sequence[str], edges: Iterable[Edge]) -> list[Edge]:
    """The arrows, those that lead back to where a walk came from turned round."""
    after: dict[str, list[str]] = {node: [] for node in nodes}
    for source, target in edges:
        after[source].append(target)
    forward: dict[Edge, None] = {}
    on_way, done = set[str](), set[str]()
    for start in nodes:
        if start in done:
            continue
        on_way.add(start)
        walk = [(start, iter(after[start]))]
        while walk:
            node, targets = walk[-1]
            for target in targets:
                if target == node:
                    continue
                if target in on_way:
                    forward[target, node] = None
                    continue
                forward[node, target] = None
                if target not in done:
                    on_way.add(target)
                    walk.append((target, iter(after[target])))
                    break
            else:
                walk.pop()
                on_way.discard(node)
                done.add(node)
    return list(forward)


def _parts(nodes: Iterable[str], edges: Sequence[Edge]) -> list[tuple[list[str], list[Edge]]]:
    """What hangs together, the largest first, each with its arrows."""
    beside: dict[str, list[str]] = {node: [] for node in nodes}
    for source, target in edges:
        beside[source].append(target)
        beside[target].append(source)
    number: dict[str, int] = {}
    parts: list[tuple[list[str], list[Edge]]] = []
    for start in beside:
        if start in number:
            continue
        number[start] = len(parts)
        part = [start]
        for node in part:
            for other in beside[node]:
                if other not in number:
                    number[other] = len(parts)
                    part.append(other)
        parts.append((part, []))
    for edge in edges:
        parts[number[edge[0]]][1].append(edge)
    return sorted(parts, key=lambda part: -len(part[0]))


class _Part:
    """One part of a graph, whose nodes all hang together; bends are numbered nodes without a name."""

    def __init__(self, nodes: Sequence[str], edges: Sequence[Edge], sizes: Sizes) -> None:
        self._nodes, self._edges, self._sizes = nodes, edges, sizes
        named = levels(nodes, edges)
        lowest = min(named.values())
        index = {node: n for n, node in enumerate(nodes)}
        self._level = [named[node] - lowest for node in nodes]
        ends = [(index[source], index[target]) for source, target in edges]
        long = sum(max(abs(self._level[b] - self._level[a]) - 1, 0) for a, b in ends)
        self._chains = [self._bent(a, b) if long <= _MOST_BENDS else [a, b] for a, b in ends]
        self._before: list[list[int]] = [[] for _ in self._level]
        self._after: list[list[int]] = [[] for _ in self._level]
        for chain in self._chains:
            for a, b in pairwise(chain):
                low, high = (a, b) if self._level[a] < self._level[b] else (b, a)
                self._after[low].append(high)
                self._before[high].append(low)
        self._columns: list[list[int]] = [[] for _ in range(max(self._level) + 1)]
        for node in self._walk():
            self._columns[self._level[node]].append(node)
        self._y: list[float] = [0.0] * len(self._level)
        self.bottom = 0

    def _bent(self, source: int, target: int) -> list[int]:
        """The stations of an arrow: one in each column that it passes."""
        step = 1 if self._level[target] > self._level[source] else -1
        between = range(self._level[source] + step, self._level[target], step)
        first = len(self._level)
        self._level += between
        return [source, *range(first, first + len(between)), target]

    def _walk(self) -> list[int]:
        """All nodes in the order of a walk through neighbours, so that what belongs together begins together."""
        seen = [False] * len(self._level)
        order: list[int] = []
        for start in sorted(range(len(self._level)), key=self._level.__getitem__):
            stack = [start]
            while stack:
                node = stack.pop()
                if seen[node]:
                    continue
                seen[node] = True
                order.append(node)
                stack += [other for other in reversed(self._after[node]) if not seen[other]]
        return order

    # Order -------------------------------------------------------------------------------------------------------

    def arrange(self, top: int) -> None:
        """Put the nodes of each column in an order in which few arrows cross, and give them room below `top`."""
        best, fewest = [list(column) for column in self._columns], self._crossings()
        for sweep in range(2 * (_SWEEPS if len(self._nodes) < _MANY else _FEW_SWEEPS)):
            if not fewest:
                break
            self._sweep(self._columns if sweep % 2 == 0 else self._columns[::-1], back=sweep % 2 == 1)
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [list(column) for column in self._columns], crossings
        self._columns = best
        self._give_room(top)

    def _sweep(self, columns: Sequence[list[int]], *, back: bool) -> None:
        """Order each column by the middle of what its nodes are joined with in the columns before."""
        beside = self._after if back else self._before
        position = [0.0] * len(self._level)
        for column in columns:
            for place, node in enumerate(column):
                joined = beside[node]
                position[node] = sum(position[other] for other in joined) / len(joined) if joined else float(place)
            column.sort(key=position.__getitem__)
            for place, node in enumerate(column):
                position[node] = float(place)

    def _crossings(self) -> int:
        position = [0] * len(self._level)
        for column in self._columns:
            for place, node in enumerate(column):
                position[node] = place
        crossings = 0
        for column in self._columns:
            passed: list[int] = []
            for node in column:
                ends = sorted(position[other] for other in self._after[node])
                crossings += sum(len(passed) - bisect_right(passed, end) for end in ends)
                for end in ends:
                    insort(passed, end)
        return crossings

    # Room --------------------------------------------------------------------------------------------------------

    def _is_bend(self, node: int) -> bool:
        return node >= len(self._nodes)

    def _room(self, node: int) -> int:
        """How much a node takes of its column, with what keeps it from the next one."""
        return self._sizes.lane if self._is_bend(node) else self._sizes.height + self._sizes.down

    def _give_room(self, top: int) -> None:
        y = self._y
        offsets = []
        for column in self._columns:
            below, own = 0.0, []
            for node in column:
                own.append(below + self._room(node) / 2)
                below += self._room(node)
            offsets.append(own)
            for node, offset in zip(column, own, strict=True):
                y[node] = offset - below / 2
        order = list(zip(self._columns, offsets, strict=True))
        for turn in range(2 * _PASSES):
            beside = self._before if turn % 2 == 0 else self._after
            for column, own in order if turn % 2 == 0 else order[::-1]:
                wished = []
                for node in column:
                    joined = beside[node] or (self._after[node] if beside is self._before else self._before[node])
                    wished.append(sum(y[other] for other in joined) / len(joined) if joined else y[node])
                for node, at in zip(column, _apart(wished, own), strict=True):
                    y[node] = at
        named = range(len(self._nodes))
        half = self._sizes.height / 2
        shift = top - min(min(y[n] - half for n in named), min(y))
        self._y = [at + shift for at in y]
        self.bottom = round(max(max(self._y[n] + half for n in named), *self._y))

    def places(self) -> dict[str, NodePlace]:
        """Where each node stands."""
        half = self._sizes.height / 2
        return {
            name: NodePlace(self._level[n], self._x(n), round(self._y[n] - half)) for n, name in enumerate(self._nodes)
        }

    def _x(self, node: int) -> int:
        return self._level[node] * (self._sizes.width + self._sizes.across)

    def paths(self) -> dict[Edge, str]:
        """The curve of each arrow."""
        return {edge: self._path(chain) for edge, chain in zip(self._edges, self._chains, strict=True)}

    def _path(self, chain: Sequence[int]) -> str:
        wide = self._sizes.width
        is_back = self._level[chain[-1]] < self._level[chain[0]]
        x, y = self._x(chain[0]) + (0 if is_back else wide), round(self._y[chain[0]])
        path = [f"M{x} {y}"]
        for node in chain[1:]:
            left, at = self._x(node), round(self._y[node])
            enter, leave = (left + wide, left) if is_back else (left, left + wide)
            middle = (x + enter) // 2
            path.append(f"C{middle} {y} {middle} {at} {enter} {at}" if at != y else f"H{enter}")
            x, y = enter, at
            if self._is_bend(node):
                path.append(f"H{leave}")
                x = leave
        return "".join(path)


def _apart(wished: Sequence[float], offsets: Sequence[float]) -> list[float]:
    """The places nearest to those that are wished for, in this order and each with the room that it takes."""
    blocks: list[tuple[float, int]] = []  # the sum of what is wished for, and of how many
    for wish, offset in zip(wished, offsets, strict=True):
        total, n = wish - offset, 1
        while blocks and blocks[-1][0] * n >= total * blocks[-1][1]:
            before, m = blocks.pop()
            total, n = total + before, n + m
        blocks.append((total, n))
    found: list[float] = []
    for total, n in blocks:
        found += [total / n + offset for offset in offsets[len(found) : len(found) + n]]
    return found
