"""App: the pages, the API and what stands before them, put together; and how it is served."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from pkgutil import iter_modules
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from ..errors import BadConfig, Forbidden, NoSuchPage, OdfError, UsageError
from . import api, pages
from .guard import Guard
from .live import Live
from .problems import problem_response
from .protocol import CarefulProtocol, most_connections
from .show import STATIC

if TYPE_CHECKING:
    from ..model.listen_address import ListenAddress
    from .site import Site


def make_app(site: Site) -> FastAPI:
    """The whole console, as an ASGI application."""
    site.live = Live(site)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        site.live.stop()
        site.stores.close()

    app = FastAPI(title="OpenDataFlow", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.state.site = site
    for found in sorted(iter_modules(pages.__path__), key=lambda each: each.name):
        app.include_router(import_module(f"{pages.__name__}.{found.name}").router, include_in_schema=False)
    app.include_router(api.router)
    app.mount("/static", StaticFiles(directory=STATIC))

    async def said(request: Request, problem: Any) -> Response:
        return problem_response(site, request.scope, _named(problem))

    for kind in (OdfError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, said)
    app.add_middleware(Guard, site=site)
    return app


def _named(problem: Exception) -> OdfError:
    """What a framework says, as one of our own errors."""
    match problem:
        case OdfError():
            return problem
        case RequestValidationError():
            first = problem.errors()[0]
            where = ".".join(str(part) for part in first["loc"] if part not in ("query", "path", "body"))
            return UsageError(f"{where or 'the request'}: {first['msg']}", hint="Correct it, and ask again.")
        case HTTPException(status_code=404 | 405):
            return NoSuchPage("there is no such page", hint="Start from the overview.")
        case HTTPException(status_code=403):
            return Forbidden("this is not allowed", hint="Ask an administrator of this console.")
    return UsageError("this request cannot be understood", hint="Start from the overview.")


def listening(address: ListenAddress) -> socket.socket:
    """A socket at this address; BAD_CONFIG when another process listens there."""
    try:
        [(family, *_, where), *_] = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        made = socket.create_server((where[0], where[1]), family=family)
    except (OSError, UnicodeError) as problem:
        told = getattr(problem, "strerror", None) or str(problem)
        raise BadConfig(
            f"the console cannot listen at {address}: {told}", hint="Choose another one: odf serve --listen 127.0.0.1:0"
        ) from None
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else an answer waits 40 ms for the browser's word
    made.set_inheritable(False)
    return made


class _Server(uvicorn.Server):
    """A server that lets the streams of open pages end before it waits for them."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.config.app.state.site.live.stop()  # type: ignore[union-attr]
        super().handle_exit(sig, frame)


def serve(app: FastAPI, at: socket.socket, started: Callable[[], None]) -> None:
    """Serve until it is stopped."""
    config = uvicorn.Config(
        app,
        http=CarefulProtocol,
        ws="none",
        log_config=None,
        log_level="critical",  # the guard says what went wrong, without secrets
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=most_connections(),
        timeout_keep_alive=15,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=32_768,
    )
    started()
    _Server(config).run(sockets=[at])
