"""Verbs that steer chunks: resubmit, hold, release, fail, forget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from .app import App, Line, table
from .common import confirm, verb
from .selectors import selectors

if TYPE_CHECKING:
    from ..model.selector import Selector
    from ..store import Steered

_LISTED = 20


@dataclass(frozen=True, slots=True)
class _Order:
    """What a person asks for: which chunks, and how."""

    selector: Selector
    why: str | None
    force: bool
    dry_run: bool
    yes: bool


def _chunk_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--yes", "-y", is_flag=True, help="Do not ask."),
        click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing."),
        click.option(
            "--force", is_flag=True, help="Take RUNNING chunks away from their runs, which then cannot publish."
        ),
        click.option("--why", metavar="TEXT", help="The reason, for the history."),
    ):
        function = option(function)
    return selectors()(function)


def _steer(app: App, name: str, order: _Order) -> int:
    from ..steer import select_chunks, steer_chunks

    chunks = select_chunks(app.store, name, order.selector)

    def changes(dry_run: bool) -> list[Steered]:
        return steer_chunks(app.store, name, chunks, why=order.why, force=order.force, dry_run=dry_run)

    return _carry_out(app, name, order, changes)


def _remake(app: App, order: _Order) -> int:
    from ..steer import select_stale

    chunks = select_stale(app.store, order.selector)
    return _carry_out(app, "resubmit", order, lambda dry_run: app.store.remake(chunks, why=order.why, dry_run=dry_run))


def _carry_out(app: App, name: str, order: _Order, changes: Callable[[bool], list[Steered]]) -> int:
    planned = changes(True)
    if order.dry_run or not planned:
        app.show(
            _data(name, planned, order.dry_run),
            lambda: _shown(planned, f"{name}: would change") if planned else ["nothing to change"],
        )
        return 0
    if len(planned) > 1 and not order.yes:
        for line in _shown(planned, f"{name}: would change"):
            app.say(str(line))
        confirm(app, f"{name} {len(planned):,} chunks?", order.yes)
    done = changes(False)
    app.show(_data(name, done, order.dry_run), lambda: _shown(done, f"{name}: changed"))
    return 0


def _data(name: str, changes: list[Steered], dry_run: bool) -> dict[str, Any]:
    return {"verb": name, "dry_run": dry_run, "changed": changes}


def _shown(changes: list[Steered], what: str) -> list[Line]:
    rows = [
        (change.datasetid, change.dataid, change.before or "–", "→", change.after or "–")
        for change in changes[:_LISTED]
    ]
    lines: list[Line] = [*table(["dataset", "dataid", "before", "", "after"], rows)]
    if len(changes) > _LISTED:
        lines.append(f"… and {len(changes) - _LISTED:,} more")
    due = sum(change.before == change.after for change in changes)
    if due:
        lines.append(
            f"{due:,} of them {'is' if due == 1 else 'are'} RESUBMIT already, but deferred after a failure: due at once"
        )
    return [*lines, f"{what} {len(changes):,} chunk{'s' * (len(changes) != 1)}"]


@verb("resubmit")
@click.option("--stale", is_flag=True, help="Only what was made from an older version; each once, upstream first.")
@_chunk_options
def resubmit_verb(app: App, stale: bool, **how: Any) -> int:
    """Have chunks produced again, before anything new. The next ordinary run takes them, in order.

    A chunk that is deferred until its next try is due at once. With --stale, a chunk is READY again without a run if
    everything that it was made from comes out the same.

    \b
      odf resubmit flights_clean 2013-01-05
      odf resubmit flights_clean 2013-01-01..2013-01-31 --why "late data"
      odf resubmit --failed                    everything that failed
      odf resubmit --job clean_flights --failed
      odf resubmit --cause "disk is full" --since yesterday
      odf resubmit --downstream-of flights_raw:2013-01-05
      odf resubmit --stale                     everything that was made from an older version
      odf resubmit --stale --downstream-of flights_raw:2013-01-05
      odf resubmit flights_clean --all --dry-run
    """
    if stale:
        return _remake(app, _Order(**how))
    return _steer(app, "resubmit", _Order(**how))


@verb("hold")
@_chunk_options
def hold_verb(app: App, **how: Any) -> int:
    """Set chunks aside: no job reads or produces them until they are released. Works for future dataids too.

    \b
      odf hold flights_raw 2013-01-05 --why "waiting for the vendor"
      odf hold flights_clean 2013-02-01..2013-02-28 --yes
    """
    return _steer(app, "hold", _Order(**how))


@verb("release")
@_chunk_options
def release_verb(app: App, **how: Any) -> int:
    """Restore held chunks to the status that they had before.

    \b
      odf release flights_raw 2013-01-05
      odf release flights_raw --all
    """
    return _steer(app, "release", _Order(**how))


@verb("fail")
@_chunk_options
def fail_verb(app: App, **how: Any) -> int:
    """Mark chunks as bad: nobody reads them until they are produced again.

    \b
      odf fail flights_clean 2013-01-05 --why "half the airports are missing"
    """
    return _steer(app, "fail", _Order(**how))


@verb("forget")
@_chunk_options
def forget_verb(app: App, **how: Any) -> int:
    """Treat chunks as never produced: their rows go, history and versions stay. The job may then produce them anew.

    \b
      odf forget flights_clean 2013-01-05
      odf forget flights_clean --all --yes
    """
    return _steer(app, "forget", _Order(**how))
