"""Named queries: every statement the program runs has a name, one line that says what it does, and lives in a file."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

SQL = Path(__file__).parent / "sql"
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^--(?! name: ).*\n", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)\b")


@cache
def load(dialect: str) -> dict[str, str]:
    """All named queries of a dialect: the common ones, and those that must differ between databases."""
    queries: dict[str, str] = {}
    for folder in ("common", dialect):
        for file in sorted((SQL / folder).glob("*.sql")):
            if file.name[0].isdigit():
                continue  # a migration
            parts = _NAME.split(_COMMENT.sub("", file.read_text(encoding="utf-8")))
            queries.update(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))
    return queries


def to_numbered(sql: str) -> tuple[bytes, tuple[str, ...]]:
    """Our :name parameters as PostgreSQL numbers them, and their names in that order."""
    names: dict[str, int] = {}
    numbered = _PARAMETER.sub(lambda match: f"${names.setdefault(match[1], len(names) + 1)}", sql)
    return numbered.encode(), tuple(names)
