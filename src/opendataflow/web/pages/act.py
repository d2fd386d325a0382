"""The pages of actions: a look at what would happen and a field for the reason; then the deed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from ...errors import Forbidden, NoSuchPage, OdfError, UsageError
from ..actions import ACTIONS, LONGEST_REASON, Action, FormValues
from ..problems import status_of
from ..show import Addresses, local, page
from ..site import site_of

router = APIRouter()

_MOST_FIELDS = 1000


@router.get("/act/{verb}")
def look(request: Request, verb: str) -> Response:
    """What an action would do; nothing is written."""
    action = _allowed(request, verb)
    return _page(request, action, FormValues(_many(request.url.query)))


@router.post("/act/{verb}")
async def act(request: Request, verb: str) -> Response:
    """Do it, and go back to where it was asked for."""
    action = _allowed(request, verb)
    given = FormValues(_many((await request.body()).decode("utf-8", "replace")))
    return await run_in_threadpool(_acted, request, action, given)


def _acted(request: Request, action: Action, given: FormValues) -> Response:
    site, visitor = site_of(request), request.state.visitor
    try:
        with site.acting(visitor.who) as store:
            note = action.act(store, site.project, given)
    except OdfError as problem:
        return _page(request, action, given, problem)
    site.access.leave_note(request.state.arrival, note)
    return RedirectResponse(_next(given), 303)


def _page(request: Request, action: Action, given: FormValues, problem: OdfError | None = None) -> Response:
    site = site_of(request)
    preview = None
    try:
        with site.acting(request.state.visitor.who) as store:
            preview = action.preview(store, site.project, given)
    except OdfError as refused:
        problem = problem or refused
    return page(
        request,
        "act.html",
        title=f"{action.title} {given.target}".strip(),
        status_code=status_of(problem) if problem else 200,
        action=action,
        given=given,
        hidden=[(name, value) for name in action.fields for value in given.many(name)],
        preview=preview,
        problem=problem,
        back=_next(given),
        most=LONGEST_REASON,
    )


def _allowed(request: Request, verb: str) -> Action:
    action = ACTIONS.get(verb)
    if action is None:
        raise NoSuchPage("there is no such action", hint="Start from the overview.")
    if not request.state.visitor.may(action.role):
        raise Forbidden(
            f"to {action.verb} needs the role {action.role}; you are {request.state.visitor.role or 'nobody'}",
            hint="Ask an administrator of this console.",
        )
    return action


def _many(text: str) -> Mapping[str, Sequence[str]]:
    try:
        return parse_qs(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise UsageError("this form cannot be read", hint="Load the page again, and repeat it.") from None


def _next(given: FormValues) -> str:
    """Where to go afterwards: back to the page that it came from, else to the chunk or the job that was meant."""
    if given.has("next"):
        return local(given.text("next"))
    url = Addresses()
    if len(given.many("dataset")) == len(given.many("dataid")) == 1 and ".." not in given.text("dataid"):
        return url.chunk(given.text("dataset"), given.text("dataid"))
    if len(given.many("job")) == 1:
        return url.job(given.text("job"))
    return url.overview()
