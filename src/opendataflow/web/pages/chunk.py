"""The page of a chunk: what it is and why, how the five questions were answered, and what somebody can do about it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from markupsafe import Markup
from starlette.responses import Response

from ...insight.chunk_sheet import Asking, ChunkSheet, chunk_sheet
from ...insight.diff import diff
from ...insight.history import KINDS
from ...insight.plots import line
from ...insight.words import change, count
from ..show import page
from ..site import site_of

router = APIRouter()

_Version = Annotated[int | None, Query(ge=1, le=2**62)]


@router.get("/chunk/{datasetid}/{dataid}")
def chunk_page(
    request: Request,
    datasetid: str,
    dataid: str,
    run: int | None = None,
    event: int | None = None,
    compare: _Version = None,
    look: bool = False,
) -> Response:
    """A chunk that is, or could be; the answers of one past attempt, or how a version differs, where one is chosen."""
    site = site_of(request)
    with site.reading() as store:
        sheet = chunk_sheet(store, site.project, datasetid, dataid, look=look)
        difference = diff(store, datasetid, dataid, compare) if compare is not None else None
    chosen = _chosen(sheet, run, event)
    return page(
        request,
        "chunk.html",
        title=f"{datasetid} {dataid}",
        topics=(f"chunk:{datasetid}/{dataid}",),
        sheet=sheet,
        chosen=chosen,
        is_past=run is not None or event is not None,
        plot=_plot(sheet),
        kinds=KINDS,
        difference=change(sheet.rows.difference),
        difference_of=difference,
    )


def _chosen(sheet: ChunkSheet, run: int | None, event: int | None) -> Asking | None:
    wanted = [each for each in sheet.askings if (run is not None and each.runid == run) or each.eventid == event]
    return wanted[0] if wanted else None


def _plot(sheet: ChunkSheet) -> Markup:
    """The rows of the chunks before this one, and its own as the last point."""
    rows = sheet.rows
    values = [each.rows for each in rows.earlier] + ([rows.own] if rows.own is not None else [])
    if len(values) < 2:
        return Markup()
    told = f"{count(len(values), 'chunk')}, from {min(values):,} to {max(values):,} rows"
    return Markup(line(values, f"Rows of the chunks up to {sheet.dataid}", told, width=480, height=96))
