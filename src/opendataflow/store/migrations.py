"""Numbered migrations with checksums: how the tables of a store come to be what this program expects."""

from __future__ import annotations

import zlib

from ..errors import SchemaChanged, SchemaNewer, SchemaOlder, StoreMissing, StoreTaken
from . import queries, schemas
from .backend import Applied, Backend, Column, Migration

_NAMED = 5


def carried(dialect: str) -> list[Migration]:
    """The migrations that this program carries, in order."""
    steps = []
    for file in queries.files(dialect, numbered=True):
        sql = file.read_text(encoding="utf-8")
        steps.append(Migration(int(file.stem[:4]), file.stem[5:], f"{zlib.crc32(sql.encode()):08x}", sql))
    return steps


def pending(backend: Backend) -> list[Migration]:
    """What is still to be applied; refuses a store that this program does not understand."""
    applied = _applied(backend)
    return carried(backend.dialect) if applied is None else _lacking(backend, applied)


def _applied(backend: Backend) -> dict[int, Applied] | None:
    """The migrations of a store by their numbers, looked up at once; None where there are no tables yet."""
    with backend.reading() as transaction:
        if transaction.value("has_schema"):
            return {step.number: step for step in transaction.fetch(Applied._make, "migrations")}
    _refuse_other_tables(backend)
    return None


def _lacking(backend: Backend, applied: dict[int, Applied]) -> list[Migration]:
    mine = carried(backend.dialect)
    newest = max(applied, default=0)
    if newest > mine[-1].number:
        raise SchemaNewer(
            f"the store has schema {newest}, this program knows {mine[-1].number}",
            hint="Upgrade OpenDataFlow on this machine.",
        )
    for migration in mine:
        if migration.number in applied and applied[migration.number].checksum != migration.checksum:
            raise SchemaChanged(
                f"migration {migration.number} ({migration.name}) of the store is not the one this program carries",
                hint="The store was made by a different build. Use that build, or move the data to a new store.",
            )
    return [migration for migration in mine if migration.number not in applied]


def _refuse_other_tables(backend: Backend) -> None:
    with backend.reading() as transaction:
        others = transaction.values("other_tables")
    if others:
        more = f" and {len(others) - _NAMED:,} more" if len(others) > _NAMED else ""
        raise StoreTaken(
            f"{backend.shown_url} has tables that are not a store's: {', '.join(others[:_NAMED])}{more}",
            hint="Nothing was changed. Give the store a file that does not exist yet, or a database without a schema "
            f"{schemas.split(backend.url)[1]}. "
            "If they are the Java original's, fill a new store from them: odf import --original ADDRESS",
        )


def migrate(backend: Backend) -> list[Migration]:
    """Apply what is pending, all of it or nothing."""
    steps = pending(backend)
    if steps:
        backend.migrate(steps)
    return steps


def missing(backend: Backend) -> list[str]:
    """The tables, columns and views that the migrations made and that are no longer there."""
    import apsw

    # What there should be is what the migrations make; they make the same in every dialect.
    with apsw.Connection(":memory:") as made:
        for step in carried("sqlite"):
            made.execute(step.sql).fetchall()
        wanted = set(made.execute(queries.load("sqlite")["columns"]))
    with backend.reading() as transaction:
        there = set(transaction.fetch(Column._make, "columns"))
    relations = {relation for relation, _ in there}
    gone = {relation if relation not in relations else f"{relation}.{column}" for relation, column in wanted - there}
    return sorted(gone)


def refuse_missing(backend: Backend) -> None:
    """Refuse a store that somebody took tables or columns from."""
    if gone := missing(backend):
        raise SchemaChanged(
            f"{backend.shown_url} lacks {', '.join(gone)}: somebody removed or renamed what the store needs",
            hint="Put it back, or go back to a backup: docs/how-to/backup-and-restore.md",
        )


def check(backend: Backend) -> None:
    """Refuse a store whose schema is not exactly the one this program works with."""
    applied = _applied(backend)
    if applied is None:
        raise StoreMissing(
            f"{backend.shown_url} has no OpenDataFlow tables yet",
            hint=f"Create them: odf migrate --store {backend.shown_url}",
        )
    if steps := _lacking(backend, applied):
        numbers = ", ".join(str(step.number) for step in steps)
        raise SchemaOlder(f"the store lacks migration {numbers}", hint="Bring it up to date: odf migrate")
