"""Load the named queries from sql/queries/*.sql, in which each is written once for both databases.

A query begins with `-- name: chunks_given` and a comment that says what it does. Where one database needs a statement of its
own, the versions stand next to each other: `-- name: columns (sqlite)`, `-- name: columns (postgres)`. Parameters are written
:name. In SQLite a query may consist of several statements. Braces stand for the words in which the databases differ, and are
replaced when the queries are loaded:

{rows :chunks (datasetid, dataid, version bigint)}
    the rows of a JSON list of lists; a column is text unless it has a type, and one that is named position is the place in the list
{objects :runs (runid bigint, detail)}
    the rows of a JSON list of objects
{map :pairs}, {values :names}
    the rows (key, value) of a JSON object, the rows (value) of a JSON list of texts
{in :names}, {in :runids bigint}, {in: select …}
    the condition that a value is in a JSON list, or in the answer to a query, which is run first
{join datastatus s: s.datasetid = c.datasetid …}, {left join run r: r.runid = s.runid}
    a join in which the rows before it drive and the table is looked up by key, whatever the planner estimates for a table that is
    small or was never analysed; words between the alias and the colon qualify the look-up
{seconds started, ended}
    the seconds between two timestamps
{sqlite: …}{postgres: …}
    words for one database only
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

SQL = Path(__file__).parent.parent / "sql"
_PARAMETER = r"(?<![:\w]):([a-z_]+)\b"
# The innermost one; {} is an empty JSON object.
_PLACEHOLDER = r"\{(rows|objects|map|values|in:?|(?:left )?join|seconds|sqlite:|postgres:) ((?:[^{}]|\{\})*)\}"


@cache
def load(dialect: str) -> dict[str, str]:
    """All named queries of a dialect."""
    queries: dict[str, str] = {}
    for file in sorted(os.listdir(SQL / "queries")):
        text = expanded((SQL / "queries" / file).read_text(encoding="utf-8"), dialect)
        for part in f"\n{text}".split("\n-- name: ")[1:]:
            heading, *lines = part.split("\n")
            name, _, only = heading.partition(" ")
            if only in ("", f"({dialect})"):
                queries[name] = "\n".join([line for line in lines if not line.startswith("--")]).strip()
    return queries


def expanded(sql: str, dialect: str) -> str:
    """The SQL with the words of a dialect in place of the braces."""
    words, count = _WORDS[dialect], 1
    while count:
        sql, count = re.subn(_PLACEHOLDER, lambda found: words[found[1]](found[2]), sql)
    return sql


def schema(name: str) -> str:
    """The tables of a dialect, or a step that leads to them."""
    return (SQL / "schema" / f"{name}.sql").read_text(encoding="utf-8")


def to_numbered(sql: str) -> tuple[bytes, tuple[str, ...]]:
    """SQL with :name parameters replaced by $1, $2, …, and their names in that order."""
    names: dict[str, int] = {}
    numbered = re.sub(_PARAMETER, lambda match: f"${names.setdefault(match[1], len(names) + 1)}", sql)
    return numbered.encode(), tuple(names)


def _columns(text: str) -> tuple[str, list[tuple[str, str]], bool]:
    """The parameter of a list, the names and types of its columns, and whether it has a position."""
    parameter, _, columns = text.partition(" (")
    named = [column.strip().partition(" ") for column in columns.rstrip(")").split(",")]
    typed = [(name, is_a or "text") for name, _, is_a in named if name != "position"]
    return parameter, typed, len(typed) < len(named)


def _sqlite_rows(text: str) -> str:
    parameter, columns, has_position = _columns(text)
    cells = [f"value ->> {n} as {name}" for n, (name, _) in enumerate(columns)] + ["key as position"] * has_position
    return f"(select {', '.join(cells)} from json_each({parameter}))"


def _postgres_rows(text: str) -> str:
    parameter, columns, has_position = _columns(text)
    cells = [
        f"value ->> {n} as {name}" if is_a == "text" else f"(value ->> {n})::{is_a} as {name}"
        for n, (name, is_a) in enumerate(columns)
    ]
    cells += ["position"] * has_position
    source = f"json_array_elements({parameter}::json) " + (
        "with ordinality as e (value, position)" if has_position else "as e (value)"
    )
    return f"(select {', '.join(cells)} from {source} offset 0)"  # OFFSET 0: each value is read from the JSON once


def _sqlite_objects(text: str) -> str:
    parameter, columns, _ = _columns(text)
    cells = [f"value ->> '{name}' as {name}" for name, _ in columns]
    return f"(select {', '.join(cells)} from json_each({parameter}))"


def _postgres_objects(text: str) -> str:
    parameter, columns, _ = _columns(text)
    typed = ", ".join(f"{name} {is_a}" for name, is_a in columns)
    return f"(select * from json_to_recordset({parameter}::json) as e ({typed}))"


def _postgres_values(parameter: str, is_a: str = "") -> str:
    return f"array(select json_array_elements_text({parameter}::json){is_a and '::'}{is_a})"


def _sqlite_join(kind: str, text: str) -> str:
    # A cross join, like a left join, is done in the order in which it is written.
    look_up, condition = text.split(":", 1)
    return f"{kind} {look_up.strip()} on {condition.strip()}"


def _postgres_join(kind: str, end: str, text: str) -> str:
    # OFFSET 0 keeps the planner from a scan of a small table, which would stay in a prepared plan while the table grows.
    look_up, condition = text.split(":", 1)
    table, alias, *more = look_up.split()
    where = " ".join([condition.strip(), "offset 0", *more])
    return f"{kind} lateral (select * from {table} {alias} where {where}) {alias}{end}"


_WORDS: dict[str, dict[str, Callable[[str], str]]] = {
    "sqlite": {
        "rows": _sqlite_rows,
        "objects": _sqlite_objects,
        "map": "(select key, value from json_each({}))".format,
        "values": "(select value from json_each({}))".format,
        "in": lambda text: f"in (select value from json_each({text.partition(' ')[0]}))",
        "in:": "in ({})".format,
        "join": partial(_sqlite_join, "cross join"),
        "left join": partial(_sqlite_join, "left join"),
        "seconds": lambda text: "(julianday({1}) - julianday({0})) * 86400.0".format(*text.split(", ")),
        "sqlite:": str,
        "postgres:": lambda _: "",
    },
    "postgres": {
        "rows": _postgres_rows,
        "objects": _postgres_objects,
        "map": "(select key, value from json_each_text({}::json))".format,
        # As an array, the list is read once, not for every row that it is joined with.
        "values": lambda parameter: f"(select value from unnest({_postgres_values(parameter)}) as e (value))",
        "in": lambda text: f"= any ({_postgres_values(*text.split(' ', 1))})",
        "in:": "= any (array({}))".format,
        "join": partial(_postgres_join, "cross join", ""),
        "left join": partial(_postgres_join, "left join", " on true"),
        "seconds": lambda text: "extract(epoch from {1} - {0})::double precision".format(*text.split(", ")),
        "sqlite:": lambda _: "",
        "postgres:": str,
    },
}
