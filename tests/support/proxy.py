"""A proxy before PostgreSQL: a test sees every question of a client, and may have it or its answer lost or held up."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

COMMIT = b"\0commit_"  # the name of the prepared statement, behind that of no portal
PASS, LOSE_QUESTION, LOSE_ANSWER = "pass", "lose question", "lose answer"


class Proxy:
    """Passes everything on; `decide` is asked about every question, in its order. What is lost takes its connection with it.

    While it is stalled, it takes whatever comes, new connections too, and passes nothing on in either direction.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self.decide: Callable[[bytes], str] = lambda question: PASS
        self.held_up = 0  # questions and answers that a stall keeps, or kept
        self._flowing = threading.Event()
        self._flowing.set()
        self._lock = threading.Lock()
        self._connections: list[tuple[socket.socket, socket.socket]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def lose_commit(self, what: str) -> None:
        """From now on: the next COMMIT or its answer, once."""

        def decide(question: bytes) -> str:
            if COMMIT not in question:
                return PASS
            self.decide = lambda question: PASS
            return what

        self.decide = decide

    def stall(self) -> None:
        """From now on: nothing gets through, and nobody is told."""
        self._flowing.clear()

    def stall_at(self, what: bytes, *, after: bool = False) -> None:
        """Stall as soon as such a question comes: before it is passed on, or after it, so that it is the answer that waits."""

        def decide(question: bytes) -> str:
            if what in question:
                self.decide = lambda question: PASS
                self.stall()
                return "pass first" if after else PASS
            return PASS

        self.decide = decide

    def go_on(self) -> None:
        """What was held up gets through."""
        self._flowing.set()

    def cut(self) -> None:
        """Break every connection that there is; what was held up is lost. New ones are served again."""
        with self._lock:
            while self._connections:
                _shut(*self._connections.pop())
        self._flowing.set()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._connections.append((client, server))
            threading.Thread(target=self._talk, args=(client, server), daemon=True).start()

    def _talk(self, client: socket.socket, server: socket.socket) -> None:
        goes_nowhere = threading.Event()
        back = threading.Thread(target=self._answer, args=(client, server, goes_nowhere), daemon=True)
        back.start()
        with client, server:
            self._pass_on(client, server, goes_nowhere, back)
            _shut(client, server)  # a close alone would wait for whoever reads
            with self._lock, suppress(ValueError):
                self._connections.remove((client, server))

    def _pass_on(
        self, client: socket.socket, server: socket.socket, goes_nowhere: threading.Event, back: threading.Thread
    ) -> None:
        with suppress(OSError):
            while question := client.recv(1 << 20):
                decision = self.decide(question)
                if decision == "pass first":
                    server.sendall(question)
                    continue
                self._hold()
                if decision == LOSE_QUESTION:
                    return
                if decision == LOSE_ANSWER:
                    goes_nowhere.set()
                    server.sendall(question)
                    back.join(10)
                    return
                server.sendall(question)

    def _answer(self, client: socket.socket, server: socket.socket, goes_nowhere: threading.Event) -> None:
        with suppress(OSError):
            while (answer := server.recv(1 << 20)) and not goes_nowhere.is_set():
                self._hold()
                client.sendall(answer)
        if not goes_nowhere.is_set():
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def _hold(self) -> None:
        if not self._flowing.is_set():
            self.held_up += 1
            self._flowing.wait()

    def close(self) -> None:
        """Listen no more."""
        self._flowing.set()
        _shut(self._listener)
        self._listener.close()


def _shut(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
