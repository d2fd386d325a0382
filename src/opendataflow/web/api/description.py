"""Description: what the API can be asked, in the form of OpenAPI, and who asks."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Request
from fastapi.openapi.utils import get_openapi
from starlette.responses import JSONResponse, Response

from ...project.web import ROLES
from ..access import Visitor
from ..site import site_of
from . import chaos, chunks, glance, happening, sheets, verbs
from .asking import ABOUT, answer, look, with_about
from .schema import COMPONENTS, FLAG, TABLE, TEXT, table

PREFIX = "/api/v1"

router = APIRouter()

_TEXT = """The facts and verbs of OpenDataFlow, as the command line has them with `--json`.

Whoever has a token sends it: `Authorization: Bearer TOKEN`. A browser with a session sends `X-ODF-CSRF` with every verb.
Looks change nothing. Long answers come in pages of at most 1,000: pass on `next` as `before` or `after`."""
_VISITOR = table({"name": TEXT, "role": {"enum": list(ROLES)}})


@look(router, "/", table(ABOUT | {"version": TEXT, "visitor": _VISITOR, "is_read_only": FLAG}), "about")
def get_about(request: Request) -> Response:
    """Which project, environment and store this is, and who asks."""
    visitor: Visitor = request.state.visitor
    facts = {"version": version("opendataflow"), "visitor": {"name": visitor.name, "role": visitor.role}}
    return answer(request, with_about(request, facts | {"is_read_only": site_of(request).access.is_read_only}))


@look(router, "/openapi.json", TABLE, "about")
def get_description(request: Request) -> Response:
    """This description."""
    return JSONResponse(description())


every = APIRouter(prefix=PREFIX)
for part in (router, glance.router, chunks.router, happening.router, chaos.router, sheets.router, verbs.router):
    every.include_router(part)


@cache
def description() -> dict[str, Any]:
    """The whole API, as OpenAPI describes it."""
    made = get_openapi(title="OpenDataFlow", version=version("opendataflow"), description=_TEXT, routes=every.routes)
    for operations in made["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)  # what cannot be right is a 400 of ours
    components = made.setdefault("components", {})
    schemas = {name: each for name, each in components.get("schemas", {}).items() if "Validation" not in name}
    components["schemas"] = schemas | COMPONENTS
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    made["security"] = [{"token": []}]
    return made
