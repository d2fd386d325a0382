"""Problems: an error as a page for people, and as JSON for programs, with the status that HTTP has for it."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, Response

from .. import errors
from ..errors import OdfError
from .access import NOBODY
from .show import render

if TYPE_CHECKING:
    from .site import Site

# The first that fits counts.
_STATUS: tuple[tuple[type[OdfError], int], ...] = (
    (errors.NotLoggedIn, 401),
    (errors.Forbidden, 403),
    (errors.TooLarge, 413),
    (errors.NoSuchPage, 404),
    (errors.UnknownJob, 404),
    (errors.UnknownDataset, 404),
    (errors.UnknownRun, 404),
    (errors.UnknownVersion, 404),
    (errors.UnknownPool, 404),
    (errors.BadTransition, 409),
    (errors.StoreReadOnly, 403),
    (errors.SchemaOlder, 503),
    (errors.SchemaNewer, 503),
    (errors.SchemaChanged, 503),
    (errors.StoreMissing, 503),
    (errors.StoreUnreachable, 503),
    (errors.StoreDamaged, 503),
    (errors.UsageError, 400),
    (errors.Refused, 409),
    (errors.NothingToDo, 409),
    (errors.LeaseLost, 409),
)
_TITLES = {401: "Who are you?", 403: "Not allowed", 404: "Not found", 409: "Not now", 503: "The store does not answer"}


def status_of(problem: OdfError) -> int:
    """The status of HTTP for an error."""
    return next((status for kind, status in _STATUS if isinstance(problem, kind)), 500)


def problem_response(site: Site, scope: MutableMapping[str, Any], problem: OdfError) -> Response:
    """An error as a page for people, or as JSON for programs."""
    status = status_of(problem)
    message, hint = (site.redact_all(text) for text in (problem.message, problem.hint))
    if scope["path"].startswith("/api/"):
        told = {"error": problem.name, "message": message, "hint": hint}
        return Response(json.dumps(told), status, media_type="application/json")
    facts: dict[str, Any] = {
        "title": _TITLES.get(status, "This did not work"),
        "problem": {"name": problem.name, "message": message, "hint": hint},
        "visitor": scope.get("state", {}).get("visitor", NOBODY),
        "path": scope["path"],
    }
    return HTMLResponse(render(site, "problem.html", facts), status)


def too_large(most: int) -> OdfError:
    """The request is larger than what is read."""
    return errors.TooLarge(f"this is more than {most:,} bytes", hint="Send less at once.")
