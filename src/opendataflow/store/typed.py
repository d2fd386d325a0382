"""Typed: what a person's own SQL may do to the store: change rows, never the tables themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..errors import UsageError

# The columns of the original's tables, in its order: what its INSERT statements without names of columns mean.
ORIGINAL_COLUMNS = {
    "datastatus": "datasetid, jobid, dataid, locktype, status, modified",
    "dataset": "datasetid, hostname, database, schemaname, tablename, username, encryptedpass",
}

_SKIPPED = r"""'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/"""
# Here and below a text, since only who types SQL needs it compiled.
_INSERT = rf"{_SKIPPED}|(?P<head>\binsert\s+(?:or\s+\w+\s+)?into\s+\"?(?P<table>datastatus|dataset)\"?)(?=\s*(?:values|select)\b)"
# As PostgreSQL reads them: what a semicolon does not end.
_QUOTED = r"""[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(?P<tag>[A-Za-z_]?\w*)\$.*?\$(?P=tag)\$|--[^\r\n]*|(?P<comment>/\*)|(?P<end>;)"""  # noqa: E501
_BLANK = r"[ \t\n\r\f\v(]+|--[^\r\n]*|/\*"
_MARK = r"/\*|\*/"
_WORD = r"[A-Za-z]+\b"


def with_columns(sql: str) -> str:
    """The same with the names of the original's columns, where an INSERT into its tables has none."""

    def named(found: re.Match[str]) -> str:
        table = found["table"]
        return f"{found[0]} ({ORIGINAL_COLUMNS[table.lower()]})" if table else found[0]

    return re.sub(_INSERT, named, sql, flags=re.IGNORECASE | re.DOTALL)


def statements(sql: str) -> Iterator[str]:
    """The statements of a text, as PostgreSQL would part them."""
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
    """The error for a statement that is no change of rows."""
    return UsageError(
        f"{what} is refused: odf dml changes rows, in one transaction of its own, and never the tables themselves",
        hint="Write INSERT, UPDATE or DELETE. The tables are changed only by: odf migrate",
    )


def kind_of(statement: str) -> str:
    """What a statement does, by its first word, or by two where it is about tables and the like: DROP TABLE."""
    at = _after_blanks(statement)
    first = first_word(statement).upper()
    if first in ("CREATE", "ALTER", "DROP"):
        return f"{first} {first_word(statement[at + len(first) :]).upper()}"
    return first


def first_word(sql: str) -> str:
    """The word that a statement begins with, after blanks, brackets and comments."""
    found = re.compile(_WORD).match(sql, _after_blanks(sql))
    return found[0].lower() if found else ""


def _after_blanks(sql: str) -> int:
    at, blank = 0, re.compile(_BLANK)
    while skipped := blank.match(sql, at):
        at = _end_of_comment(sql, skipped.end()) if skipped[0] == "/*" else skipped.end()
    return at


def _end_of_comment(sql: str, at: int) -> int:
    """Where a comment ends, which may hold others."""
    depth, marks = 1, re.compile(_MARK)
    while depth and (mark := marks.search(sql, at)):
        depth += 1 if mark[0] == "/*" else -1
        at = mark.end()
    return at if not depth else len(sql)
