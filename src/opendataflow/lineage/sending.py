"""Sending: one thread and one bounded queue for each place that events go to."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from ..errors import OdfError

MOST = 10_000  # events that wait for one place
_LINGER = 0.2  # seconds: what comes meanwhile goes together
_BATCH = 500
# While runs go on, sending over HTTP takes at most one part in so many of the time: less where this process has much to do itself.
_SHARE, _SHARE_WHEN_BUSY = 10, 50
_BUSY = 0.2  # of a core: on a busy machine, a process that has much to do may not get more
_SHORTEST, _LONGEST = 1.0, 30.0  # pauses after a failure
_TIMEOUT = 5.0

Event = str  # as JSON


class EventTarget(Protocol):
    """Where events go."""

    name: str
    is_dear: bool  # whether one event costs so much that sending must not hurry

    def open(self) -> None:
        """Get ready, in the thread that sends; what raises is said once, and nothing is sent there."""

    def send(self, events: Sequence[Event]) -> None:
        """Send some; what raises means that they are lost."""


class EventFile:
    """A file of lines, each an event; many processes may write it."""

    is_dear = False

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, str(path)

    def open(self) -> None:
        """Make its folder."""
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def send(self, events: Sequence[Event]) -> None:
        """Append them, with one call, so that no other process writes in between."""
        lines = "".join(f"{event}\n" for event in events).encode()
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.write(file, lines)
        finally:
            os.close(file)


class Client:
    """A transport of the OpenLineage client: HTTP as the project says, or whatever its own variables configure."""

    is_dear = True

    def __init__(self, name: str, make: Callable[[], Any]) -> None:
        self.name, self._make = name, make
        self._transport: Any = None

    def open(self) -> None:
        """Make the transport; the package is imported here, beside the runs."""
        self._transport = self._make()

    def send(self, events: Sequence[Event]) -> None:
        """Send them one by one."""
        for event in events:
            self._transport.emit(json.loads(event))


def http_transport(url: str, endpoint: str, key: str) -> Any:
    """HTTP by the client, with no long wait for a server that is away."""
    from openlineage.client.transport.http import ApiKeyTokenProvider, HttpConfig, HttpTransport, TokenProvider

    auth = ApiKeyTokenProvider({"apiKey": key}) if key else TokenProvider({})
    retry = {"total": 0, "allowed_methods": ["POST"]}
    return HttpTransport(HttpConfig(url=url, endpoint=endpoint, timeout=_TIMEOUT, auth=auth, retry=retry))


def transport_of_environment() -> Any:
    """The transport that OpenLineage's own variables and file configure."""
    from openlineage.client import OpenLineageClient

    return OpenLineageClient().transport


class EventSender:
    """Takes events without ever waiting, and sends them from a thread of its own."""

    def __init__(self, place: EventTarget, say: Callable[[str], None], most: int = MOST) -> None:
        self._place, self._say, self._most = place, say, most
        self._queue: deque[Callable[[], Event]] = deque()
        self._lock = threading.Lock()
        self._wake, self._over, self._done = threading.Event(), threading.Event(), threading.Event()
        self._tried = threading.Event()  # to open the place
        self._thread: threading.Thread | None = None
        self._is_open = False
        self._sending = 0
        self._looked, self._is_busy = (time.monotonic(), time.process_time()), True
        self.sent = self.dropped = 0

    def put(self, make: Callable[[], Event]) -> None:
        """Take one event along, or count that there was no room for it."""
        with self._lock:
            if len(self._queue) >= self._most:
                self.dropped += 1
                return
            self._queue.append(make)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"lineage {self._place.name}", daemon=True)
                self._thread.start()
        if not self._wake.is_set():
            self._wake.set()

    def finish(self) -> None:
        """Nothing more will come: send what is left without pauses."""
        self._over.set()
        self._wake.set()

    def wait_until_open(self, seconds: float) -> None:
        """Wait until the place was opened, or could not be: on a busy machine the client's import alone takes a while."""
        if self._thread is not None:
            self._tried.wait(seconds)

    def wait(self, seconds: float) -> None:
        """Wait for what is left, but not longer than this; the rest is dropped."""
        if self._thread is not None:
            self._done.wait(max(seconds, 0.0))
        with self._lock:
            self.dropped += len(self._queue) + self._sending
            self._queue.clear()
            self._sending = 0

    def _run(self) -> None:
        pause = _SHORTEST
        try:
            while True:
                self._wake.wait()
                self._over.wait(_LINGER)
                self._wake.clear()
                while batch := self._taken():
                    if self._try(batch):
                        pause = _SHORTEST
                    else:
                        self._over.wait(pause)
                        pause = min(pause * 2, _LONGEST)
                if self._over.is_set() and not self._queue:
                    return
        finally:
            self._done.set()

    def _taken(self) -> list[Callable[[], Event]]:
        with self._lock:
            n = 1 if self._place.is_dear else min(len(self._queue), _BATCH)
            batch = [self._queue.popleft() for _ in range(min(n, len(self._queue)))]
            self._sending = len(batch)
        return batch

    def _try(self, batch: Sequence[Callable[[], Event]]) -> bool:
        began = time.thread_time()
        try:
            if not self._is_open:
                try:
                    self._place.open()
                    self._is_open = True
                finally:
                    self._tried.set()
            self._place.send([make() for make in batch])
            is_sent = True
        except Exception as problem:
            is_sent = False
            told = str(problem) if isinstance(problem, OdfError) else f"{type(problem).__name__}: {problem}"
            self._say_once(f"lineage events do not reach {self._place.name}: {told.replace(chr(10), '. ')[:300]}")
        with self._lock:
            if self._sending:  # or else nobody waited for them
                self.sent += len(batch) if is_sent else 0
                self.dropped += 0 if is_sent else len(batch)
                self._sending = 0
        if self._place.is_dear and not self._over.is_set():
            self._over.wait((time.thread_time() - began) * self._share())
        return is_sent

    def _share(self) -> int:
        now = time.monotonic(), time.process_time()
        passed, spent = now[0] - self._looked[0], now[1] - self._looked[1]
        if passed > 1.0:
            self._looked, self._is_busy = now, spent > _BUSY * passed
        return _SHARE_WHEN_BUSY if self._is_busy else _SHARE

    def _say_once(self, line: str) -> None:
        say, self._say = self._say, lambda line: None
        say(line)
