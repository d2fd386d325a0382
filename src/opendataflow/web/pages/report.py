"""The report of a period, as a page of the console and as a file that needs nothing else."""

from __future__ import annotations

from fastapi import APIRouter, Request
from markupsafe import Markup
from starlette.responses import Response

from ...insight import report_page
from ...insight.report import report
from ...insight.reported import PeriodReport
from ...model.selector import Selector
from ..period import Period, beside, period_of
from ..show import Addresses, page
from ..site import Site, site_of

router = APIRouter()

_LAST = (("day", "1d"), ("7 days", "7d"), ("30 days", "30d"))


@router.get("/report")
def report_of_period(request: Request, since: str = "", until: str = "", dataset: str = "", job: str = "") -> Response:
    """What a period brought."""
    site = site_of(request)
    meant, found = _found(site, since, until, dataset, job)
    return page(
        request,
        "report.html",
        title="Report",
        # They escape what others wrote.
        period=Markup(report_page.period(found, site.zone)),
        contents=Markup(report_page.contents(found, site.zone, _address)),
        meant=meant,
        chosen={"dataset": dataset.strip(), "job": job.strip()},
        last=_LAST,
        beside=list(beside(site, found.since, found.until)),
    )


@router.get("/report/file")
def report_file(request: Request, since: str = "", until: str = "", dataset: str = "", job: str = "") -> Response:
    """The same as one file of HTML."""
    site = site_of(request)
    _, found = _found(site, since, until, dataset, job)
    html = site.redact(report_page.page(found, site.about, site.zone))
    name = f"report-{found.until.astimezone(site.zone):%Y-%m-%d}.html"
    return Response(html, media_type="text/html", headers={"content-disposition": f'attachment; filename="{name}"'})


def _found(site: Site, since: str, until: str, dataset: str, job: str) -> tuple[Period, PeriodReport]:
    meant = period_of(site, since, until)
    datasets, jobs = ((name.strip(),) if name.strip() else () for name in (dataset, job))
    selector = Selector(datasets=datasets, jobs=jobs, since=meant.begin, until=meant.end)
    with site.reading() as store:
        return meant, report(store, selector)


def _address(kind: str, *names: str) -> str:
    found: str = getattr(Addresses(), kind)(*names)
    return found
