"""Extends the leases of all runs of a process in the background, and stops runs whose lease is lost."""

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

_LONGEST_PAUSE = 1.0  # seconds between checks: the delay until a cancel is noticed


class Heartbeat:
    """The leases of chunks that run together; lost when no lease is held."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        self.held = list(claims)
        self.first = claims[0]
        self.every = min(claim.lease for claim in claims) / 3
        self._cancelled = ""  # by whom and why, if an operator cancelled the run
        self.stop: Callable[[], None] = lambda: None  # stops the work; set by the executor
        self.stopped_at: float | None = None  # by the monotonic clock
        self.deadline = math.inf  # for work without its own timeout
        self.is_late = False

    @property
    def is_lost(self) -> bool:
        """Whether all leases are lost."""
        return not self.held

    def check(self) -> None:
        """Raise LeaseLost if all leases are lost; for work that polls."""
        if self.is_lost:
            raise self.lease_lost()

    def lease_lost(self) -> LeaseLost:
        """The error that says why the leases were lost."""
        if self._cancelled:
            return LeaseLost(f"the run was {self._cancelled}", hint="Its output is not published.")
        return LeaseLost(
            "the run lost its chunk while working: the lease expired, or the status was changed",
            hint="Its output is not published; the output of the later attempt is kept.",
        )

    def timed_out(self) -> TimedOut:
        """The error of work that exceeded the timeout of its job."""
        return TimedOut(f"timed out: {self.first.jobid} {self.first.dataid} was stopped")

    def lose(self, claim: Claim, cancelled: str) -> None:
        """Remove the lease of one chunk; without any lease, the work must stop."""
        self._cancelled = cancelled
        self.held.remove(claim)


class Pulse:
    """The heartbeat thread of a process, which runs while there are heartbeats; one statement extends all leases."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._lock = threading.Lock()  # held during each beat, so that removed heartbeats are not extended
        self._beating: dict[int, Heartbeat] = {}
        self._sooner = threading.Event()
        self._pause = self._last = 0.0
        self._is_alive = False

    def add(self, heartbeats: Iterable[Heartbeat]) -> None:
        """Add heartbeats."""
        with self._lock:
            for heartbeat in heartbeats:
                self._beating[id(heartbeat)] = heartbeat
                if self._is_alive and heartbeat.every < self._pause:
                    self._sooner.set()
            if self._beating and not self._is_alive:
                self._is_alive, self._last = True, time.monotonic()
                threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def remove(self, heartbeats: Iterable[Heartbeat]) -> None:
        """Remove heartbeats whose work has ended."""
        with self._lock:
            for heartbeat in heartbeats:
                self._beating.pop(id(heartbeat), None)

    def _beat(self) -> None:
        while True:
            with self._lock:
                self._check([each for each in self._beating.values() if not each.is_lost])
                if not self._beating:
                    self._is_alive = False
                    return
                self._pause = min(_LONGEST_PAUSE, *(each.every for each in self._beating.values()))
                self._sooner.clear()
            self._sooner.wait(self._pause)

    def _check(self, beating: Collection[Heartbeat]) -> None:
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
        except Exception as error:  # any error: the thread must continue for other runs and the next beat
            more = f" and {len(held) - 1} more" if len(held) > 1 else ""
            why = error.message if isinstance(error, OdfError) else f"{type(error).__name__}: {error}"
            self._worker.say(f"heartbeat of run {held[0][1].runid}{more}: {why}")
            return
        for heartbeat, claim in held:
            if claim.runid not in ours:
                heartbeat.lose(claim, self._cancel_detail(claim))
                if heartbeat.is_lost:
                    self._stop(heartbeat)

    def _stop(self, heartbeat: Heartbeat) -> None:
        heartbeat.stopped_at = heartbeat.stopped_at or time.monotonic()
        try:
            heartbeat.stop()
        except Exception as error:
            self._worker.say(f"run {heartbeat.first.runid} could not be stopped: {error}")

    def _cancel_detail(self, claim: Claim) -> str:
        try:
            run = self._worker.store.views.run(claim.runid)
        except OdfError:
            return ""
        return run.detail or "" if run.outcome == Cancelled.name else ""
