"""Named queries: every statement the program runs has a name, one line that says what it does, and lives in a file."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

SQL = Path(__file__).parent / "sql"
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)\b")


@cache
def load(dialect: str) -> dict[str, str]:
    """All named queries of a dialect: the common ones, and those that must differ between databases."""
    queries: dict[str, str] = {}
    for folder in ("common", dialect):
        for file in sorted((SQL / folder).glob("*.sql")):
            if file.name[0].isdigit():
                continue  # a migration
            parts = _NAME.split(file.read_text(encoding="utf-8"))
            queries.update(zip(parts[1::2], map(_without_comments, parts[2::2]), strict=True))
    return queries


def _without_comments(sql: str) -> str:
    return "\n".join(line for line in sql.splitlines() if not line.startswith("--")).strip()


def answers(sql: str) -> bool:
    """Whether a statement has rows to fetch."""
    return sql.startswith(("select", "with")) or "returning" in sql.rpartition("\n")[2]


def to_pyformat(sql: str) -> str:
    """Our :name parameters as psycopg writes them."""
    return _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))
