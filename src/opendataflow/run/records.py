"""Defines the records of an attempt's lifecycle: request, attempt, executor result, result and batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from ..errors import OdfError
from ..model import Catalogue, InputChunk, Job, Manifest, Receipt
from ..project import Environment
from ..project.locations import Locations, locations_of
from ..store import Claim

if TYPE_CHECKING:
    from .heartbeat import Heartbeat
    from .process.logs import LogFile
    from .process.process_end import ProcessEnd

_T = TypeVar("_T")


class RunRequest(NamedTuple):
    """A request to run the next chunk of a job, or the chunk of one dataid; force skips the five questions."""

    jobid: str
    dataid: str | None = None
    force: bool = False
    lease: float | None = None


class JobCode(NamedTuple):
    """The code of a job: its file with a digest and, for Spark, the loaded code; none of them for a copy.

    Python for Spark is only parsed until a chunk is claimed; `declared` is known by then if the decorator has literals.
    """

    path: Path | None = None
    is_for_spark: bool = False
    loaded: Any = None
    is_loaded: bool = True
    declared: Job | None = None  # by its decorator
    digest: str = ""
    candidates: tuple[Path, ...] = ()  # the files of which only an import shows whether they have the job


NO_CODE = JobCode()


@dataclass(frozen=True, slots=True)
class Attempt:
    """A claimed chunk that was admitted, with everything that its run needs, determined once.

    Its definitions are trusted, and its locations are those of its environment.
    """

    claim: Claim
    catalogue: Catalogue
    job: Job
    inputs: tuple[InputChunk, ...]
    locations: Locations
    only_tracks: bool  # no dataset has a location
    secrets: Mapping[str, str]  # passwords by dataset
    code: JobCode = NO_CODE

    @classmethod
    def of(
        cls,
        environment: Environment,
        catalogue: Catalogue,
        claim: Claim,
        inputs: tuple[InputChunk, ...],
        secrets: Mapping[str, str] = MappingProxyType({}),
        code: JobCode = NO_CODE,
    ) -> Attempt:
        """The attempt for a claimed chunk and these definitions."""
        job = catalogue.job(claim.jobid)
        only_tracks, locations = catalogue.only_tracks(job), Locations()
        if not only_tracks:
            locations = locations_of(environment, catalogue, claim.outputs, claim.dataid, inputs)
        return cls(claim, catalogue, job, inputs, locations, only_tracks, secrets, code)

    def location(self, datasetid: str) -> str:
        """The location of the chunk of an output; empty if its dataset has none."""
        return self.locations.of(datasetid, self.claim.dataid)


class ExecutorResult(NamedTuple):
    """The result of an executor for one attempt: the known manifests, or the problem."""

    manifests: Mapping[str, Manifest] = MappingProxyType({})
    problem: Exception | None = None
    exit_code: int | None = None
    ended: ProcessEnd | None = None
    publish_files: Callable[[], None] | None = None  # runs inside the commit
    stopped_as: str = ""  # RESUBMIT or HOLD, if an operator ended the run


class Result(NamedTuple):
    """The result of one call: outcome, exit code, and the claimed run with its chunk's status if any."""

    outcome: str
    exit_code: int
    detail: str = ""
    claim: Claim | None = None
    receipt: Receipt | None = None
    status: str = ""
    ended: ProcessEnd | None = None
    log: Path | None = None
    remarks: str = ""  # on published output: rejected rows, warnings of checks


@dataclass
class Batch:
    """Claimed chunks that run together, usually one, with one log and one heartbeat; each has its own result."""

    claims: Sequence[Claim]
    executor: Executor | None = None
    code: JobCode = NO_CODE
    attempts: Sequence[Attempt] = ()
    log: LogFile | None = None
    heartbeat: Heartbeat | None = None
    produced: Sequence[tuple[Attempt, ExecutorResult]] = ()
    worked: Sequence[int] = ()  # the runs whose executor succeeded
    results: dict[int, Result] = field(default_factory=dict)
    problem: OdfError | None = None  # the code of the job does not load here: its claims were given back
    began: float = 0.0

    @property
    def runids(self) -> list[int]:
        """The run ids of all claims."""
        return [claim.runid for claim in self.claims]

    @property
    def is_over(self) -> bool:
        """Whether every claim has a result, or was given back."""
        return self.problem is not None or len(self.results) == len(self.claims)


class Executor(Protocol):
    """Does the work of attempts and audits their output."""

    on_spark: bool  # whether this program reads and writes the data

    def execute(self, attempts: Sequence[Attempt], heartbeat: Heartbeat, log: LogFile) -> Mapping[int, ExecutorResult]:
        """Do the work of these attempts; returns the results by runid. An exception is the problem of all attempts."""

    def audit(self, attempt: Attempt, done: ExecutorResult) -> Mapping[str, Manifest]:
        """The manifests of the output; raises if it may not be published."""

    def publish_files(self, attempt: Attempt, manifests: Mapping[str, Manifest]) -> None:
        """Make the output visible outside the store, inside the commit. Must be idempotent; an exception aborts the commit."""


class WaitingBatch(NamedTuple):
    """A batch that waits for its next step, and since when."""

    batch: Batch
    since: float


def batched(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    """The items in batches of this size, in order."""
    return (items[first : first + size] for first in range(0, len(items), size))
