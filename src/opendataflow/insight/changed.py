"""Refusals: why an attempt at a chunk was refused, or would be for what its inputs are now, and the ways out."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import OdfError
from ..gate import CHANGED, GONE, content_of_input, place_of_input, place_of_output, validity_of_input
from ..model import RESUBMIT, Answer, Catalogue, DataLook, Facts, InputChunk, Job
from ..project import Project, misplaced
from ..project.trust import distrust_of
from ..store import Chunk, Event, Store
from .words import when

_MOST = 1000  # inputs that are looked at


def last_refusal(store: Store, jobid: str, dataid: str) -> dict[str, DataLook]:
    """The no to the last attempt at a chunk, by its question, until an attempt passes the gate; empty when there is none."""
    for event in store.views.refusals(jobid, dataid, n=1):
        no = event.receipt.no if event.receipt is not None else None
        if no is not None:
            return {no.question: DataLook(f"{no.why} (refused at {when(event.at)})", no.evidence, no.own_no)}
    return {}


def refused_attempt(event: Event) -> str:
    """The refusal of an attempt at a chunk, as a clause."""
    what = f"the last attempt of {event.jobid} at {event.dataid} was refused"
    return f"{what}: {event.after} at {when(event.at)}: {event.why}"


def refused_input(store: Store, project: Project, catalogue: Catalogue, facts: Facts) -> dict[str, DataLook]:
    """What an attempt would be refused for, by its question: an input holds other data, is gone or was changed."""
    published = [
        (item, store.views.manifest(item.datasetid, item.dataid, item.version)) for item in facts.inputs[:_MOST]
    ]
    together = sum(version.manifest.bytes or 0 for _, version in published if version)
    for item, version in published:
        dataset = catalogue.datasets.get(item.datasetid)
        if version is None or dataset is None or distrust_of(project, dataset):
            continue
        chunk = InputChunk(item.datasetid, item.dataid, version.version, version.manifest)
        try:
            if misplaced(project.environment, version.manifest):
                continue
            right = content_of_input(dataset, chunk)
            if right.problem:
                return {"right": right}
            place = place_of_input(project.environment, dataset, chunk)
            if isinstance(place, DataLook) and place.problem:
                return {"place": place}
            seen = validity_of_input(dataset, chunk, together)
            if isinstance(seen, DataLook) and CHANGED in seen.evidence:
                return {"validated": seen}
        except OdfError:
            continue  # it cannot be looked at from here
    return {}


def misplaced_output(project: Project, catalogue: Catalogue, job: Job, dataid: str) -> dict[str, DataLook]:
    """What an attempt would be refused for: an output has its place outside the environment."""
    for dataset in map(catalogue.datasets.get, job.outputs):
        if dataset is not None and not distrust_of(project, dataset):
            place = place_of_output(project.environment, dataset, dataid)
            if place.problem:
                return {"place": place}
    return {}


def ways_to_accept(catalogue: Catalogue, answers: Iterable[Answer], explained: Chunk | None = None) -> tuple[str, ...]:
    """The commands that help when files are gone or changed: produce them again, or accept them as they are now.

    Of a chunk that is explained right here, neither that nor a resubmit of what is RESUBMIT would help.
    """
    ways: list[str] = []
    for answer in answers:
        for evidence in (CHANGED, GONE):
            if answer.yes is False and evidence in answer.evidence:
                here = str(answer.evidence[evidence])
                is_explained = explained is not None and here == f"{explained.datasetid} {explained.dataid}"
                is_due = is_explained and explained is not None and explained.status == RESUBMIT
                ways += [f"odf resubmit {here}"] if catalogue.producer(here.split(" ")[0]) and not is_due else []
                if evidence == CHANGED:
                    ways.append(f"odf ready --again {here}")
                elif not is_explained:
                    ways.append(f"odf explain {here}")
    return tuple(ways)
