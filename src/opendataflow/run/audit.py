"""Audit: the declared checks of a chunk that a script or an outside producer wrote, run here or, where needed, on Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from .. import files
from ..errors import InvalidPath, MissingDependency, NotValidated, install_command
from ..files.quarantine import has_quarantine, rejected_id
from ..files.versions import OURS
from ..model import READY, Consumed, Dataset, InputChunk, Manifest
from ..project import leads_outside, location_of
from ..project.trust import require
from ..shapes import replace
from ..store import Past as EarlierPublishes
from ..store import Store

if TYPE_CHECKING:
    from ..spark.auditing import Past
    from .parts import Attempt
    from .staging import Before, Home
    from .worker import Worker

_MISSING = "Is the location right, and did the producer finish?"


class NothingThere(InvalidPath):
    """Nothing is at the location of a chunk."""


def seen_of_attempt(worker: Worker, attempt: Attempt, own: Mapping[str, Home], before: Before) -> dict[str, Manifest]:
    """What a script wrote, by dataset: to the location of its attempt, or else to that of the chunk.

    before is what lay at the chunk's locations when the script started, where we started it.
    """
    from .staging import check_nothing_beside, check_written

    claim = attempt.claim
    manifests = {}
    for name in attempt.job.outputs:
        home, dataset = own.get(name), attempt.catalogue.dataset(name)
        if home is not None:
            check_nothing_beside(name, home)
            if not files.exists(home.written):
                check_written(worker.project, attempt, name, home, before)
                home = None
        written = home.written if home else ""
        manifest = seen_at_location(worker, dataset, claim.dataid, claim.inputs, _MISSING, written)
        if manifest is not None and home is not None:
            extra = {**manifest.extra, "writer": OURS}
            manifest = replace(manifest, location=home.published, extra=extra)
        if manifest is not None:
            manifests[name] = manifest
    return manifests


def seen_at_location(
    worker: Worker,
    dataset: Dataset,
    dataid: str,
    inputs: tuple[Consumed, ...] = (),
    hint: str = _MISSING,
    location: str = "",
) -> Manifest | None:
    """What lies at a chunk's location, or at another: it is there, inside the roots, not empty, and its declared checks pass.

    None for a dataset that is only tracked, and for a table: whoever writes there vouches for it.
    """
    require(worker.project, dataset, worker.store.applied, on_spark=False)
    environment = worker.project.environment
    location, here = location or location_of(environment, dataset, dataid), f"{dataset.datasetid} {dataid}"
    if not location or dataset.kind == "table":
        return None
    if not files.exists(location):
        raise NothingThere(f"{here}: nothing is at {location}", hint=hint)
    outside = leads_outside(environment, location)
    if outside:
        raise InvalidPath(
            f"{here}: {outside} leads outside the roots of environment {environment.name}",
            hint="Put the file itself there instead of a link.",
        )
    manifest = files.light_manifest(location, dataset.format, dataset.options.get("verify"), inputs=inputs)
    if not manifest.bytes and dataset.options.get("empty") not in (True, "allow", "warn"):
        raise NotValidated(
            f"{here} is empty ({location})", hint="If an empty chunk is fine, set empty = true on the dataset."
        )
    if dataset.checks:
        return audited(worker, dataset, dataid, manifest)
    from .drift import looked_into  # here, since checks look at the columns themselves

    return looked_into(dataset, dataid, manifest)


def audited(worker: Worker, dataset: Dataset, dataid: str, seen: Manifest) -> Manifest:
    """What lies at a location, judged by the dataset's checks; NotValidated when it may not be published."""
    from ..files.checks import judged
    from ..files.rows import NeedsSpark

    before = _earlier(worker.store, dataset, dataid)
    try:
        return judged(dataset, dataid, seen, before.schema, before.rows)
    except NeedsSpark as reason:
        return _audited_on_spark(worker, dataset, dataid, seen, str(reason))


def check_engine(datasets: Iterable[Dataset]) -> None:
    """Refuse datasets whose declared checks cannot run here at all: on Spark, which is not installed."""
    from ..files.checks import why_spark

    for dataset in datasets:
        if dataset.checks and dataset.kind == "file" and (reason := why_spark(dataset)):
            try:
                from ..spark import found  # noqa: F401  (the audit imports it too, once the script has run)
            except ImportError as error:
                raise _no_spark(dataset, reason, str(error.name)) from None


def _no_spark(dataset: Dataset, reason: str, module: str) -> MissingDependency:
    return MissingDependency(
        f"the checks of {dataset.datasetid} run on Spark ({reason}), and {module} is not installed",
        hint=f"Install it: {install_command('spark')}",
    )


def _audited_on_spark(worker: Worker, dataset: Dataset, dataid: str, seen: Manifest, reason: str) -> Manifest:
    try:
        from ..spark.auditing import Surroundings
        from ..spark.found import audit_location
        from ..spark.reading import read_chunks
    except ImportError as error:
        raise _no_spark(dataset, reason, str(error.name)) from None
    spark, store = worker.spark(), worker.store

    def trusted(name: str) -> Dataset:
        other = store.known.dataset(name)
        require(worker.project, other, store.applied)
        return other

    around = Surroundings(
        past=past_of(store, dataset, dataid),
        inputs=seen.inputs,
        load=lambda name: read_chunks(
            spark, worker.project, trusted(name), published_chunks(store, name), worker.vault.password
        ),
    )
    judged = audit_location(spark, dataset, seen.location, dataid, around=around)
    # The files as they were seen, with their checksums; everything that needs the rows comes from Spark.
    return replace(judged, files=seen.files, bytes=seen.bytes, fingerprint=judged.fingerprint or seen.fingerprint)


def past_of(store: Store, dataset: Dataset, dataid: str) -> Past:
    """What earlier publishes of a dataset say: its pinned schema, and the rows of the chunks before this one."""
    from ..spark.auditing import Past

    past = _earlier(store, dataset, dataid)
    return Past(past.schema, past.rows, past.has_beside)


def _earlier(store: Store, dataset: Dataset, dataid: str) -> EarlierPublishes:
    trailing = max((int(str(check.params.get("trailing", 0))) for check in dataset.checks), default=0)
    beside = rejected_id(dataset.datasetid) if has_quarantine(dataset) else None
    return store.past(dataset.datasetid, dataid, trailing, beside)


def published_chunks(store: Store, datasetid: str) -> list[InputChunk]:
    """Every published chunk of a dataset, as Spark reads it."""
    manifests = {published.dataid: published.manifest for published in store.all_published(datasetid)}
    chunks = store.all_chunks(datasetid, status=READY)
    return [InputChunk(datasetid, chunk.dataid, chunk.version, manifests.get(chunk.dataid)) for chunk in chunks]
