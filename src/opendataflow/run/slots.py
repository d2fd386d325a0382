"""The slots of a drain: threads that run one chunk at a time, each replaced when the code of its chunk hangs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ..shapes import NamedTuple
from .parts import Batch

_HANGS = 3.0  # seconds after Spark was asked to stop the work of a run; a script is killed, so it always ends


class Hanging(NamedTuple):
    """A thread whose work was stopped and does not come back, and where its code is."""

    thread: threading.Thread
    batch: Batch
    where: str

    def __str__(self) -> str:
        claim = self.batch.claims[0]
        return f"run {claim.runid}: {claim.jobid} {claim.dataid} hangs at {self.where}"


class Slots:
    """The threads of a drain, what each of them works on, and those that were given up."""

    def __init__(self) -> None:
        self._ended: dict[threading.Thread, threading.Event] = {}
        self._at_work: dict[threading.Thread, Batch] = {}
        self._lock = threading.Lock()

    def start(self, name: str, run: Callable[[], None]) -> None:
        """One more thread."""

        def to_its_end() -> None:
            try:
                run()
            finally:
                ended.set()

        # Not joined: Ctrl-C inside a join of Python 3.11 takes a thread that is at work for one that has ended.
        ended = threading.Event()
        thread = threading.Thread(target=to_its_end, name=name, daemon=True)
        with self._lock:
            self._ended[thread] = ended
        thread.start()

    def wait(self, seconds: float) -> bool:
        """Whether all threads ended but those that were given up, after at most this time."""
        with self._lock:
            waited_for = next((each for each in self._ended.values() if not each.is_set()), None)
        if waited_for is not None:
            waited_for.wait(seconds)
        return waited_for is None

    def begin(self, batch: Batch) -> None:
        """This thread works on these chunks now."""
        with self._lock:
            self._at_work[threading.current_thread()] = batch

    @property
    def is_given_up(self) -> bool:
        """Whether this thread hung for so long that another one has its slot."""
        return threading.current_thread() not in self._ended

    def end(self) -> None:
        """This thread has done its work."""
        with self._lock:
            self._at_work.pop(threading.current_thread(), None)

    def hanging(self) -> list[Hanging]:
        """Those that go on although their work was stopped a while ago."""
        now, found = time.monotonic(), []
        with self._lock:
            for thread, batch in self._at_work.items():
                heartbeat, executor = batch.heartbeat, batch.executor
                if heartbeat is None or executor is None or not executor.on_spark or heartbeat.stopped_at is None:
                    continue
                if now - heartbeat.stopped_at > _HANGS and not batch.is_over:
                    found.append(Hanging(thread, batch, _where(thread)))
        return found

    def give_up(self, thread: threading.Thread) -> bool:
        """Give this thread up; False when it came back just now."""
        with self._lock:
            if self._at_work.pop(thread, None) is None:
                return False
            del self._ended[thread]
            return True


def _where(thread: threading.Thread) -> str:
    """The innermost line of a thread that is no library's, or else the innermost."""
    frame = sys._current_frames().get(thread.ident or 0)
    lines = []
    while frame is not None:
        code = frame.f_code
        lines.append((Path(code.co_filename), f"{Path(code.co_filename).name}:{frame.f_lineno} in {code.co_name}"))
        frame = frame.f_back
    installed = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[1]))
    own = [told for path, told in lines if not str(path).startswith((*installed, "<"))]
    return (own or [told for _, told in lines] or ["unknown code"])[0]
