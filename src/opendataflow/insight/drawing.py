"""A graph as SVG: boxes with links in columns, and of very many a map without names that is cut into parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import NamedTuple

from ..model.printable import visible
from .graph_layout import SIZES, Edge, Layout, NodePlace, layout

MOST_BOXES = 400  # that are drawn with their names; more than these are a map
_MOST_LINES = 6000  # arrows of a map
_MOST_NAMED = 60  # boxes of a map that are links
_LETTERS = 19  # of a name that a box has room for
_MARGIN = 12

_placed = lru_cache(maxsize=8)(layout)  # definitions change rarely, and what is looked at again and again is the whole


class Box(NamedTuple):
    """One node: its id, its kind and state (classes of the style sheet), a sign, two lines, and all of it in words."""

    id: str
    kind: str
    state: str
    sign: str
    name: str
    told: str
    title: str
    is_chosen: bool = False


class MapPart(NamedTuple):
    """One stretch of a map, from top to bottom: how many boxes it holds, how many of them are not well, and where it lies."""

    number: int
    boxes: int
    not_well: int
    top: int
    bottom: int


@dataclass(frozen=True, slots=True)
class Drawing:
    """The picture, the ids of what is drawn with its name, and the parts to choose from where it is a map."""

    svg: str
    shown: tuple[str, ...]
    parts: tuple[MapPart, ...] = ()
    part: int | None = None
    is_map: bool = False


def drawing(
    boxes: Sequence[Box],
    edges: Iterable[Edge],
    title: str,
    link: Callable[[str], str],
    *,
    part: int | None = None,
    link_of_part: str = "",
    not_well: frozenset[str] = frozenset(),
    most: int = MOST_BOXES,
) -> Drawing:
    """The boxes and arrows as SVG; above `most` boxes a map of them all, or one part of it with names.

    link gives the address of a box by its id; link_of_part is that of a part without its number. not_well are the ids of
    the boxes that a map has links for.
    """
    placed = _placed(tuple(box.id for box in boxes), tuple(edges))
    if len(boxes) <= most:
        return Drawing(_detail(boxes, placed, title, link, None), tuple(box.id for box in boxes))
    parts = _parts(boxes, placed, not_well, most)
    if part is not None and 1 <= part <= len(parts):
        chosen = parts[part - 1]
        inside = [box for box in boxes if chosen.top <= placed.places[box.id].y < chosen.bottom]
        return Drawing(_detail(inside, placed, title, link, chosen), tuple(box.id for box in inside), parts, part)
    return Drawing(_map(boxes, placed, title, (parts, link_of_part), (not_well, link)), (), parts, None, True)


def cut(name: str, letters: int = _LETTERS) -> str:
    """A name that fits: the beginning and the end tell more than the beginning alone."""
    if len(name) <= letters:
        return name
    end = letters // 3
    return f"{name[: letters - 1 - end]}…{name[-end:]}"


def _worst(told: str) -> str:
    """As many of the states as fit, the worst first; the title has all of them."""
    fitting, *others = told.split(", ")
    for each in others:
        if len(fitting) + len(each) + 4 > _LETTERS:
            return f"{cut(fitting)} …"
        fitting += f", {each}"
    return cut(fitting)


# With names ---------------------------------------------------------------------------------------------------------


def _detail(boxes: Sequence[Box], placed: Layout, title: str, link: Callable[[str], str], part: MapPart | None) -> str:
    places = placed.places
    inside = {box.id for box in boxes}
    arrows = [path for (a, b), path in placed.paths.items() if a in inside or b in inside]
    top = part.top if part else 0
    bottom = part.bottom - SIZES.down if part else placed.height
    drawn = f'<path class="arrows" d="{"".join(arrows)}"/>{_heads(placed, inside)}'
    drawn += "".join(_box(box, places[box.id], link(box.id)) for box in boxes)
    return _svg("graph", title, (0, top, placed.width, bottom - top), drawn)


def _heads(placed: Layout, inside: set[str]) -> str:
    """A small triangle where arrows end, once for each node."""
    ends = dict.fromkeys(target for _, target in placed.paths if target in inside)
    middle = SIZES.height // 2
    triangles = (f"M{placed.places[node].x} {placed.places[node].y + middle}l-6-4v8z" for node in ends)
    return f'<path class="heads" d="{"".join(triangles)}"/>'


def _box(box: Box, place: NodePlace, link: str) -> str:
    chosen = " chosen" if box.is_chosen else ""
    shape = "job" if box.kind == "job" else "dataset"
    current = ' aria-current="true"' if box.is_chosen else ""
    return (
        f'<a class="box {escape(box.kind)} is-{escape(box.state)}{chosen}" href="{escape(link)}"{current} '
        f'transform="translate({place.x} {place.y})"><title>{_text(box.title)}</title><use href="#box-{shape}"/>'
        f'<text x="14" y="14.5">{_text(cut(box.name))}</text>'
        f'<text class="told" x="14" y="27.5">{escape(box.sign)} {_text(_worst(box.told))}</text></a>'
    )


def _text(told: str) -> str:
    """What others wrote, as text that turns no writing around."""
    return escape(visible(told))


# Without names ------------------------------------------------------------------------------------------------------


def _parts(boxes: Sequence[Box], placed: Layout, not_well: frozenset[str], most: int) -> tuple[MapPart, ...]:
    """The drawing from top to bottom in parts of about the same number of boxes, none with too many."""
    ordered = sorted((placed.places[box.id].y, box.id) for box in boxes)
    n = -(-len(ordered) // most)
    size = -(-len(ordered) // n)
    begins = list(dict.fromkeys(ordered[start][0] for start in range(0, len(ordered), size)))
    parts = []
    for number, top in enumerate(begins, 1):
        bottom = begins[number] if number < len(begins) else placed.height + 1
        inside = [node for y, node in ordered if top <= y < bottom]
        parts.append(MapPart(number, len(inside), sum(node in not_well for node in inside), top, bottom))
    return tuple(parts)


def _map(
    boxes: Sequence[Box],
    placed: Layout,
    title: str,
    of_parts: tuple[Sequence[MapPart], str],
    of_boxes: tuple[frozenset[str], Callable[[str], str]],
) -> str:
    (parts, link_of_part), (not_well, link) = of_parts, of_boxes
    # What is much taller than wide would be a thin line on a screen: a map is pressed together.
    press = min(placed.width / 1.8 / max(placed.height, 1), 1.0)
    at = {node: place._replace(y=round(place.y * press)) for node, place in placed.places.items()}
    wide, high = SIZES.width, max(round(SIZES.height * press), 2)
    by_state: dict[str, list[str]] = {}
    for box in boxes:
        by_state.setdefault(box.state, []).append(f"M{at[box.id].x} {at[box.id].y}h{wide}v{high}h-{wide}z")
    drawn = [f'<path class="lines" d="{_lines(at, placed.paths, high // 2)}"/>']
    drawn += [f'<path class="dots is-{escape(state)}" d="{"".join(some)}"/>' for state, some in by_state.items()]
    for part in parts:
        told = f"Part {part.number} of {len(parts)}: {part.boxes:,} nodes, {part.not_well:,} with problems"
        top, bottom = round(part.top * press), round(part.bottom * press)
        drawn.append(
            f'<a class="part" href="{escape(link_of_part)}{part.number}"><title>{told}</title>'
            f'<rect x="-8" y="{top - 2}" width="{placed.width + 16}" height="{bottom - top}"/></a>'
        )
    for box in [box for box in boxes if box.id in not_well][:_MOST_NAMED]:
        drawn.append(
            f'<a class="named is-{escape(box.state)}" href="{escape(link(box.id))}"><title>{_text(box.title)}</title>'
            f'<rect x="{at[box.id].x}" y="{at[box.id].y}" width="{wide}" height="{high}"/></a>'
        )
    return _svg("map", title, (0, 0, placed.width, round(placed.height * press)), "".join(drawn))


def _lines(places: Mapping[str, NodePlace], edges: Iterable[Edge], middle: int) -> str:
    lines = []
    for number, (a, b) in enumerate(edges):
        if number >= _MOST_LINES:
            break
        one, other = places[a], places[b]
        lines.append(f"M{one.x + SIZES.width} {one.y + middle}L{other.x} {other.y + middle}")
    return "".join(lines)


def _svg(kind: str, title: str, view: tuple[int, int, int, int], drawn: str) -> str:
    x, y, width, height = view
    width, height = width + 2 * _MARGIN, height + 2 * _MARGIN
    shapes = (
        f'<defs><g id="box-dataset"><rect class="paper" width="{SIZES.width}" height="{SIZES.height}" rx="4"/>'
        f'<path class="mark" d="M5 0v{SIZES.height}h-1a4 4 0 0 1-4-4v-{SIZES.height - 8}a4 4 0 0 1 4-4z"/></g>'
        f'<rect id="box-job" class="paper" width="{SIZES.width}" height="{SIZES.height}" rx="{SIZES.height // 2}"/></defs>'
        if kind == "graph"
        else ""
    )
    return (
        f'<svg class="{kind}" role="group" aria-label="{escape(title)}" width="{width}" height="{height}" '
        f'viewBox="{x - _MARGIN} {y - _MARGIN} {width} {height}">{shapes}{drawn}</svg>'
    )
