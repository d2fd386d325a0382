"""The schema of a store: one file for each database, a number, and the step that brings over a store of the number before."""

from __future__ import annotations

import zlib

from ...errors import SchemaChanged, SchemaNewer, SchemaOlder, StoreMissing, StoreTaken
from . import postgres_schema, queries
from .base import AppliedMigration, Backend, Migration, TableColumn

SCHEMA = 17
_BEFORE = 12
# The migrations 1 to 12, as their numbers and checksums in table migration.
_CHECKSUM_BEFORE = {"sqlite": "364f132e", "postgres": "63d5374f"}
_SCHEMA_HERE = "-- SCHEMA --\n"
_NAMED = 5


def pending(backend: Backend) -> list[Migration]:
    """The migrations that are not applied yet; refuses a store that this program does not support."""
    applied = _applied(backend)
    if applied is None:
        return [_step(backend.dialect, "schema", queries.schema(backend.dialect))]
    return _not_applied(backend, applied)


def _step(dialect: str, name: str, sql: str) -> Migration:
    return Migration(SCHEMA, name, _schema_checksum(dialect), sql)


def _schema_checksum(dialect: str) -> str:
    """The checksum of the schema, whose comments and blanks may change."""
    return _checksum(" ".join(line.partition("--")[0] for line in queries.schema(dialect).splitlines()).split())


def _checksum(words: list[str]) -> str:
    return f"{zlib.crc32(' '.join(words).encode()):08x}"


def _applied(backend: Backend) -> dict[int, AppliedMigration] | None:
    """The applied migrations by number; None if the store has no tables yet."""
    with backend.reading() as transaction:
        if transaction.value("has_schema"):
            return {step.number: step for step in transaction.fetch(AppliedMigration._make, "migrations")}
    _refuse_other_tables(backend)
    return None


def _not_applied(backend: Backend, applied: dict[int, AppliedMigration]) -> list[Migration]:
    newest = max(applied, default=0)
    if newest > SCHEMA:
        raise SchemaNewer(
            f"the store has schema {newest}, this program knows {SCHEMA}",
            hint="Upgrade OpenDataFlow on this machine.",
        )
    if newest < _BEFORE:
        raise SchemaOlder(
            f"the store has schema {newest}, this program brings over schema {_BEFORE} only",
            hint=f"Export it with the OpenDataFlow that made it (odf export store.jsonl --store {backend.shown_url}), "
            "then fill a new store with this one: odf import store.jsonl --store URL",
        )
    if newest == SCHEMA:
        is_known = applied[SCHEMA].checksum == _schema_checksum(backend.dialect)
    else:
        words = [f"{number} {applied[number].checksum}" for number in sorted(applied)]
        is_known = _checksum(words) == _CHECKSUM_BEFORE[backend.dialect]
    if not is_known:
        raise SchemaChanged(
            f"schema {newest} of the store is not the one that this program knows",
            hint="The store was made by a different build. Use that build, or move the data to a new store.",
        )
    if newest == SCHEMA:
        return []
    return [_step(backend.dialect, f"from {_BEFORE}", from_before(backend.dialect))]


def from_before(dialect: str) -> str:
    """The SQL that brings a store of the schema before over: its two halves, and the schema between them."""
    return queries.schema(f"{dialect}-from-{_BEFORE}").replace(_SCHEMA_HERE, queries.schema(dialect))


def _refuse_other_tables(backend: Backend) -> None:
    with backend.reading() as transaction:
        others = transaction.values("other_tables")
    if others:
        more = f" and {len(others) - _NAMED:,} more" if len(others) > _NAMED else ""
        raise StoreTaken(
            f"{backend.shown_url} has tables that do not belong to a store: {', '.join(others[:_NAMED])}{more}",
            hint="Nothing was changed. Use a file that does not exist yet, or a database without a schema "
            f"{postgres_schema.split(backend.url)[1]}. "
            "To import tables of the Java original into a new store: odf import --original ADDRESS",
        )


def migrate(backend: Backend) -> list[Migration]:
    """Apply all pending migrations or none."""
    steps = pending(backend)
    for step in steps:
        backend.migrate(step)
    return steps


def missing(backend: Backend) -> list[str]:
    """The tables, columns and views of the schema that the store lacks."""
    import apsw

    # The expected schema is read from a new in-memory SQLite store: it is the same in every dialect.
    with apsw.Connection(":memory:") as made:
        made.execute(queries.schema("sqlite")).fetchall()
        wanted = set(made.execute(queries.load("sqlite")["columns"]))
    with backend.reading() as transaction:
        there = set(transaction.fetch(TableColumn._make, "columns"))
    relations = {relation for relation, _ in there}
    absent = {relation if relation not in relations else f"{relation}.{column}" for relation, column in wanted - there}
    return sorted(absent)


def refuse_missing(backend: Backend) -> None:
    """Refuse a store with missing tables or columns."""
    if absent := missing(backend):
        raise SchemaChanged(
            f"{backend.shown_url} lacks {', '.join(absent)}: they were removed or renamed",
            hint="Restore them, or restore a backup: docs/how-to/backup-and-restore.md",
        )


def check(backend: Backend) -> None:
    """Refuse a store whose schema version differs from the one that this program needs."""
    applied = _applied(backend)
    if applied is None:
        raise StoreMissing(
            f"{backend.shown_url} has no OpenDataFlow tables yet",
            hint=f"Create them: odf migrate --store {backend.shown_url}",
        )
    if _not_applied(backend, applied):
        raise SchemaOlder(
            f"the store has schema {_BEFORE}, this program works with {SCHEMA}", hint="Bring it over: odf migrate"
        )
