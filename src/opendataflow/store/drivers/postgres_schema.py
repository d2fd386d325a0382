"""Render the program's SQL for the schema of a store: dataflow, or the one in postgresql://…/database?schema=name."""

from __future__ import annotations

import re
import zlib
from functools import cache

from ...errors import UsageError
from ...model.definitions.ids import shown

DEFAULT = "dataflow"
_is_name = re.compile(r"(?!pg_|information_schema)[a-z_][a-z0-9_]{0,62}").fullmatch
_PARAMETER = re.compile(r"([?&])schema=([^&#]*)(&?)")


def split(url: str) -> tuple[str, str]:
    """The address as libpq expects it, and its schema."""
    named = _PARAMETER.findall(url)
    if not named:
        return url, DEFAULT
    schema = named[0][1]
    if len(named) > 1 or not _is_name(schema):
        raise UsageError(
            f"{shown(schema)} is not a valid schema name",
            hint="Use lower-case letters, digits and _, beginning with a letter: ?schema=dataflow_test",
        )
    return _PARAMETER.sub(lambda found: found[1] if found[3] else "", url), schema


def within(url: str, schema: str) -> str:
    """The address of another schema in the same database."""
    base, _ = split(url)
    return f"{base}{'&' if '?' in base else '?'}schema={schema}"


@cache
def rendered(sql: str, schema: str) -> str:
    """The program's SQL, written for schema dataflow, for another schema: names, and advisory lock numbers, which schemas share."""
    if schema == DEFAULT:
        return sql
    key = zlib.crc32(schema.encode()) + 1
    sql = re.sub(r"\bdataflow\b", f'"{schema}"', sql)
    sql = re.sub(r"\b7271\d\d\b", lambda number: str(key * 1_000_000 + int(number[0])), sql)
    return re.sub(r"\bhashtext\(([^()]*)\)", rf"hashtext('{schema} ' || (\1))", sql)
