"""A report as one page of HTML: nothing in it runs, and nothing is fetched from anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from html import escape

from ..model.printable import one_line
from .page_style import STYLE
from .plots import columns, line
from .reported import DatasetRows, Deeds, JobReport, LateChunk, PeriodReport, ReportedCause
from .words import change, count, duration, length, took

_SHOWN = 3  # names in a cell
_LATE = 10  # late chunks that are shown before the rest is folded
_CELL = tuple[str, str]  # what stands in it, as HTML, and its classes

Address = Callable[..., str]  # of "job" and its id, "dataset" and its id, or "chunk" and both its ids


def page(report: PeriodReport, about: Mapping[str, str], zone: tzinfo) -> str:
    """The page: about says whose report it is, zone in which time zone its times are."""
    return _Page(report, about, zone).html()


def contents(report: PeriodReport, zone: tzinfo, address: Address) -> str:
    """What the page tells below its heading, for whoever has a heading, a style and pages of his own.

    address says where the page of a job, a dataset or a chunk is.
    """
    return _Page(report, {}, zone, address).contents()


def period(report: PeriodReport, zone: tzinfo) -> str:
    """From when to when, and what it is compared with, as HTML."""
    return _Page(report, {}, zone).period()


class _Page:
    def __init__(
        self, report: PeriodReport, about: Mapping[str, str], zone: tzinfo, address: Address | None = None
    ) -> None:
        self._report, self._about, self._zone, self._address = report, about, zone, address

    def html(self) -> str:
        title = f"{self._about.get('project', '')} report {self._at(self._report.until)}".strip()
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
            f"<title>{_text(title)}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
            f"{self._head()}\n{self.contents()}\n</main>\n</body>\n</html>\n"
        )

    def contents(self) -> str:
        report = self._report
        parts = [
            self._tiles(),
            self._timeline(),
            self._causes(report.causes),
            self._late(report.late),
            self._deeds("By hand", report.deeds, "Nobody forced, recalled, resubmitted or held anything."),
            self._deeds("Refused at the door", report.refused, ""),
            self._jobs("Most often failing", report.failing, "No job failed.", with_cause=True),
            self._jobs("Slowest", report.slowest, "No run ended well."),
            self._all_jobs(report.jobs),
            self._rows(report.rows),
            _foot(report.remarks),
        ]
        return "\n".join(filter(None, parts))

    def _at(self, moment: datetime | None, form: str = "%Y-%m-%d %H:%M") -> str:
        return moment.astimezone(self._zone).strftime(form) if moment else ""

    def _span(self, first: datetime | None, last: datetime | None) -> str:
        """From when to when, as short as it can be told."""
        begin, end = self._at(first, "%m-%d %H:%M"), self._at(last, "%m-%d %H:%M")
        if begin == end:
            return begin
        return f"{begin} to {end.removeprefix(begin[:6])}"

    def _head(self) -> str:
        about = self._about
        where = " · ".join(_text(about[name]) for name in ("environment", "store") if about.get(name))
        return f'<header><p class="soft">{where}</p><h1>{_text(about.get("project") or "Report")}</h1>{self.period()}</header>'

    def period(self) -> str:
        report = self._report
        only = f'<p class="soft">Only {_text(" ".join(report.selected))}</p>' if report.selected else ""
        span = length((report.until - report.since).total_seconds())
        zone = _text(report.until.astimezone(self._zone).tzname() or "")
        return (
            f'<p class="period">{self._at(report.since)} to {self._at(report.until)} '
            f'<span class="soft">{zone}, {span}; compared with the {span.removeprefix("1 ")} before</span></p>{only}'
        )

    def _tiles(self) -> str:
        report = self._report
        now, before = report.counts, report.before
        still = sum(cause.still_open for cause in report.causes)
        recalled = sum(each.chunks for each in report.deeds if each.what == "recalled")
        waiting = sum(each.ready is None for each in report.late)
        tiles = [
            _tile("runs", now.runs, f"{before.runs:,} before"),
            _tile("READY", now.ready, f"{before.ready:,} before", "good"),
            _tile("failed", now.failed, f"{before.failed:,} before", "bad"),
            _tile("not READY yet", still, "failed chunks", "bad"),
            _tile("late", len(report.late), f"{waiting:,} still missing" if waiting else "", "warn"),
            _tile("forced", now.forced, f"{before.forced:,} before", "warn"),
            _tile("recalled", recalled, "", "warn"),
        ]
        return f'<ul class="tiles">{"".join(tiles)}</ul>'

    def _timeline(self) -> str:
        report = self._report
        if not report.counts.runs:
            return _section("Runs", '<p class="none">Nothing ran in this period.</p>')
        most = max(report.slices, key=lambda each: each.ready + each.failed + each.other)
        told = (
            f"{count(report.counts.runs, 'run')}: {report.counts.ready:,} READY, {report.counts.failed:,} failed. "
            f"Most of them around {self._at(most.since)}."
        )
        stacks = [(each.ready, each.failed, each.other) for each in report.slices]
        middle = report.since + (report.until - report.since) / 2
        marks = "".join(
            f"<span>{self._at(mark, '%m-%d %H:%M')}</span>" for mark in (report.since, middle, report.until)
        )
        legend = (
            '<p class="legend"><span class="key good"></span>READY <span class="key bad"></span>failed '
            '<span class="key other"></span>refused or running</p>'
        )
        drawn = columns(stacks, ("good", "bad", "other"), "Runs over the period", told)
        return _section("Runs", f'{legend}<div class="plot">{drawn}<div class="marks">{marks}</div></div>')

    def _causes(self, causes: Sequence[ReportedCause]) -> str:
        if not causes:
            return _section("What failed", '<p class="none">Nothing failed.</p>')
        rows = [
            [
                (f'<span class="message">{_text(cause.example)}</span><small>{_text(cause.outcome)}</small>', "main"),
                (f"{cause.runs:,}", "n"),
                (
                    f"<strong>{cause.still_open:,}</strong>" if cause.still_open else "0",
                    "n bad" if cause.still_open else "n",
                ),
                (_some(cause.jobs), "wide"),
                (self._span(cause.first, cause.last), "when wide"),
            ]
            for cause in causes
        ]
        return _section("What failed", _table(("cause", "runs", "not READY yet", "jobs", "when"), rows))

    def _late(self, late: Sequence[LateChunk]) -> str:
        if not late:
            return ""
        rows = [
            [
                (self._link(f"{each.datasetid} {each.dataid}", "chunk", each.datasetid, each.dataid), "main"),
                (self._at(each.due), "when wide"),
                (self._at(each.ready) if each.ready else f"<strong>{_text(each.status or each.sign)}</strong>", "when"),
                (duration(each.seconds_late), "n warn"),
            ]
            for each in late
        ]
        names = ("chunk", "due", "READY", "late by")
        rest = rows[_LATE:]
        folded = f"<details><summary>{len(rest):,} more</summary>{_table(names, rest)}</details>" if rest else ""
        return _section("Late", _table(names, rows[:_LATE]) + folded)

    def _deeds(self, heading: str, deeds: Sequence[Deeds], none: str) -> str:
        if not deeds:
            return _section(heading, f'<p class="none">{none}</p>') if none else ""
        rows = [
            [
                (_text(each.what), "what"),
                (f"{each.chunks:,}", "n"),
                (_some(each.names) + _small(each.why) + _small(each.who, "narrow"), "main"),
                (_text(each.who), "who wide"),
                (self._span(each.first, each.last), "when wide"),
            ]
            for each in deeds
        ]
        return _section(heading, _table(("what", "chunks", "of", "by", "when"), rows))

    def _jobs(self, heading: str, jobs: Sequence[JobReport], none: str, *, with_cause: bool = False) -> str:
        return _section(heading, self._job_table(jobs, with_cause) if jobs else f'<p class="none">{none}</p>')

    def _job_table(self, jobs: Sequence[JobReport], with_cause: bool = False) -> str:
        names = ("job", "runs", "failed", "took", "before", "trend", "longest", "last runs")
        return _table(names, [self._job(job, with_cause) for job in jobs])

    def _job(self, job: JobReport, with_cause: bool) -> list[_CELL]:
        trend = job.trend
        drawn = ""
        if len(job.took) > 1:
            told = f"From {took(min(job.took))} to {took(max(job.took))}; the last took {took(job.took[-1])}."
            drawn = line(job.took, f"How long runs of {one_line(job.jobid)} took", told, width=120, height=24)
        cause = _small(job.cause) if with_cause else ""
        return [
            (f"{self._link(job.jobid, 'job', job.jobid)}{cause}", "main"),
            (f"{job.counts.runs:,}", "n"),
            (f"{job.counts.failed:,}", "n bad" if job.counts.failed else "n"),
            (took(job.seconds), "n"),
            (took(job.seconds_before), "n wide"),
            (change(trend), f"n {_judged(trend)}"),
            (took(job.longest), "n wide"),
            (drawn, "drawn wide"),
        ]

    def _all_jobs(self, jobs: Sequence[JobReport]) -> str:
        if not jobs:
            return ""
        return f"<details><summary>All {count(len(jobs), 'job')} that ran</summary>{self._job_table(jobs)}</details>"

    def _rows(self, datasets: Sequence[DatasetRows]) -> str:
        if not datasets:
            return _section("Rows", '<p class="none">No dataset knows how many rows its chunks have.</p>')
        return _section("Rows", f'<ul class="plots">{"".join(map(self._plot, datasets))}</ul>')

    def _plot(self, each: DatasetRows) -> str:
        last = f"{each.rows[-1]:,} rows in {each.dataids[-1]}"
        usual = f", usually {each.usual:,.0f}" if each.usual is not None else ""
        span = f"{count(len(each.rows), 'chunk')} from {each.dataids[0]} to {each.dataids[-1]}"
        drawn = line(each.rows, f"Rows of {one_line(each.datasetid)}", one_line(f"{span}; {last}{usual}."))
        far = each.change
        is_far = far is not None and abs(far) >= 0.5
        mark = f' <span class="{"warn" if is_far else "soft"}">{change(far)}</span>' if far is not None else ""
        below = f"<p><strong>{each.rows[-1]:,}</strong>{mark}<small>{_text(span)}</small></p>"
        return f"<li><h3>{self._link(each.datasetid, 'dataset', each.datasetid)}</h3>{drawn}{below}</li>"

    def _link(self, text: str, *named: str) -> str:
        """A name, which leads to its page where there is one."""
        if self._address is None or not all(named):
            return _text(text)
        return f'<a href="{escape(self._address(*named))}">{_text(text)}</a>'


def _foot(remarks: Iterable[str]) -> str:
    told = "".join(f"<p>{_text(remark)}</p>" for remark in remarks)
    return (
        f'<footer class="soft">{told}<p>A run belongs to the period in which it started. What a job took is the middle of its '
        "good runs. Rows are those of the current versions.</p></footer>"
    )


# Pieces -------------------------------------------------------------------------------------------------------------


def _section(heading: str, inside: str) -> str:
    return f"<section><h2>{heading}</h2>{inside}</section>"


def _tile(name: str, n: int, beside: str, kind: str = "") -> str:
    style = f' class="{kind}"' if kind and n else ""
    return f"<li{style}><strong>{n:,}</strong><span>{name}</span><small>{_text(beside)}</small></li>"


def _table(names: Sequence[str], rows: Iterable[Sequence[_CELL]]) -> str:
    rows = list(rows)
    # A heading stands as its column does: to the right over numbers, and only where the column is shown.
    kinds = [" ".join(word for word in kind.split() if word in ("n", "wide", "main")) for _, kind in rows[0]]
    head = "".join(f'<th scope="col"{_class(kind)}>{name}</th>' for name, kind in zip(names, kinds, strict=True))
    body = "".join("<tr>" + "".join(f"<td{_class(kind)}>{text}</td>" for text, kind in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _class(kind: str) -> str:
    return f' class="{kind.strip()}"' if kind.strip() else ""


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(_text(name) for name in names[:_SHOWN])
    more = f' <span class="soft">and {len(names) - _SHOWN:,} more</span>' if len(names) > _SHOWN else ""
    return shown + more


def _small(text: str, kind: str = "") -> str:
    return f"<small{_class(kind)}>{_text(text)}</small>" if text else ""


def _judged(trend: float | None) -> str:
    if trend is None or abs(trend) < 0.1:
        return "soft"
    return "bad" if trend >= 0.5 else "warn" if trend > 0 else "good"


def _text(value: object) -> str:
    """What others wrote, as text of a page and nothing else."""
    return escape(one_line(value))
