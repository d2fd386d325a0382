"""Load the named queries from sql/queries/*.sql, in which each is written once for both databases.

A query begins with `-- name: chunks_given` and a comment that says what it does. Where one database needs a statement of its own, the versions
stand next to each other, marked `-- name: columns (sqlite)` and `-- name: columns (postgres)`. Parameters are written :name. In SQLite a query may
consist of several statements. Braces stand for the words in which the databases differ; they are replaced when the queries are loaded:

    {rows :chunks (datasetid, dataid, version bigint)}  the rows of a JSON list of lists. A column is text unless it has a type; a column that
                                                        is named position is the place in the list
    {objects :runs (runid bigint, detail)}              the rows of a JSON list of objects
    {map :pairs}                                        the rows (key, value) of a JSON object
    {values :names}                                     the rows (value) of a JSON list of texts
    {in :names}, {in :runids bigint}                    a condition: among the values of a JSON list
    {in: select …}                                      a condition: among the values of a query, which is run first
    {join datastatus s: s.datasetid = c.datasetid …}    an inner join in which the rows before it drive and the table is looked up by key,
                                                        whatever the planner estimates for small or never analysed tables; what stands
                                                        before the colon qualifies the look-up
    {seconds started, ended}                            the seconds between two timestamps
    {sqlite: …} {postgres: …}                           words for one database only
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

SQL = Path(__file__).parent.parent / "sql"
_PARAMETER = r"(?<![:\w]):([a-z_]+)\b"
_PLACEHOLDER = r"\{(rows|objects|map|values|in|in:|join|seconds|sqlite:|postgres:) ([^{}]*)\}"  # the innermost one


@cache
def load(dialect: str) -> dict[str, str]:
    """All named queries of a dialect."""
    queries: dict[str, str] = {}
    for folder in ("common", dialect, "queries"):
        for file in sorted(os.listdir(SQL / folder)):
            text = expanded((SQL / folder / file).read_text(encoding="utf-8"), dialect)
            for part in f"\n{text}".split("\n-- name: ")[1:]:
                heading, *lines = part.split("\n")
                name, _, only = heading.partition(" ")
                if only in ("", f"({dialect})"):
                    queries[name] = "\n".join([line for line in lines if not line.startswith("--")]).strip()
    return queries


def expanded(sql: str, dialect: str) -> str:
    """The SQL with the words of a dialect in place of the braces."""
    words = _WORDS[dialect]
    count = 1
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


def _columns(text: str) -> tuple[str, list[tuple[str, str]]]:
    """The parameter of a list, and the names and types of its columns."""
    parameter, _, columns = text.partition(" (")
    named = [column.strip().partition(" ") for column in columns.rstrip(")").split(",")]
    return parameter, [(name, type_ or "text") for name, _, type_ in named]


def _without_position(columns: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [column for column in columns if column[0] != "position"]


def _sqlite_rows(text: str) -> str:
    parameter, columns = _columns(text)
    cells = [f"value ->> {n} as {name}" for n, (name, _) in enumerate(_without_position(columns))]
    cells += ["key as position"] * (len(columns) - len(cells))
    return f"(select {', '.join(cells)} from json_each({parameter}))"


def _sqlite_objects(text: str) -> str:
    parameter, columns = _columns(text)
    cells = [f"value ->> '{name}' as {name}" for name, _ in columns]
    return f"(select {', '.join(cells)} from json_each({parameter}))"


def _sqlite_join(text: str) -> str:
    # A cross join is done in the order in which it is written.
    look_up, condition = text.split(":", 1)
    return f"cross join {look_up.strip()} on {condition.strip()}"


def _postgres_rows(text: str) -> str:
    parameter, columns = _columns(text)
    kept = _without_position(columns)
    cells = [f"value ->> {n} as {name}" if is_a == "text" else f"(value ->> {n})::{is_a} as {name}" for n, (name, is_a) in enumerate(kept)]
    source = f"json_array_elements({parameter}::json)"
    if kept == columns:
        return f"(select {', '.join(cells)} from {source} as e (value))"
    return f"(select {', '.join(cells)}, position from {source} with ordinality as e (value, position))"


def _postgres_objects(text: str) -> str:
    parameter, columns = _columns(text)
    typed = ", ".join(f"{name} {is_a}" for name, is_a in columns)
    return f"(select * from json_to_recordset({parameter}::json) as e ({typed}))"


def _postgres_in(text: str) -> str:
    parameter, _, is_a = text.partition(" ")
    return f"= any (array(select json_array_elements_text({parameter}::json){is_a and '::'}{is_a}))"


def _postgres_join(text: str) -> str:
    # OFFSET 0 keeps the planner from joining in another order. An index scan of a small table would stay in a prepared plan while it grows.
    look_up, condition = text.split(":", 1)
    table, alias, *more = look_up.split()
    return f"cross join lateral (select * from {table} {alias} where {' '.join([condition.strip(), 'offset 0', *more])}) {alias}"


_WORDS: dict[str, dict[str, Callable[[str], str]]] = {
    "sqlite": {
        "rows": _sqlite_rows,
        "objects": _sqlite_objects,
        "map": lambda parameter: f"(select key, value from json_each({parameter}))",
        "values": lambda parameter: f"(select value from json_each({parameter}))",
        "in": lambda text: f"in (select value from json_each({text.partition(' ')[0]}))",
        "in:": lambda query: f"in ({query})",
        "join": _sqlite_join,
        "seconds": lambda text: "(julianday({1}) - julianday({0})) * 86400.0".format(*text.split(", ")),
        "sqlite:": str,
        "postgres:": lambda _: "",
    },
    "postgres": {
        "rows": _postgres_rows,
        "objects": _postgres_objects,
        "map": lambda parameter: f"(select key, value from json_each_text({parameter}::json))",
        # As an array, the list is read once, not for every row that it is joined with.
        "values": lambda parameter: f"(select value from unnest(array(select json_array_elements_text({parameter}::json))) as e (value))",
        "in": _postgres_in,
        "in:": lambda query: f"= any (array({query}))",
        "join": _postgres_join,
        "seconds": lambda text: "extract(epoch from {1} - {0})::double precision".format(*text.split(", ")),
        "sqlite:": lambda _: "",
        "postgres:": str,
    },
}
