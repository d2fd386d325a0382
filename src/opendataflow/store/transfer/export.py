"""Write a whole store as lines of JSON by column names, and load it into a store of either database."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from ...errors import SchemaNewer, StoreTaken, UsageError
from ...tokens import shown_facts, shown_texts, without_secrets
from ..drivers.base import Transaction

FORM = "OpenDataFlow store 1"
# Every table with facts, referenced tables first.
TABLES = (
    "dataset",
    "pinned_schema",
    "job",
    "broken_job",
    "applied_job",
    "jobrule",
    "pool",
    "pause",
    "datastatus",
    "run",
    "run_input",
    "data_manifest",
    "remake",
    "recalled",
    "stale",
    "event",
    "log_tail",
    "incident",
    "incident_chunk",
    "message",
    "noticed",
    "counter",
    "candidate",
    "note",
    "meta",
)
_OF_THIS_MACHINE = "clock"
_AT_ONCE = 1000
_ADDRESS = ("hostname", "username", "database")
# Deletes rows that a new store contains, and rows that triggers wrote during the import.
_CLEARED = {
    "dataset": "clear_for_import_dataset",
    "note": "clear_for_import_note",
    "meta": "clear_for_import_meta",
}


def dump(tx: Transaction, schema: int) -> Iterator[str]:
    """The lines of an export: a header, each table with its columns and rows, and the row counts."""
    yield json.dumps({"form": FORM, "schema": schema})
    rows = 0
    for table in TABLES:
        columns = tx.columns(table)
        yield json.dumps({"table": table, "columns": columns})
        for row in tx.everything(table):
            rows += 1
            values = dict(zip(columns, map(plain, row), strict=True))
            yield json.dumps([_shown(name, value, values) for name, value in values.items()])
    yield json.dumps({"rows": rows})


def plain(value: Any) -> Any:
    """A value as both databases accept it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    if isinstance(value, bytes):  # SQLite stores blobs in text columns
        return value.decode("utf-8", "replace")
    return int(value) if isinstance(value, bool) else value


def _shown(name: str, value: Any, row: dict[str, Any]) -> Any:
    """A value as it may leave the store: without plain-text secrets, also inside JSON.

    Keys of job items and options are names of values; other keys may be names of datasets or columns. Ids are not secrets.
    """
    if not isinstance(value, str) or name.endswith("id"):
        return value
    if name == "itemvalue":
        return shown_facts(value, row["itemtype"])
    if not value.startswith(("{", "[")):
        return without_secrets(value, name if name in _ADDRESS else "")
    try:
        facts = json.loads(value)
    except (ValueError, RecursionError):
        return without_secrets(value)
    shown = shown_facts(facts, name) if name == "options" else shown_texts(facts)
    return value if shown == facts else json.dumps(shown)


def load(tx: Transaction, lines: Iterable[str], schema: int) -> dict[str, int]:
    """Load an export into a new store; returns the number of rows by table."""
    parts = map(_part, lines)
    head = next(parts, None)
    if not isinstance(head, dict) or head.get("form") != FORM:
        raise _unreadable("the header is missing")
    if head.get("schema", 0) > schema:
        raise SchemaNewer(
            f"the export has schema {head['schema']}, this program knows {schema}",
            hint="Upgrade OpenDataFlow on this machine.",
        )
    refuse_used(tx)
    if head.get("schema", 0) < schema:
        from .earlier import brought_over

        return load(tx, brought_over(parts, schema), schema)
    counts = dict.fromkeys(TABLES, 0)
    for table, columns, rows in tables(parts):
        if not rows:
            unknown = set(columns) - set(tx.columns(table) if table in TABLES else ())
            if unknown:
                raise _unreadable(f"table {table} has no column {', '.join(sorted(unknown))}")
            if table in _CLEARED:
                tx.run(_CLEARED[table])  # deletes default rows and rows that triggers wrote
            continue
        counts[table] += len(rows)
        if table == "meta":  # the new store gets its own revision
            rows = [row for row in rows if row[columns.index("name")] not in (_OF_THIS_MACHINE, "revision")]
        if table == "datastatus" and "seal" in columns:
            for row in rows:
                row[columns.index("seal")] = row[columns.index("seal")] or 1  # its event is part of the history
        tx.fill(table, columns, rows)
    tx.renumber()
    return counts


def tables(parts: Iterable[Any]) -> Iterator[tuple[str, list[str], list[list[Any]]]]:
    """Each table of an export with its columns: first without rows, then with its rows, part by part."""
    table, is_whole, n = "", False, 0
    columns: list[str] = []
    rows: list[list[Any]] = []
    for part in parts:
        if isinstance(part, list) and len(part) == len(columns):
            n += 1
            rows.append(part)
            if len(rows) == _AT_ONCE:
                yield table, columns, rows
                rows = []
            continue
        if rows:
            yield table, columns, rows
            rows = []
        if isinstance(part, dict) and _are_names([part.get("table")]) and _are_names(part.get("columns")):
            table, columns = part["table"], part["columns"]
            yield table, columns, []
        elif isinstance(part, dict) and "rows" in part:
            is_whole = part["rows"] == n
        else:
            raise _unreadable("a line is neither a table nor a row")
    if not is_whole:
        raise _unreadable("the file is incomplete")


def refuse_used(tx: Transaction) -> None:
    """Raise StoreTaken if the store is not new."""
    if tx.value("is_in_use"):
        raise StoreTaken(
            "this store is in use already", hint="Nothing was changed. Import into a new store: --store URL"
        )


def _are_names(given: object) -> bool:
    return isinstance(given, list) and all(isinstance(each, str) and each.isidentifier() for each in given)


def _part(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        raise _unreadable("a line is not JSON") from None


def _unreadable(why: str) -> UsageError:
    return UsageError(f"the file is not a valid export: {why}", hint="Create an export: odf export FILE")
