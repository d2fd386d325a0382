"""Summarises a drain: outcomes, failures and the slowest attempts, without one entry per chunk."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ..errors import LeaseLost, OdfError
from ..model import READY
from .records import Result

_SLOWEST = 10


class Failure(NamedTuple):
    """A chunk whose last attempt in this drain failed or was refused."""

    jobid: str
    dataid: str
    runid: int
    outcome: str
    detail: str
    is_refused: bool
    has_log: bool = True


class AttemptDuration(NamedTuple):
    """The duration of one attempt."""

    seconds: float
    jobid: str
    dataid: str
    runid: int


@dataclass
class DrainSummary:
    """The outcomes, failures and slowest attempts of a drain so far."""

    outcomes: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    running: Counter[str] = field(default_factory=Counter)
    failed: dict[tuple[str, str], Failure] = field(default_factory=dict)
    slowest: list[AttemptDuration] = field(default_factory=list)
    left_out: dict[str, OdfError] = field(default_factory=dict)  # jobs that cannot be claimed, and why
    seconds: float = 0.0

    @property
    def failures(self) -> list[Failure]:
        """Every chunk that failed and was not retried or taken over."""
        return list(self.failed.values())

    def leave_out(self, jobid: str, problem: OdfError, say: Callable[[str], None]) -> None:
        """Record that a job cannot run here, and report it once."""
        if jobid not in self.left_out:
            say(f"leaving out {jobid}: {problem.name}: {problem.message}")
        self.left_out[jobid] = problem

    def count(self, result: Result, seconds: float) -> None:
        """Add the result of one attempt."""
        claim = result.claim
        assert claim is not None
        chunk = claim.jobid, claim.dataid
        self.outcomes[result.outcome] += 1
        self.failed.pop(chunk, None)
        if result.outcome == READY:
            self.done[claim.jobid] += 1
        elif result.outcome != LeaseLost.name:
            refused = result.receipt is not None
            has_log = result.log is not None
            self.failed[chunk] = Failure(*chunk, claim.runid, result.outcome, result.detail[:1000], refused, has_log)
        heapq.heappush(self.slowest, AttemptDuration(seconds, *chunk, claim.runid))
        if len(self.slowest) > _SLOWEST:
            heapq.heappop(self.slowest)
