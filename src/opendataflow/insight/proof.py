"""Proof: what was expected of a dataset, what is there, and everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import DataNotReady, NotValidated, OdfError, WrongData
from ..model import Catalogue, Dataset, Job
from ..store import Chunk, Published
from .axis import DataidRange, ranges

PROVEN = "PROVEN"


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why the proof fails: what it is called, the chunks in question, and the commands that would help."""

    name: str
    text: str
    outcome: type[OdfError]
    chunks: int = 0
    ranges: tuple[DataidRange, ...] = ()
    commands: tuple[str, ...] = ()
    why: str = ""  # of the first of these chunks

    def to_data(self) -> dict[str, object]:
        """The same as plain data."""
        facts = {"name": self.name, "outcome": self.outcome.name, "text": self.text, "chunks": self.chunks}
        ranges = [list(dataids) for dataids in self.ranges]
        return facts | {"ranges": ranges, "commands": list(self.commands), "why": self.why}


@dataclass(frozen=True, slots=True)
class ProofRows:
    """How many rows there are in the source and in what is published, and how many chunks have the same content."""

    source: int
    published: int
    rejected: int
    fingerprints: int
    is_copy: bool


@dataclass(frozen=True, slots=True)
class Proof:
    """What was expected of a dataset, what is there, and everything that is wrong with it."""

    datasetid: str
    jobid: str | None
    sources: tuple[str, ...]
    first: str | None
    last: str | None
    expected: int
    published: int
    problems: tuple[Problem, ...]
    rows: ProofRows | None = None
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> type[OdfError] | None:
        """The worst that is wrong; None when nothing is."""
        outcomes = {problem.outcome for problem in self.problems}
        return next((outcome for outcome in (WrongData, NotValidated, DataNotReady) if outcome in outcomes), None)

    @property
    def verdict(self) -> str:
        """PROVEN, or the name of what is wrong."""
        return self.outcome.name if self.outcome else PROVEN

    @property
    def exit_code(self) -> int:
        """0 for what is proven."""
        return self.outcome.exit_code if self.outcome else 0


@dataclass(frozen=True, slots=True)
class Case:
    """Everything that the store knows of a dataset and of what it is made from."""

    catalogue: Catalogue
    dataset: Dataset
    job: Job | None
    chunks: Mapping[str, Chunk]
    published: Mapping[str, Published]
    sources: Mapping[str, Mapping[str, Chunk]]
    wanted: Sequence[str]  # the dataids that are expected, in order
    possible: frozenset[str]  # those whose inputs are all READY
    is_all: bool
    left_out: int = 0  # periods that no calendar upstream has

    def ranges(self, dataids: Iterable[str]) -> tuple[DataidRange, ...]:
        """Dataids in order, as the ranges that they form."""
        return tuple(ranges(self.dataset.partition, dataids))


def drain(case: Case) -> tuple[str, ...]:
    """The command by which a dataset's job goes on."""
    return (f"odf drain {case.job.jobid}",) if case.job else ()
