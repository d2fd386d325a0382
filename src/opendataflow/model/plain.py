"""Validate data that survives a round trip through JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, time

from ..errors import BadDefinition
from .definitions.ids import shown

DEEPEST = 50  # nesting depth
_SIMPLE = frozenset({str, int, bool, type(None)})  # valid without conversion


def plain(value: object, where: str, depth: int = 0) -> object:
    """A copy of the value as JSON data, with dates and times as ISO text; BadDefinition for any other type."""
    if type(value) in _SIMPLE or value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, (list, tuple)):
        _check_depth(depth, where)
        if _SIMPLE.issuperset(map(type, value)):
            return list(value)
        return [plain(item, f"{where}[{index}]", depth + 1) for index, item in enumerate(value)]
    if isinstance(value, (dict, Mapping)):
        return plain_table(value, where, depth)
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise BadDefinition(f"{where}: {value} cannot be stored: it is not a finite number")
    if isinstance(value, (date, time)):
        return value.isoformat()
    raise BadDefinition(
        f"{where}: {shown(value)} cannot be stored",
        hint="Use text, numbers, true and false, lists and tables.",
    )


def plain_table(table: object, where: str, depth: int = 0) -> dict[str, object]:
    """A copy of a table as JSON data; its keys must be text."""
    if not isinstance(table, (dict, Mapping)):
        raise BadDefinition(f"{where}: expected a table, not {shown(table)}")
    _check_depth(depth, where)
    copy: dict[str, object] = {}
    for key, value in table.items():
        if not isinstance(key, str):
            raise BadDefinition(f"{where}: the key {shown(key)} is not text")
        if type(value) in _SIMPLE:
            copy[key] = value  # the most common case
        else:
            copy[key] = plain(value, f"{where}.{key}" if where else key, depth + 1)
    return copy


def _check_depth(depth: int, where: str) -> None:
    if depth > DEEPEST:
        raise BadDefinition(f"{where} is nested too deeply: more than {DEEPEST} times")


def within(where: str) -> str:
    """The prefix of a message about a declaration."""
    return f"{where}: " if where else ""
