"""Refusals: why an attempt at a chunk was refused, or would be for what its inputs are now, and the ways out."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import OdfError
from ..gate import CHANGED, GONE, place_of_input, validity_of_input
from ..model import Answer, Catalogue, Facts, InputChunk, Look
from ..project import Project, misplaced
from ..project.trust import distrust_of
from ..store import Store
from .words import when

_MOST = 1000  # inputs that are looked at


def last_refusal(store: Store, jobid: str, dataid: str) -> dict[str, Look]:
    """The no to the last attempt at a chunk, by its question, until an attempt passes the gate; empty when there is none."""
    for event in store.refusals(jobid, dataid, n=1):
        no = event.receipt.no if event.receipt is not None else None
        if no is not None:
            return {no.question: Look(f"{no.why} (refused at {when(event.at)})", no.evidence, no.own_no)}
    return {}


def refused_input(store: Store, project: Project, catalogue: Catalogue, facts: Facts) -> dict[str, Look]:
    """What an attempt would be refused for, since an input is gone or changed after it was published, by its question."""
    published = [(item, store.manifest(item.datasetid, item.dataid, item.version)) for item in facts.inputs[:_MOST]]
    together = sum(version.manifest.bytes or 0 for _, version in published if version)
    for item, version in published:
        dataset = catalogue.datasets.get(item.datasetid)
        if version is None or dataset is None or distrust_of(project, dataset):
            continue
        chunk = InputChunk(item.datasetid, item.dataid, version.version, version.manifest)
        try:
            if misplaced(project.environment, version.manifest):
                continue
            place = place_of_input(project.environment, dataset, chunk)
            if isinstance(place, Look) and place.problem:
                return {"place": place}
            seen = validity_of_input(dataset, chunk, together)
            if isinstance(seen, Look) and CHANGED in seen.evidence:
                return {"validated": seen}
        except OdfError:
            continue  # it cannot be looked at from here
    return {}


def ways_to_accept(catalogue: Catalogue, answers: Iterable[Answer]) -> tuple[str, ...]:
    """The commands that help when files are gone or changed: produce them again, or accept them as they are now."""
    ways: list[str] = []
    for answer in answers:
        for evidence in (CHANGED, GONE):
            if answer.yes is False and evidence in answer.evidence:
                here = str(answer.evidence[evidence])
                ways += [f"odf resubmit {here}"] if catalogue.producer(here.split(" ")[0]) else []
                ways.append(f"odf ready --again {here}" if evidence == CHANGED else f"odf explain {here}")
    return tuple(ways)
