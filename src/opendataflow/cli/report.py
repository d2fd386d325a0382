"""The verb report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .app import App, Line, one_line, table, up_to_date
from .common import verb
from .selectors import selectors

if TYPE_CHECKING:
    from ..insight.reported import DatasetRows, Deeds, JobReport, LateChunk, PeriodReport, ReportedCause
    from ..model.selector import Selector

_Row = tuple[Any, ...]
_LISTED = 10
_NAMES = 3
_LONGEST = 100  # characters of a message


@verb("report")
@click.option(
    "--html",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write a page of HTML; - is standard output.",
)
@selectors("--all")
def report_verb(app: App, selector: Selector, file: Path | None) -> int:
    """What a period brought: what ran, failed, was late or forced, by whom; how long jobs took; how many rows came.

    Without --since it is the last day. Each period is compared with the one of the same length before it. The page is one
    file that needs nothing else: send it, or keep it.

    \b
      odf report
      odf report --since yesterday --html report.html
      odf report --since 7d --downstream-of flights_raw
      odf report --since 7d --job clean_flights --json
    """
    from ..insight.report import report

    with up_to_date(app):
        found = report(app.store, selector)
    if file is not None:
        _write(app, found, file)
        if not app.as_json:
            return 0
    app.show(found, lambda: _lines(found), overview=True)
    return 0


def _write(app: App, found: PeriodReport, file: Path) -> None:
    from ..insight.report_page import page
    from ..model.timezone import time_zone

    html = app.redact(page(found, app.about(), time_zone(app.project.timezone)))
    if str(file) == "-":
        click.echo(html, nl=False)
        return
    file.write_text(html, encoding="utf-8")
    app.say(f"{file}: {found.counts.runs:,} runs, {found.counts.failed:,} failed")


def _lines(found: PeriodReport) -> Iterator[Line]:
    from ..insight.words import when

    only = f", only {' '.join(found.selected)}" if found.selected else ""
    yield [(f"{when(found.since)} to {when(found.until)}", "strong"), (only, "faint")]
    yield from _runs(found)
    if found.causes:
        yield from _heading("What failed")
        yield from _listed(("runs", "not READY yet", "outcome", "jobs", "like"), map(_cause, found.causes))
    if found.late:
        yield from _heading("Late")
        yield from _listed(("chunk", "due", "READY", "late by"), map(_late, found.late))
    for heading, deeds in (("By hand", found.deeds), ("Refused at the door", found.refused)):
        if deeds:
            yield from _heading(heading)
            yield from _listed(("what", "chunks", "of", "by", "last", "why"), map(_deed, deeds))
    for heading, jobs in (("Most often failing", found.failing), ("Slowest", found.slowest)):
        if jobs:
            yield from _heading(heading)
            names = ("job", "runs", "failed", "took", "before", "trend", "longest", "last runs", "fails with")
            yield from _listed(names, map(_job, jobs))
    if found.rows:
        yield from _heading("Rows")
        yield from _listed(("dataset", "over time", "last", "of", "usual", "change"), map(_rows, found.rows), 30)
    yield from ([(one_line(remark), "faint")] for remark in found.remarks)


def _runs(found: PeriodReport) -> Iterator[Line]:
    from ..insight.plots import blocks
    from ..insight.words import count

    now, before = found.counts, found.before
    others = [(name, getattr(now, name)) for name in ("failed", "stopped", "refused", "running", "forced")]
    told = "".join(f", {n:,} {name}" for name, n in others if n)
    ran = f"{count(now.runs, 'run')}: {now.ready:,} READY{told}" if now.runs else "nothing ran"
    yield f"{ran}; before: {count(before.runs, 'run')}, {before.failed:,} failed"
    if now.runs:
        runs = [each.ready + each.failed + each.other for each in found.slices]
        yield [(blocks(runs, 48), "READY"), ("  runs", "faint")]
    if now.failed:
        yield [(blocks([each.failed for each in found.slices], 48), "FAILED"), ("  failed", "faint")]


def _cause(cause: ReportedCause) -> _Row:
    return cause.runs, cause.still_open, cause.outcome, _few(cause.jobs), _short(cause.example)


def _late(late: LateChunk) -> _Row:
    from ..insight.words import duration, when

    ready = when(late.ready, late.status or late.sign)
    return f"{late.datasetid} {late.dataid}", when(late.due), ready, duration(late.seconds_late)


def _deed(deeds: Deeds) -> _Row:
    from ..insight.words import when

    return deeds.what, deeds.chunks, _few(deeds.names), deeds.who, when(deeds.last, ""), _short(deeds.why)


def _job(job: JobReport) -> _Row:
    from ..insight.plots import blocks
    from ..insight.words import change, took

    times = took(job.seconds), took(job.seconds_before), change(job.trend), took(job.longest)
    return job.jobid, job.counts.runs, job.counts.failed, *times, blocks(job.took, 20), _short(job.cause)


def _rows(rows: DatasetRows) -> _Row:
    from ..insight.plots import blocks
    from ..insight.words import change

    usual = "" if rows.usual is None else f"{rows.usual:,.0f}"
    return rows.datasetid, blocks(rows.rows), f"{rows.rows[-1]:,}", rows.dataids[-1], usual, change(rows.change)


def _heading(text: str) -> Iterator[Line]:
    yield ""
    yield [(text, "strong")]


def _listed(names: tuple[str, ...], rows: Iterable[_Row], most: int = _LISTED) -> Iterator[Line]:
    every = list(rows)
    yield from table(names, every[:most])
    if len(every) > most:
        yield [(f"and {len(every) - most:,} more: ", "faint"), ("--json, or --html FILE", "command")]


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_NAMES]) + (f" and {len(names) - _NAMES:,} more" if len(names) > _NAMES else "")


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
