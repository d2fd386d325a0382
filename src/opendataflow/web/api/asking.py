"""Asking: what every address of the API shares: its parameters, its errors, and how facts are answered."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.responses import Response

from ...model.data import plain
from ...model.definitions.ids import ID_PATTERN
from ...model.moment import parse_moment, parse_past
from ...model.selector import Selector
from ...model.timezone import time_zone
from ...project import Project
from ...tokens import shown_texts
from ..site import site_of
from .schema import TEXT, Schema, of, table

MOST = 1000  # of anything on one page
LAST = 2**62  # no number in a store is larger
LAST_VERSION = 2**31 - 1
ABOUT = {"project": TEXT, "environment": TEXT, "store": TEXT}

_ID = rf"^{ID_PATTERN}$"
_FROM = rf"^{ID_PATTERN}(:{ID_PATTERN})?$"
_WORDS = rf"^{ID_PATTERN}(\.\.{ID_PATTERN})?$"
_LINE = r"^[^\x00-\x1f\x7f]*$"

IdText = Annotated[str, StringConstraints(pattern=_ID)]
DataidText = Annotated[str, StringConstraints(pattern=_WORDS, max_length=258)]
EndText = Annotated[str, StringConstraints(pattern=_FROM, max_length=257)]
LineText = Annotated[str, StringConstraints(pattern=_LINE, max_length=200)]
MomentText = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z:.+ -]+$", min_length=1, max_length=40)]

DatasetPath = Annotated[str, Path(alias="dataset", pattern=_ID, description="The id of a dataset.")]
DataidPath = Annotated[str, Path(alias="dataid", pattern=_ID, description="The id of a chunk in its dataset.")]
JobPath = Annotated[str, Path(alias="job", pattern=_ID, description="The id of a job.")]
RunPath = Annotated[int, Path(alias="run", ge=1, le=LAST, description="The number of a run.")]
Datasets = Annotated[list[IdText], Query(alias="dataset", max_length=100, description="Only these datasets.")]
Most = Annotated[int, Query(alias="n", ge=1, le=MOST, description="At most this many.")]
Before = Annotated[int | None, Query(alias="before", ge=1, le=LAST, description="`next` of the page before.")]
At = Annotated[
    MomentText | None, Query(alias="at", description="As it was then: 2026-11-13T18:00, 03:00, 2h (ago), yesterday.")
]
FromDataid = Annotated[IdText | None, Query(alias="from", description="From this dataid or period on.")]
ToDataid = Annotated[IdText | None, Query(alias="to", description="Up to and including this dataid or period.")]

_ERROR = table({"error": TEXT, "message": TEXT, "hint": TEXT})
_STATUSES = {
    400: "What was asked for cannot be right.",
    401: "The console does not know who is asking.",
    403: "The visitor's role does not allow it, or another site asked for it.",
    404: "There is no such thing.",
    409: "Its status, its data or its location does not allow it now.",
    413: "More was sent than is read.",
    503: "The store does not answer, or has another schema.",
}
_OF_LOOKS = (400, 401, 404, 409, 503)

Function = TypeVar("Function", bound=Callable[..., Any])


def errors_of(statuses: Sequence[int]) -> dict[int | str, dict[str, Any]]:
    """The errors that an address can answer with."""
    content = {"application/json": {"schema": _ERROR}}
    return {status: {"description": _STATUSES[status], "content": content} for status in statuses}


def responses(answer: Schema, description: str, errors: Sequence[int]) -> dict[int | str, dict[str, Any]]:
    """Everything that an address can answer with."""
    good: dict[str, Any] = {"description": description, "content": {"application/json": {"schema": answer}}}
    return {200: good} | errors_of(errors)


def look(router: APIRouter, path: str, answer: Schema | type, tag: str) -> Callable[[Function], Function]:
    """An address that only looks; its summary and description are those of the function."""

    def decorate(function: Function) -> Function:
        schema = answer if isinstance(answer, dict) else of(answer)
        said, _, more = (function.__doc__ or "").partition("\n")
        router.get(
            path,
            response_class=Response,
            responses=responses(schema, "The facts.", _OF_LOOKS),
            summary=said.rstrip("."),
            description=" ".join(more.split()) or said,
            tags=[tag],
            operation_id=function.__name__,
        )(function)
        return function

    return decorate


def answer(request: Request, facts: Any) -> Response:
    """Facts as JSON, without any secret that this process knows, or that has the form of one."""
    data = shown_texts(plain(facts), site_of(request).redact_all)
    return Response(_encoded(data), media_type="application/json")


def with_about(request: Request, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of an overview, with where it looks."""
    return dict(site_of(request).about) | dict(facts)


def _encoded(data: Any) -> str:
    try:
        return json.dumps(data, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(data), allow_nan=False)


def _finite(data: Any) -> Any:
    """The same without what JSON has no number for."""
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def moment_of(project: Project, text: str | None, *, end: bool = False) -> datetime | None:
    """The moment that a text names, in the project's time zone."""
    return None if text is None else parse_moment(text, datetime.now(UTC), time_zone(project.timezone), end=end)


def past_of(request: Request, text: str | None) -> datetime | None:
    """The moment to look back at."""
    zone = time_zone(site_of(request).project.timezone)
    return None if text is None else parse_past(text, datetime.now(UTC), zone)


class Chosen(BaseModel):
    """Which chunks or events are meant: the selectors of the command line. What is left out means any."""

    model_config = ConfigDict(extra="forbid")

    dataset: list[IdText] = Field([], max_length=100, description="Only these datasets.")
    dataid: list[DataidText] = Field([], max_length=1000, description="Only these dataids, or ranges FROM..TO.")
    job: list[IdText] = Field([], max_length=100, description="Only what these jobs produce.")
    status: list[LineText] = Field([], max_length=20, description="Only what has one of these statuses.")
    cause: list[LineText] = Field([], max_length=20, description="Only what failed with this name or message.")
    since: MomentText | None = Field(None, description="Changed since then: 2026-11-14, 03:00, 2h, yesterday.")
    until: MomentText | None = Field(None, description="Changed before then; a day is meant to its end.")
    by: list[LineText] = Field([], max_length=20, description="Changed by this user, or user@host.")
    upstream_of: list[EndText] = Field([], max_length=20, description="What this is made from: DATASET[:DATAID].")
    downstream_of: list[EndText] = Field([], max_length=20, description="What is made from this: DATASET[:DATAID].")

    def selector(self, project: Project, *, everything: bool = False) -> Selector:
        """The same as a selector."""
        return Selector(
            *(tuple(self.dataset), tuple(self.dataid), tuple(self.job), tuple(self.status), tuple(self.cause)),
            *(moment_of(project, self.since), moment_of(project, self.until, end=True)),
            *(tuple(self.by), tuple(self.upstream_of), tuple(self.downstream_of)),
            everything=everything,
        )
