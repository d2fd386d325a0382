"""Schemas: a PostgreSQL store is in schema dataflow, unless its address names another: postgresql://…/database?schema=name."""

from __future__ import annotations

import re
import zlib
from functools import cache

from ..errors import UsageError
from ..model.ids import shown

DEFAULT = "dataflow"
_is_name = re.compile(r"(?!pg_|information_schema)[a-z_][a-z0-9_]{0,62}").fullmatch
_PARAMETER = re.compile(r"([?&])schema=([^&#]*)(&?)")


def split(url: str) -> tuple[str, str]:
    """An address as libpq knows it, and the schema that it names."""
    named = _PARAMETER.findall(url)
    if not named:
        return url, DEFAULT
    schema = named[0][1]
    if len(named) > 1 or not _is_name(schema):
        raise UsageError(
            f"{shown(schema)} cannot be the schema of a store",
            hint="Name one, of small letters, digits and _, which begins with a letter: ?schema=dataflow_test",
        )
    return _PARAMETER.sub(lambda found: found[1] if found[3] else "", url), schema


def within(url: str, schema: str) -> str:
    """The address of the same database, and in it of another schema."""
    base, _ = split(url)
    return f"{base}{'&' if '?' in base else '?'}schema={schema}"


@cache
def rendered(sql: str, schema: str) -> str:
    """SQL of ours, which says dataflow, for another schema: its names, and the numbers of its locks, which all schemas share."""
    sql = _without_the_role_s_path(sql)
    if schema == DEFAULT:
        return sql
    key = zlib.crc32(schema.encode()) + 1
    sql = re.sub(r"\bdataflow\b", f'"{schema}"', sql)
    sql = re.sub(r"\b7271\d\d\b", lambda number: str(key * 1_000_000 + int(number[0])), sql)
    return re.sub(r"\bhashtext\(([^()]*)\)", rf"hashtext('{schema} ' || (\1))", sql)


def _without_the_role_s_path(sql: str) -> str:
    """A migration changes nothing of a role's own defaults; one that is applied long ago still says so."""
    return re.sub(r"^.*\balter role current_user in database\b.*$", "    null;", sql, flags=re.MULTILINE)
