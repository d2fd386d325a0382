"""What a drain has done so far: counts, what went wrong, and what was slow; never one entry per chunk."""

from __future__ import annotations

import heapq
from collections import Counter

from ..errors import LeaseLost, OdfError
from ..model import READY
from ..shapes import NamedTuple, dataclass, field
from .parts import Result

_SLOWEST = 10


class Failure(NamedTuple):
    """A chunk whose last attempt here did not end well; one that the gate refused was never begun."""

    jobid: str
    dataid: str
    runid: int
    outcome: str
    detail: str
    is_refused: bool
    has_log: bool = True


class Took(NamedTuple):
    """How long one attempt took."""

    seconds: float
    jobid: str
    dataid: str
    runid: int


@dataclass
class Drained:
    """The counts, what went wrong, and what was slow, while it goes on."""

    outcomes: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    running: Counter[str] = field(default_factory=Counter)
    failed: dict[tuple[str, str], Failure] = field(default_factory=dict)
    slowest: list[Took] = field(default_factory=list)
    left_out: dict[str, OdfError] = field(default_factory=dict)  # jobs of which nothing can be claimed, and why
    hanging: list[str] = field(default_factory=list)  # runs whose code goes on although they are over, and where it is
    seconds: float = 0.0

    @property
    def failures(self) -> list[Failure]:
        """Every chunk that is not READY in the end, and that no successor took over."""
        return list(self.failed.values())

    def count(self, result: Result, seconds: float) -> None:
        """Take in how one attempt ended."""
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
        heapq.heappush(self.slowest, Took(seconds, *chunk, claim.runid))
        if len(self.slowest) > _SLOWEST:
            heapq.heappop(self.slowest)
