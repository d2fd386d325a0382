"""The verb diff: how one version of a chunk differs from another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from ..model import check_id
from .common import App, Line, table, verb

if TYPE_CHECKING:
    from ..insight.diff import Diff


@verb("diff")
@click.argument("dataset")
@click.argument("dataid")
@click.argument("v1", type=click.IntRange(1), required=False)
@click.argument("v2", type=click.IntRange(1), required=False)
def diff_verb(app: App, dataset: str, dataid: str, v1: int | None, v2: int | None) -> int:
    """How a version of a chunk differs from the one before: columns, rows, bytes, span, fingerprint, checks, inputs.

    Everything comes from the manifests, so no data is read, and versions whose files were removed can be compared too.
    With one number, that version is compared with the current one. To see the versions: odf explain DATASET DATAID

    \b
      odf diff flights_clean 2013-01-05
      odf diff flights_clean 2013-01-05 3 5
    """
    from ..insight.diff import diff

    found = diff(app.store, check_id("dataset", dataset), check_id("dataid", dataid), v1, v2)
    app.show(found, lambda: _lines(found))
    return 0


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


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        facts = ", ".join(f"{name} {fact}" for name, fact in value.items() if name != "passed")
        return ("passed" if value.get("passed") else "failed") + (f": {facts}" if facts else "")
    return f"{value:,}" if isinstance(value, int) else str(value) if value is not None else "–"


def _version(value: object) -> str:
    return f"version {value}" if value is not None else "–"
