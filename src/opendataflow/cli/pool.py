"""The verb pool: how many chunks may run at once, across all machines."""

from __future__ import annotations

from typing import Any

import click

from ..errors import UsageError
from ..model import check_id
from .app import App, table, up_to_date
from .common import verb

_EXAMPLE = "For instance: odf pool set etl 8 --create"


@verb("pool")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--create", is_flag=True, help="Create the pool where there is none of this name.")
@click.option("--why", metavar="TEXT", help="The reason, for the history.")
@click.option("--always", is_flag=True, help="Drop the hours: the same slots all week.")
@click.option("--timezone", metavar="ZONE", help="The time zone of the hours, like Europe/Paris (default: UTC).")
@click.option(
    "--hours",
    metavar="TEXT",
    multiple=True,
    help="When the pool has other slots, like Mon-Fri 08:00-18:00 -> 4; repeatable.",
)
@click.argument("action", type=click.Choice(["list", "set", "drop"]), default="list")
@click.argument("name", required=False)
@click.argument("slots", metavar="[N|unlimited]", required=False)
def pool_verb(app: App, action: str, name: str | None, slots: str | None, dry_run: bool, **how: Any) -> int:
    """How many chunks may run at once, across all machines. A change counts from the next claim; nothing is killed.

    A name that no pool has is refused; --create makes a new pool. With --hours the pool has another number of slots in
    parts of the week. The first line that matches counts. 0 slots are a pause, whatever the hours say. Datasets that limit
    their readers (readers = n in dataflow.toml) are listed too.

    \b
      odf pool                     slots now and until when, taken, waiting
      odf pool set etl 8 --create  a new pool
      odf pool set etl 8
      odf pool set etl 0           pause
      odf pool set etl unlimited
      odf pool set etl 20 --hours "Mon-Fri 08:00-18:00 -> 4" --timezone Europe/Paris
      odf pool set etl --always    no hours any more
      odf pool drop etl
    """
    if action == "list":
        if name is not None:
            raise UsageError(f"odf pool list takes no name, but was given {name[:40]!r}", hint="See: odf pool")
        return _list(app)
    changed = bool(how["hours"] or how["timezone"] or how["always"])
    if name is None or (action == "set") != (slots is not None or changed):
        raise UsageError(
            f"odf pool {action} needs {'a name and a number' if action == 'set' else 'one name'}", hint=_EXAMPLE
        )
    if action == "drop":
        return _drop(app, check_id("pool", name), dry_run)
    return _set(app, name, slots, dry_run, **how)


def _list(app: App) -> int:
    from ..insight.pools import pools

    with up_to_date(app):
        uses = pools(app.store)
    rows = []
    for use in uses:
        name = use.poolid if use.what == "pool" else f"readers of {use.poolid}"
        rows.append((name, use.now_text, use.taken, use.waiting_text, ", ".join(use.jobs)))
    app.show(
        uses,
        lambda: table(["pool", "slots", "taken", "waiting", "jobs"], rows) if rows else [f"no pools. {_EXAMPLE}"],
        overview=True,
    )
    return 0


def _drop(app: App, poolid: str, dry_run: bool) -> int:
    app.store.drop_pool(poolid, dry_run=dry_run)
    would = "would be" if dry_run else "is"
    app.show({"pool": poolid, "dropped": not dry_run, "dry_run": dry_run}, lambda: [f"pool {poolid} {would} dropped"])
    return 0


def _set(app: App, name: str, slots: str | None, dry_run: bool, **how: Any) -> int:
    from ..insight.pools import change_text, slots_text
    from ..steer import set_pool

    done = set_pool(app.store, name, slots, dry_run=dry_run, **how)
    pool = done.pool
    was = "" if done.before is None else f"; before: {slots_text(done.before.slots)}"
    lines = [f"slots of pool {pool.poolid}: {slots_text(pool.slots)}{was}{' (nothing was changed)' * dry_run}"]
    if done.hours:
        lines += [f"  {line}" for line in done.hours]
        if not dry_run:
            lines.append(f"now: {slots_text(done.now)}" + (f", {change_text(done.changes)}" if done.changes else ""))
    app.show(
        {
            "pool": pool.poolid,
            "slots": pool.slots,
            "now": done.now,
            "options": pool.options,
            "changed": done.is_changed,
            "dry_run": dry_run,
        },
        lambda: lines,
    )
    return 0
