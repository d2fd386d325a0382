"""Cuts a dataset with one shared location into chunks with bounds, and announces them in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..errors import BadConfig, BadDefinition, BadTransition, InvalidPath, UsageError
from ..model import Catalogue, Dataset, Manifest, check_dataid, span
from ..model.bounds import EVEN, Range, Size, breaks
from ..project import Project, location_of
from ..project.hosts import outside_hosts
from ..project.trust import require
from ..store import Chunk, Store

if TYPE_CHECKING:
    from ..spark.types import SparkSession


@dataclass(frozen=True, slots=True)
class NewChunk:
    """A chunk of a sharding: its bounds and number of rows."""

    dataid: str
    lower: str
    upper: str
    rows: int


@dataclass(frozen=True, slots=True)
class Sharding:
    """The planned chunks of a dataset, before they are announced."""

    dataset: Dataset
    column: str
    kind: str
    rows: int
    asked: int
    known: int
    chunks: tuple[NewChunk, ...]
    is_new_key: bool  # the column is not registered yet

    @property
    def is_short(self) -> bool:
        """Whether there are fewer chunks than requested, because rows with equal keys stay together."""
        return len(self.chunks) < self.asked


def check_location(project: Project, dataset: Dataset, dataid: str = "1") -> None:
    """InvalidPath if the data is outside the selected environment."""
    environment = project.environment
    location_of(environment, dataset, dataid)
    problem = outside_hosts(environment, dataset)
    if problem:
        raise InvalidPath(problem, hint="Check that the environment is right.")


def bounds_of(dataset: Dataset, chunks: Sequence[Chunk]) -> list[Range]:
    """The ranges of chunks with bounds, from the store or from the dataset's definition."""
    ranges = []
    for chunk in chunks:
        stored = (chunk.lower, chunk.upper) if chunk.lower is not None else None
        lower, upper = stored or span(dataset.partition, chunk.dataid) or (None, None)
        if lower is not None and upper is not None:
            ranges.append(Range(chunk.dataid, lower, upper))
    return ranges


def plan(
    store: Store,
    project: Project,
    datasetid: str,
    spark: Callable[[], SparkSession],
    password: Callable[[Dataset], str],
    *,
    by: str | None = None,
    size: Size = EVEN,
    extend: bool = False,
) -> Sharding:
    """Inspect the data and plan its chunks, without any change."""
    catalogue = store.catalogue()
    dataset = catalogue.dataset(datasetid)
    store.check_environment(project.environment.name)
    require(project, dataset, store.applied)
    _check_definition(catalogue, dataset)
    dataset, is_new_key = _with_key(project, dataset, by)
    check_location(project, dataset)
    existing = list(store.views.all_chunks(datasetid))
    known = bounds_of(dataset, existing)
    _check_chunks(dataset, existing, known, extend)
    if size == EVEN and not extend:
        size = Size(count=dataset.partition.count)
    password(dataset)  # a wrong key fails before Spark is started
    session = spark()
    from ..spark.sharding import shards_of

    cut = shards_of(session, project, dataset, password, size, known)
    first = 1 + max((int(chunk.dataid) for chunk in existing), default=0)
    chunks = tuple(
        NewChunk(check_dataid(dataset.partition, str(dataid), datasetid), shard.lower, shard.upper, shard.rows)
        for dataid, shard in enumerate(cut.shards, first)
    )
    return Sharding(dataset, cut.column, cut.kind, cut.rows, cut.asked, len(existing), chunks, is_new_key)


def announce(store: Store, sharding: Sharding, why: str | None = None) -> tuple[str, ...]:
    """Announce the planned chunks with their bounds, all or none; Locked if one of them exists meanwhile."""
    if sharding.is_new_key:
        store.register([sharding.dataset])
    # Each chunk gets a manifest, so that a chunk of another sharding is never mistaken for a version of it.
    manifests = {
        chunk.dataid: Manifest(
            extra={"sharded_by": sharding.column, "bounds": [chunk.lower, chunk.upper], "rows": chunk.rows}
        )
        for chunk in sharding.chunks
    }
    bounds = {chunk.dataid: (chunk.lower, chunk.upper) for chunk in sharding.chunks}
    reason = why or f"sharded by {sharding.column}"
    return store.announce(
        sharding.dataset.datasetid, list(bounds), manifests=manifests, bounds=bounds, why=reason, only_new=True
    ).ready


def _check_definition(catalogue: Catalogue, dataset: Dataset) -> None:
    """Refuse a dataset that cannot be sharded."""
    name, partition = dataset.datasetid, dataset.partition
    producer = catalogue.producer(name)
    if partition.type != "range":
        raise BadDefinition(
            f"dataset {name} is partitioned by {partition.type}: only ranges are sharded",
            hint='Declare a range and run odf apply: partition = { type = "range", column = "…" }',
        )
    if producer is not None:
        sources = ", ".join(item.datasetid for item in producer.inputs)
        raise BadDefinition(
            f"dataset {name} is written by job {producer.jobid}, which produces its chunks",
            hint=f"Shard the inputs of the job: odf shard {sources}" if sources else "",
        )
    if not dataset.kind:
        raise BadDefinition(
            f"dataset {name} is only tracked: there is no data to shard",
            hint=f"Announce its chunks: odf ready {name} 1",
        )
    if dataset.kind == "file" and "{dataid}" in dataset.location:
        raise BadDefinition(
            f"dataset {name} has a location for each chunk ({dataset.location}): it is sharded already",
            hint=f"Announce existing chunks: odf discover {name}",
        )
    if partition.lower is not None or partition.upper is not None:
        raise BadDefinition(
            f"dataset {name} declares lower and upper, which define its {partition.count or ''} chunks",
            hint=f"Leave lower and upper out, or announce the chunks: odf ready {name} 1..{partition.count or 'N'}",
        )
    if dataset.checks:
        raise BadDefinition(
            f"dataset {name} declares checks, which do not run on shards before these are read",
            hint="Declare the checks on the dataset that the job writes, where they run on every chunk.",
        )


def _with_key(project: Project, dataset: Dataset, by: str | None) -> tuple[Dataset, bool]:
    """The dataset with its key column, and whether the column is new to the store."""
    name, declared = dataset.datasetid, dataset.partition.column
    if by is None and declared is None:
        raise UsageError(f"no column is declared by which to shard dataset {name}", hint="Name the column: --by COLUMN")
    if by is None or by == declared:
        return dataset, False
    line = f'[dataset.{name}] partition = {{ type = "range", column = "{by}" }}'
    if declared is not None:
        raise UsageError(f"dataset {name} is partitioned by column {declared}, not {by}", hint=f"Change it: {line}")
    if name in {each.datasetid for each in project.datasets}:
        raise BadConfig(
            f"dataset {name} is declared in the project file, which does not name the column {by}",
            hint=f"Name it there, then run odf apply: {line}",
        )
    return replace(dataset, partition=replace(dataset.partition, column=by)), True


def _check_chunks(dataset: Dataset, existing: Sequence[Chunk], known: Sequence[Range], extend: bool) -> None:
    name = dataset.datasetid
    if existing and not extend:
        raise BadTransition(
            f"dataset {name} already has {len(existing):,} chunks",
            hint=f"Use --extend for rows outside their bounds. To start over: odf forget {name} --all",
        )
    if extend and not existing:
        raise BadTransition(f"dataset {name} has no chunks to extend", hint=f"Shard it first: odf shard {name}")
    if len(known) < len(existing):
        raise BadTransition(
            f"{len(existing) - len(known):,} chunks of {name} have no bounds, so rows outside them are unknown",
            hint=f"To start over: odf forget {name} --all",
        )
    if known and breaks(known):
        raise BadTransition(f"the chunks of {name} do not cover one range of keys", hint=f"See: odf prove {name}")
