"""Protocol: what is answered to bytes that are no request at all, or not yet one. They never reach the guard."""

from __future__ import annotations

import asyncio
import resource
from functools import cache
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .guard import HEADERS

_MOST_CONNECTIONS = 1000
_OTHER_FILES = 64  # of the console itself: its store, logs and pages


@cache
def most_connections() -> int:
    """How many connections are served at once: fewer than this process may have files open."""
    return max(min(_MOST_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _OTHER_FILES), 8)


class CarefulProtocol(H11Protocol):
    """uvicorn's protocol, with security headers on its answers to malformed requests, and with limits on time and number of
    incomplete ones."""

    # Seconds for the head of a request; a slow client holds a place that others need.
    patience = 20.0
    most_unfinished = 100  # requests of one address that have not come whole; beyond that the oldest goes
    _waiting: asyncio.TimerHandle | None = None
    _began = 0.0  # when the wait for the current request began

    def connection_made(self, transport: Any) -> None:
        """A connection opened: its first request has to arrive in time."""
        super().connection_made(transport)
        self._began = self.loop.time()
        self._wait()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """More bytes came: a whole head, or a part of one."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """An answer is given: the next request may have begun already."""
        super().on_response_complete()
        self._look()

    @property
    def is_unfinished(self) -> bool:
        """Whether a request, or the rest of one, has still to come."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and not self.transport.is_closing()

    def _make_room(self) -> None:
        """Hang up on the oldest requests that have not come whole: of one address, and before files run out."""
        unfinished = [each for each in self.connections if isinstance(each, CarefulProtocol) and each.is_unfinished]
        mine = [each for each in unfinished if each.client and self.client and each.client[0] == self.client[0]]
        for those, most in ((mine, self.most_unfinished), (unfinished, most_connections() // 2)):
            if len(those) > most:
                min(those, key=lambda each: each._began).transport.abort()

    def _look(self) -> None:
        if self.conn.their_state is h11.IDLE:
            self._began = self.loop.time()
            self._wait()
        else:
            self._wait_no_more()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection closed."""
        self._wait_no_more()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(self.patience, self._lose_patience)

    def _wait_no_more(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _lose_patience(self) -> None:
        self._waiting = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Say that this is no request, and hang up."""
        # Otherwise an answer is under way, and nothing fits into it.
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = b"this is not a request of HTTP/1.1\n"
            headers = [
                *HEADERS,
                (b"cache-control", b"no-store"),
                (b"content-type", b"text/plain; charset=utf-8"),
                (b"content-length", b"%d" % len(body)),
                (b"connection", b"close"),
            ]
            for event in (h11.Response(status_code=400, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
