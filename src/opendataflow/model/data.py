"""Convert results of the store to JSON data, the same for terminal, pages and API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

_OF_THE_STORE = "opendataflow.store."
_LEFT_OUT = "sort_key"  # internal: the store's order of dataids


def plain(value: Any) -> Any:
    """A result of the store as JSON data."""
    if hasattr(value, "to_data"):
        return plain(value.to_data())
    if isinstance(value, tuple) and is_named(type(value)):
        return {name: plain(part) for name, part in value._asdict().items() if name != _LEFT_OUT}  # type: ignore[attr-defined]
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value) if item.name != _LEFT_OUT}
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, (set, frozenset)):
        return sorted(plain(part) for part in value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    return value


def is_named(kind: type) -> bool:
    """Whether a tuple of this type is shown as an object with field names."""
    return issubclass(kind, tuple) and kind.__module__.startswith(_OF_THE_STORE)


def names_of(kind: type) -> list[str]:
    """The field names of a dataclass or named tuple in JSON data."""
    every = [each.name for each in fields(kind)] if is_dataclass(kind) else list(getattr(kind, "_fields", ()))
    return [name for name in every if name != _LEFT_OUT]
