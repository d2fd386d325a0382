"""Describes how a process ended: exit code, signal, timeout or cancel, and the last lines of its output."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

_TAIL_LINES = 8
_COLOURS_AND_TITLES = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"
_NOT_TEXT = _COLOURS_AND_TITLES + r"|[^\S \t\n]|[\0-\x08\x0e-\x1f\x7f-\x9f]"


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """The end of a process; `tail` is the last few lines of its output, redacted, for the reason of a failure.

    Without exit code and signal, the process could not be killed. `cancelled` and `timed_out` do not depend on the exit
    code, since a script may exit with 0 after TERM. `stopped_by` is the signal that this program received, if any.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    cancelled: bool
    seconds: float
    tail: str
    stopped_by: str = ""

    @property
    def ok(self) -> bool:
        """Whether the job succeeded."""
        return self.exit_code == 0 and not self.timed_out and not self.cancelled

    def __str__(self) -> str:
        if self.signal is not None:
            end = f"ended by signal {self.signal} ({_signal_name(self.signal)})"
        elif self.exit_code is not None:
            end = f"exit code {self.exit_code}"
        else:
            end = "cannot be ended"
        cause = "cancelled, " if self.cancelled else "timed out, " if self.timed_out else ""
        if cause and self.exit_code == 0:
            cause += "although its script ended with "
        return f"{cause}{end} after {self.seconds:.3f} s"


def last_lines(data: bytes) -> str:
    """The last few lines of text in these bytes, without terminal escape sequences."""
    if not data:
        return ""
    text = data.decode("utf-8", "replace").replace("\r", "\n")
    lines = [line.rstrip() for line in re.sub(_NOT_TEXT, "", text).split("\n")]
    return "\n".join([line for line in lines if line][-_TAIL_LINES:])


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "no name"
