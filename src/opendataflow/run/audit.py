"""Audit: the declared checks of a chunk that a script or somebody outside wrote, run on Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import MissingDependency
from ..files.quarantine import has_quarantine, rejected_id
from ..model import READY, Catalogue, Dataset, InputChunk, Manifest
from ..store import Store

if TYPE_CHECKING:
    from ..spark.auditing import Past
    from .worker import Worker


def audited(worker: Worker, catalogue: Catalogue, dataset: Dataset, dataid: str, seen: Manifest) -> Manifest:
    """What lies at a location, judged by the dataset's checks; NotValidated when it may not be published."""
    try:
        from ..spark.auditing import Surroundings
        from ..spark.found import audit_location
        from ..spark.reading import read_chunks
    except ImportError as error:
        raise MissingDependency(
            f"the checks of {dataset.datasetid} run on Spark, and {error.name} is not installed",
            hint="pip install 'opendataflow[spark]'",
        ) from None
    spark, store, password = worker.spark(), worker.store, worker.vault.password
    around = Surroundings(
        past=past_of(store, dataset, dataid),
        inputs=seen.inputs,
        load=lambda name: read_chunks(
            spark, worker.project, catalogue.dataset(name), published_chunks(store, name), password
        ),
    )
    judged = audit_location(spark, dataset, seen.location, dataid, around=around)
    # The files as they were seen, with their checksums; everything that needs the rows comes from Spark.
    return replace(judged, files=seen.files, bytes=seen.bytes, fingerprint=judged.fingerprint or seen.fingerprint)


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
    manifests = {published.dataid: published.manifest for published in store.all_published(datasetid)}
    chunks = store.all_chunks(datasetid, status=READY)
    return [InputChunk(datasetid, chunk.dataid, chunk.version, manifests.get(chunk.dataid)) for chunk in chunks]
