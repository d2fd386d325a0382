"""The last report of odf chaos."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from ...chaos.report import ChaosReport, last
from ..site import site_of
from .asking import answer, look
from .schema import maybe, of, table

router = APIRouter()


@look(router, "/chaos", table({"report": maybe(of(ChaosReport))}), "health")
def get_chaos(request: Request) -> Response:
    """What the last `odf chaos` of this project found, as it is kept in `.odf/chaos.json`; null where there was none."""
    return answer(request, {"report": last(site_of(request).project)})
