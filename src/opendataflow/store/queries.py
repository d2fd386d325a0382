"""Named queries: every statement the program runs has a name, one line that says what it does, and lives in a file."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

SQL = Path(__file__).parent / "sql"
_PARAMETER = r"(?<![:\w]):([a-z_]+)\b"


@cache
def load(dialect: str) -> dict[str, str]:
    """All named queries of a dialect: the common ones, and those that must differ between databases."""
    queries: dict[str, str] = {}
    for folder in ("common", dialect):
        for file in files(folder, numbered=False):
            _, *parts = f"\n{file.read_text(encoding='utf-8')}".split("\n-- name: ")
            for part in parts:
                name, *lines = part.split("\n")
                queries[name] = "\n".join([line for line in lines if not line.startswith("--")]).strip()
    return queries


def files(folder: str, *, numbered: bool) -> list[Path]:
    """The files of a folder in order: those with a number, which are the migrations, or the others."""
    names = [name for name in os.listdir(SQL / folder) if name.endswith(".sql") and name[0].isdigit() is numbered]
    return [SQL / folder / name for name in sorted(names)]


def to_numbered(sql: str) -> tuple[bytes, tuple[str, ...]]:
    """Our :name parameters as PostgreSQL numbers them, and their names in that order."""
    names: dict[str, int] = {}
    numbered = re.sub(_PARAMETER, lambda match: f"${names.setdefault(match[1], len(names) + 1)}", sql)
    return numbered.encode(), tuple(names)
