"""Proxy: between the workers of a lane and the user's own server, which is never touched; what is broken is broken here."""

from __future__ import annotations

import selectors
import shutil
import socket
import tempfile
import threading
from contextlib import suppress
from typing import NamedTuple

_BLOCK = 1 << 16
_LISTENS_AT = "127.0.0.1"


class ServerAddress(NamedTuple):
    """Where a server really is: an address and a port, or the folder of its socket and the port in its name."""

    host: str
    port: int

    @property
    def is_socket(self) -> bool:
        """Whether it is reached by a file of this machine."""
        return self.host.startswith(("/", "@"))

    @property
    def path(self) -> str:
        """The file of its socket, as libpq names it."""
        path = f"{self.host}/.s.PGSQL.{self.port}"
        return f"\0{path[1:]}" if path.startswith("@") else path

    def connect(self) -> socket.socket:
        """A connection to it."""
        if not self.is_socket:
            return socket.create_connection((self.host, self.port), timeout=10)
        found = socket.socket(socket.AF_UNIX)
        try:
            found.connect(self.path)
        except OSError:
            found.close()
            raise
        return found


class ProxyLine:
    """The connections of one lane: passed on, cut, stopped, or robbed of their answers. What TLS hides stays hidden."""

    def __init__(self, target: ServerAddress) -> None:
        self._target = target
        self._folder = tempfile.mkdtemp(prefix="odf-chaos-") if target.is_socket else ""
        if target.is_socket:
            self.address = ServerAddress(self._folder, target.port)
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(self.address.path)
            self._listener.listen()
        else:
            self._listener = socket.create_server((_LISTENS_AT, 0))
            self.address = ServerAddress(_LISTENS_AT, self._listener.getsockname()[1])
        self._flows = threading.Event()
        self._flows.set()
        self._answers = True
        self.lost = 0  # answers, since they are
        self._lock = threading.Lock()
        self._open: set[tuple[socket.socket, socket.socket]] = set()
        threading.Thread(target=self._serve, name="chaos-line", daemon=True).start()

    def cut(self) -> None:
        """Break all connections; new ones are passed on."""
        with self._lock:
            broken, self._open = self._open, set()
        for pair in broken:
            _break(pair)
        self._answers = True

    def stall(self) -> None:
        """Let nothing through, in either direction, until somebody says go on."""
        self._flows.clear()

    def go_on(self) -> None:
        """Let everything through that waited."""
        self._flows.set()

    def lose_answers(self) -> None:
        """Pass on what is asked from now on, and lose every answer, until somebody cuts the connections."""
        self.lost = 0
        self._answers = False

    def close(self) -> None:
        """Listen no more, and break what is open."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._flows.set()
        self.cut()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = self._target.connect()
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            with self._lock:
                self._open.add((client, server))
            threading.Thread(target=self._talk, args=(client, server), daemon=True).start()

    def _talk(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError, ValueError), selectors.DefaultSelector() as ready:
            for each in (client, server):
                ready.register(each, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    source = key.fileobj
                    assert isinstance(source, socket.socket)
                    said = source.recv(_BLOCK)
                    self._flows.wait()
                    if not said:
                        raise OSError
                    if source is server and not self._answers:
                        self.lost += 1
                        continue
                    (client if source is server else server).sendall(said)
        with self._lock:
            self._open.discard((client, server))
        _break((client, server))


def _break(pair: tuple[socket.socket, socket.socket]) -> None:
    """End both sides: a close alone would wait for whoever reads."""
    for each in pair:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
