"""The page of a job."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from markupsafe import Markup
from starlette.responses import Response

from ...insight.job_sheet import Series, job_sheet
from ...insight.plots import bars
from ...insight.words import count, took
from ..show import page
from ..site import site_of

router = APIRouter()


@router.get("/job/{jobid}")
def job_page(request: Request, jobid: str, before: Annotated[int | None, Query(ge=1, le=2**62)] = None) -> Response:
    """What a job reads, writes, runs and would run next, and how its runs went."""
    site = site_of(request)
    with site.reading() as store:
        sheet = job_sheet(store, site.project, jobid, before)
    plots = [plot for number, series in enumerate(sheet.series) for plot in _plots(series, with_durations=number == 0)]
    return page(request, "job.html", title=jobid, topics=(f"job:{jobid}",), job=sheet, plots=plots, before=before)


def _plots(series: Series, *, with_durations: bool) -> list[dict[str, object]]:
    """The pictures of one output: how long its runs took, which is the same for all outputs, and how many rows they made."""
    drawn = []
    for what, usual, values in (
        ("duration", series.usual_seconds, [(point.seconds, took(point.seconds)) for point in series.points]),
        (
            "rows",
            series.usual_rows,
            [(point.rows, "" if point.rows is None else count(point.rows, "row")) for point in series.points],
        ),
    ):
        known = [value for value, _ in values if value is not None]
        if not known or (what == "duration" and not with_durations):
            continue
        names = [point.dataid for point in series.points]
        told = took if what == "duration" else lambda value: f"{value:,.0f}"
        title = "How long runs took" if what == "duration" else "Rows"
        span = f"{count(len(known), 'chunk')} from {names[0]} to {names[-1]}"
        words = f"{title} of {series.datasetid}: {span}, at most {told(max(known))}"
        marks = [(value, f"{name}: {text or 'unknown'}") for name, (value, text) in zip(names, values, strict=True)]
        drawn.append(
            {
                "title": title,
                "datasetid": series.datasetid,
                "first": names[0],
                "last": names[-1],
                "chunks": len(known),
                "usual": told(usual) if usual is not None else "",
                "most": told(max(known)),
                "svg": Markup(bars(marks, title, words, usual=usual)),
            }
        )
    return drawn
