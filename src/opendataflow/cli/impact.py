"""Verbs about what hangs on a chunk: impact, recall."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..model import check_id
from .app import App, Line, one_line, table, up_to_date
from .common import confirm, verb

if TYPE_CHECKING:
    from ..insight.stale import DownstreamChunk, Impact
    from ..store import Recall

_LISTED = 500
_LISTED_IN_RECALL = 20


@verb("impact")
@click.argument("dataset")
@click.argument("dataid")
def impact_verb(app: App, dataset: str, dataid: str) -> int:
    """What was really made from a chunk, at any distance, as a tree: which version of what, by which job, and when.

    STALE is what was made from an older version than the one that stands now, or from something that is itself STALE. To
    have all of it made again: odf resubmit --stale

    \b
      odf impact flights_raw 2013-01-05
      odf impact flights_raw 2013-01-05 --json
    """
    from ..insight.stale import impact

    datasetid = check_id("dataset", dataset)
    check_id("dataid", dataid)
    with up_to_date(app):
        found = impact(app.store, datasetid, dataid)
    app.show(found, lambda: _impact_lines(found))
    return 0


def _impact_lines(impact: Impact) -> Iterator[Line]:
    here = f"{impact.datasetid} {impact.dataid}"
    version = f" version {impact.version}" if impact.version else ""
    yield [
        (f"{here}{version} ", "strong"),
        (impact.status or "not there", impact.status or "faint"),
        (" STALE" if impact.is_stale else "", "STALE"),
    ]
    shown = impact.made[:_LISTED]
    for prefix, each in zip(_branches([each.depth for each in shown]), shown, strict=True):
        yield [(prefix, "faint"), *_hanging(each)]
    if len(impact.made) > len(shown) or impact.more:
        yield "… and more: --json has up to 10,000 of them"
    if not impact.made:
        yield "nothing was made from it"
        return
    counted = f"{'at least ' if impact.more else ''}{impact.chunks:,} chunk{'s' * (impact.chunks != 1)}"
    yield f"{counted} made from it, {impact.stale:,} of them STALE"
    if impact.stale:
        yield [
            ("  → ", "faint"),
            (f"odf resubmit --stale --downstream-of {impact.datasetid}:{impact.dataid}", "command"),
        ]


def _hanging(each: DownstreamChunk) -> Iterator[tuple[str, str]]:
    from ..insight.words import when

    yield f"{each.datasetid} {each.dataid} version {each.version} ", ""
    yield each.status, each.status
    yield " STALE" if each.is_stale else "", "STALE"
    by = f" by {each.jobid}" if each.jobid else ""
    run = f", run {each.runid}" if each.runid else ""
    yield one_line(f"  from version {each.made_from[2]}{by}{run}, {when(each.published)}"), "faint"
    yield " (above)" if each.is_again else "", "faint"


def _branches(depths: Sequence[int]) -> list[str]:
    """What stands before each line of a tree whose lines have these depths, the first of which is 1."""
    prefixes = []
    open_below: set[int] = set()  # depths at which another line follows further down
    for depth in reversed(depths):
        bars = "".join("│  " if level in open_below else "   " for level in range(1, depth))
        prefixes.append(bars + ("├─ " if depth in open_below else "└─ "))
        open_below = {level for level in open_below if level < depth} | {depth}
    return prefixes[::-1]


@verb("recall")
@click.option("--cascade", is_flag=True, help="Everything that was really made from it too, at any distance.")
@click.option("--hold", is_flag=True, help="Leave it recalled, on HOLD, instead of having it made again.")
@click.option("--why", metavar="TEXT", required=True, help="The reason, for the history and for whoever asks.")
@click.option("--dry-run", is_flag=True, help="Show what would happen, and change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.argument("dataset")
@click.argument("dataid")
def recall_verb(
    app: App, dataset: str, dataid: str, cascade: bool, hold: bool, why: str, dry_run: bool, yes: bool
) -> int:
    """Published data was bad: from now on no job reads this version again. The preview comes first, always.

    With --cascade the same happens to everything that was made from it. All of it becomes RESUBMIT and is made again,
    upstream first; what no job produces waits until it is delivered anew. Runs that read it now lose their chunk and come
    back by themselves. A version that was recalled cannot be released, rolled back to or announced again unchanged.

    \b
      odf recall flights_raw 2013-01-05 --why "half the airports are missing" --dry-run
      odf recall flights_raw 2013-01-05 --cascade --why "half the airports are missing"
      odf recall flights_clean 2013-01-05 --hold --why "waiting for the vendor" --yes
    """
    from .. import steer

    how: dict[str, Any] = {"why": steer.check_reason(why), "cascade": cascade, "hold": hold}
    planned = steer.recall(app.store, dataset, dataid, dry_run=True, **how)
    if dry_run:
        app.show(_data(planned, dry_run), lambda: _recall_lines(planned, "would become"))
        return 0
    for line in _recall_lines(planned, "would become"):
        app.say("".join(text for text, _ in line) if not isinstance(line, str) else line)
    confirm(app, f"recall {len(planned.versions):,} version{'s' * (len(planned.versions) != 1)}?", yes)
    done = steer.recall(app.store, dataset, dataid, **how)
    told = f"recalled {len(done.versions):,} version{'s' * (len(done.versions) != 1)}"
    app.show(
        _data(done, dry_run), lambda: [f"{told}; no job reads {'it' if len(done.versions) == 1 else 'them'} again"]
    )
    return 0


def _data(recall: Recall, dry_run: bool) -> dict[str, Any]:
    return {"verb": "recall", "dry_run": dry_run, **recall._asdict()}


def _recall_lines(recall: Recall, what: str) -> Iterator[Line]:
    rows = [
        (each.datasetid, each.dataid, each.before or "–", "→", each.after or "–")
        for each in recall.changed[:_LISTED_IN_RECALL]
    ]
    if rows:
        yield from table(["dataset", "dataid", "now", "", what], rows)
    if len(recall.changed) > len(rows):
        yield f"… and {len(recall.changed) - len(rows):,} more"
    for run in recall.lost[:_LISTED_IN_RECALL]:
        yield f"run {run.runid} of {run.jobid} {run.dataid} reads it now and loses its chunk"
    versions, chunks = len(recall.versions), len({version[:2] for version in recall.versions})
    older = ", older ones too: a rollback to them is not possible" if versions > chunks else ""
    yield f"{versions:,} version{'s' * (versions != 1)} would not be read again{older}"
