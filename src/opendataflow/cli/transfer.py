"""Verbs that carry a whole store: backup, export, import."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from ..errors import BadConfig, UsageError
from ..store import Store, open_store
from .app import App, table
from .common import verb


@contextmanager
def _new_file(path: Path) -> Iterator[Path]:
    """A name to write under, which becomes this file when all of it is written; private, since the store is."""
    if os.path.lexists(path):
        raise BadConfig(f"{path} exists already", hint="Give it another name, or remove the old one first.")
    try:
        # A private folder: in one that other users can write to, a known name could be a planted link.
        with TemporaryDirectory(prefix=f"{path.name}.", suffix=".unfinished", dir=path.parent) as folder:
            unfinished = Path(folder, path.name)
            unfinished.touch(mode=0o600)
            yield unfinished
            unfinished.rename(path)
    except OSError as error:
        raise BadConfig(f"{path} cannot be written: {error.strerror or error}", hint="Check the folder.") from None


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
        app.open_store(check=False).back_up(unfinished)  # also before a migration
    app.show({"file": str(file), "bytes": file.stat().st_size}, lambda: [f"{app.store.url} is copied to {file}"])
    return 0


@verb("export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def export_verb(app: App, file: Path) -> int:
    """Write everything that the store holds into a file, as it is at one moment: definitions, statuses, versions, history.

    Any other store can be filled from it, SQLite or PostgreSQL. Stop the workers first: what runs is not carried along.
    Secrets in plain text that SQL wrote into rows are left out: [redacted].

    \b
      odf export store.jsonl
      odf import store.jsonl --store postgresql://etl@db/dataflow
    """
    with _new_file(file) as unfinished:
        app.store.export(unfinished)
    running = len(app.store.views.running())
    if running:
        app.say(f"{running} chunk{'s are' if running > 1 else ' is'} RUNNING: their workers publish here only")
    app.show({"file": str(file), "running": running}, lambda: [f"{app.store.url} is exported to {file}"])
    return 0


@verb("import")
@click.option("--dry-run", is_flag=True, help="Count what would be imported, and change nothing.")
@click.option(
    "--original",
    is_flag=True,
    help="FILE is the Java original's: an SQL script that H2 wrote, or the postgresql:// address of its database.",
)
@click.argument("file")
def import_verb(app: App, file: str, original: bool, dry_run: bool) -> int:
    """Fill a new store with everything that odf export wrote: all of it or nothing.

    The tables are made when they are missing. A store that is in use is refused. With --original, the definitions and
    statuses of the Java original are taken over; what does not fit here is named and left out.

    \b
      odf import store.jsonl --store postgresql://etl@db/dataflow
      odf import --original h2-dump.sql
      odf import --original postgresql://etl@db/old --dry-run
    """
    is_address = original and file.startswith(("postgresql://", "postgres://"))
    if not is_address and not Path(file).is_file():
        make_one = "Write one in H2's console: SCRIPT TO 'original.sql'" if original else "Write one: odf export FILE"
        raise UsageError(f"there is no file {file}", hint=make_one)
    would = "would be " if dry_run else ""
    if not original:
        with _to_fill(app, dry_run) as store:
            counts = store.load(Path(file), dry_run=dry_run)
        left_out: list[str] = []
    else:
        from ..store.transfer import original as other

        found = other.read_postgres(file, app.taken.store_password) if is_address else other.read_script(_text(file))
        with _to_fill(app, dry_run) as store:
            counts, left_out = store.load_original(found, dry_run=dry_run)
        for line in left_out:
            app.say(f"left out: {line}")
    app.show(
        {"rows": counts, "left_out": left_out, "dry_run": dry_run},
        lambda: [*table(["table", "rows"], list(counts.items())), f"{sum(counts.values()):,} rows {would}imported"],
    )
    return 0


@contextmanager
def _to_fill(app: App, dry_run: bool) -> Iterator[Store]:
    """The store that is to be filled; one that is not there yet is not made by a dry run."""
    if not (dry_run and app.is_missing):
        yield app.open_store(create=True)
        return
    with TemporaryDirectory() as folder, open_store(f"sqlite:///{folder}/none.db", create=True) as empty:
        yield empty


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}", hint="It should be the text that SCRIPT wrote.") from None
