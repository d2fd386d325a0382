"""Plots: series of numbers as small pictures, of blocks for a terminal and of SVG for a page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise

_BLOCKS = "▁▂▃▄▅▆▇█"
_NOTHING = "·"


def blocks(values: Sequence[float], width: int = 40) -> str:
    """One block for each value, the highest for the greatest; of many, those that follow each other share one."""
    shared = _shared(values, width)
    most = max(shared, default=0)
    return "".join(_block(value / most) if value > 0 else _NOTHING for value in shared)


def _block(part: float) -> str:
    return _BLOCKS[min(int(part * len(_BLOCKS)), len(_BLOCKS) - 1)]


def _shared(values: Sequence[float], width: int) -> list[float]:
    """At most `width` values: each the mean of those that it stands for."""
    if len(values) <= width:
        return list(values)
    edges = [number * len(values) // width for number in range(width + 1)]
    parts = [values[low:high] for low, high in pairwise(edges)]
    return [sum(part) / len(part) for part in parts]


def line(values: Sequence[float], title: str, told: str, *, width: int = 240, height: int = 48) -> str:
    """A line through the values, from zero, with a dot on the last one."""
    top = max([*values, 0]) or 1.0
    step = (width - 8) / max(len(values) - 1, 1)
    points = [
        (4 + number * step, height - 4 - max(value, 0) / top * (height - 8)) for number, value in enumerate(values)
    ]
    if len(points) == 1:
        points = [(4.0, points[0][1]), (width - 4.0, points[0][1])]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    area = f"{points[0][0]:.1f},{height - 4} {path} {points[-1][0]:.1f},{height - 4}" if points else ""
    dot = f'<circle cx="{points[-1][0]:.1f}" cy="{points[-1][1]:.1f}" r="2.5"/>' if points else ""
    drawn = f'<polygon class="area" points="{area}"/><polyline points="{path}"/>{dot}'
    return _svg("line", drawn, title, told, width, height)


def columns(
    stacks: Sequence[Sequence[float]],
    names: Sequence[str],
    title: str,
    told: str,
    *,
    width: int = 960,
    height: int = 120,
) -> str:
    """A column for each stack, its parts upon each other; the name of a part is its class."""
    top = max((sum(stack) for stack in stacks), default=0) or 1.0
    step = width / max(len(stacks), 1)
    drawn = []
    for number, stack in enumerate(stacks):
        y = float(height)
        for value, name in zip(stack, names, strict=True):
            if value > 0:
                tall = max(value / top * (height - 2), 1.5)  # one among thousands is still seen
                y -= tall
                box = f'x="{number * step + step * 0.1:.1f}" y="{max(y, 0):.1f}" width="{step * 0.8:.1f}" height="{tall:.1f}"'
                drawn.append(f'<rect class="{name}" {box}/>')
    return _svg("columns", "".join(drawn), title, told, width, height, stretch=True)


def bars(
    values: Sequence[tuple[float | None, str]],
    title: str,
    told: str,
    *,
    usual: float | None = None,
    height: int = 96,
) -> str:
    """A bar for each value, which says its words when it is pointed at, and a line at what is usual; as wide as there is room."""
    top = max([value for value, _ in values if value is not None] + [usual or 0.0]) or 1.0
    step = 100 / max(len(values), 1)
    drawn = []
    for number, (value, words) in enumerate(values):
        tall = max((value or 0.0) / top * (height - 6), 1.5)
        kind = "none" if value is None else "far" if usual and not usual / 3 <= value <= usual * 3 else "value"
        box = f'x="{number * step + step * 0.08:.3f}%" y="{height - tall:.1f}" width="{step * 0.84:.3f}%" height="{tall:.1f}"'
        drawn.append(f'<rect class="{kind}" {box}><title>{escape(words)}</title></rect>')
    if usual:
        y = f"{height - usual / top * (height - 6):.1f}"
        drawn.append(f'<line class="usual" x1="0" x2="100%" y1="{y}" y2="{y}"/>')
    words = f"<title>{escape(title)}</title><desc>{escape(told)}</desc>"
    return f'<svg class="bars" role="img" width="100%" height="{height}">{words}{"".join(drawn)}</svg>'


def _svg(kind: str, drawn: str, title: str, told: str, width: int, height: int, *, stretch: bool = False) -> str:
    ratio = ' preserveAspectRatio="none"' if stretch else ""
    words = f"<title>{escape(title)}</title><desc>{escape(told)}</desc>"
    return f'<svg class="{kind}" role="img" viewBox="0 0 {width} {height}"{ratio}>{words}{drawn}</svg>'
