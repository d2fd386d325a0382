"""Pages at the door: logging in and out, what is live, and what this console is."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from ...errors import NoSuchPage, StoreUnreachable
from ..guard import form_of, session_cookie
from ..show import local, page
from ..site import site_of

router = APIRouter()


@router.get("/about")
def about_page(request: Request) -> Response:
    """What this console is, who looks at it, and its keys."""
    return page(request, "about.html", title="About")


@router.get("/login")
def login_page(request: Request, next: str = "/", wrong: bool = False) -> Response:
    """The form for a token."""
    site = site_of(request)
    if not site.access.needs_login:
        raise NoSuchPage("this console has no login", hint="Start from the overview.")
    key, visitor = site.access.anonymous(request.state.arrival)
    request.state.visitor = visitor
    made = page(request, "login.html", title="Log in", next=local(next), wrong=wrong, status_code=401 if wrong else 200)
    made.headers["set-cookie"] = session_cookie(site, request.scope, key)
    return made


@router.post("/login")
async def log_in(request: Request) -> Response:
    """A session for a user with a token."""
    site, form = site_of(request), form_of(await request.body())
    begun = site.access.log_in(form.get("token", "").strip(), request.state.arrival)
    if begun is None:
        return login_page(request, form.get("next", "/"), wrong=True)
    answer = RedirectResponse(local(form.get("next", "/")), 303)
    answer.headers["set-cookie"] = session_cookie(site, request.scope, begun[0])
    return answer


@router.post("/logout")
def log_out(request: Request) -> Response:
    """The end of a session."""
    site_of(request).access.log_out(request.state.arrival)
    return RedirectResponse("/", 303)


@router.get("/live")
async def live(request: Request) -> Response:
    """What changes, while it does."""
    stream = site_of(request).live
    if not stream.has_room:
        raise StoreUnreachable("too many pages are open", hint="Close some of them.")

    async def said() -> AsyncIterator[str]:
        async for each in stream.stream():
            yield each

    return StreamingResponse(said(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})
