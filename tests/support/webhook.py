"""A web server on this machine that is told things: it answers, refuses or hangs, as a test wants."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Webhook:
    """Where messages go; `told` are those that were answered with 200, in their order."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.asked = self.answered = 0
        self.code = 200
        self.came, self.let_go = threading.Event(), threading.Event()
        self.let_go.set()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Its address, as a project file may name it."""
        return f"json://127.0.0.1:{self._server.server_address[1]}/hook"

    @property
    def subjects(self) -> list[str]:
        return [str(each["title"]) for each in self.told]

    def hang(self) -> None:
        """From now on nobody gets an answer before `let_go` is set."""
        self.came.clear()
        self.let_go.clear()

    def go_on(self) -> None:
        """From now on everybody gets an answer; when this comes back, whoever waited for one has it, or is gone."""
        self.let_go.set()
        while self.answered < self.asked:
            time.sleep(0.01)

    def close(self) -> None:
        self.let_go.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with hook._lock:
                    hook.asked += 1
                hook.came.set()
                hook.let_go.wait(60)
                if hook.code == 200:
                    with hook._lock:
                        hook.told.append(json.loads(body))
                try:
                    self.send_response(hook.code)
                    self.end_headers()
                except OSError:
                    pass  # who asked is gone
                with hook._lock:
                    hook.answered += 1

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        return Handler


@contextmanager
def webhook() -> Iterator[Webhook]:
    """A web server for one test."""
    hook = Webhook()
    try:
        yield hook
    finally:
        hook.close()
