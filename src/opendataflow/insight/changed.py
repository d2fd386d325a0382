"""Changed: chunks whose files are not what was published, seen before a run is refused for them, and the ways out."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import OdfError
from ..gate import CHANGED, validity_of_input
from ..model import Answer, Catalogue, Facts, InputChunk, Look
from ..project import Project, misplaced
from ..project.trust import distrust_of
from ..store import Store

_MOST = 1000  # inputs that somebody who asks why waits for


def changed_input(store: Store, project: Project, catalogue: Catalogue, facts: Facts) -> Look | None:
    """What a run would be refused for because somebody changed an input after it was published; None when nothing is known."""
    published = [(item, store.manifest(item.datasetid, item.dataid, item.version)) for item in facts.inputs[:_MOST]]
    together = sum(version.manifest.bytes or 0 for _, version in published if version)
    for item, version in published:
        dataset = catalogue.datasets.get(item.datasetid)
        if version is None or dataset is None or distrust_of(project, dataset):
            continue
        chunk = InputChunk(item.datasetid, item.dataid, version.version, version.manifest)
        try:
            if not misplaced(project.environment, version.manifest):
                seen = validity_of_input(dataset, chunk, together)
                if isinstance(seen, Look) and CHANGED in seen.evidence:
                    return seen
        except OdfError:
            continue  # nobody can look at it from here
    return None


def ways_to_accept(catalogue: Catalogue, answers: Iterable[Answer]) -> tuple[str, ...]:
    """The commands that help when files changed: produce them again, or accept them as they are now."""
    ways: list[str] = []
    for answer in answers:
        if answer.yes is False and CHANGED in answer.evidence:
            here = str(answer.evidence[CHANGED])
            ways += [f"odf resubmit {here}"] if catalogue.producer(here.split(" ")[0]) else []
            ways.append(f"odf ready --again {here}")
    return tuple(ways)
