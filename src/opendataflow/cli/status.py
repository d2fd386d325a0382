"""The verb status: the matrix of datasets and dataids, or a line for each chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from ..errors import BadDefinition
from ..model import check_id
from .app import App, Line, one_line, plain, table, up_to_date
from .at import at_option, moment_of
from .common import Whole, verb

if TYPE_CHECKING:
    from datetime import datetime

    from ..insight.definitions import BrokenFact
    from ..insight.late import Lateness
    from ..store import Chunk


@verb("status")
@click.option("--from", "since", metavar="DATAID", help="From this dataid or period on: 2013, 2013-01, 2013-01-05, 7.")
@click.option("--to", "until", metavar="DATAID", help="Up to and including this dataid or period.")
@click.option("--status", metavar="STATUS", help="Only datasets with chunks of this status or sign.")
@click.option("--chunks", is_flag=True, help="A line for each chunk instead of the matrix.")
@click.option("--exact", is_flag=True, help="Count every chunk, however many there are.")
@click.option(
    "-n", "most", type=Whole(1), default=1000, show_default=True, help="At most this many lines with --chunks."
)
@at_option
@click.argument("datasets", metavar="[DATASET]…", nargs=-1)
def status_verb(
    app: App,
    datasets: tuple[str, ...],
    chunks: bool,
    exact: bool,
    most: int,
    moment: str | None,
    **only: str | None,
) -> int:
    """The matrix of datasets and dataids, along the flow.

    Where the dataids do not fit, a cell stands for a month, a year or a thousand numbers, and shows the worst status
    in it. A look at a million chunks costs no more than one at a thousand. Beside the statuses there are signs: REFUSED
    (it came, and was not taken), MISSING (expected on the dataset, and not there), STALE (≠: READY, and made from an older
    version), and below the matrix LATE (not READY by its deadline) and WARNED (READY, with rejected rows or a check that
    warned).

    With --at it is told from the history, as it was then; of very many chunks only the last ones by then.

    \b
      odf status
      odf status flights_clean --from 2013-01 --to 2013-03
      odf status --status FAILED
      odf status flights_raw --chunks --status FAILED
      odf status --at 2013-01-05T18:00
    """
    app.says_unapplied = chunks  # the matrix shows it itself
    names = [check_id("dataset", name) for name in datasets]
    at = moment_of(app, moment)
    if chunks:
        with up_to_date(app):
            if at is None:
                from ..insight.matrix import chunk_list

                listed = chunk_list(app.store.views, names, n=most, **only)
            else:
                from ..insight.past import chunk_list_then

                listed = chunk_list_then(app.store, at, names, n=most, **only)
        app.show(listed, lambda: _chunk_lines(listed, most, at), overview=True)
        return 0
    from ..insight.definitions import broken_facts
    from ..insight.late import deadlines_missed
    from .matrix import lines, terminal_width

    width = terminal_width()
    with up_to_date(app):
        if at is None:
            from ..insight.matrix import overview

            result = overview(app.store.views, names, width=width, exact=exact, **only)
        else:
            from ..insight.past import overview_then

            result = overview_then(app.store, at, names, width=width, exact=exact, **only)
        broken = broken_facts(app.store.catalogue(), app.project)
        differs = app.unapplied_line()
        overdue = deadlines_missed(app.store, names) if at is None and not any(only.values()) else None
    late = {} if overdue is None else {"late": plain(overdue.late)}
    app.show(
        plain(result) | {"broken": plain(broken), "unapplied": differs, "pending": app.pending} | late,
        lambda: (
            line
            for shown in (
                lines(result, width),
                _late_lines(overdue),
                broken_lines(broken),
                [[("NOT APPLIED: ", "no"), (differs, "")]] if differs else [],
            )
            for line in shown
        ),
        overview=True,
    )
    return 0


def _late_lines(overdue: Lateness | None) -> Iterator[Line]:
    from ..insight.words import are, many

    if overdue is not None and overdue.late:
        n, first = len(overdue.late), overdue.late[0]
        said = f"{many(n, n if overdue.more else None)} {are(n)} late, the first {first.datasetid} {first.dataid}"
        yield [("LATE: ", "LATE"), (f"{said}; see: odf late", "")]


def broken_lines(broken: Sequence[BrokenFact]) -> Iterator[Line]:
    """The definitions that do not load, which jobs they stop, and the way out."""
    for each in broken:
        stopped = f" (stops {', '.join(each.jobs)})" if each.jobs else ""
        yield [(f"{BadDefinition.name}: ", "no"), (one_line(f"{each.problem}{stopped}"), "")]
        yield f"  {one_line(each.mend)}"


def _chunk_lines(chunks: Sequence[Chunk], most: int, at: datetime | None) -> Iterator[Line]:
    from ..insight.words import when

    if at is not None:
        yield from ([(f"as it was at {when(at)}", "faint")], "")
    if not chunks:
        yield "no chunks"
        return
    rows = [
        (
            chunk.datasetid,
            chunk.dataid,
            chunk.status,
            when(chunk.modified, ""),
            chunk.version or "",
            chunk.runid,
            chunk.tries or "",
        )
        for chunk in chunks
    ]
    yield from table(["dataset", "dataid", "status", "since", "version", "run", "tries"], rows)
    if len(chunks) == most:
        yield f"these are the first {most:,}; for more: -n N, or --from {chunks[-1].dataid}"
