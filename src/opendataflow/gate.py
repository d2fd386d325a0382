"""Asks the five questions, and never changes anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from . import files
from .errors import BadDataid, BadId, OdfError
from .model import (
    QUESTIONS,
    READY,
    RESUBMIT,
    RUNNING,
    Answer,
    Catalogue,
    Dataset,
    Job,
    Receipt,
    check_dataid,
    may_consume,
    may_produce,
    may_read,
    span,
)
from .project import Environment, is_inside, resolve_location

if TYPE_CHECKING:
    from .store import Claim, Published, Store

NO_LOCATION = "no location is declared"
NO_CHECKS = "no checks are declared, and no manifest to compare with"


def needs_a_look(catalogue: Catalogue, job: Job) -> bool:
    """Whether questions 3 and 4 need more than the store's own facts."""
    names = (*(item.datasetid for item in job.inputs), *job.outputs)
    return any(each.kind or each.location or each.hostname or each.checks for each in map(catalogue.dataset, names))


def ask(store: Store, catalogue: Catalogue, environment: Environment, claim: Claim) -> Receipt:
    """The five answers about a claimed run; the store has answered 1, 2 and 5 for itself, the locations are looked at now."""
    job = catalogue.job(claim.jobid)
    given = {answer.question: answer for answer in claim.receipt.answers}
    inputs = [
        (catalogue.dataset(item.datasetid), item.dataid, store.manifest(item.datasetid, item.dataid, item.version))
        for item in claim.inputs
    ]
    questions: dict[str, Callable[[], Answer]] = {
        "ready": lambda: given["ready"],
        "right": lambda: _right(store, given["right"], inputs),
        "place": lambda: _place(catalogue, environment, job, claim.dataid, inputs),
        "validated": lambda: _validated(inputs),
        "safe": lambda: given["safe"],
    }
    return Receipt(claim.jobid, claim.dataid, tuple(_until_no(questions)))


def _until_no(questions: dict[str, Callable[[], Answer]]) -> Iterator[Answer]:
    for question in QUESTIONS:
        answer = questions[question.name]()
        yield answer
        if not answer.yes:
            return


def refusal(store: Store, catalogue: Catalogue, environment: Environment, jobid: str, dataid: str) -> Receipt:
    """Why a given dataid cannot be claimed: the five questions from stored facts, up to the first no."""
    job = catalogue.job(jobid)
    needed = catalogue.inputs_of(job, dataid) if _is_well_formed(catalogue, job, dataid) else []

    def ready() -> Answer:
        found = [(name, each, store.chunk(name, each)) for name, each in needed]
        evidence: dict[str, object] = {
            "inputs": [[name, each, chunk.status if chunk else None] for name, each, chunk in found]
        }
        missing = [
            f"{name} {each} is {chunk.status if chunk else 'not there'}"
            for name, each, chunk in found
            if not may_read(chunk.status if chunk else None)
        ]
        return Answer("ready", not missing, evidence, "; ".join(missing))

    def right() -> Answer:
        try:
            check_dataid(catalogue.output_partition(job), dataid, job.outputs[0])
        except (BadDataid, BadId) as error:
            return Answer("right", False, {}, error.message)
        return Answer("right", True, {"type": catalogue.output_partition(job).type})

    def safe() -> Answer:
        return _safe(store, catalogue, job, dataid, needed)

    questions: dict[str, Callable[[], Answer]] = {
        "ready": ready,
        "right": right,
        "place": lambda: Answer("place", True, why="not looked at: nothing was launched"),
        "validated": lambda: Answer("validated", True, why="not looked at: nothing was launched"),
        "safe": safe,
    }
    return Receipt(jobid, dataid, tuple(_until_no(questions)))


def _is_well_formed(catalogue: Catalogue, job: Job, dataid: str) -> bool:
    try:
        check_dataid(catalogue.output_partition(job), dataid)
    except (BadDataid, BadId):
        return False
    return True


def _safe(store: Store, catalogue: Catalogue, job: Job, dataid: str, needed: list[tuple[str, str]]) -> Answer:
    out = {name: store.chunk(name, dataid) for name in job.outputs}
    statuses: dict[str, object] = {name: chunk.status if chunk else None for name, chunk in out.items()}
    for name, chunk in out.items():
        if chunk is not None and not may_produce(chunk.status):
            holder = f" by run {chunk.runid}" if chunk.status == RUNNING and chunk.runid else ""
            done = " already: it is done" if chunk.status == READY else ""
            return Answer("safe", False, {"outputs": statuses}, f"{name} {dataid} is {chunk.status}{holder}{done}")
    output = RESUBMIT if RESUBMIT in statuses.values() else None
    shared = {item.datasetid for item in job.inputs if item.mapping.is_shared}
    for name, each in needed:
        row = store.input_row(name, each, job.jobid)
        if row is not None and name not in shared and not may_consume(row.status, output):
            return Answer(
                "safe",
                False,
                {"input": [name, each, row.status]},
                f"{job.jobid} has {name} {each} as {row.status} already",
            )
    for limit in store.limits(job.jobid):
        if not limit.free:
            evidence: dict[str, object] = {limit.what: limit.name, "slots": limit.slots, "taken": limit.taken}
            return Answer("safe", False, evidence, str(limit))
    candidate = store.candidate(job.jobid, dataid)
    if candidate is not None and candidate[0] == "DEFERRED":
        return Answer(
            "safe",
            False,
            {"deferred": True},
            "it was refused or failed a moment ago, and waits before it is tried again",
        )
    return Answer("safe", True, {"outputs": statuses})


def _right(store: Store, given: Answer, inputs: list[tuple[Dataset, str, Published | None]]) -> Answer:
    evidence: dict[str, Any] = dict(given.evidence)
    for dataset, dataid, published in inputs:
        if published is None:
            continue
        manifest = published.manifest
        promised = span(dataset.partition, dataid)
        if promised and manifest.span_lower is not None and manifest.span_upper is not None:
            evidence.setdefault("spans", []).append(
                [dataset.datasetid, dataid, manifest.span_lower, manifest.span_upper]
            )
            if dataset.partition.type != "range" and not _fits(promised, manifest.span_lower, manifest.span_upper):
                return Answer(
                    "right",
                    False,
                    evidence,
                    f"{dataset.datasetid} {dataid} holds {manifest.span_lower} to {manifest.span_upper}, "
                    f"not {promised[0]} to {promised[1]}",
                )
        if manifest.fingerprint and not dataset.options.get("repeats"):
            other = store.same_content(dataset.datasetid, dataid, manifest.fingerprint)
            if other is not None:
                return Answer(
                    "right",
                    False,
                    evidence,
                    f"{dataset.datasetid} {dataid} has exactly the content of {dataset.datasetid} {other}",
                )
    return replace(given, evidence=evidence)


def _fits(promised: tuple[str, str], lower: str, upper: str) -> bool:
    """Whether what a chunk holds lies inside what its dataid promises; periods and numbers compare as what they are."""
    readers: tuple[Callable[[str], Any], ...] = (_moment, float)
    for read in readers:
        try:
            first, end, low, high = map(read, (*promised, lower, upper))
        except ValueError:
            continue
        return bool(first <= low and high < end)
    return promised[0] <= lower and upper < promised[1]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=None)


def _place(
    catalogue: Catalogue,
    environment: Environment,
    job: Job,
    dataid: str,
    inputs: list[tuple[Dataset, str, Published | None]],
) -> Answer:
    looked: dict[str, object] = {"environment": environment.name}
    try:
        for dataset, input_id, published in inputs:
            location = (
                published.manifest.location
                if published and published.manifest.location
                else location_of(environment, dataset, input_id)
            )
            looked[f"{dataset.datasetid} {input_id}"] = location or dataset.hostname or NO_LOCATION
            problem = _problem_with_host(environment, dataset)
            if not problem and location and dataset.kind != "table":
                # The location was inside when it was announced; a link may lead elsewhere by now.
                outside = leads_outside(environment, location)
                if outside:
                    problem = f"{outside} leads outside the roots of environment {environment.name}"
                elif "://" not in location and files.list_files(location) is None:
                    problem = f"nothing is at {location}"
            if problem:
                return Answer("place", False, looked, problem)
        for name in job.outputs:
            dataset = catalogue.dataset(name)
            location = location_of(environment, dataset, dataid)
            looked[f"{name} {dataid}"] = location or dataset.hostname or NO_LOCATION
            problem = _problem_with_host(environment, dataset)
            if not problem and location and not files.is_writable(location):
                problem = f"{location} cannot be written"
            if problem:
                return Answer("place", False, looked, problem)
    except OdfError as error:
        return Answer("place", False, looked, error.message)
    return Answer("place", True, looked)


def location_of(environment: Environment, dataset: Dataset, dataid: str) -> str:
    """The absolute location of a chunk by its dataset's location, inside the environment's roots where any are declared."""
    return resolve_location(environment, dataset, dataid, must_be_inside=environment.is_declared)


def leads_outside(environment: Environment, location: str) -> str:
    """What leads out of the environment's roots: the location itself, or a link inside it; empty when nothing does."""
    if not environment.is_declared:
        return ""
    return next((each for each in (location, *files.links(location)) if not is_inside(each, environment.roots)), "")


def _problem_with_host(environment: Environment, dataset: Dataset) -> str:
    if dataset.hostname and environment.hosts and dataset.hostname not in environment.hosts:
        known = ", ".join(environment.hosts)
        return f"dataset {dataset.datasetid} lives on {dataset.hostname}; environment {environment.name} has {known}"
    return ""


def _validated(inputs: list[tuple[Dataset, str, Published | None]]) -> Answer:
    looked: dict[str, object] = {}
    for dataset, dataid, published in inputs:
        name = f"{dataset.datasetid} {dataid}"
        if published is None:
            if dataset.checks:
                return Answer(
                    "validated",
                    False,
                    looked,
                    f"{name} declares checks, and nothing says that this version passed them",
                )
            looked[name] = NO_CHECKS
            continue
        manifest = published.manifest
        if not manifest.passed:
            failed = ", ".join(result.check for result in manifest.checks if not result.passed)
            return Answer("validated", False, looked, f"{name} failed its checks: {failed}")
        if dataset.checks and not manifest.checks and not manifest.extra.get("unchecked"):
            return Answer(
                "validated", False, looked, f"{name} declares checks, and this version was published without them"
            )
        difference = files.difference(manifest) if dataset.kind != "table" else ""
        if difference:
            return Answer("validated", False, looked, f"{name} is not what was published: {difference}")
        looked[name] = {
            "version": published.version,
            "files": len(manifest.files),
            "rows": manifest.rows,
            "checks": len(manifest.checks),
        }
    return Answer("validated", True, looked)
