"""The page of the last chaos: what was broken on purpose, and what became of it."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter, Request
from starlette.responses import Response

from ...chaos import words
from ...chaos.report import ChaosReport, last
from ...errors import BadConfig
from ..show import page
from ..site import site_of

router = APIRouter()


@router.get("/chaos")
def chaos_page(request: Request) -> Response:
    """The last report, or how to make one."""
    report: ChaosReport | None = None
    problem: BadConfig | None = None
    try:
        report = last(site_of(request).project)
    except BadConfig as found:
        problem = found
    return page(request, "chaos.html", title="Chaos", report=report, problem=problem, words=words, began=_began(report))


def _began(report: ChaosReport | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(report.began) if report else None
    except ValueError:
        return None
    return found if found and found.tzinfo else None
