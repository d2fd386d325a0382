"""Check and rewrite typed SQL: it may change rows, never the tables themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...errors import UsageError

# The columns of the original's tables in its order, for INSERT statements without column names.
ORIGINAL_COLUMNS = {
    "datastatus": "datasetid, jobid, dataid, locktype, status, modified",
    "dataset": "datasetid, hostname, database, schemaname, tablename, username, encryptedpass",
}

_SKIPPED = r"""'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/"""
# Patterns are text here and compiled on use: only typed SQL needs them.
_INSERT = rf"{_SKIPPED}|(?P<head>\binsert\s+(?:or\s+\w+\s+)?into\s+\"?(?P<table>datastatus|dataset)\"?)(?=\s*(?:values|select)\b)"
# PostgreSQL tokens in which a semicolon does not end a statement.
_QUOTED = r"""[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(?P<tag>[A-Za-z_]?\w*)\$.*?\$(?P=tag)\$|--[^\r\n]*|(?P<comment>/\*)|(?P<end>;)"""  # noqa: E501
_BLANK = r"[ \t\n\r\f\v(]+|--[^\r\n]*|/\*"
_MARK = r"/\*|\*/"
_WORD = r"[A-Za-z]+\b"


def with_columns(sql: str) -> str:
    """The SQL with column names added to INSERT statements into the original's tables."""

    def named(found: re.Match[str]) -> str:
        table = found["table"]
        return f"{found[0]} ({ORIGINAL_COLUMNS[table.lower()]})" if table else found[0]

    return re.sub(_INSERT, named, sql, flags=re.IGNORECASE | re.DOTALL)


def statements(sql: str) -> Iterator[str]:
    """The statements of a text, split as PostgreSQL does."""
    start = at = 0
    quoted = re.compile(_QUOTED, re.DOTALL)
    while found := quoted.search(sql, at):
        at = _end_of_comment(sql, found.end()) if found["comment"] else found.end()
        if found["end"]:
            yield from _not_blank(sql[start : found.start()])
            start = at
    yield from _not_blank(sql[start:])


def _not_blank(part: str) -> Iterator[str]:
    if _after_blanks(part) < len(part):
        yield part


def changes_no_tables(what: str) -> UsageError:
    """The error for a statement that does not change rows."""
    return UsageError(
        f"{what} is refused: odf dml changes rows, in one transaction of its own, and never the tables themselves",
        hint="Write INSERT, UPDATE or DELETE. The tables are changed only by: odf migrate",
    )


def kind_of(statement: str) -> str:
    """The kind of a statement: its first word, or two words for schema changes, such as DROP TABLE."""
    at = _after_blanks(statement)
    first = first_word(statement).upper()
    if first in ("CREATE", "ALTER", "DROP"):
        return f"{first} {first_word(statement[at + len(first) :]).upper()}"
    return first


def first_word(sql: str) -> str:
    """The first word of a statement, after blanks, brackets and comments."""
    found = re.compile(_WORD).match(sql, _after_blanks(sql))
    return found[0].lower() if found else ""


def _after_blanks(sql: str) -> int:
    at, blank = 0, re.compile(_BLANK)
    while skipped := blank.match(sql, at):
        at = _end_of_comment(sql, skipped.end()) if skipped[0] == "/*" else skipped.end()
    return at


def _end_of_comment(sql: str, at: int) -> int:
    """The end of a comment, which may be nested."""
    depth, marks = 1, re.compile(_MARK)
    while depth and (mark := marks.search(sql, at)):
        depth += 1 if mark[0] == "/*" else -1
        at = mark.end()
    return at if not depth else len(sql)
