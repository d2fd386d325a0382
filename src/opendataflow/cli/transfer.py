"""Verbs that carry a whole store: backup, export, import."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from ..errors import BadConfig
from .common import App, table, verb


@contextmanager
def _new_file(path: Path) -> Iterator[Path]:
    """A name to write under, which becomes this file when all of it is written; private, since the store is."""
    if path.exists():
        raise BadConfig(f"{path} exists already", hint="Give it another name, or remove the old one first.")
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        unfinished.touch(mode=0o600)
        yield unfinished
        unfinished.rename(path)
    except OSError as error:
        raise BadConfig(f"{path} cannot be written: {error.strerror or error}", hint="Check the folder.") from None
    finally:
        unfinished.unlink(missing_ok=True)


@verb("backup")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def backup_verb(app: App, file: Path) -> int:
    """Copy the embedded store into a file: complete, of one moment, while workers work.

    The copy is a store of its own. To go back to it, see docs/how-to/backup-and-restore.md. A store on PostgreSQL is
    backed up by pg_dump.

    \b
      odf backup dataflow-$(date +%F).db
      odf status --store sqlite:///dataflow-2025-11-12.db
    """
    with _new_file(file) as unfinished:
        app.store.back_up(unfinished)
    app.show({"file": str(file), "bytes": file.stat().st_size}, lambda: [f"{app.store.url} is copied to {file}"])
    return 0


@verb("export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def export_verb(app: App, file: Path) -> int:
    """Write everything that the store holds into a file, as it is at one moment: definitions, statuses, versions, history.

    Any other store can be filled from it, SQLite or PostgreSQL. Stop the workers first: what runs is not carried along.

    \b
      odf export store.jsonl
      odf import store.jsonl --store postgresql://etl@db/dataflow
    """
    with _new_file(file) as unfinished:
        app.store.export(unfinished)
    running = len(app.store.running())
    if running:
        app.say(f"{running} chunk{'s are' if running > 1 else ' is'} RUNNING: whoever works there publishes here only")
    app.show({"file": str(file), "running": running}, lambda: [f"{app.store.url} is exported to {file}"])
    return 0


@verb("import")
@click.option("--dry-run", is_flag=True, help="Count what would be imported, and change nothing.")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
def import_verb(app: App, file: Path, dry_run: bool) -> int:
    """Fill a new store with everything that odf export wrote: all of it or nothing.

    The tables are made when they are missing. A store that is in use is refused.

    \b
      odf import store.jsonl --store postgresql://etl@db/dataflow
    """
    store = app.open_store(create=True)
    counts = store.load(file, dry_run=dry_run)
    would = "would be " if dry_run else ""
    app.show(
        {"rows": counts, "dry_run": dry_run},
        lambda: [*table(["table", "rows"], list(counts.items())), f"{sum(counts.values()):,} rows {would}imported"],
    )
    return 0
