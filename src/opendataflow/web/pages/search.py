"""Search: what a few words may mean, as a page and as suggestions while somebody types."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from ...insight.search import CHUNK, DATASET, JOB, LONGEST, RUN, Hit, search
from ..show import Addresses, page
from ..site import Site, site_of

router = APIRouter()

_LISTED = 100
_SUGGESTED = 8
_url = Addresses()


@router.get("/search", response_class=HTMLResponse)
def search_page(request: Request, q: str = "", go: str = "") -> Response:
    """All that may be meant; go leads to the first at once, where it is the only one."""
    site, text = site_of(request), q.strip()[:LONGEST]
    hits = _hits(site, text, _LISTED)
    if go and len(hits) == 1:
        return RedirectResponse(_address(hits[0]), 303)
    kinds = {kind: [hit for hit in hits if hit.kind == kind] for kind in (RUN, CHUNK, DATASET, JOB)}
    return page(
        request,
        "search.html",
        title=f"Search {text}" if text else "Search",
        topics=("search",),  # nothing that happens is about it
        text=text,
        kinds={kind: some for kind, some in kinds.items() if some},
        address=_address,
        n=len(hits),
        more=len(hits) >= _LISTED,
    )


@router.get("/search/suggest")
def suggestions(request: Request, q: str = "") -> Response:
    """The first few, for the list below the field."""
    site = site_of(request)
    hits = _hits(site, q.strip()[:LONGEST], _SUGGESTED)
    told = [
        {
            "kind": hit.kind,
            "name": site.redact(hit.name),
            "told": site.redact(hit.told),
            "status": hit.status,
            "href": _address(hit),
        }
        for hit in hits
    ]
    return JSONResponse(told)


def _hits(site: Site, text: str, n: int) -> tuple[Hit, ...]:
    if not text:
        return ()
    with site.reading() as store:
        return search(store, text, n)


def _address(hit: Hit) -> str:
    if hit.kind == RUN and hit.runid is not None:
        return _url.run(hit.runid)
    if hit.kind == CHUNK:
        return _url.chunk(str(hit.datasetid), str(hit.dataid))
    return _url.job(str(hit.jobid)) if hit.kind == JOB else _url.dataset(str(hit.datasetid))
