"""Convert the H2 or PostgreSQL database of the Java original into rows of a store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ...errors import BadId, TwoProducers, UsageError
from ...model import check_id
from ..drivers.base import Transaction
from .export import plain

Facts = dict[str, Any]  # one row by lower-case column name

TABLES = ("dataset", "job", "datastatus")
_OURS = {
    "dataset": ("datasetid", "hostname", "database", "schemaname", "tablename", "username", "encryptedpass"),
    "job": ("jobid", "itemtype", "datasetid", "itemvalue", "modified"),
    "datastatus": ("datasetid", "dataid", "jobid", "locktype", "status", "modified"),
}
# Rows that were RUNNING have no run here; a reader's status says whether it has read.
_STATUS = {
    "OUT": {"COMPLETE": "READY", "ERROR": "FAILED", "RERUN": "RESUBMIT", "RUNNING": "FAILED"},
    "IN": {"COMPLETE": "DONE", "READY": "DONE", "ERROR": "FAILED", "RUNNING": "FAILED", "RESUBMIT": "FAILED"},
}
_KNOWN = {"OUT": {"READY", "FAILED", "RESUBMIT", "HOLD", "PENDING"}, "IN": {"DONE", "FAILED"}}
_TOKEN = re.compile(
    r"""(?P<skip>\s+|--[^\n]*)|(?P<unicode>[Uu]&'(?:[^']|'')*')|(?P<string>'(?:[^']|'')*')|(?P<name>"(?:[^"]|"")*")"""
    r"""|(?P<word>[A-Za-z_][\w$]*)|(?P<number>[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)|(?P<sign>.)""",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\(?:\\|\+([0-9A-Fa-f]{6})|([0-9A-Fa-f]{4}))")


class Imported(NamedTuple):
    """The number of imported rows by table, and the rows that were left out, with reasons."""

    rows: dict[str, int]
    left_out: list[str]


class _Token(NamedTuple):
    kind: str
    text: str


def read_script(sql: str) -> dict[str, list[Facts]]:
    """The rows of the original's tables in a script that H2's SCRIPT command wrote."""
    columns: dict[str, list[str]] = {}
    found: dict[str, list[Facts]] = {table: [] for table in TABLES}
    for statement in _statements(sql):
        words = [token.text.upper() for token in statement if token.kind == "word"][:4]
        if words[:1] == ["CREATE"] and "TABLE" in words:
            table, rest = _name_of_table(statement, "TABLE")
            columns[table] = [items[0].text.lower() for items in _in_brackets(rest)[0] if items]
        elif words[:2] == ["INSERT", "INTO"]:
            table, rest = _name_of_table(statement, "INTO")
            if table in found:
                found[table] += _inserted(rest, columns.get(table, []))
    return _checked(found)


def _checked(found: dict[str, list[Facts]]) -> dict[str, list[Facts]]:
    if not any(found.values()):
        raise UsageError(
            "no data of the original found: no rows of dataset, job or datastatus",
            hint="Export the whole database in H2: SCRIPT TO 'original.sql'",
        )
    return found


def _statements(sql: str) -> Iterator[list[_Token]]:
    statement: list[_Token] = []
    for match in _TOKEN.finditer(sql):
        kind = str(match.lastgroup)
        if kind == "sign" and match[0] == ";":
            if statement:
                yield statement
            statement = []
        elif kind != "skip":
            statement.append(_Token(kind, match[0][1:-1].replace('""', '"') if kind == "name" else match[0]))
    if statement:
        raise UsageError(
            "the script is incomplete: it ends in the middle of a statement",
            hint="Nothing was imported. Export the database again in H2: SCRIPT TO 'original.sql'",
        )


def _name_of_table(statement: list[_Token], after: str) -> tuple[str, list[_Token]]:
    """The last part of "SCHEMA"."TABLE", and the tokens after it."""
    at = next(n for n, token in enumerate(statement) if token.kind == "word" and token.text.upper() == after) + 1
    while at < len(statement) and statement[at].text.upper() in ("IF", "NOT", "EXISTS"):
        at += 1
    while at + 2 < len(statement) and statement[at + 1] == _Token("sign", "."):
        at += 2
    return statement[at].text.lower() if at < len(statement) else "", statement[at + 1 :]


def _in_brackets(tokens: list[_Token]) -> list[list[list[_Token]]]:
    """Every top-level bracket, split at its commas."""
    brackets: list[list[list[_Token]]] = []
    depth = 0
    for token in tokens:
        sign = token.text if token.kind == "sign" else ""
        if sign == "(":
            depth += 1
            if depth == 1:
                brackets.append([[]])
                continue
        elif sign == ")":
            depth -= 1
            if depth == 0:
                continue
        if depth == 1 and sign == ",":
            brackets[-1].append([])
        elif depth:
            brackets[-1][-1].append(token)
    return brackets or [[]]


def _inserted(rest: list[_Token], columns: list[str]) -> list[Facts]:
    brackets = _in_brackets(rest)
    if rest and rest[0] == _Token("sign", "("):
        columns = [items[0].text.lower() for items in brackets.pop(0)]
    rows = [[_value(items) for items in bracket] for bracket in brackets]
    if any(len(row) != len(columns) for row in rows):
        raise UsageError("a row of the script has fewer or more values than its table has columns")
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _value(items: list[_Token]) -> Any:
    """A literal: NULL, a number, or text, also after TIMESTAMP or DATE."""
    last = items[-1] if items else _Token("word", "NULL")
    if last.kind == "word":
        return None if last.text.upper() == "NULL" else last.text.lower()
    if last.kind == "string":
        return last.text[1:-1].replace("''", "'")
    if last.kind == "unicode":
        text = last.text[3:-1].replace("''", "'")
        return _ESCAPED.sub(lambda code: chr(int(code[1] or code[2], 16)) if code[1] or code[2] else "\\", text)
    return last.text


def read_postgres(url: str, password: str | None = None) -> dict[str, list[Facts]]:
    """The rows of the original's tables in a PostgreSQL database, in any schema."""
    from .foreign_tables import read_tables

    return _checked(read_tables(url, TABLES, "seal", password))


def put(tx: Transaction, found: dict[str, list[Facts]]) -> Imported:
    """Insert the rows; the next claim folds them in like changes by SQL."""
    left_out: list[str] = []
    datasets = {row["datasetid"]: row for row in found["dataset"] if _fits(row, ("datasetid",), "dataset", left_out)}
    jobs = [row for row in found["job"] if _fits(row, ("jobid",), "job", left_out)]
    _refuse_two_producers(jobs)
    statuses = _statuses(found["datastatus"], left_out)
    for row in [*jobs, *statuses]:  # the original does not require definitions
        if row.get("datasetid"):
            datasets.setdefault(row["datasetid"], {"datasetid": row["datasetid"]})
    datasets.pop("today", None)
    rows = {"dataset": list(datasets.values()), "job": jobs, "datastatus": statuses}
    for table, content in rows.items():
        for row in content:
            given = [name for name in _OURS[table] if row.get(name) is not None]
            tx.fill(table, given, [[plain(row[name]) for name in given]])
    return Imported({table: len(content) for table, content in rows.items()}, left_out)


def _refuse_two_producers(jobs: list[Facts]) -> None:
    producers: dict[str, str] = {}
    for row in jobs:
        if row.get("itemtype") == "OUT" and producers.setdefault(row["datasetid"], row["jobid"]) != row["jobid"]:
            raise TwoProducers(
                f"{row['datasetid']} is written by {producers[row['datasetid']]} and by {row['jobid']}",
                hint="Only one job may write a dataset. Remove one of the two rows from table job first.",
            )


def _fits(row: Facts, names: tuple[str, ...], table: str, left_out: list[str]) -> bool:
    try:
        for name in names:
            check_id(name.removesuffix("id"), row.get(name))
    except BadId as problem:
        left_out.append(f"{table}: {problem.message}")
        return False
    return True


def _statuses(rows: list[Facts], left_out: list[str]) -> list[Facts]:
    """The newest row of each chunk and reader, with statuses of this program."""
    kept: dict[tuple[str, ...], Facts] = {}
    for row in sorted(rows, key=lambda row: str(row.get("modified") or "")):
        if not _fits(row, ("datasetid", "dataid", "jobid"), "datastatus", left_out):
            continue
        locktype, status = str(row.get("locktype") or "OUT").upper(), str(row.get("status") or "").upper()
        status = _STATUS.get(locktype, {}).get(status, status)
        what = f"datastatus {row['datasetid']} {row['dataid']} {row['jobid']}"
        if status not in _KNOWN.get(locktype, ()):
            left_out.append(f"{what}: unknown status {locktype} {status}")
            continue
        key = (row["datasetid"], row["dataid"], locktype, row["jobid"] if locktype == "IN" else "")
        if key in kept:
            left_out.append(
                f"datastatus {kept[key]['datasetid']} {kept[key]['dataid']} {kept[key]['jobid']}: an older row"
            )
        kept[key] = {**row, "locktype": locktype, "status": status}
    return list(kept.values())
