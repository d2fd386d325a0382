"""At a glance: what the overview and the search of the console show."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from ...insight.heat import Heat, MatrixFilter, heat
from ...insight.incidents import OpenProblem, incidents
from ...insight.now import Activity, now
from ...insight.search import Hit, search
from ..site import site_of
from .asking import IdText, LineText, answer, look
from .schema import of, table

router = APIRouter()

_MOST_ROWS = 200
_MOST_COLUMNS = 400


@look(router, "/incidents", table({"incidents": of(tuple[OpenProblem, ...])}), "overview")
def get_incidents(request: Request) -> Response:
    """What needs somebody, one for each root cause, the worst first.

    `behind` is unknown where more than a few thousand chunks are not READY.
    """
    with site_of(request).reading() as store:
        return answer(request, {"incidents": incidents(store)})


@look(router, "/now", Activity, "overview")
def get_now(request: Request) -> Response:
    """What runs now and how long it may take, and what was published and failed in the last minutes."""
    with site_of(request).reading() as store:
        return answer(request, now(store))


@look(router, "/search", table({"hits": of(tuple[Hit, ...])}), "overview")
def get_search(
    request: Request,
    text: Annotated[LineText, Query(description="Part of a name, a dataid, a dataset and a dataid, or a run number.")],
    n: Annotated[int, Query(ge=1, le=100, description="At most this many.")] = 20,
) -> Response:
    """Jobs, datasets, chunks and runs that a text may mean, the likeliest first."""
    with site_of(request).reading() as store:
        return answer(request, {"hits": search(store, text, n)})


class MatrixQuestion(BaseModel):
    """Which part of the matrix, and how large it may be."""

    model_config = ConfigDict(extra="forbid")

    dataset: IdText | None = Field(None, description="Only this dataset.")
    job: IdText | None = Field(None, description="Only what this job reads and writes.")
    status: LineText | None = Field(
        None, description="Only datasets that have such a chunk, also STALE, MISSING, REFUSED."
    )
    since: IdText | None = Field(None, alias="from", description="From this dataid or period on.")
    until: IdText | None = Field(None, alias="to", description="Up to and including this dataid or period.")
    text: LineText | None = Field(None, description="Part of the name of a dataset or of its job.")
    start: int = Field(0, ge=0, le=10_000_000, description="Leave out so many datasets.")
    rows: int = Field(40, ge=1, le=_MOST_ROWS, description="At most this many datasets.")
    width: int = Field(40, ge=5, le=_MOST_COLUMNS, description="At most this many columns.")


@look(router, "/matrix", Heat, "overview")
def get_matrix(request: Request, question: Annotated[MatrixQuestion, Query()]) -> Response:
    """Datasets by periods, with the worst status of each cell: the matrix of the overview, page by page."""
    names = ("dataset", "job", "status", "since", "until", "text")
    wanted = MatrixFilter(**{name: getattr(question, name) or "" for name in names})
    with site_of(request).reading() as store:
        found = heat(store, wanted, start=question.start, rows=question.rows, width=question.width)
    return answer(request, found)
