"""Reconciling: the rows of the source, as Spark finds them, against what was recorded when chunks were published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ..errors import DataNotReady, UsageError, WrongData
from ..model import Dataset, Input, InputChunk, Job
from ..project import Project
from ..run.sharding import check_location
from ..store import Chunk, Published, Store
from .axis import DataidRange
from .proof import Case, Problem, ProofRows, drain
from .words import are, count, have, many, ranges_as_arguments

if TYPE_CHECKING:
    from ..spark.proving import Content, Contents
    from ..spark.types import SparkSession

# The mappings by which each chunk of an input belongs to one output.
PARTS = ("identity", "rollup")


class Counting(NamedTuple):
    """What counts the rows of a source: Spark, started when it is needed, and the passwords of tables."""

    spark: Callable[[], SparkSession]
    password: Callable[[Dataset], str]


@dataclass(frozen=True, slots=True)
class _Source:
    """What is counted: a dataset, its chunks, the output that each of them belongs to, and the job that only copies them."""

    dataset: Dataset
    chunks: Mapping[str, Chunk]
    groups: Mapping[str, str]
    copy: Job | None


def reconciled(
    store: Store, project: Project, case: Case, counting: Counting, notes: list[str]
) -> tuple[list[Problem], ProofRows | None]:
    """What differs between the rows of the source and those that are published, and how many there are of each."""
    item = _part(case)
    if case.job is not None and item is None:
        notes.append(
            f"no input of job {case.job.jobid} says which of its rows belong to which chunk: rows were not compared"
        )
        return [], None
    dataset = case.catalogue.dataset(item.datasetid) if item else case.dataset
    chunks = case.sources[item.datasetid] if item else case.chunks
    groups = {dataid: dataid for dataid in case.wanted if dataid in chunks}
    if item is not None and case.job is not None:
        groups = {
            dataid: output
            for output in case.wanted
            for dataid in case.catalogue.needed(case.job, item, output)
            if dataid in chunks
        }
    if not groups:
        return [], None
    copy = case.job if case.job is not None and "copy" in case.job.options else None
    contents = _contents(store, project, case, _Source(dataset, chunks, groups, copy), counting)
    published = {dataid: case.published[dataid] for dataid in case.wanted if dataid in case.published}
    problems = [*_outside(dataset, contents)] if case.is_all else []
    unknown = [dataid for dataid, version in published.items() if version.manifest.rows is None] if case.job else []
    if unknown:
        n = len(unknown)
        notes.append(f"{many(n)} {are(n)} published without a count of rows: not compared")
    counted = {dataid: version for dataid, version in published.items() if version.manifest.rows is not None}
    same = 0
    if copy is not None or case.job is None:
        differing, same = _compared(case, dataset, contents.chunks, counted)
        problems += differing
    rows = ProofRows(
        sum(content.rows for content in contents.chunks.values()) + sum(contents.outside.values()),
        sum(version.manifest.rows or 0 for version in counted.values()),
        sum(_rejected(version) for version in counted.values()),
        same,
        copy is not None,
    )
    return problems, rows


def _part(case: Case) -> Input | None:
    """The input whose chunks each belong to one output: what goes in is what comes out."""
    items = case.job.inputs if case.job else ()
    return next((item for item in items if item.datasetid in case.sources and item.mapping.kind in PARTS), None)


def _contents(store: Store, project: Project, case: Case, source: _Source, counting: Counting) -> Contents:
    dataset, chunks = source.dataset, source.chunks
    if not dataset.kind:
        raise UsageError(
            f"dataset {dataset.datasetid} is only tracked: there are no rows to compare with", hint="Leave out --rows."
        )
    check_location(project, dataset, next(iter(source.groups)))
    counting.password(dataset)  # a wrong key is told before Spark is started
    session = counting.spark()
    from ..spark.proving import contents_of

    own = (
        case.published
        if dataset is case.dataset
        else {version.dataid: version for version in store.views.all_published(dataset.datasetid)}
    )
    inputs = [
        InputChunk(
            dataset.datasetid,
            dataid,
            chunks[dataid].version,
            own[dataid].manifest if dataid in own else None,
            (chunks[dataid].lower, chunks[dataid].upper) if chunks[dataid].lower is not None else None,
        )
        for dataid in source.groups
    ]
    return contents_of(
        session, project, dataset, inputs, source.groups, counting.password, source.copy, is_all=case.is_all
    )


def _outside(source: Dataset, contents: Contents) -> Iterator[Problem]:
    """Rows of the source that no chunk holds."""
    for where, rows in contents.outside.items():
        is_new = source.partition.type == "range" and where != "without a key"
        command = f"odf shard {source.datasetid} --extend" if is_new else f"odf status {source.datasetid}"
        text = f"{count(rows, 'row')} of {source.datasetid} {'lie' if rows != 1 else 'lies'} {where}"
        yield Problem("outside", text, DataNotReady, 0, (), (command,))


def _compared(
    case: Case, source: Dataset, contents: Mapping[str, Content], published: Mapping[str, Published]
) -> tuple[list[Problem], int]:
    """Chunks whose rows or content differ from the source, and how many have the same fingerprint."""
    other_rows: dict[str, str] = {}
    other_content = []
    same = 0
    for dataid, version in published.items():
        manifest, content = version.manifest, contents.get(dataid)
        if content is None:
            continue  # it has no source, which was told already
        rows = (manifest.rows or 0) + _rejected(version)
        if rows != content.rows:
            other_rows[dataid] = f"{content.rows:,} rows in {source.datasetid}, {rows:,} published"
        elif _rejected(version) or (is_same := manifest.is_same_content(content.fingerprint)) is None:
            continue
        elif is_same:
            same += 1
        else:
            other_content.append(dataid)
    problems = []
    name = case.dataset.datasetid
    if other_rows:
        formed, n, first = case.ranges(other_rows), len(other_rows), next(iter(other_rows))
        text = f"{many(n)} of {name} {have(n)} not as many rows as the source; {first}: {other_rows[first]}"
        problems.append(Problem("rows", text, WrongData, n, formed, _again(case, formed)))
    if other_content:
        formed, n = case.ranges(other_content), len(other_content)
        text = f"{many(n)} of {name} {have(n)} as many rows as the source, but not the same content"
        problems.append(Problem("content", text, WrongData, n, formed, _again(case, formed)))
    return problems, same


def _rejected(version: Published) -> int:
    rejected = version.manifest.extra.get("rejected", 0)
    return rejected if isinstance(rejected, int) else 0


def _again(case: Case, differing: tuple[DataidRange, ...]) -> tuple[str, ...]:
    name = case.dataset.datasetid
    if case.job is None:
        return (f"odf explain {name} {differing[0].first}",)
    return (f"odf resubmit {name} {ranges_as_arguments(differing)}", *drain(case))
