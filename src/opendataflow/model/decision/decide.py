"""Decide whether a chunk of a job may run; the only place where this decision is made.

The claim passes facts from SQL, the gate facts from a look at the data, `why` and `explain` what they read. All other
code only formats the receipt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import NamedTuple

from ..definitions.dataset import Dataset
from .manifest import Manifest
from .receipt import QUESTIONS, Answer, Receipt
from .status import READY, RESUBMIT, RUNNING, may_consume, may_produce, may_read

CLAIMABLE, WAITING, DEFERRED = "CLAIMABLE", "WAITING", "DEFERRED"

_MAX_NAMED = 5  # inputs or ranges in one answer

FORCED = "forced: the five questions were not asked"


class InputFact(NamedTuple):
    """An input chunk of the mapping with the status of its OUT row; None if it was never produced."""

    datasetid: str
    dataid: str
    status: str | None
    version: int | None = None


class Unresolved(NamedTuple):
    """An input whose chunks are not known yet (mappings latest and all), and why."""

    datasetid: str
    mapping: str
    why: str


class OutputFact(NamedTuple):
    """An output chunk with the status of its OUT row; None if it was never produced."""

    datasetid: str
    status: str | None
    runid: int | None = None
    outcome: str = ""  # of the failed run, if the status is FAILED


class ReadFact(NamedTuple):
    """The job's IN row of an input chunk that only this output reads."""

    datasetid: str
    dataid: str
    status: str


class Limit(NamedTuple):
    """A limit on running chunks on all machines, with its use: of a pool, of readers of a dataset, or of a paused job."""

    what: str  # pool | dataset | job
    name: str
    slots: int
    taken: int
    why: str = ""  # the pause of a job: no run may begin

    @property
    def free(self) -> int:
        """How many more runs may begin."""
        return max(self.slots - self.taken, 0)

    def __str__(self) -> str:
        if self.why:
            return self.why
        if self.slots == 0:
            return f"{self.what} {self.name} is paused: it has 0 {'slots' if self.what == 'pool' else 'readers'}"
        kind = "slots are taken" if self.what == "pool" else "readers are running"
        return f"{self.what} {self.name} is full: {self.taken} of {self.slots} {kind}"


class DataLook(NamedTuple):
    """The result of a look at the data: the problem, empty if there is none, and the evidence.

    `no` is the name of the refusal if it is not that of the question.
    """

    problem: str = ""
    evidence: Mapping[str, object] = MappingProxyType({})
    no: str = ""


class Facts(NamedTuple):
    """Everything that decides whether a chunk of a job may run.

    `right`, `place` and `validated` need a look at the data: they hold a DataLook, or the reason why the data is not
    checked. Without either, the question is open and the verdict is NOT_ASKED.
    """

    jobid: str
    dataid: str | None
    inputs: Sequence[InputFact] = ()
    unresolved: Sequence[Unresolved] = ()
    outputs: Sequence[OutputFact] = ()
    reads: Sequence[ReadFact] = ()
    limits: Sequence[Limit] = ()
    malformed: str = ""  # why the dataid is not valid for the job
    partition: str = ""  # partition type of the outputs
    epoch: int | None = None
    deferred: float = 0.0  # seconds until the next retry
    forced: bool = False
    right: DataLook | None = None
    place: DataLook | str = ""
    validated: DataLook | str = ""

    @property
    def needs_a_look(self) -> bool:
        """Whether open questions need a look at the data; not for forced runs or data that is only tracked."""
        return not (self.forced or (self.place and self.validated))


def decide(facts: Facts) -> Receipt:
    """Answer the five questions in order up to the first no; later questions are not asked."""
    answers = []
    for answer in _answers(facts):
        answers.append(answer)
        if answer.yes is False:
            break
    return Receipt(facts.jobid, facts.dataid, tuple(answers))


def answer_all(facts: Facts) -> tuple[Answer, ...]:
    """Answer all five questions, whatever the earlier answers are."""
    return tuple(_answers(facts))


def _answers(facts: Facts) -> Iterator[Answer]:
    for question in QUESTIONS:
        yield Answer(question.name, None, why=FORCED) if facts.forced else _ANSWERS[question.name](facts)


def locked_by(outputs: Sequence[str | None], reads: Sequence[str | None]) -> tuple[str, int] | None:
    """The row that forbids a run by the two lock tables: ("OUT", index) or ("IN", index); None if none does."""
    for index, status in enumerate(outputs):
        if not may_produce(status):
            return "OUT", index
    output = RESUBMIT if RESUBMIT in outputs else None
    for index, status in enumerate(reads):
        if not may_consume(status, output):
            return "IN", index
    return None


def candidacy(
    is_ready: bool, outputs: Sequence[str | None], reads: Sequence[str | None], is_requested: bool
) -> str | None:
    """The state of a candidate by the same rules: CLAIMABLE, WAITING, or None if a lock forbids it.

    A job without inputs runs only for requested dataids, and for those that were produced before.
    """
    if locked_by(outputs, reads) is not None or not (is_requested or RESUBMIT in outputs):
        return None
    return CLAIMABLE if is_ready else WAITING


def answer_reader(facts: Facts) -> tuple[Answer, ...]:
    """Answer all five questions for a reader of the one chunk in `inputs`: only its own status locks it.

    For a chunk that was never produced, only its readiness and its location are asked.
    """
    (chunk,) = facts.inputs
    ready, right, place, validated, safe = answer_all(facts)
    if chunk.status is None:
        right, validated, safe = (
            Answer(question, None, why="the chunk was never produced") for question in ("right", "validated", "safe")
        )
    elif not may_read(chunk.status) and not may_produce(chunk.status):
        evidence: dict[str, object] = {"input": [chunk.datasetid, chunk.dataid, chunk.status]}
        locked = f"{chunk.datasetid} {chunk.dataid} is {chunk.status}: it can neither be read nor produced"
        safe = Answer("safe", False, evidence, locked)
    return ready, right, place, validated, safe


def validation(dataset: Dataset, dataid: str, manifest: Manifest | None) -> DataLook | str:
    """Whether a version of a chunk passed its dataset's checks; the reason if none are declared.

    Whether the data still matches the manifest needs a look at the data.
    """
    here = f"{dataset.datasetid} {dataid}"
    if manifest is None or not manifest.checks:
        if not dataset.checks:
            return "no checks are declared"
        return DataLook(
            f"{here} declares checks, and this version was published without them"
            if manifest
            else f"{here} declares checks, and this version has no check results"
        )
    failed = [result.check for result in manifest.checks if not result.passed]
    problem = "" if manifest.passed else f"{here} failed its checks: {', '.join(failed)}"
    return DataLook(problem, {"checks": len(manifest.checks), "failed": failed})


def _ready(facts: Facts) -> Answer:
    if facts.malformed:
        return Answer("ready", None, why="a dataid that is not well formed has no inputs")
    evidence: dict[str, object] = {"inputs": [[item.datasetid, item.dataid, item.status] for item in facts.inputs]}
    missing = [*_not_ready(facts.inputs), *((1, item.why) for item in facts.unresolved)]
    rest = sum(n for n, _ in missing[_MAX_NAMED:])
    named = "; ".join(why for _, why in missing[:_MAX_NAMED])
    return Answer("ready", not missing, evidence, named + (f"; and {rest:,} more" if rest else ""))


def _not_ready(inputs: Sequence[InputFact]) -> Iterator[tuple[int, str]]:
    """The inputs that cannot be read, by dataset and status, with their number; adjacent dataids are named as a range."""
    groups: dict[tuple[str, str | None], list[list[str]]] = {}
    for key, neighbours in groupby(inputs, key=lambda item: (item.datasetid, item.status)):
        if not may_read(key[1]):
            groups.setdefault(key, []).append([item.dataid for item in neighbours])
    for (datasetid, status), spans in groups.items():
        n = sum(map(len, spans))
        named = ", ".join(span[0] if len(span) == 1 else f"{span[0]}..{span[-1]}" for span in spans[:_MAX_NAMED])
        named += ", …" if len(spans) > _MAX_NAMED else ""
        named += f" ({n:,} chunks)" if n > min(len(spans), _MAX_NAMED) else ""
        state = f"{'is' if n == 1 else 'are'} {status}" if status else f"{'was' if n == 1 else 'were'} never produced"
        yield n, f"{datasetid} {named} {state}"


def _right(facts: Facts) -> Answer:
    if facts.malformed:
        return Answer("right", False, {}, facts.malformed)
    evidence: dict[str, object] = {"type": facts.partition, "versions": [item.version for item in facts.inputs]}
    if facts.right is None:
        return Answer("right", True, evidence)
    look = facts.right
    return Answer("right", not look.problem, {**evidence, **look.evidence}, look.problem, look.no)


def _looked(question: str, look: DataLook | str) -> Answer:
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
        cause = f": {output.outcome}, not retried" if output.outcome else ""
        here = f"{output.datasetid} {facts.dataid}"
        return Answer("safe", False, outputs, f"{here} is {output.status}{holder}{done}{cause}")
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
            "the chunk was refused or failed, and is deferred until its retry",
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
