"""What the other tests here stand on: a window that notices everything that must not happen."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import pytest
from playwright.sync_api import Browser

from tests.support.browser import BROWSER, Console, Visit, visiting

pytestmark = BROWSER


@contextmanager
def serving(body: str) -> Iterator[Console]:
    """A console that is nothing but one page."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = f"<!doctype html><html lang=en><link rel=icon href=data:,><title>a page</title>{body}".encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header(
                "Content-Security-Policy", "default-src 'self'; img-src * data:; script-src 'self' 'nonce-ours'"
            )
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: Any) -> None:
            """Nobody listens."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()

        class OnePage:
            port = server.server_port
            url = f"http://127.0.0.1:{port}"

        try:
            yield cast(Console, OnePage())
        finally:
            server.shutdown()
            thread.join()


def test_a_good_page_passes(chromium: Browser) -> None:
    with serving("<p>fine") as console, visiting(chromium, console) as visit:
        visit.open("/")


def open_until(visit: Visit, noticed: str) -> None:
    """Open the page, and wait until something was noticed: a browser tells of it when it comes to it."""
    visit.open("/")
    for _ in range(600):
        if any(noticed in each for each in visit.complaints()):
            return
        visit.page.wait_for_timeout(100)


@pytest.mark.parametrize(
    ("body", "noticed"),
    [
        ("<script>var inline</script>", "refused by the policy"),
        ("<p style='color: red'>inline</p>", "refused by the policy"),
        ("<img src=http://127.0.0.1:9/elsewhere.png alt=''>", "asked elsewhere"),
        ("<script nonce=ours>console.error('oh no')</script>", "error: oh no"),
        ("<script nonce=ours>throw new Error('oh no')</script>", "uncaught: oh no"),
    ],
)
def test_what_must_not_happen_is_noticed(chromium: Browser, body: str, noticed: str) -> None:
    with pytest.raises(AssertionError) as complaint, serving(body) as console, visiting(chromium, console) as visit:
        open_until(visit, noticed)
    assert noticed in str(complaint.value)
