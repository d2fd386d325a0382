"""Kept: answers that take long are found once for all browsers, and shown again for a moment.

Whether anything has happened is asked at most twice a second. An answer is shown as long as nothing has, at most for five
seconds or twenty times as long as it took to find, since a change by SQL tells nobody. While things happen, finding it may take
a tenth of the time: an answer that took 10 ms is at most a second old, one that took 500 ms at most five. Whoever does
something here sees it at once, and a page that is told of a change never gets an answer from before without knowing.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from ..store import Store

if TYPE_CHECKING:
    from .site import Site

_EVERY = 0.5  # seconds between two questions whether anything has happened
_WHILE_QUIET = 5.0, 20, 30.0  # seconds at least, times as long as it took, seconds at most
_WHILE_BUSY = 1.0, 10, 10.0
_AT_MOST = 4  # times as long as it took, where that is more
_ANSWERS = 100

_T = TypeVar("_T")


@dataclass(frozen=True)
class CachedAnswer(Generic[_T]):
    """What was found, how old it is, and in how many seconds a newer one can be had; 0 where nothing is newer."""

    value: _T
    seconds: float
    again: float


@dataclass
class _Found:
    value: object
    at: float
    took: float
    newest: int


class Kept:
    """The answers of one console."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: OrderedDict[Hashable, _Found] = OrderedDict()
        self._locks: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()
        self._round = 0
        self._newest, self._asked = -1, -_EVERY  # the newest event that is known of, and when it was read

    def noticed(self, newest: int) -> None:
        """Pages are about to be told of this event: no answer from before it is taken for one of now."""
        with self._lock:
            self._newest = max(self._newest, newest)

    def forget(self) -> None:
        """A verb ran here: the next look shows what it changed."""
        with self._lock:
            self._found.clear()
            self._round += 1

    @contextmanager
    def look(self, site: Site) -> Iterator[CachedLook]:
        """One look, for any number of questions; it opens the store once, and only where an answer has to be found."""
        with ExitStack() as opened:
            yield CachedLook(self, site, opened)

    def answer(self, look: CachedLook, key: Hashable, find: Callable[[Store], _T]) -> CachedAnswer[_T]:
        """What the store says to this question, or said a moment ago."""
        with self._lock:
            found, own = self._found.get(key), self._locks.setdefault(key, threading.Lock())
            is_known = look.is_open or self._clock() - self._asked < _EVERY
        if found is not None and is_known and self._is_good(found):
            return self._told(found)
        store = look.store  # before the lock, whose holder must not wait for a connection
        # While one request looks, others get the last answer.
        if not own.acquire(blocking=found is None):
            return self._told(cast(_Found, found))
        try:
            with self._lock:
                found, begun, newest = self._found.get(key), self._round, self._newest
            if found is not None and self._is_good(found):
                return self._told(found)
            start = self._clock()
            value = find(store)
            self._keep(key, _Found(value, self._clock(), self._clock() - start, newest), begun)
            return CachedAnswer(value, 0.0, 0.0)
        finally:
            own.release()

    def asked(self, newest: int) -> None:
        """Note the newest event of the store, which was just read."""
        with self._lock:
            self._newest, self._asked = max(self._newest, newest), self._clock()

    def _keep(self, key: Hashable, made: _Found, begun: int) -> None:
        with self._lock:
            if begun == self._round:
                self._found[key] = made
                self._found.move_to_end(key)
            while len(self._found) > _ANSWERS:
                gone, _ = self._found.popitem(last=False)
                self._locks.pop(gone, None)

    def _is_good(self, found: _Found) -> bool:
        return self._clock() - found.at < self._lasts(found)

    def _lasts(self, found: _Found) -> float:
        """For how many seconds an answer is good enough."""
        least, times, most = _WHILE_QUIET if found.newest == self._newest else _WHILE_BUSY
        return min(max(least, times * found.took), max(most, _AT_MOST * found.took))

    def _told(self, found: _Found) -> CachedAnswer[_T]:
        age = self._clock() - found.at
        again = 0.0 if found.newest == self._newest else max(self._lasts(found) - age, 0.1)
        return CachedAnswer(cast(_T, found.value), age, again)


class CachedLook:
    """One look at one store, as the next claim would find it."""

    def __init__(self, kept: Kept, site: Site, opened: ExitStack) -> None:
        self._kept, self._site, self._opened = kept, site, opened
        self._store: Store | None = None

    @property
    def is_open(self) -> bool:
        """Whether the store was opened, and asked what is newest."""
        return self._store is not None

    @property
    def store(self) -> Store:
        """The store, opened when it is needed."""
        if self._store is None:
            store = self._opened.enter_context(self._site.stores.lent())
            self._kept.asked(
                store.views.newest_event()
            )  # as it is written: what the next claim would add is no event yet
            self._opened.enter_context(store.at_once())
            self._site.pending = self._opened.enter_context(store.looking()).words
            self._store = store
        return self._store

    def answer(self, key: Hashable, find: Callable[[Store], _T]) -> CachedAnswer[_T]:
        """What the store says to this question, or said a moment ago."""
        return self._kept.answer(self, key, find)
