"""OpenLineage at the other end: whether an event is one, and servers that take it, hang or are away."""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jsonschema

SCHEMA = json.loads((Path(__file__).parents[1] / "data/openlineage/events.json").read_text(encoding="utf-8"))
formats = jsonschema.FormatChecker(formats=())


@formats.checks("uuid", ValueError)
def _is_uuid(text: object) -> bool:
    return not isinstance(text, str) or str(uuid.UUID(text)) == text


@formats.checks("date-time", ValueError)
def _is_moment(text: object) -> bool:
    return not isinstance(text, str) or ("T" in text and datetime.fromisoformat(text).tzinfo is not None)


@formats.checks("uri")
def _is_uri(text: object) -> bool:
    return not isinstance(text, str) or bool(re.fullmatch(r"[a-z][a-z0-9+.-]*:[!-~]+", text))


VALIDATOR = jsonschema.Draft202012Validator(SCHEMA, format_checker=formats)


def check(event: Any) -> Any:
    """The event itself, which is one."""
    VALIDATOR.validate(event)
    return event


def events_in(file: Path) -> list[Any]:
    """The events of a file, each of which is one."""
    return [check(json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


class Server:
    """A lineage server that keeps what it is sent; `hold` makes it hang."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.hold = threading.Event()
        self.hold.set()
        self.status = 201
        self.url = ""


@contextmanager
def lineage_server() -> Iterator[Server]:
    """A server on a port of its own."""
    found = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.hold.wait(60)
            found.events.append(json.loads(body))
            found.headers.append(dict(self.headers))
            found.paths.append(self.path)
            self.send_response(found.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    with Quiet(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield found
        finally:
            found.hold.set()
            server.shutdown()
            thread.join()
