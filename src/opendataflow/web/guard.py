"""Guard: stands before every page: known hosts only, bounded sizes, nothing changed by a foreign page, strict headers."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote

from ..errors import Forbidden, Internal, NotLoggedIn, OdfError, UsageError
from .access import NOBODY, Arrival, Visitor
from .peer import peer_of
from .problems import problem_response, too_large
from .show import local, render

if TYPE_CHECKING:
    from starlette.responses import Response

    from .site import Site

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MOST_BODY = 1_000_000
_MOST_QUERY = 8_000
_MOST_HEADERS = 32_000  # characters of all of them
_SLOWEST = 30.0  # seconds that a body may take
_CSRF_HEADER = "x-odf-csrf"
_SAFE = ("GET", "HEAD", "OPTIONS")
_OPEN = ("/login", "/static/")  # what is shown before a login
HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]


class Guard:
    """The door of the console, as ASGI middleware."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], site: Site) -> None:
        self._app, self._site = app, site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or say why not."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        visitor, begun, has_answered = NOBODY, "", False

        async def answer(message: MutableMapping[str, Any]) -> None:
            nonlocal has_answered
            if message["type"] == "http.response.start":
                has_answered = True
                message["headers"] = [*self._headers(scope, begun), *message.get("headers", [])]
            await send(message)

        try:
            arrival = _arrival(scope)
            self._check_address(scope, arrival)
            if self._is_led_here(scope, arrival):
                await _come_again(scope, self._site)(scope, receive, answer)
                return
            if not scope["path"].startswith("/static/"):
                visitor, begun = self._site.access.visitor(arrival)
            scope.setdefault("state", {}).update(visitor=visitor, arrival=arrival)
            receive = await self._check_write(scope, receive, arrival, visitor)
            if visitor.role == "" and not scope["path"].startswith(_OPEN):
                await _turned_away(scope, self._site)(scope, receive, answer)
                return
            await self._app(scope, receive, answer)
        except OdfError as problem:
            if not has_answered:
                await self._said(scope, problem)(scope, receive, answer)
        except Exception as error:
            self._site.say(self._site.redact(f"{scope['method']} {scope['path']}: {type(error).__name__}: {error}"))
            if self._site.debug:
                self._site.say(self._site.redact("".join(traceback.format_exception(error))))
            if not has_answered:
                bug = Internal(
                    "this page could not be made", hint="This is a bug in OpenDataFlow; odf serve --debug shows where."
                )
                await self._said(scope, bug)(scope, receive, answer)

    def _said(self, scope: Scope, problem: OdfError) -> Response:
        return problem_response(self._site, scope, problem)

    def _headers(self, scope: Scope, begun: str) -> list[tuple[bytes, bytes]]:
        headers = list(HEADERS)
        if _has_two_lengths(scope):  # a proxy before us may see another request begin than we do: hang up
            headers.append((b"connection", b"close"))
        if not scope["path"].startswith("/static/"):
            headers.append((b"cache-control", b"no-store"))
        if begun:
            headers.append((b"set-cookie", session_cookie(self._site, scope, begun).encode()))
        return headers

    def _check_address(self, scope: Scope, arrival: Arrival) -> None:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or not self._site.access.is_known_host(hosts[0].decode("latin-1")):
            raise UsageError(
                "the console does not go by this host name",
                hint="Use the address that odf serve printed, or declare the name: hosts in [web] of dataflow.toml.",
            )
        if "\x00" in scope["path"] or b"%00" in scope["query_string"]:
            raise UsageError("no name and no text holds a NUL", hint="Leave it out.")  # and no database takes one
        if len(scope["query_string"]) > _MOST_QUERY or len(scope["path"]) > _MOST_QUERY:
            raise UsageError("the address is too long", hint="Choose fewer filters.")
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            raise UsageError("the address holds a character that no text has", hint="Leave out %00.")
        proxy = self._site.access.proxy_header
        if sum(name.decode("latin-1") == proxy for name, _ in scope["headers"]) > 1:
            raise UsageError(
                f"this request names its user twice: {proxy}", hint="Let the proxy replace the header, not add one."
            )
        if sum(len(name) + len(value) for name, value in scope["headers"]) > _MOST_HEADERS:
            raise UsageError("the headers are too long", hint="Send fewer, or remove cookies of other sites.")
        if _has_two_lengths(scope):
            raise UsageError("this request has two lengths", hint="Send Content-Length or Transfer-Encoding, not both.")

    def _is_led_here(self, scope: Scope, arrival: Arrival) -> bool:
        """Whether a page elsewhere leads here: then the browser keeps its cookie back, and a new one would end a session."""
        return (
            scope["method"] == "GET"
            and not scope["path"].startswith("/static/")
            and arrival.headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
            and "authorization" not in arrival.headers
            and self._site.access.cookie not in arrival.cookies
        )

    async def _check_write(self, scope: Scope, receive: Receive, arrival: Arrival, visitor: Visitor) -> Receive:
        """Refuse a write that another site began; a program that shows a token with the request cannot be used for one."""
        if scope["method"] in _SAFE:
            return receive
        body = await _body(receive)
        is_form = "json" not in arrival.headers.get("content-type", "")
        if b"\x00" in body or (is_form and b"%00" in body):
            raise UsageError("no name and no text holds a NUL", hint="Leave it out.")
        if visitor is not NOBODY and not visitor.csrf:
            return _again(body)
        origin = arrival.headers.get("origin")
        if origin is not None and origin.lower().partition("://")[2] != arrival.headers.get("host", "").lower():
            raise Forbidden("another site sent this", hint="Open the console itself, and do it there.")
        if arrival.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise Forbidden("another site sent this", hint="Open the console itself, and do it there.")
        if visitor is NOBODY:
            raise NotLoggedIn("this needs a login", hint="Log in, and do it again.")
        if not self._site.access.is_csrf(visitor, _token_in(arrival, body)):
            raise Forbidden(
                "this form is not of your session, or the session is over", hint="Load the page again, and repeat it."
            )
        return _again(body)


def session_cookie(site: Site, scope: Scope, key: str) -> str:
    """The cookie that carries a session: no script reads it, and no other site sends it."""
    is_https = scope.get("scheme") == "https" or (
        b"https" in [value for name, value in scope["headers"] if name == b"x-forwarded-proto"]
    )
    secure = "; Secure" if is_https else ""
    return f"{site.access.cookie}={key}; Path=/; HttpOnly; SameSite=Strict{secure}"


def _has_two_lengths(scope: Scope) -> bool:
    return {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}


def _arrival(scope: Scope) -> Arrival:
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        known, told = name.decode("latin-1"), value.decode("latin-1")
        # What comes twice is both: where one of two names or tokens counted, a proxy that adds its own would be fooled.
        headers[known] = f"{headers[known]}{'; ' if known == 'cookie' else ', '}{told}" if known in headers else told
    try:
        cookies = {name: morsel.value for name, morsel in SimpleCookie(headers.get("cookie", "")).items()}
    except CookieError:
        cookies = {}
    client, server = scope.get("client") or ("", 0), scope.get("server") or ("", 0)
    return Arrival(headers, client[0], cookies, peer_of(client, server))


async def _body(receive: Receive) -> bytes:
    parts, size = [], 0
    try:
        async with asyncio.timeout(_SLOWEST):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    break
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > MOST_BODY:
                    raise too_large(MOST_BODY)
                if not message.get("more_body"):
                    break
    except TimeoutError:
        raise UsageError("the request did not end", hint="Send it again.") from None
    return b"".join(parts)


def _again(body: bytes) -> Receive:
    """A body that was read already, for the next reader."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> MutableMapping[str, Any]:
        return messages.pop() if messages else {"type": "http.disconnect"}

    return receive


def _token_in(arrival: Arrival, body: bytes) -> str:
    given = arrival.headers.get(_CSRF_HEADER)
    if given is not None:
        return given
    if arrival.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return form_of(body).get("csrf", "")
    return ""


def form_of(body: bytes) -> dict[str, str]:
    """The fields of a form; of one that is named twice, the first."""
    if b"%00" in body or b"\0" in body:
        raise UsageError("this form holds a character that no text has", hint="Leave out %00.")
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=1000)
    except ValueError:
        raise UsageError("this form cannot be read", hint="Load the page again, and repeat it.") from None
    return {name: values[0] for name, values in fields.items()}


def _come_again(scope: Scope, site: Site) -> Response:
    """A page that leads to the same address: coming from us, the browser shows its cookie."""
    from starlette.responses import HTMLResponse

    facts = {"title": "One moment", "visitor": NOBODY, "path": scope["path"], "here": local(_asked(scope))}
    return HTMLResponse(render(site, "again.html", facts))


def _asked(scope: Scope) -> str:
    """The address that was asked for, as it was written."""
    path = (scope.get("raw_path") or quote(scope["path"]).encode()).decode("latin-1")
    return path + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else "")


def _turned_away(scope: Scope, site: Site) -> Response:
    """A visitor without a session: the login form for people, an error for programs."""
    from starlette.responses import RedirectResponse

    if (
        scope["method"] in ("GET", "HEAD")
        and not scope["path"].startswith(("/api/", "/live"))
        and site.access.needs_login
    ):
        return RedirectResponse(f"/login?next={quote(_asked(scope), safe='')}", 303)
    hint = (
        "Send a token: Authorization: Bearer TOKEN"
        if site.access.needs_login
        else "Come through the proxy that [web] in dataflow.toml names."
    )
    return problem_response(site, scope, NotLoggedIn("this console has to know who you are", hint=hint))
