"""DDL: the columns that a schema declares, as far as they can be told without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

# What Spark calls the same type by several names; whether a time has a zone, files tell in too many ways to compare.
_SYNONYMS = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "char": "string",
    "varchar": "string",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp",
}
_column = re.compile(r"\s*(`(?:[^`]|``)+`|\w+)\s*:?\s*(\w+)\s*(\([^)]*\))?", re.ASCII).match
_OPEN, _CLOSE = "(<", ")>"


def columns_of(ddl: str) -> dict[str, str]:
    """The columns of a schema with their types as Spark writes them; an empty type where it is nested."""
    return {name: kind for part in _parts(ddl) for name, kind in _named(part)}


def required_of(ddl: str) -> list[str]:
    """The columns of a schema that are NOT NULL, themselves and not only something inside of them."""
    return [name for part in _parts(ddl) if _is_required(part) for name, _ in _named(part)]


def _is_required(part: str) -> bool:
    after = re.sub(r"`[^`]*`|.*[>)]", "", re.split(r"(?i)\bcomment\b", part)[0])
    return re.search(r"(?i)\bnot\s+null\b", after) is not None


def _named(part: str) -> Iterator[tuple[str, str]]:
    found = _column(part)
    if found:
        name, kind = found[1], _SYNONYMS.get(found[2].lower(), found[2].lower())
        if kind == "decimal":
            kind += (found[3] or "(10,0)").replace(" ", "")
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        yield name, "" if kind in ("struct", "array", "map") else kind


def _parts(ddl: str) -> Iterator[str]:
    """The declarations between the commas that are not inside of anything."""
    part, depth, quote = "", 0, ""
    for char in ddl:
        if quote:
            quote = "" if char == quote else quote
        elif char in "`'\"":
            quote = char
        depth += 0 if quote else (char in _OPEN) - (char in _CLOSE)
        if char == "," and not depth and not quote:
            yield part
            part = ""
        else:
            part += char
    yield part


def column_differences(expected: Mapping[str, str], actual: Mapping[str, str], *, added: bool = True) -> list[str]:
    """What was dropped, added or retyped, in words; the order of columns does not matter, nor does an empty type."""
    before = {name.lower(): (name, kind) for name, kind in expected.items()}
    after = {name.lower(): (name, kind) for name, kind in actual.items()}
    told = [_told(*column, "dropped") for key, column in before.items() if key not in after]
    if added:
        told += [_told(*column, "added") for key, column in after.items() if key not in before]
    for key, (name, kind) in before.items():
        now = after.get(key, ("", ""))[1]
        if kind and now and kind != now:
            told.append(f"{name} was {kind.upper()} and is {now.upper()}")
    return told


def _told(name: str, kind: str, what: str) -> str:
    return f"{name} {kind.upper()} {what}" if kind else f"{name} {what}"
