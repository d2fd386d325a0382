"""Recoveries: what was started from this console and how far it is, and plans that many browsers look at but one makes."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from datetime import UTC, datetime
from typing import NamedTuple

from fastapi import Request

from ..insight.recovery import RecoveryPlan, RecoveryProgress, plan, progress
from ..store import Recovered, Store

_KEPT = 5  # recoveries that are shown
_MOST_PLANS = 20
_OLDEST = 10.0  # seconds after which a plan is made again: leases run out and times come without any event
_AFTER = 3600.0  # seconds for which one that is over is still shown


class Started(NamedTuple):
    """A recovery that somebody started here: what it foresaw, who, why and when, and what it did at once."""

    number: int
    plan: RecoveryPlan
    who: str
    why: str | None
    at: datetime
    done: Recovered


class Followed(NamedTuple):
    """A recovery that was started, and how far it is."""

    started: Started
    progress: RecoveryProgress


class _Made(NamedTuple):
    event: int
    at: float
    plan: RecoveryPlan
    followed: tuple[Followed, ...]


class Recoveries:
    """The last recoveries of one console, and the last plans."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started: deque[Started] = deque(maxlen=_KEPT)
        self._ended: dict[int, RecoveryProgress] = {}
        self._made: OrderedDict[tuple[str, ...] | None, _Made] = OrderedDict()
        self._number = 0

    def begin(self, made: RecoveryPlan, who: str, why: str | None, done: Recovered) -> Started:
        """Remember what somebody has just started."""
        with self._lock:
            self._number += 1
            started = Started(self._number, made, who, why, datetime.now(UTC), done)
            self._started.appendleft(started)
            self._made.clear()
            return started

    def look(self, store: Store, causes: tuple[str, ...] | None) -> tuple[RecoveryPlan, tuple[Followed, ...]]:
        """The plan for these causes, or for all, and how far recoveries are; made again when something happened."""
        with self._lock:  # whoever comes meanwhile waits for the same answer, instead of making it too
            event, now = store.views.newest_event(), time.monotonic()
            made = self._made.get(causes)
            if made is None or made.event != event or now - made.at > _OLDEST:
                made = _Made(event, now, plan(store, causes, lenient=True), tuple(self._followed(store)))
                self._made[causes] = made
                self._made.move_to_end(causes)
                while len(self._made) > _MOST_PLANS:
                    self._made.popitem(last=False)
            return made.plan, made.followed

    def _followed(self, store: Store) -> list[Followed]:
        found = []
        for started in self._started:
            now = self._ended.get(started.number) or progress(store, started.plan)
            if now.is_over and not now.stuck:
                self._ended[started.number] = now
            if not now.is_over or (datetime.now(UTC) - started.at).total_seconds() < _AFTER:
                found.append(Followed(started, now))
        return found


_making = threading.Lock()


def recoveries_of(request: Request) -> Recoveries:
    """The recoveries of the console that a request came to."""
    state = request.app.state
    with _making:
        if not hasattr(state, "recoveries"):
            state.recoveries = Recoveries()
    found: Recoveries = state.recoveries
    return found
