"""Load the named queries: each has a name and a one-line comment, and is in a file under sql/."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

SQL = Path(__file__).parent.parent / "sql"
_PARAMETER = r"(?<![:\w]):([a-z_]+)\b"


@cache
def load(dialect: str) -> dict[str, str]:
    """All named queries of a dialect: the common ones and its own."""
    queries: dict[str, str] = {}
    for folder in ("common", dialect):
        for name in sorted(os.listdir(SQL / folder)):
            file = SQL / folder / name
            _, *parts = f"\n{file.read_text(encoding='utf-8')}".split("\n-- name: ")
            for part in parts:
                name, *lines = part.split("\n")
                queries[name] = "\n".join([line for line in lines if not line.startswith("--")]).strip()
    return queries


def schema(name: str) -> str:
    """The tables of a dialect, or a step that leads to them."""
    return (SQL / "schema" / f"{name}.sql").read_text(encoding="utf-8")


def to_numbered(sql: str) -> tuple[bytes, tuple[str, ...]]:
    """SQL with :name parameters replaced by $1, $2, …, and their names in that order."""
    names: dict[str, int] = {}
    numbered = re.sub(_PARAMETER, lambda match: f"${names.setdefault(match[1], len(names) + 1)}", sql)
    return numbered.encode(), tuple(names)
