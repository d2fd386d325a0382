"""Named queries: every statement the program runs has a name, one line that says what it does, and lives in a file."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

SQL = Path(__file__).parent / "sql"
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^--(?! name: ).*\n", re.MULTILINE)
_PARAMETER = r"(?<![:\w]):([a-z_]+)\b"


@cache
def load(dialect: str) -> dict[str, str]:
    """All named queries of a dialect: the common ones, and those that must differ between databases."""
    queries: dict[str, str] = {}
    for folder in ("common", dialect):
        for file in files(folder, numbered=False):
            parts = _NAME.split(_COMMENT.sub("", file.read_text(encoding="utf-8")))
            queries.update(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))
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
