"""Mermaid: a graph as a flowchart that documentation sites and code hosts draw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

# What surrounds a label, by shape; the class of the same name colours it.
_SHAPES = {"box": ('["', '"]'), "round": ('(["', '"])')}
STYLES = {
    "asked": "stroke-width:3px",
    "old": "stroke-dasharray:4 3,color:#777777",
    "bad": "stroke:#cc0000",
}


class MermaidBox(NamedTuple):
    """One node: its own id, the lines of its label, its shape (box or round) and its style, if any."""

    id: str
    lines: tuple[str, ...]
    shape: str = "box"
    style: str = ""


class Join(NamedTuple):
    """One arrow between two nodes, by their ids."""

    source: str
    target: str
    label: str = ""


def flowchart(boxes: Iterable[MermaidBox], joins: Iterable[Join]) -> Iterator[str]:
    """The lines of a Mermaid flowchart; ids of its own, because what we call things may mean something to Mermaid."""
    numbers: dict[str, str] = {}
    styled: dict[str, list[str]] = {}
    yield "flowchart LR"
    for box in boxes:
        own = numbers.setdefault(box.id, f"n{len(numbers)}")
        begin, end = _SHAPES[box.shape]
        yield f"    {own}{begin}{'<br/>'.join(map(_escaped, box.lines))}{end}"
        if box.style:
            styled.setdefault(box.style, []).append(own)
    for join in joins:
        if join.source in numbers and join.target in numbers:
            label = f'|"{_escaped(join.label)}"|' if join.label else ""
            yield f"    {numbers[join.source]} -->{label} {numbers[join.target]}"
    for style, ids in styled.items():
        yield f"    classDef {style} {STYLES[style]}"
        yield f"    class {','.join(ids)} {style}"


def _escaped(text: str) -> str:
    """A text inside of quotes: everything but plain characters as Mermaid's own entities."""
    return "".join(letter if letter.isalnum() or letter in " .,:=_-/…" else f"#{ord(letter)};" for letter in text)
