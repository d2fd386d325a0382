"""The verb timeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from .app import App, Line, table, up_to_date
from .common import job_named, verb
from .selectors import moment_of

if TYPE_CHECKING:
    from ..insight.timeline import Timeline

_WIDTH = 60  # characters of the period
_BLOCKS = "▁▂▃▄▅▆▇█"


@verb("timeline")
@click.option("--since", metavar="TIME", help="From then on: 2026-11-14, 03:00, 2h, yesterday. Without it, 1h.")
@click.option("--until", metavar="TIME", help="Until then; a day is meant to its end. Without it, now.")
@click.option(
    "--by",
    type=click.Choice(["worker", "pool", "job"]),
    default="worker",
    show_default=True,
    help="What has a row of its own.",
)
@click.option("--job", metavar="JOB|DATASET", help="Only runs of this job.")
def timeline_verb(app: App, since: str | None, until: str | None, by: str, job: str | None) -> int:
    """When runs ran, by worker, pool or job, and what they waited for.

    A row is as high as many ran at a time; where one failed it is red. Below are the runs that waited longest although
    all that they read was READY, and for how long of that their pool had no free slot.

    \b
      odf timeline
      odf timeline --since 03:00 --by pool
      odf timeline --since yesterday --job clean_flights --json
    """
    from ..insight.timeline import timeline

    begin = moment_of(app, since) if since else None
    end = moment_of(app, until, end=True) if until else None
    with up_to_date(app):
        drawn = timeline(app.store, begin, end, by, job_named(app, job) if job else "")
    app.show(drawn, lambda: _lines(drawn), overview=True)
    return 0


def _lines(drawn: Timeline) -> Iterator[Line]:
    from ..insight.timeline import counted
    from ..insight.words import count, took, when

    failed = f", {drawn.failed:,} failed" if drawn.failed else ""
    yield [(f"{when(drawn.since)} to {when(drawn.until)}", "strong"), (f": {count(drawn.runs, 'run')}{failed}", "")]
    wide = max((len(lane.name) for lane in drawn.lanes), default=0)
    for lane in drawn.lanes:
        counts = counted(drawn, lane, _WIDTH)
        most = max(runs for runs, _ in counts)
        strip = [(_block(runs, most), "FAILED" if bad else "READY" if runs else "faint") for runs, bad in counts]
        failed = f", {lane.failed:,} failed" if lane.failed else ""
        slots = f", {count(lane.slots, 'slot')}" if lane.slots is not None else ""
        yield [(lane.name.ljust(wide) + "  ", "strong"), *strip, (f"  {count(lane.runs, 'run')}{failed}{slots}", "")]
    if drawn.longest_waits:
        yield ""
        yield [("Waited longest", "strong")]
        rows = [
            (
                bar.runid,
                bar.jobid,
                bar.dataid,
                took(bar.wait.seconds),
                took(bar.wait.full) if bar.wait.full >= 0.05 else "",
                f"{bar.wait.read.datasetid} {bar.wait.read.dataid}",
            )
            for bar in drawn.longest_waits
            if bar.wait
        ]
        yield from table(("run", "job", "dataid", "waited", "for a slot", "since this was READY"), rows)
    yield from ([(remark, "faint")] for remark in drawn.remarks)


def _block(runs: int, most: int) -> str:
    return _BLOCKS[max(runs * len(_BLOCKS) // most - 1, 0)] if runs else "·"
