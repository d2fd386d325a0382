"""Recovery: what an outage left, by root cause, and the smallest set of RESUBMITs that lets all of it run."""

from __future__ import annotations

from .by_hand import ByHand
from .causes import RootCause, causes
from .estimate import Estimate
from .plan import RecoveryPlan, RecoveryStep, Unfinished, headline, plan
from .progress import RecoveryProgress, progress
from .waiting import waiting

__all__ = [
    "ByHand",
    "Estimate",
    "RecoveryPlan",
    "RecoveryProgress",
    "RecoveryStep",
    "RootCause",
    "Unfinished",
    "causes",
    "headline",
    "plan",
    "progress",
    "waiting",
]
