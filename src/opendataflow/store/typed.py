"""Typed: what a person's own SQL may do to the store: change rows, never the tables themselves."""

from __future__ import annotations

import re

from ..errors import UsageError

# The columns of the original's tables, in its order: what its INSERT statements without names of columns mean.
ORIGINAL_COLUMNS = {
    "datastatus": "datasetid, jobid, dataid, locktype, status, modified",
    "dataset": "datasetid, hostname, database, schemaname, tablename, username, encryptedpass",
}

_SKIPPED = r"""'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/"""
_INSERT = re.compile(
    rf"{_SKIPPED}|(?P<head>\binsert\s+(?:or\s+\w+\s+)?into\s+\"?(?P<table>datastatus|dataset)\"?)(?=\s*(?:values|select)\b)",
    re.IGNORECASE | re.DOTALL,
)
_ENDS = re.compile(
    r"(?:^|;)(?:\s|--[^\n]*\n|/\*.*?\*/)*(commit|end|rollback|abort|begin|start\s+transaction|prepare\s+transaction)\b",
    re.IGNORECASE | re.DOTALL,
)

_BLANK = re.compile(r"[ \t\n\r\f\v(]+|--[^\r\n]*|/\*")
_MARK = re.compile(r"/\*|\*/")
_WORD = re.compile(r"[A-Za-z]+\b")


def with_columns(sql: str) -> str:
    """The same with the names of the original's columns, where an INSERT into its tables has none."""

    def named(found: re.Match[str]) -> str:
        table = found["table"]
        return f"{found[0]} ({ORIGINAL_COLUMNS[table.lower()]})" if table else found[0]

    return _INSERT.sub(named, sql)


def refuse_transactions(sql: str) -> None:
    """UsageError for a statement that would end the transaction which it is run in."""
    if found := _ENDS.search(sql):
        raise changes_no_tables(found[1].upper())


def changes_no_tables(what: str) -> UsageError:
    """The error for a statement that is no change of rows."""
    return UsageError(
        f"{what} is refused: odf dml changes rows, in one transaction of its own, and never the tables themselves",
        hint="Write INSERT, UPDATE or DELETE. The tables are changed only by: odf migrate",
    )


def first_word(sql: str) -> str:
    """The word that a statement begins with, after blanks, brackets and comments."""
    at = 0
    while skipped := _BLANK.match(sql, at):
        at = _end_of_comment(sql, skipped.end()) if skipped[0] == "/*" else skipped.end()
    found = _WORD.match(sql, at)
    return found[0].lower() if found else ""


def _end_of_comment(sql: str, at: int) -> int:
    """Where a comment ends, which may hold others."""
    depth = 1
    while depth and (mark := _MARK.search(sql, at)):
        depth += 1 if mark[0] == "/*" else -1
        at = mark.end()
    return at if not depth else len(sql)
