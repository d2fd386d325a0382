"""Reported: what a report of a period is made of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ..errors import Stopped
from ..model import FAILED
from ..store.views import Attempted, RunSpan


def is_failed(run: Attempted | RunSpan) -> bool:
    """Whether a run failed or lost its chunk; one that was stopped gave it back."""
    return run.status in (FAILED, "LOST") and run.outcome != Stopped.name


@dataclass(frozen=True, slots=True)
class RunCounts:
    """How the runs of a period ended; those that lost their chunk count as failed, those that were stopped do not."""

    runs: int = 0
    ready: int = 0
    failed: int = 0
    refused: int = 0
    running: int = 0
    forced: int = 0
    stopped: int = 0


@dataclass(frozen=True, slots=True)
class Slice:
    """One part of the period: how the runs that started in it ended."""

    since: datetime
    ready: int
    failed: int
    other: int


@dataclass(frozen=True, slots=True)
class JobReport:
    """The runs of one job: how they ended, and how long the good ones took, in the middle, beside the period before."""

    jobid: str
    counts: RunCounts
    seconds: float | None
    seconds_before: float | None
    longest: float | None
    total: float  # seconds of all its runs
    failed_before: int
    cause: str  # what its failures say most often
    took: tuple[float, ...]  # seconds of its last good runs, the oldest first

    @property
    def trend(self) -> float | None:
        """How much longer it takes than in the period before: 0.25 is a quarter longer."""
        if not self.seconds or not self.seconds_before:
            return None
        return self.seconds / self.seconds_before - 1


@dataclass(frozen=True, slots=True)
class ReportedCause:
    """Failures that say the same but for numbers and names; still_open counts the chunks that are not READY now."""

    outcome: str
    example: str
    runs: int
    chunks: int
    still_open: int
    jobs: tuple[str, ...]
    first: datetime | None
    last: datetime | None


@dataclass(frozen=True, slots=True)
class Deeds:
    """What a person did, and to how many chunks."""

    what: str
    who: str
    why: str
    chunks: int
    names: tuple[str, ...]  # of datasets, or of jobs where runs were forced
    first: datetime | None
    last: datetime | None


@dataclass(frozen=True, slots=True)
class LateChunk:
    """A chunk that was READY only after it was due, or is not READY yet."""

    datasetid: str
    dataid: str
    due: datetime
    ready: datetime | None
    status: str | None  # while it is not READY
    seconds_late: float
    sign: str = ""  # LATE, MISSING or REFUSED, while it is not READY, as odf late has it


@dataclass(frozen=True, slots=True)
class DatasetRows:
    """How many rows the last chunks of a dataset have, in order; usual is the middle of all but the last."""

    datasetid: str
    dataids: tuple[str, ...]
    rows: tuple[int, ...]
    usual: float | None

    @property
    def change(self) -> float | None:
        """How far the last chunk is from what is usual: -0.5 is half of it."""
        return self.rows[-1] / self.usual - 1 if self.usual and self.rows else None


@dataclass(frozen=True, slots=True)
class PeriodReport:
    """One period, and where it says so the period of the same length before it."""

    since: datetime
    until: datetime
    selected: tuple[str, ...]  # the words that narrow it down
    counts: RunCounts
    before: RunCounts
    slices: tuple[Slice, ...]
    causes: tuple[ReportedCause, ...]
    late: tuple[LateChunk, ...]
    failing: tuple[JobReport, ...]  # the most often failing ones
    slowest: tuple[JobReport, ...]
    jobs: tuple[JobReport, ...]
    deeds: tuple[Deeds, ...]
    refused: tuple[Deeds, ...]  # deliveries that were not taken
    rows: tuple[DatasetRows, ...]
    remarks: tuple[str, ...]  # what was left out
