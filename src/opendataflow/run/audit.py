"""Audit: the declared checks of a chunk that a script or somebody outside wrote, run on Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import MissingDependency
from ..model import Catalogue, Dataset, InputChunk, Manifest
from ..project import Project
from ..store import Store

if TYPE_CHECKING:
    from ..spark.auditing import Past


def audited(
    store: Store, catalogue: Catalogue, project: Project, dataset: Dataset, dataid: str, found: Manifest
) -> Manifest:
    """What was found at a location, judged by the dataset's checks; NotValidated when it may not be published."""
    try:
        from ..spark.auditing import Surroundings
        from ..spark.found import audit_location
        from ..spark.reading import read_chunks
        from ..spark.session import session
    except ImportError as error:
        raise MissingDependency(
            f"the checks of {dataset.datasetid} run on Spark, and {error.name} is not installed",
            hint="pip install 'opendataflow[spark]'",
        ) from None
    spark = session(project.spark, app_name=f"odf {project.name}")
    around = Surroundings(
        past=past_of(store, dataset, dataid),
        inputs=found.inputs,
        load=lambda name: read_chunks(
            spark, project, catalogue.dataset(name), published_chunks(store, name), lambda each: ""
        ),
    )
    judged = audit_location(spark, dataset, found.location, dataid, around=around)
    # The files as they were found, with their checksums; everything that needs the rows from Spark.
    return replace(judged, files=found.files, bytes=found.bytes, fingerprint=judged.fingerprint or found.fingerprint)


def past_of(store: Store, dataset: Dataset, dataid: str) -> Past:
    """What earlier publishes of a dataset say: its pinned schema, and the rows of the chunks before this one."""
    from ..files.quarantine import has_quarantine, rejected_id
    from ..spark.auditing import Past

    trailing = max((int(str(check.params.get("trailing", 0))) for check in dataset.checks), default=0)
    beside = rejected_id(dataset.datasetid) if has_quarantine(dataset) else None
    past = store.past(dataset.datasetid, dataid, trailing, beside)
    return Past(past.schema, past.rows, past.has_beside)


def published_chunks(store: Store, datasetid: str) -> list[InputChunk]:
    """Every published chunk of a dataset, as Spark reads it."""
    found = []
    for chunk in store.all_chunks(datasetid, status="READY"):
        published = store.manifest(datasetid, chunk.dataid, chunk.version)
        found.append(InputChunk(datasetid, chunk.dataid, chunk.version, published.manifest if published else None))
    return found
