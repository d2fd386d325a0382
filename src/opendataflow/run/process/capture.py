"""Captures the output and log records of job code, per thread, in the log of its run."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .logs import LogFile

_QUIET = ("py4j", "pyspark")  # libraries: only their warnings are captured

_thread = threading.local()  # .capture: the capture of the run on this thread
_lock = threading.Lock()
_active = 0
_before: tuple[Any, Any, int] = None, None, 0


class _Capture:
    """Writes printed text to the log of one run, with secrets redacted."""

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
    """A standard stream that writes the text of captured threads to the logs of their runs."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        capture: _Capture | None = getattr(_thread, "capture", None)
        if capture is None:
            return int(self._stream.write(text))
        capture.put(text, self._stream)
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Handler(logging.Handler):
    """A log handler that writes the records of captured threads to the logs of their runs."""

    def emit(self, record: logging.LogRecord) -> None:
        capture: _Capture | None = getattr(_thread, "capture", None)
        if capture is not None and (record.levelno >= logging.WARNING or record.name.partition(".")[0] not in _QUIET):
            capture.put(f"{self.format(record)}\n", sys.stderr)


_handler = _Handler(logging.INFO)
_handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))


@contextmanager
def captured_output(log: LogFile, *, is_shown: bool) -> Iterator[None]:
    """Write everything that this thread prints or logs to the log, and also to the terminal if is_shown."""
    before = getattr(_thread, "capture", None)
    _install(+1)
    _thread.capture = capture = _Capture(log, is_shown)
    try:
        yield
    finally:
        _thread.capture = before
        capture.end()
        _install(-1)


def _install(change: int) -> None:
    """Replace the standard streams and the root logger's handler while any capture is active."""
    global _active, _before
    root = logging.getLogger()
    with _lock:
        _active += change
        if _active == 1 and change > 0:
            _before = sys.stdout, sys.stderr, root.level
            sys.stdout, sys.stderr = _Stream(sys.stdout), _Stream(sys.stderr)
            root.addHandler(_handler)
            if root.level > logging.INFO:
                root.setLevel(logging.INFO)
        elif _active == 0:
            root.removeHandler(_handler)
            sys.stdout, sys.stderr, level = _before
            root.setLevel(level)
