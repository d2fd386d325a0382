"""Audits the output of scripts and external producers: runs the declared checks here or, if necessary, on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from .. import files
from ..errors import InvalidPath, MissingDependency, NotValidated, install_command
from ..files.quarantine import has_quarantine, rejected_id
from ..files.versions import SCRIPT
from ..model import READY, Catalogue, Dataset, InputChunk, Job, Manifest
from ..project import Project, leads_outside
from ..project.trust import require
from ..store import EarlierChunks, Store

if TYPE_CHECKING:
    from ..spark.auditing import EarlierPublishes
    from .records import Attempt
    from .staging import Snapshots, StagedOutput
    from .worker import Worker

_MISSING = "Check the location, and that the producer has finished."


class NothingThere(InvalidPath):
    """The location of a chunk does not exist."""


def attempt_manifests(
    worker: Worker, attempt: Attempt, outputs: Mapping[str, StagedOutput], before: Snapshots
) -> dict[str, Manifest]:
    """The manifests of a script's outputs, at the location of its attempt or at that of the chunk.

    `before` is the snapshot of the chunk's locations when the script started.
    """
    from .staging import check_nothing_beside, check_written

    claim = attempt.claim
    manifests = {}
    for name in attempt.job.outputs:
        output, dataset = outputs.get(name), attempt.catalogue.dataset(name)
        if output is not None:
            check_nothing_beside(name, output)
        if output is None or not files.exists(output.written):
            check_written(attempt, name, output, before)
            output = None
        location = output.written if output else attempt.location(name)
        exists = output is not None
        manifest = manifest_at_location(worker, dataset, claim.dataid, location, exists=exists)
        if manifest is not None and output is not None:
            extra = {**manifest.extra, "writer": SCRIPT}
            manifest = replace(manifest, location=output.published, extra=extra)
        if manifest is not None:
            manifests[name] = manifest
    return manifests


def manifest_at_location(
    worker: Worker,
    dataset: Dataset,
    dataid: str,
    location: str,
    hint: str = _MISSING,
    *,
    exists: bool = False,
) -> Manifest | None:
    """The manifest of a chunk's location, or of another: it exists inside the roots, is not empty, and its checks pass.

    None for tracked datasets and for tables, which are not inspected. The caller has checked the trust in the dataset.
    """
    environment, here = worker.project.environment, f"{dataset.datasetid} {dataid}"
    if not location or dataset.kind == "table":
        return None
    if not (exists or files.exists(location)):
        raise NothingThere(f"{here}: nothing is at {location}", hint=hint)
    outside = leads_outside(environment, location)
    if outside:
        raise InvalidPath(
            f"{here}: {outside} leads outside the roots of environment {environment.name}",
            hint="Replace the link by the file itself.",
        )
    manifest = files.light_manifest(location, dataset.format, dataset.options.get("verify"))
    if not manifest.bytes and dataset.options.get("empty") not in (True, "allow", "warn"):
        raise NotValidated(
            f"{here} is empty ({location})", hint="If empty chunks are allowed, set empty = true on the dataset."
        )
    if dataset.checks:
        return audited_manifest(worker, dataset, dataid, manifest)
    from .drift import inspected_manifest  # lazy: not needed for datasets with checks

    return inspected_manifest(dataset, dataid, manifest)


def audited_manifest(worker: Worker, dataset: Dataset, dataid: str, manifest: Manifest) -> Manifest:
    """The manifest with the results of the dataset's checks; NotValidated if it may not be published."""
    from ..files.checks import checked_manifest
    from ..files.rows import NeedsSpark

    before = _earlier(worker.store, dataset, dataid)
    try:
        return checked_manifest(dataset, dataid, manifest, before.schema, before.rows)
    except NeedsSpark as reason:
        return _audited_on_spark(worker, dataset, dataid, manifest, str(reason))


def check_engine(
    project: Project, catalogue: Catalogue, job: Job, *, on_spark: bool, master: str | None = None
) -> None:
    """Refuse a job whose code or checks need Spark if Spark cannot start here."""
    needs = f"job {job.jobid} runs on Spark" if on_spark else _checks_on_spark(catalogue, job)
    if not needs:
        return
    from ..spark.java import INSTALL_JAVA, find_java
    from ..spark.settings import spark_settings

    try:
        from ..spark import found  # noqa: F401  (imported by the audit too, after the script has run)
    except ImportError as error:
        raise _no_spark(needs, str(error.name)) from None
    if "spark.remote" not in spark_settings(project.spark, master) and (problem := find_java().problem):
        raise MissingDependency(f"{needs}, and Spark cannot start: {problem}", hint=INSTALL_JAVA)


def _checks_on_spark(catalogue: Catalogue, job: Job) -> str:
    """The first output of a script whose checks need Spark, and the reason; empty if there is none."""
    for dataset in map(catalogue.dataset, job.outputs):
        if dataset.checks and dataset.kind == "file":
            from ..files.checks import spark_reason  # here, since it costs 5 ms

            if reason := spark_reason(dataset):
                return _needs(dataset, reason)
    return ""


def _needs(dataset: Dataset, reason: str) -> str:
    return f"the checks of {dataset.datasetid} run on Spark ({reason})"


def _no_spark(needs: str, module: str) -> MissingDependency:
    return MissingDependency(f"{needs}, and {module} is not installed", hint=f"Install it: {install_command('spark')}")


def _audited_on_spark(worker: Worker, dataset: Dataset, dataid: str, manifest: Manifest, reason: str) -> Manifest:
    try:
        from ..spark.auditing import Surroundings
        from ..spark.found import audit_location
        from ..spark.reading import read_chunks
    except ImportError as error:
        raise _no_spark(_needs(dataset, reason), str(error.name)) from None
    spark, store = worker.spark(), worker.store

    def trusted(name: str) -> Dataset:
        other = store.known.dataset(name)
        require(worker.project, other, store.applied)
        return other

    around = Surroundings(
        past=earlier_publishes(store, dataset, dataid),
        load=lambda name: read_chunks(
            spark, worker.project, trusted(name), published_chunks(store, name), worker.vault.password
        ),
    )
    audited = audit_location(spark, dataset, manifest.location, dataid, around=around)
    # Files and checksums as listed here; everything that depends on rows comes from Spark.
    fingerprint = audited.fingerprint or manifest.fingerprint
    return replace(audited, files=manifest.files, bytes=manifest.bytes, fingerprint=fingerprint)


def earlier_publishes(store: Store, dataset: Dataset, dataid: str) -> EarlierPublishes:
    """Facts from earlier publishes of a dataset: its pinned schema, and the row counts of preceding chunks."""
    from ..spark.auditing import EarlierPublishes

    earlier = _earlier(store, dataset, dataid)
    return EarlierPublishes(earlier.schema, earlier.rows, earlier.has_rejected)


def _earlier(store: Store, dataset: Dataset, dataid: str) -> EarlierChunks:
    trailing = max((int(str(check.params.get("trailing", 0))) for check in dataset.checks), default=0)
    quarantine = rejected_id(dataset.datasetid) if has_quarantine(dataset) else None
    return store.past(dataset.datasetid, dataid, trailing, quarantine)


def published_chunks(store: Store, datasetid: str) -> list[InputChunk]:
    """Every published chunk of a dataset, with its manifest."""
    manifests = {published.dataid: published.manifest for published in store.views.all_published(datasetid)}
    chunks = store.views.all_chunks(datasetid, status=READY)
    return [InputChunk(datasetid, chunk.dataid, chunk.version, manifests.get(chunk.dataid)) for chunk in chunks]
