"""Struck: one fault that happened, what it hit, and how long the flow needed to heal it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .plan import KILL_WORKER, LEASE, Fault


class StruckRun(NamedTuple):
    """A run that a fault hit, by the chunk that it was making."""

    jobid: str
    dataid: str
    runid: int


@dataclass
class Struck:
    """A fault, the lane and the second in which it struck, and what came of it."""

    fault: Fault
    lane: int
    at: float
    hits: list[StruckRun] = field(default_factory=list)
    is_planned: bool = True  # else it was done besides, so that the plan could go on
    recovered: float | None = None  # seconds until all that it hit was READY again
    note: str = ""
    is_refused: bool | None = None  # whether the worker or reader was refused; None where none had to be
    is_ended: bool | None = None  # whether the script of a run that lost its chunk was ended; None where none hung
    woke: float | None = None  # the second in which the worker that lost its chunk was heard again
    is_held: bool = False  # what has to happen before it heals has not happened yet
    watched: list[StruckRun] = field(default_factory=list)  # what is still to heal, unless another fault hit it again

    def __post_init__(self) -> None:
        self.watched = list(self.hits)
        if not self.hits:
            self.recovered = 0.0

    @property
    def is_open(self) -> bool:
        """Whether something that it hit is not healed yet."""
        return self.is_held or (bool(self.watched) and self.recovered is None)

    @property
    def is_timed(self) -> bool:
        """Whether how long it took to heal is this fault's own time."""
        return bool(self.watched)

    def is_hit_again_by(self, hits: Sequence[StruckRun]) -> None:
        """Another fault hit a chunk before it had healed: from now on the time that this takes is that fault's."""
        chunks = {hit[:2] for hit in hits}
        if self.is_open and self.fault.kind == KILL_WORKER:
            self.watched = [hit for hit in self.watched if hit[:2] not in chunks]
            if not self.watched:
                self.note = "hit again before it had healed"

    @property
    def is_within(self) -> bool | None:
        """Whether it healed within two leases; None where there was nothing to heal, or it was hit again."""
        return self.recovered is not None and self.recovered <= 2 * LEASE if self.is_timed else None
