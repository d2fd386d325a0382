"""Diff of rows: whether two published versions of a chunk are there to be read, and how their rows compare on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .. import files
from ..errors import InvalidPath, MissingDependency, NotValidated, UsageError, install_command
from ..model import Dataset, InputChunk
from ..model.definitions.ddl import columns_of
from ..model.printable import one_line
from ..project import Project, misplaced
from ..project.trust import require
from ..store import Published, Store

if TYPE_CHECKING:
    from ..spark.comparing_rows import Compared
    from ..spark.types import SparkSession

_MOST_COLUMNS = 50  # that a hint lists


class Comparing(NamedTuple):
    """How rows are compared: in which project, by which key, with how many examples of each kind, and on which Spark."""

    project: Project
    key: tuple[str, ...]
    most: int
    spark: Callable[[], SparkSession]


def compared(store: Store, dataset: Dataset, before: Published, after: Published, how: Comparing) -> Compared:
    """The rows of two versions beside each other; what stands in the way is said before Spark is started."""
    versions = (before, after)
    _check_kind(dataset)
    require(how.project, dataset, store.applied)
    if not how.key:
        raise UsageError(
            "rows can only be compared by a key",
            hint=f"Name the columns that tell each row from the others: --key COLUMN,… {_listed(_recorded(after))}".rstrip(),
        )
    for version in versions:
        _check_columns(how.key, version, _recorded(version))
    for version in versions:
        _check_files(store, how.project, dataset, version)
    try:
        from ..spark.comparing_rows import compare_rows, read_version
    except ImportError as problem:
        raise MissingDependency(
            f"rows are compared on Spark, and {problem.name} is not installed",
            hint=f"Install it: {install_command('spark')}",
        ) from None
    spark = how.spark()
    old, new = (read_version(spark, how.project, dataset, _chunk(version)) for version in versions)
    for version, frame in zip(versions, (old, new), strict=True):
        _check_columns(how.key, version, frame.columns)
    return compare_rows(dataset, (before.version, old), (after.version, new), how.key, how.most)


def _check_kind(dataset: Dataset) -> None:
    if dataset.kind == "file":
        return
    why = "is a table, which holds its newest rows only" if dataset.kind == "table" else "is only tracked"
    raise UsageError(
        f"dataset {dataset.datasetid} {why}: there are no rows of an older version to compare",
        hint=f"What was recorded of its versions can be compared without --rows: odf diff {dataset.datasetid} DATAID",
    )


def _recorded(version: Published) -> list[str]:
    """The columns that a version had when it was published, as far as anybody wrote them down."""
    return list(columns_of(version.manifest.schema)) if version.manifest.schema else []


def _check_columns(key: Iterable[str], version: Published, columns: Sequence[str]) -> None:
    known = {name.lower() for name in columns}
    missing = [name for name in key if known and name.lower() not in known]
    if missing:
        raise UsageError(f"{_here(version)} has no column {one_line(', '.join(missing))}", hint=_listed(columns))


def _listed(columns: Sequence[str]) -> str:
    if not columns:
        return ""
    more = f" and {len(columns) - _MOST_COLUMNS} more" if len(columns) > _MOST_COLUMNS else ""
    return f"Its columns are {one_line(', '.join(columns[:_MOST_COLUMNS]))}{more}."


def _check_files(store: Store, project: Project, dataset: Dataset, version: Published) -> None:
    """Refuse a version of which not exactly that lies there which was published."""
    here, manifest = _here(version), version.manifest
    if problem := misplaced(project.environment, manifest, always=True):
        raise InvalidPath(f"{here}: {problem}", hint=f"See: odf explain {version.datasetid} {version.dataid}")
    if version.version in store.views.removed_versions(version.datasetid, version.dataid):
        raise InvalidPath(
            f"the files of {here} were removed by odf vacuum",
            hint=f"To keep more versions from now on, say so on dataset {dataset.datasetid}: keep = 5",
        )
    if not manifest.location or not (manifest.files or manifest.rows == 0):
        raise NotValidated(
            f"{here}: nobody recorded which files it is made of, so that its rows cannot be told from those of others",
            hint=f"What was recorded can be compared without --rows: odf diff {version.datasetid} {version.dataid}",
        )
    by_content = files.reads_content(dataset.options.get("verify"), manifest.location, manifest.bytes or 0)
    if difference := files.difference(manifest, by_content=by_content):
        raise NotValidated(f"{here} is not what was published: {difference}", hint=_why_gone(store, dataset, version))


def _why_gone(store: Store, dataset: Dataset, version: Published) -> str:
    """How it comes that what was published does not lie there any more, as far as that can be told."""
    chunk = store.views.chunk(version.datasetid, version.dataid)
    if chunk is None or chunk.version == version.version:
        return f"See: odf explain {version.datasetid} {version.dataid}"
    if store.known.producer(dataset.datasetid) is None:
        return "What comes from outside lies where it was delivered: a new delivery takes the place of the one before."
    return f'New versions take the place of older ones unless dataset {dataset.datasetid} says: layout = "versioned"'


def _here(version: Published) -> str:
    return f"{version.datasetid} {version.dataid} version {version.version}"


def _chunk(version: Published) -> InputChunk:
    return InputChunk(version.datasetid, version.dataid, version.version, version.manifest)
