"""A server that speaks just enough of PostgreSQL's protocol to ask for a password, and keeps whatever it is sent."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

CLEARTEXT = struct.pack(">cII", b"R", 8, 3)
MD5 = struct.pack(">cII4s", b"R", 12, 5, b"salt")
_ASKS_FOR_ENCRYPTION = (80877103, 80877104)  # TLS, GSS


class FakePostgres:
    """Listens on the loopback address; `asks` is how it wants the password."""

    def __init__(self, asks: bytes = CLEARTEXT) -> None:
        self.asks = asks
        self.connections = 0
        self.passwords: list[bytes] = []
        self.hung_up = threading.Event()  # whether somebody closed the connection in place of an answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with client, suppress(OSError):
                client.settimeout(30)
                self._talk(client)

    def _talk(self, client: socket.socket) -> None:
        while True:
            head = client.recv(8, socket.MSG_WAITALL)
            if len(head) < 8:
                return
            size, code = struct.unpack(">II", head)
            client.recv(size - 8, socket.MSG_WAITALL)
            if code not in _ASKS_FOR_ENCRYPTION:
                break
            client.sendall(b"N")
        client.sendall(self.asks)
        kind = client.recv(1)
        if not kind:
            self.hung_up.set()
        if kind == b"p":
            (size,) = struct.unpack(">I", client.recv(4, socket.MSG_WAITALL))
            self.passwords.append(client.recv(size - 4, socket.MSG_WAITALL).rstrip(b"\0"))

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)
