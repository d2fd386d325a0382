"""The verb that reads everything again: audit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ..errors import NotValidated
from .app import App, Line
from .common import verb
from .versions import size

if TYPE_CHECKING:
    from ..insight.content import ContentCheck

_LISTED = 100


@verb("audit")
@click.argument("dataset", required=False)
@click.argument("dataids", metavar="[DATAID…|FROM..TO]", nargs=-1)
def audit_verb(app: App, dataset: str | None, dataids: tuple[str, ...]) -> int:
    """Read published files again, every byte, and name each one that is not what was published.

    Before a run, files are compared by content only where their dataset says verify = "content", or where there is little
    to read. This finds the rest: bit rot, and changes that kept size and time. Without a dataset it reads all of them. A file
    without a checksum, written by Spark in a large chunk or by an older version, is compared by size and time.

    \b
      odf audit
      odf audit flights_raw
      odf audit flights_raw 2013-01-01..2013-01-31

    \b
    Exit codes: 0 everything is what was published, 13 NOT_VALIDATED something is not.
    """
    from ..insight.content import published_versions, read_again

    versions, left_out = published_versions(app.store, app.project, dataset, dataids)
    app.say(f"reading {size(sum(version.manifest.bytes or 0 for version in versions))}")
    found = read_again(app.project, versions, left_out)
    app.show(found, lambda: _lines(found))
    return NotValidated.exit_code if found.problems else 0


def _lines(found: ContentCheck) -> Iterator[Line]:
    for note in found.left_out:
        yield f"left out {note}"
    for problem in found.problems[:_LISTED]:
        yield [(f"{problem.datasetid} {problem.dataid}", "no"), (f" version {problem.version}: {problem.why}", "")]
    if len(found.problems) > _LISTED:
        yield f"… and {len(found.problems) - _LISTED:,} more"
    if found.without_checksum:
        yield f"{_many(found.without_checksum, 'file')} without a checksum: compared by size and time only"
    if found.problems:
        changed = len({(problem.datasetid, problem.dataid) for problem in found.problems})
        yield [(NotValidated.name, "no"), (f": {changed:,} of {_many(found.chunks, 'chunk')} differ", "")]
    else:
        yield f"{_many(found.chunks, 'chunk')}, {_many(found.files, 'file')}: every file is what was published"


def _many(n: int, word: str) -> str:
    return f"{n:,} {word}{'s' * (n != 1)}"
