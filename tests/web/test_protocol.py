"""Bytes that are no request, or not yet one, at a server on a real socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from opendataflow.store import open_store
from opendataflow.web.protocol import CarefulProtocol
from tests.support.console import console

HEAD = b"GET /static/console.css HTTP/1.1\r\nHost: 127.0.0.1:8460\r\n"


class Patient(CarefulProtocol):
    """One that waits for whatever a busy machine sends late."""

    patience = 240.0


class Hasty(CarefulProtocol):
    """One that waits for hardly a moment."""

    patience = 0.2


class HastyLater(Patient):
    """One that waits for hardly a moment once it has given an answer."""

    def on_response_complete(self) -> None:
        self.patience = Hasty.patience
        super().on_response_complete()


@pytest.fixture
def port(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[int]:
    """A console at a free port, which knows itself by the usual one."""
    url = f"sqlite:///{tmp_path}/dataflow.db"
    open_store(url, create=True).close()
    app: Any = console(tmp_path, url).app
    server = uvicorn.Server(
        uvicorn.Config(app, http=request.param, ws="none", log_config=None, lifespan="off", timeout_keep_alive=600)
    )
    at = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [at]})
    thread.start()
    yield at.getsockname()[1]
    server.should_exit = True
    thread.join(60)
    at.close()


def heard(connection: socket.socket) -> bytes:
    """All that comes until the other side hangs up."""
    parts = []
    with suppress(ConnectionResetError):  # it did so before it had read all of ours
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize("port", [Hasty], indirect=True)
@pytest.mark.parametrize("begun", [b"", b"G", HEAD, HEAD + b"X: y\r\n"])
def test_whoever_does_not_say_what_he_wants_is_not_waited_for(port: int, begun: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        connection.sendall(begun)
        assert heard(connection) == b""


@pytest.mark.parametrize("port", [HastyLater], indirect=True)
def test_nor_is_he_between_two_requests(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        connection.sendall(HEAD + b"\r\n")
        told = b""
        while b"\r\n\r\n" not in told:
            part = connection.recv(65536)
            assert part, told
            told += part
        connection.sendall(HEAD)
        told += heard(connection)
    assert told.startswith(b"HTTP/1.1 200")
    assert told.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("port", [Patient], indirect=True)
def test_what_is_no_request_is_answered_by_the_rules_of_every_answer(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        connection.sendall(b"hello\r\n\r\n")
        told = heard(connection)
    assert told.startswith(b"HTTP/1.1 400")
    assert b"content-security-policy: default-src 'none'" in told
    assert b"x-content-type-options: nosniff" in told
