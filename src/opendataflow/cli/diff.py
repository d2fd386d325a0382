"""The verb diff: how one version of a chunk differs from another, and which of its rows do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import click

from ..errors import UsageError
from ..model import check_id
from .app import App, Line, one_line, table
from .common import Whole, verb

if TYPE_CHECKING:
    from ..insight.diff import Diff
    from ..insight.diff_rows import Comparing
    from ..spark.comparing_rows import Compared

_MOST_EXAMPLES = 1000
_WIDEST = 40  # characters of a value
_BEFORE = 10  # characters that are shown of how two long values begin alike
_MOST_CELLS = 12  # of a row


@verb("diff")
@click.option(
    "--rows",
    "examples",
    type=Whole(1, _MOST_EXAMPLES),
    metavar="N",
    help="Compare the rows too, on Spark, and show up to N that were added, removed and changed.",
)
@click.option("--key", metavar="COLUMN,…", help="The columns that tell each row from the others, for --rows.")
@click.option("--master", metavar="URL", help="Where Spark runs, for --rows.")
@click.argument("dataset")
@click.argument("dataid")
@click.argument("v1", type=Whole(1), required=False)
@click.argument("v2", type=Whole(1), required=False)
def diff_verb(
    app: App,
    dataset: str,
    dataid: str,
    v1: int | None,
    v2: int | None,
    examples: int | None,
    key: str | None,
    master: str | None,
) -> int:
    """How a version of a chunk differs from the one before: columns, rows, bytes, span, fingerprint, checks, inputs.

    Everything comes from the manifests, so no data is read, and versions whose files were removed can be compared too.
    With one number, that version is compared with the current one. To see the versions: odf explain DATASET DATAID

    With --rows Spark reads the files of both versions, which must still be what was published, and joins them by the key:
    how many rows were added, removed, changed or stayed, which columns changed how often, and examples. The key must be
    unique, and never null. Columns that only one version has, that have another type there, or that hold a map are named
    and not compared.

    \b
      odf diff flights_clean 2013-01-05
      odf diff flights_clean 2013-01-05 3 5
      odf diff flights 2013-01-05 --rows 10 --key carrier,flight,origin
    """
    from ..insight.diff import diff

    comparing = _comparing(app, examples, key, master)
    found = diff(app.store, check_id("dataset", dataset), check_id("dataid", dataid), v1, v2, comparing=comparing)
    app.show(found, lambda: _lines(found))
    return 0


def _comparing(app: App, examples: int | None, key: str | None, master: str | None) -> Comparing | None:
    if examples is None:
        if key is not None or master is not None:
            raise UsageError(
                f"{'--key' if key is not None else '--master'} is for comparing rows",
                hint="Say how many examples of each kind you want to see: --rows 10",
            )
        return None
    from ..insight.diff_rows import Comparing
    from .running import worker_of

    columns = tuple(name.strip() for name in (key or "").split(",") if name.strip())
    return Comparing(app.project, columns, examples, worker_of(app, master=master).spark)


def _lines(found: Diff) -> Iterator[Line]:
    from ..insight.words import when

    here = f"{found.datasetid} {found.dataid}"
    for version in (found.before, found.after):
        yield f"{here} version {version.version}: published {when(version.published)} by {version.jobid}"
    for column in found.columns:
        yield f"column {column}"
    rows = [("", each.what, _shown(each.before), _shown(each.after)) for each in found.facts]
    rows += [("check", each.what, _shown(each.before), _shown(each.after)) for each in found.checks]
    rows += [("input", each.what, _version(each.before), _version(each.after)) for each in found.inputs]
    if rows:
        yield from table(["", "what", f"version {found.before.version}", f"version {found.after.version}"], rows)
    if found.is_same_content is not None:
        yield "the content is the same" if found.is_same_content else "the content differs"
    elif not rows and not found.columns:
        yield "nothing that was recorded differs"
    if found.rows is not None:
        yield from _row_lines(found.rows, found.before.version, found.after.version)


def _row_lines(rows: Compared, before: int, after: int) -> Iterator[Line]:
    counts = (f"{n:,} {what}" for what, n in _counts(rows).items())
    yield f"rows: {', '.join(counts)}"
    for sign, style, n, some in (
        ("+", "yes", rows.added, rows.added_rows),
        ("-", "no", rows.removed, rows.removed_rows),
    ):
        yield from (
            [(f"{sign} {_cells(f'{one_line(name)} {_value(value)}' for name, value in row.items())}", style)]
            for row in some
        )
        yield from _more(sign, n, len(some))
    for row in rows.changed_rows:
        key = ", ".join(f"{one_line(name)} {_value(value)}" for name, value in row.key.items())
        cells = (f"{one_line(cell.column)} {_change(cell.before, cell.after)}" for cell in row.changed)
        yield f"~ {key}: {_cells(cells)}"
    yield from _more("~", rows.changed, len(rows.changed_rows))
    if rows.by_column:
        told = sorted(rows.by_column.items(), key=lambda item: (-item[1], item[0]))
        yield f"changed columns: {_cells(f'{one_line(name)} ({n:,})' for name, n in told)}"
    left_out = [f"{name} (only in version {before})" for name in rows.only_before]
    left_out += [f"{name} (only in version {after})" for name in rows.only_after]
    left_out += [f"{name} (cannot be compared)" for name in rows.not_comparable]
    left_out += rows.retyped
    if left_out:
        yield f"not compared: {_cells(map(one_line, left_out))}"


def _counts(rows: Compared) -> dict[str, int]:
    return {"added": rows.added, "removed": rows.removed, "changed": rows.changed, "unchanged": rows.unchanged}


def _more(sign: str, n: int, shown: int) -> Iterator[Line]:
    if n > shown:
        yield f"{sign} … and {n - shown:,} more"


def _cells(texts: Iterable[str]) -> str:
    """The first of many, in one line."""
    every = list(texts)
    more = f", … and {len(every) - _MOST_CELLS} more" if len(every) > _MOST_CELLS else ""
    return ", ".join(every[:_MOST_CELLS]) + more


def _change(before: str | None, after: str | None) -> str:
    """Two values; of long ones that begin alike, what follows from a little before they differ."""
    pairs = enumerate(zip(before or "", after or "", strict=False))
    alike = next((index for index, (one, other) in pairs if one != other), 0) - _BEFORE
    if before is not None and after is not None and alike > 0 and max(len(before), len(after)) > _WIDEST:
        return f"…{_value(before[alike:])} → …{_value(after[alike:])}"
    return f"{_value(before)} → {_value(after)}"


def _value(value: str | None) -> str:
    """A value as it is when it is plain, else with its odd characters written out."""
    if value is None:
        return "null"
    is_plain = value.isprintable() and value.strip() == value and value not in ("", "null")
    shown = value if is_plain else repr(value)
    return shown if len(shown) <= _WIDEST else shown[: _WIDEST - 1] + "…"


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        facts = ", ".join(f"{name} {fact}" for name, fact in value.items() if name != "passed")
        return ("passed" if value.get("passed") else "failed") + (f": {facts}" if facts else "")
    return f"{value:,}" if isinstance(value, int) else str(value) if value is not None else "–"


def _version(value: object) -> str:
    return f"version {value}" if value is not None else "–"
