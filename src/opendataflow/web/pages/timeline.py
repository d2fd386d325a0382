"""The page of the timeline."""

from __future__ import annotations

from fastapi import APIRouter, Request
from markupsafe import Markup
from starlette.responses import Response

from ...insight.timeline import BY, Queue, timeline
from ...insight.timeline_drawing import Links, axis, lane, queue
from ...model import check_id
from ..period import beside, period_of, written
from ..show import Addresses, page
from ..site import site_of

router = APIRouter()

_LAST = (("15 min", "15m"), ("hour", "1h"), ("6 hours", "6h"), ("day", "1d"), ("7 days", "7d"))
_LISTED = 100


@router.get("/timeline")
def timeline_page(request: Request, since: str = "", until: str = "", by: str = "worker", job: str = "") -> Response:
    """The runs of a period as bars, and what they waited for."""
    site = site_of(request)
    meant = period_of(site, since, until)
    jobid = check_id("job", job.strip()) if job.strip() else ""
    with site.reading() as store:
        found = timeline(store, meant.begin, meant.end, by, jobid)
    runs = sorted(
        ((bar, each.name) for each in found.lanes for bar in each.bars if bar.runid is not None),
        key=lambda pair: pair[0].begin,
        reverse=True,
    )
    chosen = {"by": by if by != "worker" else "", "job": jobid}
    links = Links(
        Addresses().run,
        lambda begin, end: Addresses().timeline(
            since=written(site, begin), until=written(site, end, end=True), **chosen
        ),
    )
    return page(
        request,
        "timeline.html",
        title="Timeline",
        drawn=found,
        # They escape what others wrote.
        axis=Markup(axis(found, site.zone)),
        lanes=[(each, Markup(lane(found, each, links, site.zone)), _queue(each.queue)) for each in found.lanes],
        queue=_queue(found.queue),
        listed=runs[:_LISTED],
        more=max(len(runs) - _LISTED, 0),
        meant=meant,
        chosen=chosen,
        kinds=BY,
        last=_LAST,
        beside=list(beside(site, found.since, found.until)),
    )


def _queue(of: Queue | None) -> Markup:
    return Markup(queue(of) if of is not None and of.most else "")
