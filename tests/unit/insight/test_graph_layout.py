"""Where the nodes of a graph are drawn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from opendataflow.insight.graph_layout import SIZES, Edge, Layout, layout, levels

NODES = [f"n{number}" for number in range(24)]
GRAPHS = st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)), max_size=60)
FLOWS = GRAPHS.map(lambda edges: [(a, b) for a, b in edges if NODES.index(a) < NODES.index(b)])


def overlaps(found: Layout) -> list[tuple[str, str]]:
    """Nodes that are drawn upon each other."""
    placed = sorted(found.places.items(), key=lambda item: (item[1].x, item[1].y))
    return [(one, other) for (one, a), (other, b) in pairwise(placed) if a.x == b.x and b.y - a.y < SIZES.height]


def ends(path: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """Where a path begins and ends."""
    x = y = 0
    points = []
    for letter, numbers in re.findall(r"([MCH])([-0-9 ]+)", path):
        values = list(map(int, numbers.split()))
        x, y = (values[-1], y) if letter == "H" else (values[-2], values[-1])
        points.append((x, y))
    return points[0], points[-1]


@given(GRAPHS)
def test_every_node_has_a_place_of_its_own_inside_the_drawing_whatever_leads_where(edges: list[Edge]):
    found = layout(NODES, edges)
    assert set(found.places) == set(NODES)
    assert overlaps(found) == []
    for place in found.places.values():
        assert 0 <= place.x <= found.width - SIZES.width
        assert 0 <= place.y <= found.height - SIZES.height


@given(FLOWS)
def test_what_leads_to_a_node_stands_left_of_it(edges: list[Edge]):
    found = layout(NODES, edges)
    for source, target in edges:
        assert found.places[source].level < found.places[target].level
        assert found.places[source].x < found.places[target].x


@given(FLOWS)
def test_an_arrow_leads_from_the_right_of_one_node_to_the_left_of_the_other(edges: list[Edge]):
    found = layout(NODES, edges)
    assert set(found.paths) == set(edges)
    for (source, target), path in found.paths.items():
        (x, y), (to_x, to_y) = ends(path)
        a, b = found.places[source], found.places[target]
        assert (x, to_x) == (a.x + SIZES.width, b.x)
        assert abs(y - a.y - SIZES.height / 2) <= 1
        assert abs(to_y - b.y - SIZES.height / 2) <= 1


@given(GRAPHS)
def test_the_same_graph_is_drawn_the_same_every_time(edges: list[Edge]):
    assert layout(NODES, edges) == layout(NODES, list(edges))


def test_a_circle_is_drawn_and_ends():
    found = layout(["a", "b", "c"], [("a", "b"), ("b", "c"), ("c", "a"), ("a", "a")])
    assert [found.places[name].level for name in "abc"] == [0, 1, 2]
    assert set(found.paths) == {("a", "b"), ("b", "c"), ("c", "a")}


def test_arrows_to_what_is_not_there_are_left_out():
    assert layout(["a"], [("a", "b"), ("c", "a")]).paths == {}
    assert layout([], []) == Layout({}, {}, 0, 0)


def test_a_node_stands_right_of_the_longest_way_to_it():
    edges = [("a", "b"), ("b", "c"), ("a", "c"), ("late", "c")]
    assert levels(["a", "b", "c", "late"], edges) == {"a": 0, "b": 1, "c": 2, "late": 1}


def crossings(found: Layout, edges: Sequence[Edge]) -> int:
    """How many pairs of arrows between the same two columns cross."""
    y = {name: place.y for name, place in found.places.items()}
    level = {name: place.level for name, place in found.places.items()}
    return sum(
        (y[a] - y[c]) * (y[b] - y[d]) < 0
        for number, (a, b) in enumerate(edges)
        for c, d in edges[number + 1 :]
        if level[a] == level[c] and level[b] == level[d]
    )


def test_arrows_that_need_not_cross_do_not():
    names = [f"{side}{number}" for side in "ab" for number in range(6)]
    edges = [(f"a{number}", f"b{5 - number}") for number in range(6)] + [("root", f"a{number}") for number in range(6)]
    assert crossings(layout(["root", *names], edges), edges) == 0


def test_a_chain_is_a_straight_line_and_what_hangs_together_stands_apart_from_the_rest():
    found = layout("abcxy", [("a", "b"), ("b", "c"), ("x", "y")])
    assert len({found.places[name].y for name in "abc"}) == 1
    assert found.paths["a", "b"].count("C") == 0
    assert found.places["x"].y >= found.places["a"].y + SIZES.height


def test_nodes_without_arrows_stand_in_rows_below():
    found = layout([f"n{number}" for number in range(100)], [])
    assert len({place.x for place in found.places.values()}) == 4
    assert overlaps(found) == []


def test_thousands_of_nodes_are_drawn():
    names = [f"n{number}" for number in range(5000)]
    edges = [(names[number // 3], names[number]) for number in range(1, 5000)]
    found = layout(names, edges)
    assert (len(found.places), len(found.paths)) == (5000, 4999)
    assert overlaps(found) == []
    chain = layout(names, [*pairwise(names), *((names[0], name) for name in names[2:])])
    assert max(place.level for place in chain.places.values()) == 4999
