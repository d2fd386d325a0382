"""A timeline as drawings of SVG: positions are parts of the width, so that it fits every page, and each bar says what it is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from html import escape
from typing import NamedTuple

from ..model.printable import one_line
from .timeline import Bar, Lane, Queue, Timeline
from .words import count, duration, took

_STEPS = (60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)  # seconds
_MOST_MARKS = 8
_HEIGHTS = ((2, 18), (5, 12), (12, 8))  # up to so many rows, how high each is
_KINDS = {"READY": "good", "FAILED": "bad", "LOST": "bad", "RUNNING": "going"}
_QUEUE = 26.0
_COLUMN = 24
_THINNEST = 0.25  # percent of the width


def axis(drawn: Timeline, zone: tzinfo) -> str:
    """The hours or days along the period."""
    texts = "".join(
        f'<line x1="{x}%" x2="{x}%" y1="16" y2="22"/><text x="{x}%" y="12" text-anchor="{_anchor(x)}">{text}</text>'
        for x, text in marks(drawn, zone)
    )
    return f'<svg class="axis" width="100%" height="22" aria-hidden="true">{texts}</svg>'


class Links(NamedTuple):
    """Where the page of a run is, and the timeline of a shorter period."""

    run: Callable[[int], str]
    period: Callable[[datetime, datetime], str]


def lane(drawn: Timeline, of: Lane, links: Links, zone: tzinfo) -> str:
    """The bars of one lane; a bar of one run leads to that run, and one of several to their period."""
    high = next((height for rows, height in _HEIGHTS if of.rows <= rows), _HEIGHTS[-1][1])
    grid = "".join(f'<line class="grid" x1="{x}%" x2="{x}%" y1="0" y2="100%"/>' for x, _ in marks(drawn, zone))
    most = max((bar.runs for bar in of.bars), default=1)
    if drawn.is_together:
        high = _COLUMN
        bars = "".join(_column(drawn, bar, bar.runs / most, links, zone) for bar in of.bars)
    else:
        bars = "".join(_bar(drawn, bar, high, links, zone) for bar in of.bars)
    told = f"{count(of.runs, 'run')}, {of.failed:,} failed, {duration(of.busy)} of work"
    label = escape(one_line(f"{of.name}: {told}"))
    return (
        f'<svg class="lane" width="100%" height="{of.rows * (high + 4) + 4}" role="group" aria-label="{label}">'
        f"{grid}{bars}</svg>"
    )


def queue(of: Queue) -> str:
    """How many waited along the period: those for a slot of their pool below, the others upon them."""
    wide = 100 / max(len(of.waiting), 1)
    drawn = []
    for number, (waiting, for_slot) in enumerate(zip(of.waiting, of.for_slot, strict=True)):
        high = _QUEUE
        for kind, n in (("full", for_slot), ("wait", waiting - for_slot)):
            if n:
                tall = max(n / of.most * (_QUEUE - 2), 1.5)
                high -= tall
                drawn.append(
                    f'<rect class="{kind}" x="{number * wide:.2f}%" y="{max(high, 0):.1f}" '
                    f'width="{wide:.2f}%" height="{tall:.1f}"/>'
                )
    told = (
        f"At most {count(of.most, 'run')} waited at the same time, {max(of.for_slot, default=0):,} of them for a slot"
    )
    return f'<svg class="queue" role="img" width="100%" height="{_QUEUE}"><title>{told}</title>{"".join(drawn)}</svg>'


def bar_text(bar: Bar, zone: tzinfo) -> str:
    """A bar in words."""
    when = f"{bar.begin.astimezone(zone):%H:%M:%S}"
    if bar.runid is None:
        failed = f", {bar.failed:,} failed" if bar.failed else ""
        return f"{count(bar.runs, 'run')} of {bar.jobid or 'several jobs'} from {bar.begin.astimezone(zone):%m-%d} {when}{failed}"
    ran = (bar.end - bar.begin).total_seconds()
    text = f"run {bar.runid}: {bar.jobid} {bar.dataid} {bar.outcome}, {when}, {took(ran)}"
    return f"{text}; {waited(bar)}" if bar.wait else text


def waited(bar: Bar) -> str:
    """What a bar waited for, in words."""
    wait = bar.wait
    if wait is None:
        return ""
    text = f"waited {took(wait.seconds)} after {wait.read.datasetid} {wait.read.dataid} was READY"
    return f"{text}, {took(wait.full)} of it for a slot of its pool" if wait.full >= 0.05 else text


def marks(drawn: Timeline, zone: tzinfo) -> list[tuple[float, str]]:
    """Where the marks along the period are, in percent of the width, and what they say."""
    whole = (drawn.until - drawn.since).total_seconds()
    step = next((step for step in _STEPS if whole / step <= _MOST_MARKS), _STEPS[-1])
    local = drawn.since.astimezone(zone)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
    skipped = int((local - midnight).total_seconds() // step) + 1
    at = (midnight + timedelta(seconds=skipped * step)).astimezone(UTC)
    form = "%H:%M" if step < 86400 else "%m-%d"
    found = []
    while at < drawn.until:
        found.append((_x(drawn, at), f"{at.astimezone(zone):{form}}"))
        at += timedelta(seconds=step)
    return found


def _anchor(x: float) -> str:
    return "start" if x < 4 else "end" if x > 96 else "middle"


def _x(drawn: Timeline, at: datetime) -> float:
    part = (at - drawn.since) / (drawn.until - drawn.since)
    return round(min(max(part, 0.0), 1.0) * 100, 2)


def _bar(drawn: Timeline, bar: Bar, high: int, links: Links, zone: tzinfo) -> str:
    y = 4 + bar.row * (high + 4)
    left, wide = _across(drawn, bar)
    words = escape(one_line(bar_text(bar, zone)))
    kind = _KINDS.get(bar.status, "other")
    kind = "other" if kind == "bad" and not bar.failed else kind  # it was stopped
    more = 2 if kind == "bad" else 0  # which is seen without colours
    rect = f'<rect class="{kind}" x="{left:g}%" y="{y - more}" width="{wide:g}%" height="{high + 2 * more}"/>'
    wait = ""
    if bar.wait:
        kind = "wait full" if bar.wait.full >= bar.wait.seconds / 2 > 0 else "wait"
        middle = y + high / 2
        wait = (
            f'<line class="{kind}" x1="{_x(drawn, bar.wait.ready)}%" x2="{left:g}%" y1="{middle:g}" y2="{middle:g}"/>'
        )
    # The keyboard goes through the table below: a thousand bars would be a thousand stops.
    href = escape(links.run(bar.runid or 0))
    return f'<a href="{href}" tabindex="-1"><title>{words}</title>{wait}{rect}</a>'


def _column(drawn: Timeline, bar: Bar, part: float, links: Links, zone: tzinfo) -> str:
    """As high as many ran, those that failed at the bottom."""
    left, wide = _across(drawn, bar)
    tall = max(round(part * _COLUMN), 3)
    bad = min(max(round(tall * bar.failed / bar.runs), 3), tall) if bar.failed else 0
    rects = "".join(
        f'<rect class="{kind}" x="{left:g}%" y="{4 + _COLUMN - below - high}" width="{wide:g}%" height="{high}"/>'
        for kind, below, high in (("bad", 0, bad), ("good", bad, tall - bad))
        if high
    )
    words, href = escape(one_line(bar_text(bar, zone))), escape(links.period(bar.begin, bar.end))
    return f'<a href="{href}" tabindex="-1"><title>{words}</title>{rects}</a>'


def _across(drawn: Timeline, bar: Bar) -> tuple[float, float]:
    left, right = _x(drawn, bar.begin), _x(drawn, bar.end)
    wide = max(round(right - left, 2), _THINNEST)
    return min(left, 100 - wide), wide
