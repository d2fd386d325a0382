"""The page History: what happened, by whom and why; the selectors are its address."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from ...errors import OdfError
from ...insight.history import KINDS, HistoryPage, history
from ...model import TODAY
from ..actions import FormValues
from ..problems import status_of
from ..show import Addresses, page
from ..site import site_of

router = APIRouter()

_PAGE = 50
_FIELDS = ("dataset", "dataid", "job", "status", "cause", "by", "since", "until", "upstream_of", "downstream_of")
_WORDS = 20  # values of one field


@router.get("/history")
def history_page(request: Request, before: Annotated[int | None, Query(ge=1, le=2**62)] = None) -> Response:
    """A page of events, newest first: all, or those that are meant."""
    site, given = site_of(request), _given(request)
    found, problem, has_datasets = HistoryPage((), None), None, True
    kinds = given.many("kind")
    try:
        selector = given.selector(site.project)
        with site.reading() as store:
            has_datasets = bool(store.catalogue().datasets.keys() - {TODAY.datasetid})
            found = history(store, selector, kinds=kinds, n=_PAGE, before=before)
    except OdfError as refused:
        problem = refused
    chosen: dict[str, Any] = {name: list(given.many(name)) for name in (*_FIELDS, "kind") if given.many(name)}
    return page(
        request,
        "history.html",
        title="History",
        topics=("paused",) if before else _topics(given),
        status_code=status_of(problem) if problem else 200,
        history=found,
        problem=problem,
        given=given,
        chosen=chosen,
        kinds=KINDS,
        before=before,
        has_datasets=has_datasets,
        older_address=Addresses().history(**chosen, before=found.older) if found.older is not None else "",
    )


def _given(request: Request) -> FormValues:
    """What the form says; several words in one field are several values."""
    fields = parse_qs(request.url.query, max_num_fields=200)
    spoken = ("dataset", "dataid", "job", "by", "upstream_of", "downstream_of")
    split = {
        name: [word for text in values for word in (text.split() if name in spoken else [text.strip()])][:_WORDS]
        for name, values in fields.items()
    }
    return FormValues(split)


def _topics(given: FormValues) -> tuple[str, ...]:
    """What a page of the newest events is about; older pages never change."""
    datasets, dataids = given.many("dataset"), given.many("dataid")
    if len(datasets) == len(dataids) == 1 and ".." not in dataids[0]:
        return (f"chunk:{datasets[0]}/{dataids[0]}",)
    return tuple(f"dataset:{name}" for name in datasets)
