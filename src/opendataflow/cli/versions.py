"""Verbs for versions: rollback, vacuum."""

from __future__ import annotations

import click

from ..errors import InvalidPath
from .app import App, table
from .common import Whole, confirm, verb
from .running import worker_of

_LISTED = 50


@verb("rollback")
@click.option("--to", type=Whole(min=1), metavar="VERSION", help="This version, instead of the previous one.")
@click.option("--why", metavar="TEXT", help="The reason, for the history.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.argument("dataset")
@click.argument("dataid")
def rollback_verb(app: App, dataset: str, dataid: str, to: int | None, why: str | None, dry_run: bool) -> int:
    """Make an older version of a chunk the current one again: the previous one, or --to. The next reader reads it.

    A chunk that is RESUBMIT, or FAILED because it was run again, becomes READY with the version that it had. Nothing is
    copied or removed, so it can be undone the same way. What was made from the newer version stays as it is; odf resubmit
    has it made again. To see the versions: odf explain DATASET DATAID

    \b
      odf rollback flights_clean 2013-01-05
      odf rollback flights_clean 2013-01-05 --to 3 --why "version 4 lost the carriers"
    """
    from ..steer import rollback

    changed = rollback(app.store, app.project, dataset, dataid, to, why=why, dry_run=dry_run)
    would = "would be" if dry_run else "is"
    lines = [
        f"{change.datasetid} {change.dataid} {would} READY again: readers get version {change.after}"
        if change.after == change.before
        else f"{change.datasetid} {change.dataid} {would} version {change.after}; it was {change.before}"
        for change in changed
    ]
    app.show({"verb": "rollback", "dry_run": dry_run, "changed": changed}, lambda: lines)
    return 0


@verb("vacuum")
@click.option(
    "--keep",
    type=Whole(min=1),
    metavar="N",
    help="How many of the newest versions of each chunk stay (default: the dataset's keep, or 2). The current one always stays.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.argument("datasets", metavar="[DATASET…]", nargs=-1)
def vacuum_verb(app: App, datasets: tuple[str, ...], keep: int | None, dry_run: bool, yes: bool) -> int:
    """Remove what no version points to: what failed and killed attempts wrote, and versions older than the newest N.

    The current version stays, and so does what runs or is being read, what somebody else put there, and everything
    outside the environment's roots. Manifests stay too: they say what an old version was.

    \b
      odf vacuum --dry-run
      odf vacuum flights_clean --keep 5
      odf vacuum --yes                     every night
    """
    from ..run import vacuum

    planned = vacuum.plan(app.store, app.project, datasets, keep)
    for note in planned.left_out:
        app.say(f"left out {note}")
    rows = [
        (stray.datasetid, stray.dataid, f"{stray.what} {stray.number}", size(stray.bytes)) for stray in planned.strays
    ]
    lines = table(["dataset", "dataid", "what", "size"], rows[:_LISTED]) if rows else []
    if len(rows) > _LISTED:
        lines.append(f"… and {len(rows) - _LISTED:,} more")
    total = f"{len(rows):,} folder{'s' * (len(rows) != 1)}, {size(planned.bytes)}"
    if dry_run:
        lines.append(f"would remove {total}" if rows else "nothing to remove")
        if planned.tables:
            lines.append("and the staging tables of " + ", ".join(dataset.datasetid for dataset, _ in planned.tables))
        app.show({"dry_run": True, "removed": planned.strays, "bytes": planned.bytes}, lambda: lines)
        return 0
    if rows and not yes:
        for line in lines:
            app.say(line)
        confirm(app, f"remove {total}?", yes)
    gone, problems = vacuum.vacuum(app.store, app.project, planned)
    dropped, more = vacuum.drop_staging_tables(app.store, planned.tables, worker_of(app).vault.password)
    for problem in [*problems, *more]:
        app.say(f"not removed: {problem}")
    freed = sum(stray.bytes for stray in gone)
    last = f"removed {len(gone):,} folder{'s' * (len(gone) != 1)}, {size(freed)}" if gone else "nothing to remove"
    if dropped:
        last = f"{last if gone else 'removed'}{' and' * bool(gone)} {dropped} staging table{'s' * (dropped != 1)}"
    app.show(
        {"dry_run": False, "removed": gone, "bytes": freed, "staging_tables": dropped, "problems": [*problems, *more]},
        lambda: [*(lines if yes else []), last],
    )
    return InvalidPath.exit_code if problems or planned.is_root_missing else 0


def size(count: float) -> str:
    """A number of bytes as people read it."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
