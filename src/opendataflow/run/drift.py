"""Drift: whether the columns of a chunk that somebody else wrote are the declared ones, told by its files without Spark."""

from __future__ import annotations

from ..errors import NotValidated
from ..files.columns import Told, told_by_files
from ..files.versions import names_chunk
from ..model import CheckResult, Dataset, Manifest
from ..model.checks import WARN, policy
from ..model.ddl import column_differences, columns_of, required_of
from ..model.remarks import described
from ..shapes import replace

_HINT = (
    'If these columns are right, declare them: [dataset.{0}] schema = "…". '
    'To take such chunks with a warning, set drift = "warn".'
)
_EMPTY = "If an empty chunk is fine, set empty = true on the dataset."
_MOST = 5  # files that are named


def looked_into(dataset: Dataset, dataid: str, manifest: Manifest) -> Manifest:
    """A chunk with what its files tell: their rows, and how their columns differ; NotValidated where that is refused."""
    ddl = str(dataset.options.get("schema", ""))
    expected = columns_of(ddl)
    here = f"{dataset.datasetid} {dataid}"
    try:
        told = told_by_files(dataset, manifest, expected)
    except ImportError:
        return manifest  # whoever reads it compares
    except NotValidated as problem:
        if not ddl:
            return manifest  # nobody promised that it can be read
        raise NotValidated(f"{here}: {problem.message}", hint=f"It is at {manifest.location}.") from None
    results = []
    if ddl and told:
        results.append(_drift(dataset, ddl, told, is_whole=dataset.format != "json"))
    rows = _rows(told) if names_chunk(dataset, dataid) else None
    if rows == 0:
        severity = policy(dataset, "empty", "refuse")
        results.append(CheckResult("empty", "empty", severity or WARN, not severity, {"rows": 0}))
    for result in results:
        if result.refuses:
            hint = _HINT.format(dataset.datasetid) if result.kind == "drift" else _EMPTY
            raise NotValidated(f"{here}: {described(result)}", hint=hint)
    return replace(manifest, rows=rows, checks=(*manifest.checks, *results)) if told else manifest


def _drift(dataset: Dataset, ddl: str, told: list[Told], *, is_whole: bool) -> CheckResult:
    differences: dict[str, list[str]] = {}
    expected, required = columns_of(ddl), required_of(ddl)
    for file in told:
        lacking = [f"{name} was NOT NULL and has nulls" for name in required if name.lower() in file.nulls]
        for difference in (*column_differences(expected, file.columns, added=is_whole), *lacking):
            differences.setdefault(difference, []).append(file.path)
    severity = policy(dataset, "drift", "refuse")
    figures: dict[str, object] = {"differences": list(differences)} if differences else {}
    if any(len(files) < len(told) for files in differences.values()):
        figures["files"] = sorted({file for files in differences.values() for file in files})[:_MOST]
    return CheckResult("drift", "drift", severity or WARN, not differences or not severity, figures)


def _rows(told: list[Told]) -> int | None:
    counts = [file.rows for file in told]
    return sum(n for n in counts if n is not None) if counts and None not in counts else None
