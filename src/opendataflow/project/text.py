"""Reads a project's files as UTF-8 text and as TOML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import BadConfig


def read_text(file: Path, fallback: str = "") -> str:
    """The text of a file; BadConfig if it cannot be read or decoded."""
    try:
        raw = file.read_bytes()
    except OSError as problem:
        raise BadConfig(f"{file}: cannot be read: {problem.strerror}") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        if fallback:
            return raw.decode(fallback)
        line = raw.count(b"\n", 0, problem.start) + 1
        raise BadConfig(f"{file.name}: line {line} is not UTF-8", hint="Save the file as UTF-8.") from None


def read_tables(file: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    import tomllib

    try:
        return tomllib.loads(read_text(file))
    except ValueError as problem:
        raise BadConfig(f"{file.name}: this is not TOML: {problem}") from None
    except RecursionError:
        raise BadConfig(f"{file.name}: this TOML is nested too deeply") from None
