"""Reconciling: the rows of the source, as Spark finds them, against what was recorded when chunks were published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ..errors import DataNotReady, UsageError, WrongData
from ..model import Dataset, Input, InputChunk, Job
from ..project import Project
from ..run.sharding import Spark, check_location, password_of
from ..secrets import Key
from ..store import Chunk, Published, Store
from .proof import Case, Problem, Rows, are, chunks_text, drain, have, words

if TYPE_CHECKING:
    from ..spark.proving import Content, Contents

# The mappings by which each chunk of an input belongs to one output.
PARTS = ("identity", "rollup")


def reconciled(
    store: Store, project: Project, case: Case, spark: Spark, key: Key | None, notes: list[str]
) -> tuple[list[Problem], Rows | None]:
    item = _part(case)
    if case.job is not None and item is None:
        notes.append(
            f"no input of job {case.job.jobid} says which of its rows belong to which chunk: rows not compared"
        )
        return [], None
    source = case.catalogue.dataset(item.datasetid) if item else case.dataset
    chunks = case.sources[item.datasetid] if item else case.chunks
    groups = {dataid: dataid for dataid in case.wanted if dataid in chunks}
    if item is not None and case.job is not None:
        groups = {
            each: out for out in case.wanted for each in case.catalogue.needed(case.job, item, out) if each in chunks
        }
    if not groups:
        return [], None
    copy = case.job if case.job is not None and "copy" in case.job.options else None
    found = _contents(store, project, case, source, chunks, groups, copy, spark, key)
    published = {dataid: case.published[dataid] for dataid in case.wanted if dataid in case.published}
    problems = [*_outside(case, source, found)] if case.is_all else []
    unknown = [dataid for dataid, each in published.items() if each.manifest.rows is None] if case.job else []
    if unknown:
        notes.append(f"{chunks_text(len(unknown))} {are(unknown)} published without a count of rows: not compared")
    counted = {dataid: each for dataid, each in published.items() if each.manifest.rows is not None}
    same = 0
    if copy is not None or case.job is None:
        differing, same = _compared(case, source, found.chunks, counted)
        problems += differing
    rows = Rows(
        sum(content.rows for content in found.chunks.values()) + sum(found.outside.values()),
        sum(each.manifest.rows or 0 for each in counted.values()),
        sum(_rejected(each) for each in counted.values()),
        same,
        copy is not None,
    )
    return problems, rows


def _part(case: Case) -> Input | None:
    """The input whose chunks each belong to one output: what goes in is what comes out."""
    items = case.job.inputs if case.job else ()
    return next((item for item in items if item.datasetid in case.sources and item.mapping.kind in PARTS), None)


def _contents(
    store: Store,
    project: Project,
    case: Case,
    source: Dataset,
    chunks: Mapping[str, Chunk],
    groups: Mapping[str, str],
    copy: Job | None,
    spark: Spark,
    key: Key | None,
) -> Contents:
    if not source.kind:
        raise UsageError(
            f"dataset {source.datasetid} is only tracked: there are no rows to compare with", hint="Leave --rows out."
        )
    check_location(project, source)
    password = password_of(case.catalogue, [source.datasetid], key)
    session = spark()
    from ..spark.proving import contents_of

    own = (
        case.published
        if source is case.dataset
        else {each.dataid: each for each in store.all_published(source.datasetid)}
    )
    inputs = [
        InputChunk(
            source.datasetid,
            dataid,
            chunks[dataid].version,
            own[dataid].manifest if dataid in own else None,
            (chunks[dataid].lower, chunks[dataid].upper) if chunks[dataid].lower is not None else None,
        )
        for dataid in groups
    ]
    return contents_of(session, project, source, inputs, groups, password, copy, is_all=case.is_all)


def _outside(case: Case, source: Dataset, found: Contents) -> Iterator[Problem]:
    """Rows of the source that no chunk holds."""
    for where, rows in found.outside.items():
        is_new = source.partition.type == "range" and where != "without a key"
        command = f"odf shard {source.datasetid} --extend" if is_new else f"odf status {source.datasetid}"
        text = f"{rows:,} row{'s' * (rows != 1)} of {source.datasetid} {'lie' if rows != 1 else 'lies'} {where}"
        yield Problem("outside", text, DataNotReady, 0, (), (command,))


def _compared(
    case: Case, source: Dataset, found: Mapping[str, Content], published: Mapping[str, Published]
) -> tuple[list[Problem], int]:
    """Chunks whose rows or content differ from the source, and how many have the same fingerprint."""
    other_rows: dict[str, str] = {}
    other_content = []
    same = 0
    for dataid, each in published.items():
        manifest, content = each.manifest, found.get(dataid)
        if content is None:
            continue  # told already: it has no source
        rows = (manifest.rows or 0) + _rejected(each)
        if rows != content.rows:
            other_rows[dataid] = f"{content.rows:,} rows in {source.datasetid}, {rows:,} published"
        elif _rejected(each) or not _is_comparable(manifest.fingerprint):
            continue
        elif manifest.fingerprint != content.fingerprint:
            other_content.append(dataid)
        else:
            same += 1
    problems = []
    name = case.dataset.datasetid
    if other_rows:
        shown, first = case.shown(other_rows), next(iter(other_rows))
        these = f"{chunks_text(len(other_rows))} of {name} {have(other_rows)}"
        text = f"{these} not as many rows as the source; {first}: {other_rows[first]}"
        problems.append(Problem("rows", text, WrongData, len(other_rows), shown, _again(case, shown)))
    if other_content:
        shown = case.shown(other_content)
        these = f"{chunks_text(len(other_content))} of {name} {have(other_content)}"
        text = f"{these} as many rows as the source, but not the same content"
        problems.append(Problem("content", text, WrongData, len(other_content), shown, _again(case, shown)))
    return problems, same


def _is_comparable(fingerprint: str | None) -> bool:
    """Whether a fingerprint was taken of rows, rather than of the bytes of files."""
    return fingerprint is not None and not fingerprint.startswith("bytes:")


def _rejected(each: Published) -> int:
    found = each.manifest.extra.get("rejected", 0)
    return found if isinstance(found, int) else 0


def _again(case: Case, shown: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    name = case.dataset.datasetid
    return (f"odf resubmit {name} {words(shown)}", *drain(case)) if case.job else (f"odf explain {name} {shown[0][0]}",)
