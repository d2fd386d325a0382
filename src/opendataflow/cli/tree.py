"""How a graph looks as a tree: every node once, wide levels cut, and any depth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple


class Branch(NamedTuple):
    """One line of a tree: what leads to it, and the node; or how many siblings are left out there."""

    lead: str
    id: str
    is_repeated: bool = False  # it stands above already, with what hangs on it
    left_out: int = 0


def branches(root: str, children: Mapping[str, Sequence[str]], most: int = 20) -> Iterator[Branch]:
    """The tree below a node, without the node itself: at most so many children of each, and a node that returns is referred to."""
    seen = {root}
    # Chains are as long as history: no recursion.
    stack = _level(children.get(root, ()), "", most)
    while stack:
        lead, rest, node, left_out = stack.pop()
        if left_out:
            yield Branch(lead, "", left_out=left_out)
            continue
        is_repeated = node in seen
        yield Branch(lead, node, is_repeated=is_repeated and bool(children.get(node)))
        if not is_repeated:
            seen.add(node)
            stack += _level(children.get(node, ()), rest, most)


def _level(nodes: Sequence[str], before: str, most: int) -> list[tuple[str, str, str, int]]:
    """The children of one node, the last one first: what leads to each, what leads to its own children, and who it is."""
    shown = [(node, 0) for node in nodes[:most]]
    if len(nodes) > most:
        shown.append(("", len(nodes) - most))
    level = []
    for number, (node, left_out) in enumerate(shown, 1):
        is_last = number == len(shown)
        level.append((before + ("└─ " if is_last else "├─ "), before + ("   " if is_last else "│  "), node, left_out))
    return level[::-1]
