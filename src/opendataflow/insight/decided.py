"""Decided: a stored receipt with what it was about."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ..model import Receipt


@dataclass(frozen=True, slots=True)
class Decision:
    """One stored receipt: when it was asked, about which run, and the five answers."""

    at: datetime | None
    kind: str
    runid: int | None
    verdict: str
    receipt: Receipt
