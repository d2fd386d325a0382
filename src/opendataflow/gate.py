"""Inspects the data for questions 2, 3 and 4, read-only, and passes the facts to the decision in the model."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from . import files
from .errors import BadDefinition, OdfError
from .files.versions import VERSIONED
from .model import Catalogue, DataLook, Dataset, InputChunk, Receipt, decide, span, validation
from .model.definitions.dataset import POSTGRES, is_table_location, table_name
from .project import Environment, leads_outside, location_of
from .project.hosts import outside_hosts
from .project.locations import Locations

if TYPE_CHECKING:
    from .store import Claim

GONE = "gone"  # evidence key: the input chunk that is missing at its location
CHANGED = "changed"  # evidence key: the chunk whose files differ from the published version
NO_LOCATION = "no location is declared"
NO_CHECKS = "no checks are declared, and there are no recorded files to compare with"


def ask(
    environment: Environment,
    catalogue: Catalogue,
    claim: Claim,
    inputs: Sequence[InputChunk],
    locations: Locations,
) -> Receipt:
    """The five answers about a claimed chunk, from the facts of the claim and an inspection of the data.

    The inspection stops at the first problem. A job whose datasets are all only tracked has nothing to inspect.
    """
    facts = claim.facts
    if not locations.found:
        return decide(facts)
    looks: dict[str, Callable[[], DataLook | str]] = {
        "right": lambda: _right(catalogue, inputs),
        "place": lambda: _place(environment, catalogue, claim, inputs, locations),
        "validated": lambda: _validated(catalogue, inputs),
    }
    for question, look in looks.items():
        seen: Any = look()
        facts = facts._replace(**{question: seen})
        if isinstance(seen, DataLook) and seen.problem:
            break
    return decide(facts)


# Question 2: right ---------------------------------------------------------------------------------------------------


def content_of_input(dataset: Dataset, chunk: InputChunk) -> DataLook:
    """Whether an input chunk holds the span of its dataid, and is not a wrong repeat of another chunk."""
    if chunk.manifest is None:
        return DataLook("")
    here, expected = f"{chunk.datasetid} {chunk.dataid}", span(dataset.partition, chunk.dataid)
    lower, upper, spans = chunk.manifest.span_lower, chunk.manifest.span_upper, []
    if expected and lower is not None and upper is not None:
        spans = [[chunk.datasetid, chunk.dataid, lower, upper]]
        if dataset.partition.type != "range" and not _fits(expected, lower, upper):
            return DataLook(f"{here} holds {lower} to {upper}, not {expected[0]} to {expected[1]}", {"spans": spans})
    if chunk.same_as is not None and not dataset.options.get("repeats"):
        same = chunk.same_as
        return DataLook(f"{here} has exactly the content of {chunk.datasetid} {same}", {"same_as": same})
    return DataLook("", {"spans": spans} if spans else {})


def _right(catalogue: Catalogue, inputs: Sequence[InputChunk]) -> DataLook:
    spans: list[object] = []
    for chunk in inputs:
        seen = content_of_input(catalogue.dataset(chunk.datasetid), chunk)
        if seen.problem:
            return seen
        evidence: Any = seen.evidence
        spans += evidence.get("spans", [])
    return DataLook("", {"spans": spans} if spans else {})


def _fits(expected: tuple[str, str], lower: str, upper: str) -> bool:
    """Whether the span of a chunk's rows lies inside the span of its dataid; times and numbers compare by value."""
    readers: tuple[Callable[[str], Any], ...] = (_moment, float)
    for read in readers:
        try:
            first, end, low, high = map(read, (*expected, lower, upper))
        except ValueError:
            continue
        return bool(first <= low and high < end)
    return expected[0] <= lower and upper < expected[1]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=None)


# Question 3: place ---------------------------------------------------------------------------------------------------


def place_of_input(
    environment: Environment, dataset: Dataset, chunk: InputChunk, locations: Locations | None = None
) -> DataLook | str:
    """Whether an input chunk exists at its location, inside the environment."""
    location = chunk.manifest.location if chunk.manifest else ""
    if not location:
        at = (chunk.datasetid, chunk.dataid)
        location = locations.of(*at) if locations else location_of(environment, dataset, chunk.dataid)
    problem = (
        _problem_with_table_place(environment, dataset)
        or (files.unsafe_name(chunk.manifest) if chunk.manifest else "")
        or _problem_with_input(environment, dataset, location)
    )
    if not problem and not location and not dataset.hostname:
        return NO_LOCATION
    gone = {GONE: f"{chunk.datasetid} {chunk.dataid}"} if problem else {}
    return DataLook(problem, {"location": location or dataset.hostname, **gone})


def _place(
    environment: Environment,
    catalogue: Catalogue,
    claim: Claim,
    inputs: Sequence[InputChunk],
    locations: Locations,
) -> DataLook | str:
    looked: dict[str, object] = {}
    try:
        for chunk in inputs:
            seen = place_of_input(environment, catalogue.dataset(chunk.datasetid), chunk, locations)
            looked[f"{chunk.datasetid} {chunk.dataid}"] = seen if isinstance(seen, str) else seen.evidence["location"]
            if isinstance(seen, DataLook) and seen.problem:
                return DataLook(seen.problem, {"environment": environment.name, **looked, **seen.evidence})
        for name in claim.outputs:
            dataset = catalogue.dataset(name)
            location = locations.of(name, claim.dataid)
            looked[f"{name} {claim.dataid}"] = location or dataset.hostname or NO_LOCATION
            problem = _problem_with_table_place(environment, dataset) or _problem_with_versions(dataset, location)
            if not problem and location and not files.is_writable(location):
                problem = f"{location} cannot be written"
            if problem:
                return DataLook(problem, {"environment": environment.name, **looked})
    except OdfError as error:
        return DataLook(error.message, {"environment": environment.name, **looked})
    if all(location == NO_LOCATION for location in looked.values()):
        return NO_LOCATION
    return DataLook("", {"environment": environment.name, **looked})


def place_of_output(environment: Environment, dataset: Dataset, dataid: str) -> DataLook:
    """Whether an output has a place inside the environment; whether it can be written, only the worker knows."""
    try:
        location = location_of(environment, dataset, dataid)
        problem = _problem_with_table_place(environment, dataset) or _problem_with_versions(dataset, location)
    except OdfError as error:
        return DataLook(error.message)
    return DataLook(problem, {f"{dataset.datasetid} {dataid}": location})


def _problem_with_table_place(environment: Environment, dataset: Dataset) -> str:
    return outside_hosts(environment, dataset) or _problem_with_table(dataset)


def _problem_with_versions(dataset: Dataset, location: str) -> str:
    """The problem with a file, for instance a plain chunk of before, in the place of the folder of versions."""
    if dataset.kind == "table" or dataset.options.get("layout") != VERSIONED or not os.path.isfile(location):
        return ""
    folder, name = posixpath.split(dataset.location)
    other = posixpath.join(folder, "versions", name)  # the suffix says the format
    return (
        f'{location} is a file, and layout = "versioned" makes a folder there: '
        f'set location = "{other}" on dataset {dataset.datasetid}, and odf apply'
    )


def _problem_with_input(environment: Environment, dataset: Dataset, location: str) -> str:
    if not location or (dataset.kind == "table" and is_table_location(location)):
        return ""
    # A symbolic link may point elsewhere since the chunk was announced.
    outside = leads_outside(environment, location)
    if outside:
        return f"{outside} leads outside the roots of environment {environment.name}"
    is_looked_for = dataset.kind != "table" and "://" not in location
    return f"nothing is at {location}" if is_looked_for and files.list_files(location) is None else ""


def _problem_with_table(dataset: Dataset) -> str:
    """The problem with a table's name: a path or a query in its place would be read as such."""
    if dataset.kind != "table" or dataset.format in POSTGRES:
        return ""
    try:
        table_name(dataset)
    except BadDefinition as problem:
        return problem.message
    return ""


# Question 4: validated -----------------------------------------------------------------------------------------------


def validity_of_input(dataset: Dataset, chunk: InputChunk, together: int | None = None) -> DataLook | str:
    """Whether an input chunk passed its checks and is unchanged since it was published; a reason if neither applies.

    Its content is compared if all inputs of the run together (`together` bytes, default: this chunk) are small enough.
    """
    here, manifest = f"{chunk.datasetid} {chunk.dataid}", chunk.manifest
    checked = validation(dataset, chunk.dataid, manifest)
    if isinstance(checked, DataLook) and checked.problem:
        return checked
    has_files = manifest is not None and dataset.kind != "table" and manifest.location and manifest.files
    if manifest is None or not (manifest.checks or has_files):
        return NO_CHECKS
    size = (manifest.bytes or 0) if together is None else together
    by_content = files.reads_content(dataset.options.get("verify"), manifest.location, size)
    difference = files.difference(manifest, by_content=by_content) if has_files else ""
    if difference:
        return DataLook(f"{here} is not what was published: {difference}", {CHANGED: here})
    rows, checks = manifest.rows, len(manifest.checks)
    return DataLook(
        "", {here: {"version": chunk.version, "files": len(manifest.files), "rows": rows, "checks": checks}}
    )


def _validated(catalogue: Catalogue, inputs: Sequence[InputChunk]) -> DataLook | str:
    looked: dict[str, object] = {}
    together = sum(chunk.manifest.bytes or 0 for chunk in inputs if chunk.manifest)
    for chunk in inputs:
        seen = validity_of_input(catalogue.dataset(chunk.datasetid), chunk, together)
        if isinstance(seen, str):
            looked[f"{chunk.datasetid} {chunk.dataid}"] = seen
        elif seen.problem:
            return DataLook(seen.problem, {**looked, **seen.evidence})
        else:
            looked |= seen.evidence
    if not looked:
        return "there is no input to validate"
    return NO_CHECKS if all(seen == NO_CHECKS for seen in looked.values()) else DataLook("", looked)
