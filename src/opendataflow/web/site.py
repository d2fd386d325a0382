"""Site: what every page needs: the project, a few connections to the store, and what must not be shown."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from fastapi import Request

from ..errors import OdfError, StoreDamaged, StoreMissing, StoreUnreachable
from ..store import Store
from ..tokens import without_secrets
from .kept import Kept

if TYPE_CHECKING:
    from ..project import Project
    from .access import Access
    from .live import Live

_CONNECTIONS = 4  # that pages share; without a free one a page waits a little
_SEARCHES = 2  # through logs, which may be long, at once: others find a connection meanwhile
_LONGEST_WAIT_TO_SEARCH = 2.0  # seconds
_LONGEST_WAIT = 30.0  # seconds that one page waits for the others
PATIENCE = 5.0  # seconds that a page waits for a store which went away


class Stores:
    """A few connections to one store, opened when they are needed, each lent to one request at a time."""

    def __init__(
        self, open_store: Callable[[], Store], most: int = _CONNECTIONS, patience: float = _LONGEST_WAIT
    ) -> None:
        self._open, self._patience = open_store, patience
        self._free: queue.LifoQueue[Store | None] = queue.LifoQueue()
        self._all: list[Store] = []
        self._lock = threading.Lock()
        for _ in range(most):
            self._free.put(None)

    @contextmanager
    def lent(self) -> Iterator[Store]:
        """A connection for one user at a time."""
        try:
            store = self._free.get(timeout=self._patience)
        except queue.Empty:
            raise StoreUnreachable("too many pages ask at once", hint="Load the page again in a moment.") from None
        try:
            if store is None:
                store = self._open()
                with self._lock:
                    self._all.append(store)
            yield store
        except (StoreMissing, StoreDamaged):  # what is there now may be another one: the next caller opens it
            if store is not None:
                self._drop(store)
                store = None
            raise
        except OdfError:
            raise
        except Exception:
            if store is not None:
                store.check_schema()  # tables that went away meanwhile, or have another form, are no bug of ours
            raise
        finally:
            self._free.put(store)

    def _drop(self, store: Store) -> None:
        with self._lock:
            self._all.remove(store)
        store.close()

    def close(self) -> None:
        """Give all connections back."""
        with self._lock:
            while self._all:
                self._all.pop().close()


@dataclass
class Site:
    """One console: where it looks, who may come in, and what it hides."""

    project: Project
    about: Mapping[str, str]
    stores: Stores
    access: Access
    redact: Callable[[str], str]
    say: Callable[[str], None] = lambda line: None
    debug: bool = False
    hide: Callable[[Store], None] = lambda store: None  # learns the secrets that a reason could repeat
    kept: Kept = field(default_factory=Kept)
    live: Live = field(init=False)
    pending: tuple[str, ...] = ()  # what the next claim will fold in, as the last look found it
    _searches: threading.Semaphore = field(default_factory=lambda: threading.BoundedSemaphore(_SEARCHES))

    @property
    def zone(self) -> ZoneInfo:
        """The project's time zone, in which pages show times."""
        return ZoneInfo(self.project.timezone)

    def redact_all(self, text: str) -> str:
        """The text without known secrets, and without what has the form of one."""
        return without_secrets(self.redact(text))

    @contextmanager
    def reading(self) -> Iterator[Store]:
        """A store to look at, as the next claim will find it: one moment of it."""
        with self.stores.lent() as store, store.at_once(), store.looking() as pending:
            self.pending = pending.words
            yield store

    @contextmanager
    def searching(self) -> Iterator[Store]:
        """A store for looking through a log; it holds no state of the store meanwhile, and few do so at once."""
        if not self._searches.acquire(timeout=_LONGEST_WAIT_TO_SEARCH):
            raise StoreUnreachable("others look through long logs already", hint="Search again in a moment.")
        try:
            with self.stores.lent() as store:
                yield store
        finally:
            self._searches.release()

    @contextmanager
    def acting(self, who: str) -> Iterator[Store]:
        """A store in which a user acts: the history names the user."""
        try:
            with self.stores.lent() as store, store.acting_as(who):
                self.hide(store)
                yield store
        finally:
            self.kept.forget()


def site_of(request: Request) -> Site:
    """The site that a request came to."""
    site: Site = request.app.state.site
    return site
