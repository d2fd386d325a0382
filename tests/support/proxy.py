"""A proxy before PostgreSQL: a test sees every question of a client, and may have it or its answer lost."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

COMMIT = b"\0commit_"  # the name of the prepared statement, behind that of no portal
PASS, LOSE_QUESTION, LOSE_ANSWER = "pass", "lose question", "lose answer"


class Proxy:
    """Passes everything on; `decide` is asked about every question, in its order. What is lost takes its connection with it."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.decide: Callable[[bytes], str] = lambda question: PASS
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
            threading.Thread(target=self._talk, args=(client, server), daemon=True).start()

    def _talk(self, client: socket.socket, server: socket.socket) -> None:
        goes_nowhere = threading.Event()
        back = threading.Thread(target=self._answer, args=(client, server, goes_nowhere), daemon=True)
        back.start()
        with client, server:
            self._pass_on(client, server, goes_nowhere, back)
            for each in (client, server):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)  # a close alone would wait for whoever reads

    def _pass_on(
        self, client: socket.socket, server: socket.socket, goes_nowhere: threading.Event, back: threading.Thread
    ) -> None:
        with suppress(OSError):
            while question := client.recv(1 << 20):
                decision = self.decide(question)
                if decision == LOSE_QUESTION:
                    return
                if decision == LOSE_ANSWER:
                    goes_nowhere.set()
                    server.sendall(question)
                    back.join(10)
                    return
                server.sendall(question)

    @staticmethod
    def _answer(client: socket.socket, server: socket.socket, goes_nowhere: threading.Event) -> None:
        with suppress(OSError):
            while (answer := server.recv(1 << 20)) and not goes_nowhere.is_set():
                client.sendall(answer)
        if not goes_nowhere.is_set():
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Listen no more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
