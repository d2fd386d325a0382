"""Verbs that carry a whole store: backup."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from ..errors import BadConfig
from .common import App, verb


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
