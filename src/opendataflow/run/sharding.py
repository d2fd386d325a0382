"""Sharding: a dataset that shares one location becomes chunks with bounds, announced all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..errors import BadConfig, BadDefinition, BadTransition, InvalidPath, UsageError
from ..model import Catalogue, Dataset, Manifest, check_dataid, span
from ..model.bounds import EVEN, Range, Size, breaks
from ..project import Project, location_of
from ..project.hosts import outside_hosts
from ..project.trust import require
from ..shapes import dataclass, replace
from ..store import Chunk, Store

if TYPE_CHECKING:
    from ..spark.types import SparkSession


@dataclass(frozen=True, slots=True)
class NewChunk:
    """A chunk that sharding makes: its bounds, and how many rows they held."""

    dataid: str
    lower: str
    upper: str
    rows: int


@dataclass(frozen=True, slots=True)
class Sharding:
    """What a dataset is cut into, before anybody is told."""

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
        """Whether there are fewer chunks than asked, because the rows of one key stay together."""
        return len(self.chunks) < self.asked


def check_location(project: Project, dataset: Dataset, dataid: str = "1") -> None:
    """InvalidPath when the data is not in the environment that is selected."""
    environment = project.environment
    location_of(environment, dataset, dataid)
    problem = outside_hosts(environment, dataset)
    if problem:
        raise InvalidPath(problem, hint="Is this the right environment?")


def bounds_of(dataset: Dataset, chunks: Sequence[Chunk]) -> list[Range]:
    """The ranges of the chunks that have bounds, by the store or by the definition of the dataset."""
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
    """Look at the data and say which chunks it would become; nothing changes yet."""
    catalogue = store.catalogue()
    dataset = catalogue.dataset(datasetid)
    store.check_environment(project.environment.name)
    require(project, dataset, store.applied)
    _check_definition(catalogue, dataset)
    dataset, is_new_key = _with_key(project, dataset, by)
    check_location(project, dataset)
    there = list(store.all_chunks(datasetid))
    known = bounds_of(dataset, there)
    _check_chunks(dataset, there, known, extend)
    if size == EVEN and not extend:
        size = Size(count=dataset.partition.count)
    password(dataset)  # a wrong key is told before Spark is started
    session = spark()
    from ..spark.sharding import shards_of

    cut = shards_of(session, project, dataset, password, size, known)
    first = 1 + max((int(chunk.dataid) for chunk in there), default=0)
    chunks = tuple(
        NewChunk(check_dataid(dataset.partition, str(dataid), datasetid), shard.lower, shard.upper, shard.rows)
        for dataid, shard in enumerate(cut.shards, first)
    )
    return Sharding(dataset, cut.column, cut.kind, cut.rows, cut.asked, len(there), chunks, is_new_key)


def announce(store: Store, sharding: Sharding, why: str | None = None) -> tuple[str, ...]:
    """Announce the planned chunks with their bounds, all of them or none; Locked when one of them is there by now."""
    if sharding.is_new_key:
        store.register([sharding.dataset])
    # A manifest for each, so that a chunk of another sharding is never taken for a version of this one.
    manifests = {
        chunk.dataid: Manifest(
            extra={"sharded_by": sharding.column, "bounds": [chunk.lower, chunk.upper], "rows": chunk.rows}
        )
        for chunk in sharding.chunks
    }
    bounds = {chunk.dataid: (chunk.lower, chunk.upper) for chunk in sharding.chunks}
    told = why or f"sharded by {sharding.column}"
    return store.announce(
        sharding.dataset.datasetid, list(bounds), manifests=manifests, bounds=bounds, why=told, only_new=True
    ).ready


def _check_definition(catalogue: Catalogue, dataset: Dataset) -> None:
    """Refuse a dataset that has no ranges to announce."""
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
            f"dataset {name} is written by job {producer.jobid}: its chunks come from there",
            hint=f"Shard what the job reads: odf shard {sources}" if sources else "",
        )
    if not dataset.kind:
        raise BadDefinition(
            f"dataset {name} is only tracked: there is no data to shard",
            hint=f"Announce its chunks: odf ready {name} 1",
        )
    if dataset.kind == "file" and "{dataid}" in dataset.location:
        raise BadDefinition(
            f"dataset {name} has a location for each chunk ({dataset.location}): it is sharded already",
            hint=f"Announce what is there: odf discover {name}",
        )
    if partition.lower is not None or partition.upper is not None:
        raise BadDefinition(
            f"dataset {name} declares lower and upper, which say what each of its {partition.count or ''} chunks holds",
            hint=f"Leave lower and upper out, or announce the chunks: odf ready {name} 1..{partition.count or 'N'}",
        )
    if dataset.checks:
        raise BadDefinition(
            f"dataset {name} declares checks, but nothing runs them on the shards before they are read",
            hint="Declare the checks on the dataset that the job writes. There they run on every chunk.",
        )


def _with_key(project: Project, dataset: Dataset, by: str | None) -> tuple[Dataset, bool]:
    """The dataset with its key column, and whether the store has yet to learn it."""
    name, declared = dataset.datasetid, dataset.partition.column
    if by is None and declared is None:
        raise UsageError(f"which column should dataset {name} be sharded by?", hint="Say --by COLUMN.")
    if by is None or by == declared:
        return dataset, False
    line = f'[dataset.{name}] partition = {{ type = "range", column = "{by}" }}'
    if declared is not None:
        raise UsageError(f"dataset {name} is partitioned by column {declared}, not {by}", hint=f"Change it: {line}")
    if name in {of_project.datasetid for of_project in project.datasets}:
        raise BadConfig(
            f"dataset {name} is declared in the project file, which does not name the column {by}",
            hint=f"Name it there, then run odf apply: {line}",
        )
    return replace(dataset, partition=replace(dataset.partition, column=by)), True


def _check_chunks(dataset: Dataset, there: Sequence[Chunk], known: Sequence[Range], extend: bool) -> None:
    name = dataset.datasetid
    if there and not extend:
        raise BadTransition(
            f"dataset {name} has {len(there):,} chunks already",
            hint=f"Use --extend for rows beyond them. To start over: odf forget {name} --all",
        )
    if extend and not there:
        raise BadTransition(f"dataset {name} has no chunks to extend", hint=f"Shard it first: odf shard {name}")
    if len(known) < len(there):
        raise BadTransition(
            f"{len(there) - len(known):,} chunks of {name} have no bounds, so what lies beyond them is not known",
            hint=f"To start over: odf forget {name} --all",
        )
    if known and breaks(known):
        raise BadTransition(f"the chunks of {name} do not cover one range of keys", hint=f"See: odf prove {name}")
