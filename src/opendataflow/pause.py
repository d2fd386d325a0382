"""Sleeps for a number of seconds, whatever the system clock does."""

from __future__ import annotations

import threading
import time

_LONGEST = 3600.0


def pause(seconds: float) -> None:
    """Sleep for this long, clamped to 0–3600 s.

    time.sleep fails if the system clock was set back before its epoch; then an Event waits instead.
    """
    wait = min(max(seconds, 0.0), _LONGEST)
    try:
        time.sleep(wait)
    except OSError:
        threading.Event().wait(wait)
