"""Spoken: what the code of a job prints and logs goes to the log of its run, whatever runs beside it."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .process.logs import LogFile

_QUIET = ("py4j", "pyspark")  # they are no code of the job; what they warn of is told

_here = threading.local()  # .speech: that of the run which this thread works for
_lock = threading.Lock()
_speaking = 0
_before: tuple[Any, Any, int] = None, None, 0


class _Speech:
    """The log of one run as something that can be printed to; nothing secret gets into it."""

    def __init__(self, log: LogFile, is_shown: bool) -> None:
        self._log, self._redactor, self._is_shown = log, log.redactor(), is_shown

    def put(self, text: str, shown: Any) -> None:
        data = self._redactor.feed(text.encode("utf-8", "replace"))
        self._log.write(data)
        if self._is_shown:
            shown.write(data.decode("utf-8", "replace"))

    def end(self) -> None:
        self._log.write(self._redactor.flush())


class _Stream:
    """A standard stream that takes what the thread of a run prints to that run's log."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        speech: _Speech | None = getattr(_here, "speech", None)
        if speech is None:
            return int(self._stream.write(text))
        speech.put(text, self._stream)
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Handler(logging.Handler):
    """The same for what is logged."""

    def emit(self, record: logging.LogRecord) -> None:
        speech: _Speech | None = getattr(_here, "speech", None)
        if speech is not None and (record.levelno >= logging.WARNING or record.name.partition(".")[0] not in _QUIET):
            speech.put(f"{self.format(record)}\n", sys.stderr)


_handler = _Handler(logging.INFO)
_handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))


@contextmanager
def spoken(log: LogFile, *, is_shown: bool) -> Iterator[None]:
    """Everything that this thread prints or logs inside is in the log; where it is shown, on the terminal too."""
    before = getattr(_here, "speech", None)
    _listen(+1)
    _here.speech = speech = _Speech(log, is_shown)
    try:
        yield
    finally:
        _here.speech = before
        speech.end()
        _listen(-1)


def _listen(more: int) -> None:
    """The streams and the root logger are ours as long as any run speaks."""
    global _speaking, _before
    root = logging.getLogger()
    with _lock:
        _speaking += more
        if _speaking == 1 and more > 0:
            _before = sys.stdout, sys.stderr, root.level
            sys.stdout, sys.stderr = _Stream(sys.stdout), _Stream(sys.stderr)
            root.addHandler(_handler)
            if root.level > logging.INFO:
                root.setLevel(logging.INFO)
        elif _speaking == 0:
            root.removeHandler(_handler)
            sys.stdout, sys.stderr, level = _before
            root.setLevel(level)
