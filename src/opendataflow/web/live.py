"""Live: one reader of the store tells every open page what changed, as server-sent events."""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

from ..errors import OdfError
from ..store import Event

if TYPE_CHECKING:
    from .site import Site

EVERYTHING = "*"
_EVERY = 1.0  # seconds between two looks, however many browsers wait
_MOST_EVENTS = 500  # that are looked at one by one; of more, everything has changed
_MOST_TOPICS = 200
_MOST_CLIENTS = 500
_STILL_THERE = 15.0  # seconds after which a line without meaning keeps a quiet connection open


class Live:
    """Whoever listens, and the thread that looks for them; it only looks while somebody listens."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._instance = secrets.token_hex(8)  # by which a page knows that the server is another one
        self._clients: set[asyncio.Queue[str | None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def has_room(self) -> bool:
        """Whether one more may listen."""
        return len(self._clients) < _MOST_CLIENTS

    async def stream(self) -> AsyncIterator[str]:
        """What one browser hears, until it goes away or the server stops."""
        mine: asyncio.Queue[str | None] = asyncio.Queue(100)
        self._clients.add(mine)
        self._start()
        try:
            yield _event("hello", {"instance": self._instance})
            while True:
                try:
                    async with asyncio.timeout(_STILL_THERE):
                        said = await mine.get()
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                if said is None:
                    return
                yield said
        finally:
            self._clients.discard(mine)

    def _start(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="live", daemon=True)
            self._thread.start()
        self._wake.set()

    def stop(self) -> None:
        """End every stream."""
        self._stopped.set()
        self._wake.set()
        self._tell(None)

    def _watch(self) -> None:
        seen, is_lost = None, False
        while not self._stopped.is_set():
            if not self._clients:
                self._wake.clear()
                if not self._clients:
                    self._wake.wait()
                seen = None
            try:
                newest, topics = self._look(seen)
                if is_lost:
                    self._tell(_event("store", {"lost": False}))
                    topics, is_lost = [EVERYTHING], False
                if topics:
                    self._site.kept.noticed(newest)
                    self._tell(_event("change", {"topics": topics, "newest": newest}))
                seen = newest
            except Exception as problem:  # whatever it is: without this thread no page would ever change again
                if not is_lost:
                    why = problem.message if isinstance(problem, OdfError) else "the store cannot be read"
                    self._tell(_event("store", {"lost": True, "why": self._site.redact(why)}))
                    if not isinstance(problem, OdfError):
                        self._site.say(self._site.redact(f"live: {type(problem).__name__}: {problem}"))
                is_lost = True
            self._stopped.wait(_EVERY)

    def _look(self, seen: int | None) -> tuple[int, list[str]]:
        with self._site.stores.lent() as store:
            newest = store.views.newest_event()
            if seen is None or newest <= seen:
                return newest, []
            if newest - seen > _MOST_EVENTS:
                return newest, [EVERYTHING]
            events = store.views.events(after=seen, n=_MOST_EVENTS)
        return max(newest, events[-1].eventid if events else newest), topics_of(events)

    def _tell(self, said: str | None) -> None:
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        loop.call_soon_threadsafe(self._pass_on, said)

    def _pass_on(self, said: str | None) -> None:
        for client in list(self._clients):
            _put(client, said)


def topics_of(events: Iterable[Event]) -> list[str]:
    """What events are about, in the words that pages listen for."""
    found: dict[str, None] = {}
    for event in events:
        if event.datasetid is None and event.jobid is None:
            return [EVERYTHING]
        if event.datasetid is not None:
            found[f"dataset:{event.datasetid}"] = None
            found[f"chunk:{event.datasetid}/{event.dataid}"] = None
        if event.jobid is not None:
            found[f"job:{event.jobid}"] = None
        if event.runid is not None:
            found[f"run:{event.runid}"] = None
        if len(found) > _MOST_TOPICS:
            return [EVERYTHING]
    return list(found)


def _event(name: str, data: object) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


def _put(client: asyncio.Queue[str | None], said: str | None) -> None:
    """One more thing to hear; whoever does not listen for long starts again."""
    try:
        client.put_nowait(said)
    except asyncio.QueueFull:
        while not client.empty():
            client.get_nowait()
        client.put_nowait(None)
