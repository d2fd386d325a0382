"""Where a published chunk lies."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import DataNotReady, InvalidPath, UsageError
from ..model import READY, check_dataid, check_id
from ..project import Project, location_of, misplaced
from ..store import Store
from .words import state


@dataclass(frozen=True, slots=True)
class Place:
    """The version of a chunk that jobs read now, and where it is."""

    datasetid: str
    dataid: str
    version: int
    location: str
    format: str
    rows: int | None


def published(store: Store, project: Project, datasetid: str, dataid: str) -> Place:
    """Where a READY chunk lies, inside the roots of this environment."""
    dataset = store.catalogue().dataset(check_id("dataset", datasetid))
    check_dataid(dataset.partition, dataid, datasetid)
    chunk = store.chunk(datasetid, dataid)
    if chunk is None or chunk.status != READY:
        raise DataNotReady(
            f"{datasetid} {dataid} {state(chunk.status if chunk else None)}",
            hint=f"See: odf explain {datasetid} {dataid}",
        )
    version = store.manifest(datasetid, dataid, chunk.version)
    manifest = version.manifest if version else None
    if manifest is not None and (problem := misplaced(project.environment, manifest)):
        raise InvalidPath(f"{datasetid} {dataid}: {problem}", hint=f"See: odf explain {datasetid} {dataid}")
    location = manifest.location if manifest and manifest.location else ""
    if not location and dataset.location:
        location = location_of(project.environment, dataset, dataid)
    if not location:
        raise UsageError(
            f"dataset {datasetid} has no location: it is only tracked, or a table",
            hint=f"See: odf datasets {datasetid}",
        )
    kind = (manifest.format if manifest else "") or dataset.format
    return Place(datasetid, dataid, chunk.version, location, kind, manifest.rows if manifest else None)
