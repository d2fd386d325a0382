"""The decision: facts in, receipt out. Whether a chunk of a job may run is answered here and nowhere else.

The claim feeds what SQL returned, the gate what a look at the data returned, `why` and `explain` what they read.
Everybody else only phrases the receipt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType

from ..shapes import NamedTuple
from .dataset import Dataset
from .manifest import Manifest
from .receipt import QUESTIONS, Answer, Receipt
from .status import READY, RESUBMIT, RUNNING, may_consume, may_produce, may_read

CLAIMABLE, WAITING, DEFERRED = "CLAIMABLE", "WAITING", "DEFERRED"

_MOST_NAMED = 5  # inputs, or ranges of them, in one answer

FORCED = "forced: the five questions were not asked"


class InputFact(NamedTuple):
    """One input chunk that the mapping asks for, as its OUT row says; None when it was never produced."""

    datasetid: str
    dataid: str
    status: str | None
    version: int | None = None


class Unresolved(NamedTuple):
    """An input for which no chunk can be named yet (mappings latest and all), and why."""

    datasetid: str
    mapping: str
    why: str


class OutputFact(NamedTuple):
    """One output chunk, as its OUT row says; None when it was never produced."""

    datasetid: str
    status: str | None
    runid: int | None = None


class ReadFact(NamedTuple):
    """The job's own IN row of an input chunk that belongs to this output alone."""

    datasetid: str
    dataid: str
    status: str


class Limit(NamedTuple):
    """A limit on chunks that run at the same time, on all machines, and how many run: of a pool, or readers of a dataset."""

    what: str  # pool | dataset | job
    name: str
    slots: int
    taken: int
    why: str = ""  # of a job that somebody paused: then nothing of it may begin

    @property
    def free(self) -> int:
        """How many more may begin."""
        return max(self.slots - self.taken, 0)

    def __str__(self) -> str:
        if self.why:
            return self.why
        if self.slots == 0:
            return f"{self.what} {self.name} is paused: it has 0 {'slots' if self.what == 'pool' else 'readers'}"
        kind = "slots are taken" if self.what == "pool" else "readers are running"
        return f"{self.what} {self.name} is full: {self.taken} of {self.slots} {kind}"


class Look(NamedTuple):
    """What somebody saw who looked at the data itself: what is wrong (empty when nothing is), and the evidence.

    no is the name of the refusal where it is not that of the question.
    """

    problem: str = ""
    evidence: Mapping[str, object] = MappingProxyType({})
    no: str = ""


class Facts(NamedTuple):
    """Everything that decides whether one chunk of a job may run.

    `right`, `place` and `validated` need a look at the data: a Look, or the reason why nobody looks. As long as neither
    is there, the question is open and the verdict NOT_ASKED.
    """

    jobid: str
    dataid: str | None
    inputs: Sequence[InputFact] = ()
    unresolved: Sequence[Unresolved] = ()
    outputs: Sequence[OutputFact] = ()
    reads: Sequence[ReadFact] = ()
    limits: Sequence[Limit] = ()
    malformed: str = ""  # why the dataid cannot be one of this job
    partition: str = ""  # the type of the output's dataids
    epoch: int | None = None
    deferred: float = 0.0  # seconds until it is tried again
    forced: bool = False
    right: Look | None = None
    place: Look | str = ""
    validated: Look | str = ""

    @property
    def needs_a_look(self) -> bool:
        """Whether questions are open that only a look at the data answers; none are where it is only tracked, or forced."""
        return not (self.forced or (self.place and self.validated))


def decide(facts: Facts) -> Receipt:
    """The five questions in their order, up to the first no; what comes after it is not asked."""
    answers = []
    for answer in _answers(facts):
        answers.append(answer)
        if answer.yes is False:
            break
    return Receipt(facts.jobid, facts.dataid, tuple(answers))


def answer_all(facts: Facts) -> tuple[Answer, ...]:
    """All five answers, whatever the earlier ones are: for those who want to know everything that stands in the way."""
    return tuple(_answers(facts))


def _answers(facts: Facts) -> Iterator[Answer]:
    for question in QUESTIONS:
        yield Answer(question.name, None, why=FORCED) if facts.forced else _ANSWERS[question.name](facts)


def locked_by(outputs: Sequence[str | None], reads: Sequence[str | None]) -> tuple[str, int] | None:
    """Which row forbids a run, by the two lock tables: ("OUT", index) or ("IN", index); None when none does."""
    for index, status in enumerate(outputs):
        if not may_produce(status):
            return "OUT", index
    output = RESUBMIT if RESUBMIT in outputs else None
    for index, status in enumerate(reads):
        if not may_consume(status, output):
            return "IN", index
    return None


def candidacy(is_ready: bool, outputs: Sequence[str | None], reads: Sequence[str | None], is_named: bool) -> str | None:
    """The state of a candidate by the same rules, without evidence: CLAIMABLE, WAITING, or None where a lock forbids it.

    A job without inputs runs only for a dataid that somebody named, or that was produced before.
    """
    if locked_by(outputs, reads) is not None or not (is_named or RESUBMIT in outputs):
        return None
    return CLAIMABLE if is_ready else WAITING


def answer_reader(facts: Facts) -> tuple[Answer, ...]:
    """All five answers to somebody who only wants to read the one chunk in `inputs`: its status locks, nothing else does.

    Of a chunk that was never produced there is nothing to ask but whether it is there, and where it would be.
    """
    (chunk,) = facts.inputs
    ready, right, place, validated, safe = answer_all(facts)
    if chunk.status is None:
        right, validated, safe = (
            Answer(question, None, why="there is nothing to read yet") for question in ("right", "validated", "safe")
        )
    elif not may_read(chunk.status) and not may_produce(chunk.status):
        evidence: dict[str, object] = {"input": [chunk.datasetid, chunk.dataid, chunk.status]}
        locked = f"{chunk.datasetid} {chunk.dataid} is {chunk.status}: nobody may read or produce it"
        safe = Answer("safe", False, evidence, locked)
    return ready, right, place, validated, safe


def validation(dataset: Dataset, dataid: str, manifest: Manifest | None) -> Look | str:
    """Whether one version of a chunk passed the checks that its dataset declares; where none ran, the reason.

    Whether the data is still what the manifest says needs a look at the data itself.
    """
    here = f"{dataset.datasetid} {dataid}"
    if manifest is None or not manifest.checks:
        if not dataset.checks:
            return "no checks are declared"
        return Look(
            f"{here} declares checks, and this version was published without them"
            if manifest
            else f"{here} declares checks, and nothing says that this version passed them"
        )
    failed = [result.check for result in manifest.checks if not result.passed]
    problem = "" if manifest.passed else f"{here} failed its checks: {', '.join(failed)}"
    return Look(problem, {"checks": len(manifest.checks), "failed": failed})


# The five answers ----------------------------------------------------------------------------------------------------


def _ready(facts: Facts) -> Answer:
    if facts.malformed:
        return Answer("ready", None, why="a dataid that is not well formed has no inputs")
    evidence: dict[str, object] = {"inputs": [[item.datasetid, item.dataid, item.status] for item in facts.inputs]}
    missing = [*_not_ready(facts.inputs), *(item.why for item in facts.unresolved)]
    more = f"; and {len(missing) - _MOST_NAMED:,} more" if len(missing) > _MOST_NAMED else ""
    return Answer("ready", not missing, evidence, "; ".join(missing[:_MOST_NAMED]) + more)


def _not_ready(inputs: Sequence[InputFact]) -> Iterator[str]:
    """The inputs that cannot be read; neighbours of one dataset and status are named as one range."""
    for (datasetid, status), group in groupby(inputs, key=lambda item: (item.datasetid, item.status)):
        dataids = [item.dataid for item in group]
        if may_read(status):
            continue
        one = len(dataids) == 1
        named = dataids[0] if one else f"{dataids[0]}..{dataids[-1]} ({len(dataids):,} chunks)"
        state = f"{'is' if one else 'are'} {status}" if status else f"{'was' if one else 'were'} never produced"
        yield f"{datasetid} {named} {state}"


def _right(facts: Facts) -> Answer:
    if facts.malformed:
        return Answer("right", False, {}, facts.malformed)
    evidence: dict[str, object] = {"type": facts.partition, "versions": [item.version for item in facts.inputs]}
    if facts.right is None:
        return Answer("right", True, evidence)
    look = facts.right
    return Answer("right", not look.problem, {**evidence, **look.evidence}, look.problem, look.no)


def _looked(question: str, look: Look | str) -> Answer:
    if isinstance(look, str):
        return Answer(question, None, why=look)
    return Answer(question, not look.problem, look.evidence, look.problem, look.no)


def _safe(facts: Facts) -> Answer:
    if facts.malformed:
        return Answer("safe", None, why="a dataid that is not well formed has no chunk")
    statuses = [item.status for item in facts.outputs]
    outputs: dict[str, object] = {"outputs": {item.datasetid: item.status for item in facts.outputs}}
    lock = locked_by(statuses, [item.status for item in facts.reads])
    if lock is not None and lock[0] == "OUT":
        output = facts.outputs[lock[1]]
        holder = f" by run {output.runid}" if output.status == RUNNING and output.runid else ""
        done = " already: it is done" if output.status == READY else ""
        return Answer("safe", False, outputs, f"{output.datasetid} {facts.dataid} is {output.status}{holder}{done}")
    if lock is not None:
        read = facts.reads[lock[1]]
        evidence: dict[str, object] = {"input": [read.datasetid, read.dataid, read.status]}
        return Answer(
            "safe", False, evidence, f"{facts.jobid} already has {read.datasetid} {read.dataid} as {read.status}"
        )
    for limit in facts.limits:
        if not limit.free:
            use: dict[str, object] = {limit.what: limit.name, "slots": limit.slots, "taken": limit.taken}
            return Answer("safe", False, use, str(limit))
    if facts.deferred > 0:
        return Answer(
            "safe",
            False,
            {"deferred": round(facts.deferred, 1)},
            "it was refused or failed a moment ago, and is deferred before it is tried again",
        )
    if facts.epoch is not None:
        outputs["epoch"] = facts.epoch
    if facts.limits:
        outputs["limits"] = [[limit.what, limit.name, limit.slots, limit.taken] for limit in facts.limits]
    return Answer("safe", True, outputs)


_ANSWERS: dict[str, Callable[[Facts], Answer]] = {
    "ready": _ready,
    "right": _right,
    "place": lambda facts: _looked("place", facts.place),
    "validated": lambda facts: _looked("validated", facts.validated),
    "safe": _safe,
}
