"""How the matrix looks: words where there is room, else a glyph a cell, and always a legend."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator

from ..insight.absent import MISSING, REFUSED
from ..insight.axis import AxisColumn
from ..insight.exceptions import WARNED, RefusalReason
from ..insight.matrix import LONGEST_NAME, Block, Cell, MatrixRow, Overview
from ..insight.stale import STALE
from ..insight.words import ranges_text, when
from ..model import FAILED, HOLD, PENDING, READY, RESUBMIT, RUNNING
from ..model.decision.cause import cause_key
from .app import Line, Segment, one_line

_ORDER = (READY, RUNNING, FAILED, RESUBMIT, HOLD, PENDING, REFUSED, MISSING, STALE)
_GLYPHS = dict(zip((*_ORDER, None, "PARTLY"), "●▶✗↻‖P⊘○≠·◐", strict=True))
_LETTERS = dict(zip((*_ORDER, None, "PARTLY"), "#>XrHP!?~.+", strict=True))
_MEANINGS = {
    REFUSED: "REFUSED when it arrived or was attempted",
    MISSING: "MISSING although expected",
    STALE: "READY, and STALE: made from an older version",
}
_RANGES = 4
_CAUSES = 5

_is_period = re.compile(r"([0-9]{4}(?:-[0-9]{2}){0,2})[-T]([0-9]{2})").fullmatch


def terminal_width() -> int:
    """How many columns a line has."""
    return max(shutil.get_terminal_size((100, 24)).columns, 40)


def glyphs() -> dict[str | None, str]:
    """One glyph for each status, in ASCII where the terminal can show nothing else."""
    encoding = (getattr(sys.stdout, "encoding", "") or "ascii").lower().replace("-", "")
    return dict(_GLYPHS) if encoding.startswith("utf") else dict(_LETTERS)


def lines(overview: Overview, width: int) -> Iterator[Line]:
    """The matrix in lines of at most this width."""
    glyph_of = glyphs()
    used: set[str | None] = set()
    if overview.at is not None:
        yield from ([(f"as it was at {when(overview.at)}", "faint")], "")
    for block in overview.blocks:
        yield from _block(block, width, glyph_of, used)
        yield ""
    if used:
        yield from _legend(used, glyph_of, width)
    yield from _exceptions(overview, width)
    if overview.untouched:
        yield _cut([("no chunks: ", "faint"), (", ".join(overview.untouched), "faint")], width)
    if not overview.blocks and not overview.untouched:
        yield "no chunks"
    yield from _hints(overview)
    yield from ([(remark, "faint")] for remark in overview.not_known)


def _cut(segments: list[Segment], width: int) -> list[Segment]:
    if sum(len(text) for text, _ in segments) <= width:
        return segments
    left = width - 1
    kept: list[Segment] = []
    for text, style in segments:
        kept.append((text[:left], style))
        left -= len(kept[-1][0])
    return [*kept, ("…", "faint")]


def _name(text: str, width: int) -> str:
    return (text if len(text) <= width else text[: width - 1] + "…").ljust(width)


def _block(block: Block, width: int, glyph_of: dict[str | None, str], used: set[str | None]) -> Iterator[Line]:
    names = min(max(len(line.datasetid) for line in block.lines), LONGEST_NAME)
    room = width - names - 2
    if block.columns:
        words = max(max((len(column.label) for column in block.columns), default=0), 8 + 2)
        if all(column.size == 1 for column in block.columns) and len(block.columns) * (words + 2) <= room:
            yield [
                (" " * (names + 2), ""),
                ("".join(column.label.ljust(words + 2) for column in block.columns).rstrip(), "faint"),
            ]
            for line in block.lines:
                yield [(_name(line.datasetid, names) + "  ", "strong"), *_words(line, glyph_of, words + 2)]
        else:
            size = min(room // len(block.columns), 8)
            size = (
                size if size >= 5 and block.is_counted and not all(column.size == 1 for column in block.columns) else 1
            )
            for ruler in _rulers(block.columns, size, room):
                yield [(" " * (names + 2), ""), (ruler, "faint")]
            for line in block.lines:
                yield [(_name(line.datasetid, names) + "  ", "strong"), *_cells(line, block, glyph_of, used, size)]
            yield [(" " * (names + 2), ""), (f"a cell is {block.each}", "faint")]
            if len(block.columns) > 1 and not block.is_counted:
                yield [(" " * (names + 2), ""), ("holes do not show at this scale", "faint")]
        yield ""
    for line in block.lines:
        yield _cut([(_name(line.datasetid, names) + "  ", "strong"), *_counts(line)], width)


def _words(line: MatrixRow, glyph_of: dict[str | None, str], width: int) -> Iterator[Segment]:
    for cell in line.cells:
        text = f"{glyph_of[cell.status]} {cell.status}" if cell.status else glyph_of[None]
        text += f" {glyph_of[STALE]}" if cell.stale else ""
        yield text, cell.status or "faint"
        yield " " * (width - len(text)), ""


def _cells(
    line: MatrixRow, block: Block, glyph_of: dict[str | None, str], used: set[str | None], size: int
) -> Iterator[Segment]:
    for cell, column in zip(line.cells, block.columns, strict=True):
        shown = _shown(cell, column)
        used.add(shown)
        text = glyph_of[shown]
        if size > 1:
            text += _short(cell.n) if cell.status else ""
            text = text[: size - 1].ljust(size)
        yield text, cell.status or "faint"


def _shown(cell: Cell, column: AxisColumn) -> str | None:
    if cell.status == READY and cell.stale:
        return STALE
    is_partly = cell.status == READY and cell.chunks is not None and cell.chunks < column.size
    return "PARTLY" if is_partly else cell.status


def _short(n: int) -> str:
    return str(n) if n < 10_000 else f"{n // 1000}k" if n < 1_000_000 else f"{n // 1_000_000}M"


def _rulers(columns: tuple[AxisColumn, ...], size: int, room: int) -> list[str]:
    """Labels above the cells, each beginning right above its own: where they fit, or as many of them as do.

    Periods stand in two lines: the coarser one where it begins, and below it every fifth day, sixth hour or third month.
    """
    if size > 1 and all(len(column.label) < size for column in columns):
        return ["".join(column.label.ljust(size) for column in columns).rstrip()]
    parts = [_period(column.label) for column in columns]
    if not all(step for _, _, step in parts):
        return [_scale(columns, size, room)]
    upper = lower = named = ""
    for index, (coarse, fine, step) in enumerate(parts):
        at = index * size
        is_first = not index or coarse != parts[index - 1][0]
        if coarse != named and (not upper or at > len(upper)) and at + len(coarse) <= room:
            upper, named = upper.ljust(at) + coarse, coarse
        if (is_first or int(fine) % step == 0) and (not lower or at > len(lower)) and at + len(fine) <= room:
            lower = lower.ljust(at) + fine
    return [upper, lower]


def _period(label: str) -> tuple[str, str, int]:
    """A period as a coarser one, its number in that, and which of these numbers are named; 0 for what is no such period."""
    found = _is_period(label)
    step = {4: 3, 7: 5, 10: 6}[len(found[1])] if found else 0
    return (found[1], found[2], step) if found else ("", "", 0)


def _scale(columns: tuple[AxisColumn, ...], size: int, room: int) -> str:
    text = ""
    for index, column in enumerate(columns):
        at = index * size
        if (not text or at >= len(text) + 2) and at + len(column.label) <= room:
            text = text.ljust(at) + column.label
    last = columns[-1].label
    end = (
        f"{text}"
        if text.endswith(last) or len(text) + 4 + len(columns[-1].last) > room
        else f"{text} .. {columns[-1].last}"
    )
    return end if len(columns) > 1 else text


def _counts(line: MatrixRow) -> Iterator[Segment]:
    where = ""
    if line.first is not None and line.last is not None:
        where = line.first if line.first == line.last else f"{line.first}..{line.last}"
        yield where + "  ", "faint"
    for status in _ORDER:
        if n := line.counts.get(status):
            least = "≥" if line.at_least and status == READY else ""
            yield f"{status} {least}{n:,}", status
            yield "  ", ""
    if line.malformed:
        yield f"{line.malformed} malformed", FAILED


def _legend(used: set[str | None], glyph_of: dict[str | None, str], width: int) -> Iterator[Line]:
    meanings = (
        {status: status for status in _ORDER} | _MEANINGS | {"PARTLY": "READY with holes", None: "never produced"}
    )
    segments: list[Segment] = []
    length = 0
    for status, meaning in meanings.items():
        if status in used:
            text = f"{glyph_of[status]} {meaning}"
            if length and length + len(text) + 3 > width:
                yield segments
                segments, length = [], 0
            segments += [(text, status if status in _ORDER else "faint"), ("   ", "")]
            length += len(text) + 3
    yield segments
    yield ""


def _exceptions(overview: Overview, width: int) -> Iterator[Line]:
    whys: dict[tuple[str, str], dict[str, list[RefusalReason]]] = {}
    for each in overview.reasons:
        cause = cause_key(each.why, (each.datasetid, each.dataid))
        whys.setdefault((each.datasetid, each.status), {}).setdefault(cause, []).append(each)
    # Of one dataset alone, all of them.
    is_alone = len(overview.untouched) + sum(len(block.lines) for block in overview.blocks) == 1
    for exception in overview.exceptions:
        shown = ranges_text(exception.ranges, _RANGES, more=exception.more)
        causes = list(whys.get((exception.datasetid, exception.status), {}).values())
        segments = [(f"{exception.status:<9}", exception.status), (f"{exception.datasetid}  {shown}", "")]
        # Remarks that differ by a chunk's name are different facts; reasons of refusals are not.
        is_one = len(causes) == 1 and (exception.status != WARNED or len({each.why for each in causes[0]}) == 1)
        if is_one:
            segments.append((f": {one_line(causes[0][0].why)}", "faint"))
        yield _cut(segments, width)
        most = len(causes) if is_alone else _CAUSES
        for alike in () if is_one else causes[:most]:
            more = f" and {len(alike) - 1:,} more" if len(alike) > 1 else ""
            yield _cut([(f"{'':9}{alike[0].dataid}{more}: {one_line(alike[0].why)}", "faint")], width)
        if len(causes) > most:
            yield [(f"{'':9}{len(causes) - most:,} more causes: odf status {exception.datasetid}", "faint")]


def _hints(overview: Overview) -> Iterator[Line]:
    crowded = [
        block for block in overview.blocks if not block.columns or any(column.size > 1 for column in block.columns)
    ]
    if crowded:
        columns = [column for column in crowded[0].columns if column.size > 1]
        some = f" --from {columns[-1].first} --to {columns[-1].last}" if columns else ""
        yield [
            ("in detail: ", "faint"),
            (f"odf status {crowded[0].lines[0].datasetid}{some}", "command"),
            ("   every chunk: ", "faint"),
            ("--chunks", "command"),
        ]
    if overview.more_stale:
        all_of_them = "odf resubmit --stale --dry-run"
        yield [("very many chunks are STALE, and not all are marked; to see them: ", "faint"), (all_of_them, "command")]
    if any(line.at_least for block in overview.blocks for line in block.lines):
        yield [("≥ means that counting stopped there; ", "faint"), ("--exact", "command"), (" counts all", "faint")]
