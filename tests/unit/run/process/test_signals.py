"""Which signals are one request to stop, and which are the second one."""

from __future__ import annotations

import signal
import time

import pytest

from opendataflow.run.process.signals import Signals

HUP, INT, TERM = signal.SIGHUP, signal.SIGINT, signal.SIGTERM


@pytest.mark.parametrize(
    ("numbers", "seconds", "is_urgent"),
    [
        ((HUP,), 0.0, False),
        ((HUP, HUP), 0.0, False),
        ((TERM, HUP), 0.1, False),
        ((HUP, HUP), 1.0, True),
        ((INT, TERM), 1.0, True),
        ((INT, INT), 0.0, True),
        ((TERM, TERM), 0.0, True),
    ],
)
def test_a_second_signal_is_urgent_unless_it_is_sent_together_with_the_first(
    monkeypatch: pytest.MonkeyPatch, numbers: tuple[int, ...], seconds: float, is_urgent: bool
) -> None:
    signals = Signals()
    for index, number in enumerate(numbers):
        monkeypatch.setattr(time, "monotonic", lambda index=index: 100.0 + index * seconds)
        signals.receive(number, None)
    assert signals.is_urgent == is_urgent
