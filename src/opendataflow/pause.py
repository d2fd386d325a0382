"""A pause that no clock can break."""

from __future__ import annotations

import threading
import time

_LONGEST = 3600.0  # whoever waits for longer looks again first


def pause(seconds: float) -> None:
    """Wait for so long, at least not at all and at most an hour.

    A sleep is until a moment of the system's clock. Where that was set back behind its beginning, the system refuses the
    moment as invalid; then the wait is counted without a clock.
    """
    wait = min(max(seconds, 0.0), _LONGEST)
    try:
        time.sleep(wait)
    except OSError:
        threading.Event().wait(wait)
