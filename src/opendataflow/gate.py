"""Looks at the data for questions 2, 3 and 4, and never changes anything. What it sees becomes facts; the model decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from . import files
from .errors import BadDefinition, OdfError
from .model import Catalogue, Dataset, InputChunk, Job, Look, Receipt, decide, span, validation
from .model.dataset import POSTGRES, is_table_location, table_name
from .project import Environment, leads_outside, location_of
from .project.hosts import outside_hosts

if TYPE_CHECKING:
    from .store import Claim

GONE = "gone"  # the evidence that names an input chunk that is not where it should be
CHANGED = "changed"  # the evidence that names a chunk whose files are not what was published
NO_LOCATION = "no location is declared"
NO_CHECKS = "no checks are declared, and there is no manifest to compare with"


def ask(
    environment: Environment,
    catalogue: Catalogue,
    claim: Claim,
    inputs: Sequence[InputChunk],
) -> Receipt:
    """The five answers about a claimed chunk: what the claim knows from the store, and a look at everything else.

    The first problem ends the looking. Where all datasets of the job are only tracked there is nothing to look at.
    """
    facts, job = claim.facts, catalogue.job(claim.jobid)
    if catalogue.only_tracks(job):
        return decide(facts)
    looks: dict[str, Callable[[], Look | str]] = {
        "right": lambda: _right(catalogue, inputs),
        "place": lambda: _place(environment, catalogue, job, claim.dataid, inputs),
        "validated": lambda: _validated(catalogue, inputs),
    }
    for question, look in looks.items():
        seen: Any = look()
        facts = facts._replace(**{question: seen})
        if isinstance(seen, Look) and seen.problem:
            break
    return decide(facts)


# Question 2: right ---------------------------------------------------------------------------------------------------


def _right(catalogue: Catalogue, inputs: Sequence[InputChunk]) -> Look:
    spans: list[list[object]] = []
    for chunk in inputs:
        if chunk.manifest is None:
            continue
        dataset, manifest = catalogue.dataset(chunk.datasetid), chunk.manifest
        here = f"{chunk.datasetid} {chunk.dataid}"
        promised = span(dataset.partition, chunk.dataid)
        lower, upper = manifest.span_lower, manifest.span_upper
        if promised and lower is not None and upper is not None:
            spans.append([chunk.datasetid, chunk.dataid, lower, upper])
            if dataset.partition.type != "range" and not _fits(promised, lower, upper):
                return Look(
                    f"{here} holds {lower} to {upper}, not {promised[0]} to {promised[1]}",
                    {"spans": spans},
                )
        if chunk.same_as is not None and not dataset.options.get("repeats"):
            same = chunk.same_as
            return Look(f"{here} has exactly the content of {chunk.datasetid} {same}", {"same_as": same})
    return Look("", {"spans": spans} if spans else {})


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


# Question 3: place ---------------------------------------------------------------------------------------------------


def place_of_input(environment: Environment, dataset: Dataset, chunk: InputChunk) -> Look | str:
    """Whether an input chunk is where it should be: inside the environment, and there."""
    published = chunk.manifest.location if chunk.manifest else ""
    location = published or location_of(environment, dataset, chunk.dataid)
    problem = (
        outside_hosts(environment, dataset)
        or _problem_with_table(dataset)
        or (files.ill_named(chunk.manifest) if chunk.manifest else "")
        or _problem_with_input(environment, dataset, location)
    )
    if not problem and not location and not dataset.hostname:
        return NO_LOCATION
    gone = {GONE: f"{chunk.datasetid} {chunk.dataid}"} if problem else {}
    return Look(problem, {"location": location or dataset.hostname, **gone})


def _place(
    environment: Environment, catalogue: Catalogue, job: Job, dataid: str, inputs: Sequence[InputChunk]
) -> Look | str:
    looked: dict[str, object] = {}
    try:
        for chunk in inputs:
            seen = place_of_input(environment, catalogue.dataset(chunk.datasetid), chunk)
            looked[f"{chunk.datasetid} {chunk.dataid}"] = seen if isinstance(seen, str) else seen.evidence["location"]
            if isinstance(seen, Look) and seen.problem:
                return Look(seen.problem, {"environment": environment.name, **looked, **seen.evidence})
        for name in job.outputs:
            dataset = catalogue.dataset(name)
            location = location_of(environment, dataset, dataid)
            looked[f"{name} {dataid}"] = location or dataset.hostname or NO_LOCATION
            problem = outside_hosts(environment, dataset) or _problem_with_table(dataset)
            if not problem and location and not files.is_writable(location):
                problem = f"{location} cannot be written"
            if problem:
                return Look(problem, {"environment": environment.name, **looked})
    except OdfError as error:
        return Look(error.message, {"environment": environment.name, **looked})
    if all(location == NO_LOCATION for location in looked.values()):
        return NO_LOCATION
    return Look("", {"environment": environment.name, **looked})


def _problem_with_input(environment: Environment, dataset: Dataset, location: str) -> str:
    if not location or (dataset.kind == "table" and is_table_location(location)):
        return ""
    # The location was inside when it was announced; a link may lead elsewhere by now.
    outside = leads_outside(environment, location)
    if outside:
        return f"{outside} leads outside the roots of environment {environment.name}"
    is_looked_for = dataset.kind != "table" and "://" not in location
    return f"nothing is at {location}" if is_looked_for and files.list_files(location) is None else ""


def _problem_with_table(dataset: Dataset) -> str:
    """A table that only its name leads to must have one: a path or a query in its place would be read as such."""
    if dataset.kind != "table" or dataset.format in POSTGRES:
        return ""
    try:
        table_name(dataset)
    except BadDefinition as problem:
        return problem.message
    return ""


# Question 4: validated -----------------------------------------------------------------------------------------------


def validity_of_input(dataset: Dataset, chunk: InputChunk, together: int | None = None) -> Look | str:
    """Whether an input chunk passed its checks, and is still what was published.

    Whether its content is read depends on how many bytes are read together with it; without a number, it alone is.
    """
    here, manifest = f"{chunk.datasetid} {chunk.dataid}", chunk.manifest
    checked = validation(dataset, chunk.dataid, manifest)
    if isinstance(checked, Look) and checked.problem:
        return checked
    if manifest is None:
        return NO_CHECKS
    size = (manifest.bytes or 0) if together is None else together
    by_content = files.reads_content(dataset.options.get("verify"), manifest.location, size)
    difference = files.difference(manifest, by_content=by_content) if dataset.kind != "table" else ""
    if difference:
        return Look(f"{here} is not what was published: {difference}", {CHANGED: here})
    rows, checks = manifest.rows, len(manifest.checks)
    return Look("", {here: {"version": chunk.version, "files": len(manifest.files), "rows": rows, "checks": checks}})


def _validated(catalogue: Catalogue, inputs: Sequence[InputChunk]) -> Look | str:
    looked: dict[str, object] = {}
    together = sum(chunk.manifest.bytes or 0 for chunk in inputs if chunk.manifest)
    for chunk in inputs:
        seen = validity_of_input(catalogue.dataset(chunk.datasetid), chunk, together)
        if isinstance(seen, str):
            looked[f"{chunk.datasetid} {chunk.dataid}"] = seen
        elif seen.problem:
            return Look(seen.problem, {**looked, **seen.evidence})
        else:
            looked |= seen.evidence
    if not looked:
        return "there is no input to validate"
    return NO_CHECKS if all(seen == NO_CHECKS for seen in looked.values()) else Look("", looked)
