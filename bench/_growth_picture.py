"""Draws how figures grow, as SVG that is readable on light and dark pages: small plots beside one another, one line for each thing that is compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

Curve = list[tuple[int, float]]

_WIDTH, _HIGH = 720, 168  # of all plots beside one another, and of one with its title and its axes
_LEFT, _TOP, _RIGHT, _BOTTOM = 40, 34, 12, 24  # of that, around the lines
_STYLE = """
svg { --back: #ffffff; --ink: #1f2328; --faint: #59636e; --grid: #d1d9e0; --one: #0969da; --two: #bc4c00; --three: #1a7f37; --four: #8250df; }
@media (prefers-color-scheme: dark) {
  svg { --back: #0d1117; --ink: #f0f6fc; --faint: #9198a1; --grid: #3d444d; --one: #4493f8; --two: #f0883e; --three: #3fb950; --four: #ab7df8; }
}
text { font: 11px system-ui, sans-serif; fill: var(--faint); }
.title { font-weight: 600; fill: var(--ink); }
.back { fill: var(--back); }
.grid { stroke: var(--grid); }
polyline { fill: none; stroke-width: 2; }
.one { stroke: var(--one); } .two { stroke: var(--two); stroke-dasharray: 6 3; }
.three { stroke: var(--three); stroke-dasharray: 2 3; } .four { stroke: var(--four); stroke-dasharray: 9 3 2 3; }
circle { fill: var(--back); stroke-dasharray: none !important; stroke-width: 2; }
"""
_CLASSES = ("one", "two", "three", "four")


class Plot(NamedTuple):
    """One plot: what it shows, and a curve for each thing that is compared."""

    title: str
    curves: Mapping[str, Curve]


def picture(title: str, plots: Sequence[Plot], columns: int) -> str:
    """The plots beside one another and below; from zero, with sizes that grow tenfold from mark to mark."""
    names = list(dict.fromkeys(name for plot in plots for name in plot.curves))
    wide, high = _WIDTH // columns, 26 + math.ceil(len(plots) / columns) * _HIGH
    drawn = [
        f'<g transform="translate({number % columns * wide} {26 + number // columns * _HIGH})">{_plot(plot, names, wide)}</g>'
        for number, plot in enumerate(plots)
    ]
    words = f"<title>{escape(title)}</title><desc>{escape('; '.join(map(_told, plots)))}</desc>"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {_WIDTH} {high}" width="{_WIDTH}" height="{high}">{words}'
        f'<style>{_STYLE}</style><rect class="back" width="100%" height="100%"/>{_legend(names)}{"".join(drawn)}</svg>\n'
    )


def _legend(names: Sequence[str]) -> str:
    drawn, x = [], _LEFT
    for name, kind in zip(names, _CLASSES, strict=False):
        drawn.append(
            f'<polyline class="{kind}" points="{x},14 {x + 24},14"/><text x="{x + 30}" y="18">{escape(name)}</text>'
        )
        x += 48 + 7 * len(name)
    return "".join(drawn)


def _plot(plot: Plot, names: Sequence[str], wide: int) -> str:
    values = [value for curve in plot.curves.values() for _, value in curve]
    top = _nice(max(values))
    sizes = sorted({size for curve in plot.curves.values() for size, _ in curve})
    few, many = math.log10(sizes[0]), math.log10(sizes[-1])

    def x(size: int) -> float:
        part = (math.log10(size) - few) / (many - few) if many > few else 0.5
        return _LEFT + part * (wide - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return _HIGH - _BOTTOM - value / top * (_HIGH - _TOP - _BOTTOM)

    drawn = [f'<text class="title" x="{_LEFT}" y="24">{escape(plot.title)}</text>']
    for value in (0.0, top / 2, top):
        at = f"{y(value):.1f}"
        drawn.append(f'<line class="grid" x1="{_LEFT}" x2="{wide - _RIGHT}" y1="{at}" y2="{at}"/>')
        drawn.append(f'<text x="{_LEFT - 5}" y="{y(value) + 4:.1f}" text-anchor="end">{value:,.4g}</text>')
    for number, size in enumerate(sizes):
        anchor = "start" if number == 0 else "end" if size == sizes[-1] else "middle"
        drawn.append(f'<text x="{x(size):.1f}" y="{_HIGH - 8}" text-anchor="{anchor}">{_short(size)}</text>')
    for name, curve in plot.curves.items():
        kind = _CLASSES[names.index(name)]
        points = " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in curve)
        dots = "".join(
            f'<circle class="{kind}" cx="{x(size):.1f}" cy="{y(value):.1f}" r="2.5"><title>{escape(name)}, {size:,}: {value:,.3g}</title></circle>'
            for size, value in curve
        )
        drawn.append(f'<polyline class="{kind}" points="{points}"/>{dots}')
    return "".join(drawn)


def _short(size: int) -> str:
    return f"{size // 1_000_000}M" if size >= 1_000_000 else f"{size // 1000}k" if size >= 1000 else str(size)


def _nice(value: float) -> float:
    """The next higher of 1, 2, 5, 10, …"""
    unit = 10.0 ** math.floor(math.log10(value))
    return next(step * unit for step in (1, 2, 5, 10) if step * unit >= value)


def _told(plot: Plot) -> str:
    ends = (
        f"{name} {curve[0][1]:,.3g} at {curve[0][0]:,}, {curve[-1][1]:,.3g} at {curve[-1][0]:,}"
        for name, curve in plot.curves.items()
    )
    return f"{plot.title}: {', '.join(ends)}"
