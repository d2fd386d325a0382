"""Data: facts as JSON has them. Every door shows the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ..shapes import fields, is_dataclass

_OF_THE_STORE = "opendataflow.store."
_LEFT_OUT = "sort_key"  # how the store orders dataids is nobody else's business


def plain(value: Any) -> Any:
    """Anything the store hands out, as JSON data."""
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
    """Whether a tuple of this kind is shown as an object with its names: what the store hands out is."""
    return issubclass(kind, tuple) and kind.__module__.startswith(_OF_THE_STORE)


def names_of(kind: type) -> list[str]:
    """The names under which a dataclass or a named tuple shows its parts."""
    every = [each.name for each in fields(kind)] if is_dataclass(kind) else list(getattr(kind, "_fields", ()))
    return [name for name in every if name != _LEFT_OUT]
