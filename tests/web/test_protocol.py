"""Bytes that are no request, or not yet one, at a server on a real socket."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from opendataflow.store import open_store
from opendataflow.web.peer import peer_of, user_in
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


class Crowded(Patient):
    """One that has room for few requests that do not come whole."""

    most_unfinished = 3


@pytest.mark.parametrize("port", [Crowded], indirect=True)
@pytest.mark.parametrize(
    "begun", [b"", HEAD, b"POST /logout HTTP/1.1\r\nHost: 127.0.0.1:8460\r\nContent-Length: 9\r\n\r\n"]
)
def test_requests_that_never_come_whole_leave_room_for_others(port: int, begun: bytes) -> None:
    crowd = [socket.create_connection(("127.0.0.1", port), timeout=120) for _ in range(20)]
    for each in crowd:
        with suppress(OSError):  # it is gone already
            each.sendall(begun)
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        connection.sendall(HEAD + b"Connection: close\r\n\r\n")
        assert heard(connection).startswith(b"HTTP/1.1 200 ")
    for each in crowd[:10]:
        with suppress(OSError):
            assert heard(each) == b""
    for each in crowd:
        each.close()


CONNECTS = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); sys.stdin.read()"


@pytest.mark.parametrize("user", [None, 65534])
def test_the_user_at_the_other_end_of_a_local_connection_is_known(user: int | None) -> None:
    if user is not None and os.geteuid() != 0:
        pytest.skip("only root starts a process as another user")
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = ["/usr/bin/python3" if user else sys.executable, "-c", CONNECTS, str(server.getsockname()[1])]
        with subprocess.Popen(command, stdin=subprocess.PIPE, user=user, cwd="/") as process:
            server.settimeout(120)
            connection, client = server.accept()
            with connection:
                assert (
                    peer_of(client, connection.getsockname()) == f"127.0.0.1 {os.geteuid() if user is None else user}"
                )
            process.communicate()


TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:210C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1 0 100 0 0 10 0
   1: 0100007F:A1B2 0100007F:1F90 06 00000000:00000000 03:00000F3B 00000000     0        0 0 3 0
   2: 0100007F:A1B2 0100007F:1F91 01 00000000:00000000 00:00000000 00000000  1002        0 12 1 0 20 4 30 10 -1
   3: 0100007F:A1B2 0100007F:210C {state} 00000000:00000000 00:00000000 00000000 {user:>5}        0 13 1 0 20 4 30 10 -1
   4: 0100007F:210C 0100007F:A1B2 01 00000000:00000000 00:00000000 00000000  1000        0 14 1 0 20 4 30 10 -1
"""


def test_only_the_open_connection_itself_names_its_user() -> None:
    client, server = ("127.0.0.1", 0xA1B2), ("127.0.0.1", 8460)
    assert user_in(TABLE.format(state="01", user=65534), client, server) == "65534"
    for over in ("04", "05", "06", "08"):  # a socket that its process closed is listed as root's
        assert user_in(TABLE.format(state=over, user=0), client, server) is None
    assert user_in("", client, server) is None
