"""Grid: a page of the matrix as tables whose cells are links, each the way to what it stands for.

Made without a template: a thousand cells are many for one, and whoever looks next gets the same markup.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby

from ..insight.axis import AxisColumn
from ..insight.heat import Heat
from ..insight.matrix import WORST_FIRST, Block, Cell, MatrixRow
from ..insight.stale import STALE
from ..model import READY
from .show import SIGNS, Addresses

_url = Addresses()
_is_period = re.compile(r"([0-9]{4}(?:-[0-9]{2}){0,2})[-T]([0-9]{2})").fullmatch
_PARTLY = "PARTLY"  # READY as far as it is there
_ORDER = (READY, *WORST_FIRST, STALE)

Zoom = Callable[[str, str], str]


def grid(seen: Heat, zoom: Zoom) -> str:
    """The tables of all blocks, each in a box that scrolls, and what their signs mean."""
    used: dict[str, None] = {}
    tables = [_table(number, block, zoom, used) for number, block in enumerate(seen.blocks)]
    return "".join(tables) + _legend(used)


def _table(number: int, block: Block, zoom: Zoom, used: dict[str, None]) -> str:
    name = f"the matrix of datasets by {block.type}"
    if not block.columns:
        rows = "".join(f'<tr>{_name(line)}<td class="sum">{_sum(line, used)}</td></tr>' for line in block.lines)
        told = f"Their {block.type} dataids are too many for columns: a dataset lists its own."
        return (
            f'<div class="scroll heat" id="heat-{number}"><table class="plain"><caption>{told}</caption>'
            f"<tbody>{rows}</tbody></table></div>"
        )
    keys = [_key(column) for column in block.columns]
    ways = [zoom(*key) if column.size > 1 else "" for key, column in zip(keys, block.columns, strict=True)]
    rows = "".join(_row(line, block, ways, used) for line in block.lines)
    return (
        f'<div class="scroll heat" id="heat-{number}" role="region" tabindex="0" aria-label="{name}">'
        f"<table><caption><span>{escape(_caption(block))}</span></caption><thead>{_head(block, ways)}</thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def _caption(block: Block) -> str:
    single = all(column.size == 1 for column in block.columns)
    told = f"A cell is {block.each}."
    return told if single or block.is_counted else f"{told} Holes do not show at this scale."


def _key(column: AxisColumn) -> tuple[str, str]:
    """What to look into: a period by its name, else from the first to the last."""
    is_period = column.first.startswith(column.label) and column.first != column.label
    return (column.label, column.label) if is_period else (column.first, column.last)


# Above the columns --------------------------------------------------------------------------------------------------


def _head(block: Block, ways: Sequence[str]) -> str:
    labels = [column.label for column in block.columns]
    parts = [_is_period(label) for label in labels]
    if not all(parts):
        # Years and short numbers fit side by side; everything else stands upright.
        is_short = all(len(label) <= 2 for label in labels) or block.each == "one year"
        kind = "" if is_short else ' class="up"'
        cells = "".join(
            f'<th scope="col"{kind}>{_look(label, label, way)}</th>' for label, way in zip(labels, ways, strict=True)
        )
        return f'<tr><th scope="col">dataset</th>{cells}<th scope="col">chunks</th></tr>'
    split = [(part[1], part[2]) for part in parts if part]
    groups = [(name, len(list(some))) for name, some in groupby(split, key=lambda each: each[0])]
    above = "".join(
        f'<th scope="colgroup" colspan="{n}" class="group"><span>{escape(name)}</span></th>' for name, n in groups
    )
    cells = "".join(
        f'<th scope="col">{_look(short, label, way)}</th>'
        for (_, short), label, way in zip(split, labels, ways, strict=True)
    )
    return f'<tr><th scope="col" rowspan="2">dataset</th>{above}<th scope="col" rowspan="2">chunks</th></tr><tr>{cells}</tr>'


def _look(text: str, label: str, way: str) -> str:
    if not way:
        return escape(text)
    return f'<a href="{escape(way)}" aria-label="look into {escape(label)}">{escape(text)}</a>'


# Rows ---------------------------------------------------------------------------------------------------------------


def _name(line: MatrixRow) -> str:
    return (
        f'<th scope="row"><a href="{escape(_url.dataset(line.datasetid))}" title="{escape(line.datasetid)}">'
        f"{escape(line.datasetid)}</a></th>"
    )


def _row(line: MatrixRow, block: Block, ways: Sequence[str], used: dict[str, None]) -> str:
    cells = "".join(
        _cell(line, cell, column, way, used) for cell, column, way in zip(line.cells, block.columns, ways, strict=True)
    )
    return f'<tr>{_name(line)}{cells}<td class="sum">{_sum(line, used)}</td></tr>'


def _cell(line: MatrixRow, cell: Cell, column: AxisColumn, way: str, used: dict[str, None]) -> str:
    if cell.status is None:
        return "<td></td>"
    is_partly = cell.status == READY and cell.chunks is not None and cell.chunks < column.size
    shown = _PARTLY if is_partly else cell.status
    used[shown] = None
    mark = ""
    if cell.stale:
        used[STALE] = None
        mark = f"<i>{SIGNS[STALE]}</i>"
    sign = "◐" if is_partly else SIGNS[cell.status]
    way = way or _url.chunk(line.datasetid, column.first)
    return (
        f'<td class="{shown}{_heat(cell, column)}"><a href="{escape(way)}" aria-label="{escape(_told(cell, column))}">'
        f"{sign}{mark}</a></td>"
    )


def _heat(cell: Cell, column: AxisColumn) -> str:
    """How much of a cell its worst status is: a third, two thirds, or nearly all."""
    if cell.status == READY or column.size == 1:
        return " k3"
    part = cell.n / max(cell.chunks or column.size, 1)
    return " k3" if part > 0.67 else " k2" if part > 0.1 else " k1"


def _told(cell: Cell, column: AxisColumn) -> str:
    stale = f", {cell.stale:,} stale" if cell.stale and column.size > 1 else ", stale" if cell.stale else ""
    if column.size == 1:
        return f"{column.label}: {cell.status}{stale}"
    if cell.status == READY:
        what = READY if cell.chunks is None else f"{cell.chunks:,} of {column.size:,} READY"
    else:
        what = f"{cell.n:,} {cell.status}" + ("" if cell.chunks is None else f" of {cell.chunks:,}")
    return f"{column.label}: {what}{stale}"


def _sum(line: MatrixRow, used: dict[str, None]) -> str:
    """How many chunks have which status; READY only where it was counted."""
    counts = sorted(line.counts.items(), key=lambda each: _ORDER.index(each[0]) if each[0] in _ORDER else 99)
    more = "≥" if line.at_least else ""
    parts = [
        f'<span class="c-{status}"><span aria-hidden="true">{SIGNS.get(status, "·")}</span>'
        f'<span class="unseen">{status} </span>{"" if status == READY else more}{n:,}</span>'
        for status, n in counts
    ]
    used.update(dict.fromkeys(status for status, _ in counts))
    if line.malformed:
        parts.append(f'<span class="bad">{line.malformed:,} malformed</span>')
    return " ".join(parts)


def _legend(used: Mapping[str, None]) -> str:
    words = {
        _PARTLY: "READY, with holes",
        STALE: "stale: made from an older version",
        "MISSING": "MISSING, although expected",
    }
    parts = list(_entries(used, words))
    return f'<ul class="legend" aria-label="what the signs mean">{"".join(parts)}</ul>' if parts else ""


def _entries(used: Mapping[str, None], words: Mapping[str, str]) -> Iterator[str]:
    for status in (*_ORDER[:1], _PARTLY, *_ORDER[1:]):
        if status in used:
            sign = "◐" if status == _PARTLY else SIGNS[status]
            yield f'<li><span class="key {status}" aria-hidden="true">{sign}</span>{words.get(status, status)}</li>'
    if used:
        yield '<li><span class="key" aria-hidden="true"></span>no chunk</li>'
