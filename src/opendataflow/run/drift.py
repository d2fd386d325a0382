"""Compares the columns of files from scripts and external producers with the declared schema, without Spark."""

from __future__ import annotations

from dataclasses import replace

from ..errors import NotValidated
from ..files.columns import FileColumns, columns_of_files
from ..files.versions import names_chunk
from ..model import CheckResult, Dataset, Manifest
from ..model.decision.remarks import described
from ..model.definitions.checks import WARN, policy
from ..model.definitions.ddl import column_differences, columns_of, other_case, required_of

_HINT = (
    'If the new columns are right, declare them: [dataset.{0}] schema = "…". '
    'To take such chunks with a warning, set drift = "warn".'
)
_EMPTY = "If empty chunks are allowed, set empty = true on the dataset."
_MOST = 5  # files that the result lists


def inspected_manifest(dataset: Dataset, dataid: str, manifest: Manifest) -> Manifest:
    """The manifest with row counts and the result of the column comparison; NotValidated if that is refused."""
    ddl = str(dataset.options.get("schema", ""))
    expected = columns_of(ddl)
    here = f"{dataset.datasetid} {dataid}"
    try:
        columns = columns_of_files(dataset, manifest, expected)
    except ImportError:
        return manifest  # readers compare the columns
    except NotValidated as problem:
        if not ddl:
            return manifest  # no schema is declared
        raise NotValidated(f"{here}: {problem.message}", hint=f"The chunk is at {manifest.location}.") from None
    results = []
    if ddl and columns:
        results.append(_drift(dataset, ddl, columns, is_whole=dataset.format != "json"))
    rows = _rows(columns) if names_chunk(dataset, dataid) else None
    if rows == 0:
        severity = policy(dataset, "empty", "refuse")
        results.append(CheckResult("empty", "empty", severity or WARN, not severity, {"rows": 0}))
    for result in results:
        if result.refuses:
            hint = _HINT.format(dataset.datasetid) if result.kind == "drift" else _EMPTY
            raise NotValidated(f"{here}: {described(result)}", hint=hint)
    return replace(manifest, rows=rows, checks=(*manifest.checks, *results)) if columns else manifest


def _drift(dataset: Dataset, ddl: str, columns: list[FileColumns], *, is_whole: bool) -> CheckResult:
    differences: dict[str, list[str]] = {}
    expected, required = columns_of(ddl), required_of(ddl)
    for file in columns:
        lacking = [f"{name} was NOT NULL and has nulls" for name in required if name.lower() in file.nulls]
        if dataset.format == "json":
            lacking += [f"{name} renamed to {now}?" for name, now in other_case(expected, file.columns).items()]
        for difference in (*column_differences(expected, file.columns, added=is_whole), *lacking):
            differences.setdefault(difference, []).append(file.path)
    severity = policy(dataset, "drift", "refuse")
    figures: dict[str, object] = {"differences": list(differences)} if differences else {}
    if any(len(files) < len(columns) for files in differences.values()):
        figures["files"] = sorted({file for files in differences.values() for file in files})[:_MOST]
    return CheckResult("drift", "drift", severity or WARN, not differences or not severity, figures)


def _rows(columns: list[FileColumns]) -> int | None:
    counts = [file.rows for file in columns]
    return sum(n for n in counts if n is not None) if counts and None not in counts else None
