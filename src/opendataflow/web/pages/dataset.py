"""The page of a dataset: what it is, how much of it there is, and its chunks."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from markupsafe import Markup
from starlette.responses import Response

from ...insight.dataset_sheet import DatasetSheet, dataset_sheet
from ...insight.dataset_signs import SIGNS
from ...insight.plots import line
from ...insight.words import count
from ..show import page
from ..site import site_of

router = APIRouter()

_FILTERS = ("READY", "RUNNING", "FAILED", "RESUBMIT", "HOLD", "PENDING", *SIGNS)
_Word = Annotated[str, Query(max_length=200)]


@router.get("/dataset/{datasetid}")
def dataset_page(request: Request, datasetid: str, status: _Word = "", before: _Word = "") -> Response:
    """A dataset, and a page of its chunks: those of one status, or before one dataid."""
    site = site_of(request)
    with site.reading() as store:
        sheet = dataset_sheet(store, datasetid, status=status or None, before=before or None)
    return page(
        request,
        "dataset.html",
        title=datasetid,
        topics=(f"dataset:{datasetid}",),
        sheet=sheet,
        status_wanted=status,
        before=before,
        filters=_FILTERS,
        rows_plot=_plot(sheet, "rows"),
        size_plot=_plot(sheet, "bytes"),
    )


def _plot(sheet: DatasetSheet, what: str) -> Markup:
    values = [value for each in sheet.recent if (value := getattr(each, what)) is not None]
    if len(values) < 2:
        return Markup()
    told = f"{count(len(values), 'chunk')}, from {min(values):,} to {max(values):,} {what}"
    title = f"{what.capitalize()} of the last chunks of {sheet.dataset.datasetid}"
    return Markup(line(values, title, told, width=480, height=96))
