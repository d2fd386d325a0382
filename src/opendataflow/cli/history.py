"""The verb history: what happened, newest first."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import tzinfo
from typing import TYPE_CHECKING

import click

from .app import App, Line, one_line
from .common import Whole, verb
from .selectors import selectors

if TYPE_CHECKING:
    from ..insight.history import Happened, HistoryPage
    from ..model.selector import Selector

_WIDTH = 118


@verb("history")
@click.option("-n", "most", type=Whole(1, 10_000), default=50, show_default=True, help="At most this many.")
@click.option("--before", type=Whole(1), metavar="EVENT", help="Only events older than this one: the next page.")
@click.option(
    "--kind", "kinds", metavar="KIND", multiple=True, help="Only this kind of event: failed, published, resubmitted, …"
)
@selectors("--all")
def history_verb(app: App, selector: Selector, most: int, before: int | None, kinds: tuple[str, ...]) -> int:
    """What happened, newest first: when, to what, from which status to which, by whom and why.

    The history is append-only. Selectors say which events are meant; --status and --failed mean events that led to this
    status, --since and --until the time of the event. Times are shown in the project's time zone.

    \b
      odf history
      odf history flights_clean 2013-01-05
      odf history --failed --since yesterday
      odf history --by ann --kind resubmitted --kind held
      odf history --downstream-of flights_raw:2013-01-05 -n 200
    """
    from ..insight.history import history
    from ..model.timezone import time_zone

    page = history(app.store, selector, kinds=kinds, n=most, before=before)
    command = ["odf", "history", *selector.words(), *(word for kind in kinds for word in ("--kind", kind))]
    command += ["-n", str(most)] if most != 50 else []
    app.show(page, lambda: _lines(page, time_zone(app.project.timezone), shlex.join(command)), overview=True)
    return 0


def _lines(page: HistoryPage, zone: tzinfo, command: str) -> Iterator[Line]:
    from ..insight.words import said

    if not page.events:
        yield "no such events" + (f" since event {page.older}" if page.older is not None else "")
    chunk = max((len(_about(event)) for event in page.events), default=0)
    what = max((len(event.what) for event in page.events), default=0)
    change = max((len(_change(event)) for event in page.events), default=0)
    for event in page.events:
        # In full: a line that is copied, alone and later, names the same moment.
        at = f"{event.at.astimezone(zone):%Y-%m-%d %H:%M:%S %Z}" if event.at else "an unknown time"
        told = f"{at:23}  {_about(event):{min(chunk, 44)}}  {event.what:{what}}  "
        run = f"run {event.runid}" if event.runid is not None else ""
        rest = "  ".join(filter(None, (run, one_line(_author(event.who)))))
        yield (
            [(told, ""), (f"{_change(event):{change}}", event.after or ""), (f"  {rest}".rstrip(), "")]
            if (event.after in _COLOURED)
            else f"{told}{_change(event):{change}}  {rest}".rstrip()
        )
        reason = ": ".join(filter(None, (event.outcome, said(event.why, 10 * _WIDTH))))
        if reason:
            yield [(f"    {reason}"[: _WIDTH - 1] + ("…" if len(reason) > _WIDTH - 5 else ""), "faint")]
    if page.partly is not None:
        yield f"before event {page.partly}, claims, publishes and announcements were not looked at"
    if page.older is not None:
        yield [("older: ", "faint"), (f"{command} --before {page.older}", "command")]


_COLOURED = ("READY", "RUNNING", "FAILED", "RESUBMIT", "HOLD", "PENDING")


def _about(event: Happened) -> str:
    chunk = " ".join(filter(None, (event.datasetid, event.dataid)))
    return chunk or (f"job {event.jobid}" if event.jobid else "")


def _change(event: Happened) -> str:
    if event.before is None and event.after is None:
        return ""
    if event.kind in ("refused", "admitted"):
        return event.after or ""  # the verdict
    return f"{event.before or '–'} → {event.after or '–'}"


def _author(who: str | None) -> str:
    """The user and the host, without the process."""
    user, colon, pid = (who or "").rpartition(":")
    return user if colon and pid.isdigit() else who or ""
