"""Parse the columns of a declared schema, as far as possible without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

# Spark's synonyms of types; timestamps with and without a zone are not compared, because files declare that in many ways.
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
    """The columns of a schema with their types in Spark's form; an empty type for nested ones."""
    return {name: kind for part in _parts(ddl) for name, kind in _named(part)}


def required_of(ddl: str) -> list[str]:
    """The columns of a schema that are NOT NULL at the top level."""
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
    """The declarations, split at top-level commas."""
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
    """Dropped, added and retyped columns, as text; ignores the order of columns and empty types."""
    before = {name.lower(): (name, kind) for name, kind in expected.items()}
    after = {name.lower(): (name, kind) for name, kind in actual.items()}
    texts = [_text(*column, "dropped") for key, column in before.items() if key not in after]
    if added:
        texts += [_text(*column, "added") for key, column in after.items() if key not in before]
    for key, (name, kind) in before.items():
        now = after.get(key, ("", ""))[1]
        if kind and now and kind != now:
            texts.append(f"{name} was {kind.upper()} and is {now.upper()}")
    return texts


def other_case(expected: Iterable[str], actual: Iterable[str]) -> dict[str, str]:
    """Expected names that exist only in another case: Spark reads such JSON keys as nulls."""
    known = {name.lower(): name for name in expected}
    found = ((known.get(name.lower(), name), name) for name in actual)
    return {before: now for before, now in found if before != now}


def _text(name: str, kind: str, what: str) -> str:
    return f"{name} {kind.upper()} {what}" if kind else f"{name} {what}"
