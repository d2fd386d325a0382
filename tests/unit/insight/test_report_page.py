"""The page of a report: valid, complete in itself, and what others wrote stays text."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import pytest

from opendataflow.insight.report_page import page
from opendataflow.insight.reported import (
    DatasetRows,
    Deeds,
    JobReport,
    LateChunk,
    PeriodReport,
    ReportedCause,
    RunCounts,
    Slice,
)
from opendataflow.model.timezone import time_zone

NOW = datetime(2026, 11, 16, 3, 0, tzinfo=UTC)
DAY = timedelta(days=1)
EVIL = "<script>alert('x')</script><img src=x onerror=y>\"&\x1b[31m\n<b>"
VOID = {"meta", "br"}
ABOUT = {"project": "shop", "environment": "prod", "store": "sqlite:///dataflow.db"}


def empty() -> PeriodReport:
    return PeriodReport(NOW - DAY, NOW, (), RunCounts(), RunCounts(), (), (), (), (), (), (), (), (), (), ())


def full(n: int = 1, name: str = "orders") -> PeriodReport:
    """A report with n of everything."""
    names = [f"{name}_{number}" for number in range(n)]
    jobs = tuple(JobReport(each, RunCounts(n, n), 12.0, 10.0, 99.0, 12.0, 0, name, (1.0, 2.0)) for each in names)
    deeds = tuple(Deeds("recalled", f"{name}@desk", name, n, (each,), NOW - DAY, NOW) for each in names)
    return replace(
        empty(),
        selected=("--job", name),
        counts=RunCounts(n, n, n, n, n, n),
        slices=(Slice(NOW - DAY, n, n, n),),
        causes=tuple(ReportedCause(name, each, n, n, n, (each, "b", "c", "d"), NOW, NOW) for each in names),
        late=(
            *(LateChunk(each, "2026-11-15", NOW - DAY, NOW, None, 3600.0) for each in names),
            LateChunk(name, "2026-11-16", NOW, None, "FAILED", 60.0),
        ),
        failing=jobs,
        slowest=jobs,
        jobs=jobs,
        deeds=deeds,
        refused=deeds,
        rows=tuple(DatasetRows(each, ("1", "2"), (10, 20), 10.0) for each in names),
        remarks=(name,),
    )


class Outline(HTMLParser):
    """What a browser would make of a page; fails where an element is not closed in its order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("report", [empty(), full(), full(300), full(name="x" * 120), full(name=EVIL)])
def test_it_is_one_valid_page_that_runs_and_fetches_nothing(report: PeriodReport):
    html = page(report, ABOUT, UTC)
    outline = Outline(html)
    assert html.startswith("<!DOCTYPE html>")
    assert not {"script", "img", "link", "iframe", "object", "embed", "form", "a", "b"} & {*outline.tags}
    assert not [name for name, _ in outline.attributes if name in ("src", "href", "style") or name.startswith("on")]
    style = html.partition("<style>")[2].partition("</style>")[0]
    assert not re.search(r"url\(|@import|//", style)
    assert "default-src 'none'" in html
    assert (outline.tags.count("main"), outline.tags.count("h1")) == (1, 1)


def test_what_others_wrote_stays_text():
    outline = Outline(page(full(name=EVIL), dict.fromkeys(ABOUT, EVIL), UTC))
    assert "<script>alert('x')</script><img src=x onerror=y>\"&[31m <b>" in outline.text
    assert "\x1b" not in outline.text


def test_every_picture_says_what_it_shows():
    html = page(full(3), ABOUT, UTC)
    assert html.count("<svg") == html.count("<title>") - 1 == html.count("<desc>") == 1 + 3 * 3 + 3


def test_an_empty_period_says_so():
    text = Outline(page(empty(), {}, UTC)).text
    for said in ("Nothing ran in this period.", "Nothing failed.", "Nobody forced", "No dataset knows"):
        assert said in text
    assert "Late" not in text.replace("late", "")
    assert "Refused at the door" not in text


def test_times_are_in_the_zone_of_the_project():
    html = page(full(), ABOUT, time_zone("Asia/Tokyo"))
    assert "2026-11-15 12:00 to 2026-11-16 12:00" in html
    assert "JST, 1 day; compared with the day before" in html


def test_it_follows_light_and_dark_and_fits_a_phone():
    html = page(empty(), ABOUT, UTC)
    assert "@media (prefers-color-scheme: dark)" in html
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in html


def test_of_many_late_chunks_the_first_are_shown_and_the_rest_is_folded():
    many = page(full(300), ABOUT, UTC)
    late = many.partition("<h2>Late</h2>")[2].partition("</section>")[0]
    shown, _, rest = late.partition("<details>")
    assert (shown.count("<tr>"), rest.count("<tr>")) == (1 + 10, 1 + 291)
    assert "<summary>291 more</summary>" in rest
    few = page(full(3), ABOUT, UTC).partition("<h2>Late</h2>")[2].partition("</section>")[0]
    assert "<details>" not in few
