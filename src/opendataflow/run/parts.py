"""What an attempt is made of: what is asked for, the claimed chunk, what was done, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeVar

from ..model import Catalogue, InputChunk, Job, Manifest, Receipt
from ..shapes import NamedTuple, dataclass, field
from ..store import Claim

if TYPE_CHECKING:
    from .heartbeat import Heartbeat
    from .process.ended import Ended
    from .process.logs import LogFile

_T = TypeVar("_T")


class Asked(NamedTuple):
    """What somebody wants to run: the next chunk of a job, or one given dataid; force skips the five questions."""

    jobid: str
    dataid: str | None = None
    force: bool = False
    lease: float | None = None


class Attempt(NamedTuple):
    """A claimed chunk that was admitted, with everything that its run needs, fetched once."""

    claim: Claim
    catalogue: Catalogue
    inputs: tuple[InputChunk, ...]
    secrets: Mapping[str, str]  # passwords by dataset

    @property
    def job(self) -> Job:
        """The job whose chunk this is."""
        return self.catalogue.job(self.claim.jobid)


class Done(NamedTuple):
    """What an executor did for one attempt: manifests as far as it knows them, or the problem."""

    manifests: Mapping[str, Manifest] = MappingProxyType({})
    problem: Exception | None = None
    exit_code: int | None = None
    ended: Ended | None = None
    settle: Callable[[], None] | None = None  # what is left to do inside the commit


class Result(NamedTuple):
    """How one call ended: the name of its outcome, the exit code, and the run if there was one with its chunk's status."""

    outcome: str
    exit_code: int
    detail: str = ""
    claim: Claim | None = None
    receipt: Receipt | None = None
    status: str = ""
    ended: Ended | None = None
    log: Path | None = None
    remarks: str = ""  # on what was published all the same: rejected rows, checks that only warn


@dataclass
class Batch:
    """Claimed chunks that are made together, mostly one: under one log and one heartbeat, each with a result of its own."""

    claims: Sequence[Claim]
    executor: Executor | None = None
    attempts: Sequence[Attempt] = ()
    log: LogFile | None = None
    heartbeat: Heartbeat | None = None
    produced: Sequence[tuple[Attempt, Done]] = ()
    worked: Sequence[int] = ()  # the runs whose work was done, whatever then became of it
    results: dict[int, Result] = field(default_factory=dict)
    began: float = 0.0

    @property
    def runids(self) -> list[int]:
        """The runs of all its chunks."""
        return [claim.runid for claim in self.claims]

    @property
    def is_over(self) -> bool:
        """Whether each of its claims has its result."""
        return len(self.results) == len(self.claims)


class Executor(Protocol):
    """The only thing that differs between attempts: how the work is done, and how its product is looked at."""

    on_spark: bool  # whether we read and write the data ourselves

    def execute(self, attempts: Sequence[Attempt], heartbeat: Heartbeat, log: LogFile) -> Mapping[int, Done]:
        """Do the work of these attempts; what was done, by run. What raises is the problem of all of them."""

    def audit(self, attempt: Attempt, done: Done) -> Mapping[str, Manifest]:
        """The manifests of what was produced; raises when it may not be published."""

    def settle(self, attempt: Attempt, manifests: Mapping[str, Manifest]) -> None:
        """What makes it visible outside the store, inside the commit; it may be asked again. What raises undoes the commit."""


class Waiting(NamedTuple):
    """A batch that waits for its next step, and since when: admitted, or begun and ended."""

    batch: Batch
    since: float


def in_pieces(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    """The items in their order, so many at a time."""
    return (items[first : first + size] for first in range(0, len(items), size))
