"""Recovery: what an outage left, by root cause, and the smallest set of RESUBMITs that lets all of it run."""

from __future__ import annotations

from .by_hand import ByHand
from .causes import Cause, causes
from .estimate import Estimate
from .plan import Found, Plan, Step, plan
from .progress import Progress, progress

__all__ = ["ByHand", "Cause", "Estimate", "Found", "Plan", "Progress", "Step", "causes", "plan", "progress"]
