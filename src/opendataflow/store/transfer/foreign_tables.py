"""Read tables of a PostgreSQL database that is not a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from ...errors import StoreUnreachable
from ..drivers.postgres_transaction import first_line


def read_tables(
    url: str, tables: Sequence[str], unlike: str, password: str | None = None
) -> dict[str, list[dict[str, Any]]]:
    """The rows of these tables by column name, from the schema that has them all without column `unlike`."""
    extra: dict[str, Any] = {"password": password} if password is not None else {}
    try:
        with psycopg.connect(url, connect_timeout=10, row_factory=dict_row, **extra) as connection:
            connection.read_only = True
            find = (
                "select n.nspname as schema from pg_namespace n where (select count(*) from pg_class c"
                " where c.relnamespace = n.oid and c.relname = any (%s) and not exists"
                " (select 1 from pg_attribute a where a.attrelid = c.oid and a.attname = %s)) = %s"
            )
            schemas = connection.execute(find, [list(tables), unlike, len(tables)]).fetchall()
            if not schemas:
                return {table: [] for table in tables}
            schema = sql.Identifier(schemas[0]["schema"])
            whole = sql.SQL("select * from {}.{}")
            return {
                table: connection.execute(whole.format(schema, sql.Identifier(table))).fetchall() for table in tables
            }
    except psycopg.Error as error:
        raise StoreUnreachable(
            f"the original's database cannot be read: {first_line(error)}",
            hint="Check that the server is running, and the host, user and password.",
        ) from None
