"""The heartbeat: extends the leases of a run beside its work, and stops the work once they are lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import Cancelled, LeaseLost, OdfError
from ..store import Claim

if TYPE_CHECKING:
    from .worker import Worker

_LONGEST_PAUSE = 1.0  # between two looks at the clock: a cancel is noticed that soon


class Heartbeat:
    """The leases of chunks that run together; lost when none of them is held any more."""

    def __init__(self, worker: Worker, claims: Sequence[Claim]) -> None:
        self._worker, self._held = worker, list(claims)
        self._every = min(claim.lease for claim in claims) / 3
        self._lost = threading.Event()
        self._over = threading.Event()
        self._cancelled = ""  # by whom and why, where a person ended the run through the store
        self.stop: Callable[[], None] = lambda: None  # how to stop the work; set by whoever does it

    @property
    def is_lost(self) -> bool:
        """Whether none of the chunks is ours any more."""
        return self._lost.is_set()

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

    def _beat(self) -> None:
        pause = min(self._every, _LONGEST_PAUSE)
        last = time.monotonic()
        while not self._over.wait(pause):
            if self._worker.cancelled.is_set():
                self.stop()
            if time.monotonic() - last >= self._every:
                last = time.monotonic()
                self._extend()
            if not self._held:
                self._lost.set()
                self.stop()
                return

    def _extend(self) -> None:
        for claim in list(self._held):
            try:
                self._worker.store.heartbeat(claim)
            except LeaseLost:
                self._held.remove(claim)
                self._cancelled = self._how_it_was_cancelled(claim)
            except OdfError as error:
                self._worker.say(f"heartbeat of run {claim.runid}: {error.message}")
                return

    def _how_it_was_cancelled(self, claim: Claim) -> str:
        try:
            run = self._worker.store.run(claim.runid)
        except OdfError:
            return ""
        return run.detail or "" if run.outcome == Cancelled.name else ""


@contextmanager
def beating(worker: Worker, claims: Sequence[Claim]) -> Iterator[Heartbeat]:
    """A heartbeat beside what happens inside."""
    heartbeat = Heartbeat(worker, claims)
    thread = threading.Thread(target=heartbeat._beat, name=f"heartbeat-{claims[0].runid}", daemon=True)
    thread.start()
    try:
        yield heartbeat
    finally:
        heartbeat._over.set()
        thread.join()
