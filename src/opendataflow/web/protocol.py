"""Protocol: what is answered to bytes that are no request at all. It never reaches the guard."""

from __future__ import annotations

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .guard import HEADERS


class CarefulProtocol(H11Protocol):
    """The server's own protocol, which answers nonsense by the rules that every other answer keeps."""

    def send_400_response(self, msg: str) -> None:
        """Say that this is no request, and hang up."""
        if self.conn.our_state in (
            h11.IDLE,
            h11.SEND_RESPONSE,
        ):  # else an answer is under way, and nothing fits into it
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
