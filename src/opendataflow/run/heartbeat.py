"""The heartbeat: extends the leases of all runs of a process beside their work, and stops the work once they are lost."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from ..errors import Cancelled, LeaseLost, OdfError, TimedOut
from ..store import Claim

if TYPE_CHECKING:
    from .worker import Worker

_LONGEST_PAUSE = 1.0  # between two looks at the clock: a cancel is noticed that soon


class Heartbeat:
    """The leases of chunks that run together; lost when none of them is held any more."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        self.held = list(claims)
        self.first = claims[0]
        self.every = min(claim.lease for claim in claims) / 3
        self._cancelled = ""  # by whom and why, where a person ended the run through the store
        self.stop: Callable[[], None] = lambda: None  # how to stop the work; set by whoever does it
        self.stopped_at: float | None = None  # by the monotonic clock
        self.deadline = math.inf  # for work that nothing else ends in time
        self.is_late = False

    @property
    def is_lost(self) -> bool:
        """Whether none of the chunks is ours any more."""
        return not self.held

    def check(self) -> None:
        """LeaseLost when the chunks are no longer ours; for work that asks now and then."""
        if self.is_lost:
            raise self.lease_lost()

    def lease_lost(self) -> LeaseLost:
        """Why the work was stopped."""
        if self._cancelled:
            return LeaseLost(f"the run was {self._cancelled}", hint="What it wrote is not published.")
        return LeaseLost(
            "the run lost its chunk while it was working: its lease ran out, or somebody changed the status",
            hint="What it wrote is not published; its successor's work stands.",
        )

    def timed_out(self) -> TimedOut:
        """Why work was stopped that took longer than its job may."""
        return TimedOut(f"timed out: {self.first.jobid} {self.first.dataid} was stopped")

    def lose(self, claim: Claim, cancelled: str) -> None:
        """One of the chunks is no longer ours; without any, the work has to stop."""
        self._cancelled = cancelled
        self.held.remove(claim)


class Pulse:
    """One thread for all heartbeats of a process, as long as there are any; one statement extends all leases."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._lock = threading.Lock()  # held while it beats: what was taken out is not beaten for any more
        self._beating: dict[int, Heartbeat] = {}
        self._sooner = threading.Event()
        self._pause = self._last = 0.0
        self._is_alive = False

    def add(self, heartbeats: Iterable[Heartbeat]) -> None:
        """Beat for these, too."""
        with self._lock:
            for heartbeat in heartbeats:
                self._beating[id(heartbeat)] = heartbeat
                if self._is_alive and heartbeat.every < self._pause:
                    self._sooner.set()
            if self._beating and not self._is_alive:
                self._is_alive, self._last = True, time.monotonic()
                threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def remove(self, heartbeats: Iterable[Heartbeat]) -> None:
        """Their work is over."""
        with self._lock:
            for heartbeat in heartbeats:
                self._beating.pop(id(heartbeat), None)

    def _beat(self) -> None:
        while True:
            with self._lock:
                self._look([each for each in self._beating.values() if not each.is_lost])
                if not self._beating:
                    self._is_alive = False
                    return
                self._pause = min(_LONGEST_PAUSE, *(each.every for each in self._beating.values()))
                self._sooner.clear()
            self._sooner.wait(self._pause)

    def _look(self, beating: Collection[Heartbeat]) -> None:
        if self._worker.cancelled.is_set():
            for heartbeat in beating:
                self._stop(heartbeat)
        for heartbeat in beating:
            if time.monotonic() >= heartbeat.deadline:
                heartbeat.is_late = True
                self._stop(heartbeat)
        if beating and time.monotonic() - self._last >= min(each.every for each in beating):
            self._last = time.monotonic()
            self._extend(beating)

    def _extend(self, beating: Collection[Heartbeat]) -> None:
        held = [(heartbeat, claim) for heartbeat in beating for claim in heartbeat.held]
        try:
            ours = self._worker.store.heartbeat_many(claim for _, claim in held)
        except Exception as error:  # whatever it is, the other runs and the next beat need this thread
            more = f" and {len(held) - 1} more" if len(held) > 1 else ""
            why = error.message if isinstance(error, OdfError) else f"{type(error).__name__}: {error}"
            self._worker.say(f"heartbeat of run {held[0][1].runid}{more}: {why}")
            return
        for heartbeat, claim in held:
            if claim.runid not in ours:
                heartbeat.lose(claim, self._how_it_was_cancelled(claim))
                if heartbeat.is_lost:
                    self._stop(heartbeat)

    def _stop(self, heartbeat: Heartbeat) -> None:
        heartbeat.stopped_at = heartbeat.stopped_at or time.monotonic()
        try:
            heartbeat.stop()
        except Exception as error:
            self._worker.say(f"run {heartbeat.first.runid} could not be stopped: {error}")

    def _how_it_was_cancelled(self, claim: Claim) -> str:
        try:
            run = self._worker.store.run(claim.runid)
        except OdfError:
            return ""
        return run.detail or "" if run.outcome == Cancelled.name else ""
