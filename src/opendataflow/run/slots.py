"""Runs chunks on threads that can be abandoned when their code hangs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..model import READY
from .process.signals import Signals
from .records import Batch

if TYPE_CHECKING:
    from .worker import Worker

_HANGS = 3.0  # seconds after the cancel of Spark jobs; scripts are killed, so they always end


class HangingThread(NamedTuple):
    """A thread whose work was stopped but does not return, and the position of its code."""

    thread: threading.Thread
    batch: Batch
    where: str

    def __str__(self) -> str:
        claim = self.batch.claims[0]
        return f"run {claim.runid}: {claim.jobid} {claim.dataid} hangs at {self.where}"


class Slots:
    """The threads of one process and the batch that each works on."""

    def __init__(self) -> None:
        self._ended: dict[threading.Thread, threading.Event] = {}
        self._at_work: dict[threading.Thread, Batch] = {}
        self._lock = threading.Lock()

    def start(self, name: str, run: Callable[[], None]) -> None:
        """Start a thread."""

        def run_and_signal() -> None:
            try:
                run()
            finally:
                ended.set()

        # Not joined: after Ctrl-C inside join(), Python 3.11 treats a running thread as ended.
        ended = threading.Event()
        thread = threading.Thread(target=run_and_signal, name=name, daemon=True)
        with self._lock:
            self._ended[thread] = ended
        thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait at most this long; returns whether all threads have ended, except abandoned ones."""
        with self._lock:
            running = next((each for each in self._ended.values() if not each.is_set()), None)
        if running is not None:
            running.wait(seconds)
        return running is None

    def begin(self, batch: Batch) -> None:
        """Record that this thread works on a batch."""
        with self._lock:
            self._at_work[threading.current_thread()] = batch

    @property
    def is_abandoned(self) -> bool:
        """Whether this thread was abandoned."""
        return threading.current_thread() not in self._ended

    def end(self) -> None:
        """Record that this thread has finished its batch."""
        with self._lock:
            self._at_work.pop(threading.current_thread(), None)

    def hanging(self) -> list[HangingThread]:
        """The threads that still work more than _HANGS seconds after they were stopped."""
        now, found = time.monotonic(), []
        with self._lock:
            for thread, batch in self._at_work.items():
                heartbeat, executor = batch.heartbeat, batch.executor
                if heartbeat is None or executor is None or not executor.on_spark or heartbeat.stopped_at is None:
                    continue
                if now - heartbeat.stopped_at > _HANGS and not batch.is_over:
                    found.append(HangingThread(thread, batch, _where(thread)))
        return found

    def abandon(self, thread: threading.Thread) -> bool:
        """Abandon a thread; False if it has finished its batch meanwhile."""
        with self._lock:
            if self._at_work.pop(thread, None) is None:
                return False
            del self._ended[thread]
            return True


def run_in_slot(worker: Worker, batch: Batch) -> None:
    """Work on one admitted batch and publish it; code that hangs after a cancel, a timeout or a signal is abandoned."""
    slots = Slots()
    raised: list[BaseException] = []

    def work() -> None:
        slots.begin(batch)
        try:
            worker.work(batch)
        except BaseException as problem:
            raised.append(problem)
        finally:
            slots.end()

    with Signals(worker.store.end_soon) as signals:
        slots.start(f"run-{batch.claims[0].runid}", work)
        while not slots.wait(0.2):
            if signals.count and not worker.cancelled.is_set():
                worker.stopped_by = signals.first
                worker.cancelled.set()
            for hanging in slots.hanging():
                if slots.abandon(hanging.thread):
                    worker.abandon(hanging)
        if raised:
            raise raised[0]
        worker.end([batch])
    if signals.count and any(result.outcome != READY for result in batch.results.values()):
        raise KeyboardInterrupt(signals.first)


def _where(thread: threading.Thread) -> str:
    """The innermost line of a thread outside installed libraries, or its innermost line."""
    frame = sys._current_frames().get(thread.ident or 0)
    lines = []
    while frame is not None:
        code = frame.f_code
        lines.append((Path(code.co_filename), f"{Path(code.co_filename).name}:{frame.f_lineno} in {code.co_name}"))
        frame = frame.f_back
    installed = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[1]))
    own = [line for path, line in lines if not str(path).startswith((*installed, "<"))]
    return (own or [line for _, line in lines] or ["unknown code"])[0]
