"""Every named query as each database runs it: its words, and a plan that looks rows up by key, however many there are."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import opendataflow
from opendataflow import Store
from opendataflow.store.drivers import queries
from tests.support.flows import chain, produce
from tests.support.workers import ROOT

GOLDEN = ROOT / "tests/data/sql"
REFRESH = "Look at the difference, then: .venv/bin/python -m tests.contract.test_plans"
BIG = ("candidate", "data_manifest", "datastatus", "event", "run", "run_input")
# Indexes of the few rows that are not at rest: a scan of one is not a scan of its table.
SMALL = {"candidates_deferred", "chunks_not_settled", "leases", "running_in_pool", "runs_remarked", "unfit_notes"}
EXPLAINED = ("delete", "insert", "select", "update", "with")

# Queries that may scan a big table, and why.
SCANS = {
    "candidate_counts": "counts all candidates: for pages, never for a claim",
    "is_in_use": "looks whether there is any row",
    "locations_absolute_page": "pages through all versions, when a store moves",
    "locations_put": "an UPDATE … FROM cannot be kept from a table of a few rows, until the server analyses it",
    "newest_run_before": "begins at the newest run and stops at the first match",
    "run_logs_put": "the same",
    "status_counts": "counts all chunks: for pages, never for a claim",
}


def is_about_all(name: str) -> bool:
    """Whether a query checks the whole store, or may scan for another reason."""
    return name in SCANS or f"-- name: {name}\n" in (queries.SQL / "queries/soundness.sql").read_text(encoding="utf-8")


def fill(store: Store) -> None:
    """Ten chunks, half of them read."""
    chain(store)
    store.announce("raw", [str(number) for number in range(10)])
    for number in range(5):
        produce(store, "make", str(number))


# Words ---------------------------------------------------------------------------------------------------------------


def words(dialect: str) -> str:
    named = sorted(queries.load(dialect).items())
    return "\n".join(f"-- name: {name}\n{sql}\n" for name, sql in named)


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_the_words_of_every_query_are_the_ones_that_were_looked_at(dialect: str) -> None:
    assert words(dialect) == (GOLDEN / f"{dialect}.sql").read_text(encoding="utf-8"), REFRESH


@pytest.mark.parametrize(
    ("sql", "sqlite", "postgres"),
    [
        (
            "from {rows :a (x, n bigint, position)} r",
            "from (select value ->> 0 as x, value ->> 1 as n, key as position from json_each(:a)) r",
            "from (select value ->> 0 as x, (value ->> 1)::bigint as n, position"
            " from json_array_elements(:a::json) with ordinality as e (value, position) offset 0) r",
        ),
        (
            "from {objects :a (x, n bigint)} r",
            "from (select value ->> 'x' as x, value ->> 'n' as n from json_each(:a)) r",
            "from (select * from json_to_recordset(:a::json) as e (x text, n bigint)) r",
        ),
        (
            "x {in :a} and n {in :b bigint}",
            "x in (select value from json_each(:a)) and n in (select value from json_each(:b))",
            "x = any (array(select json_array_elements_text(:a::json)))"
            " and n = any (array(select json_array_elements_text(:b::json)::bigint))",
        ),
        (
            "{join event e {postgres: for update}: e.x = c.x and e.y {in: select '{}' from c}}",
            "cross join event e on e.x = c.x and e.y in (select '{}' from c)",
            "cross join lateral (select * from event e where e.x = c.x and e.y = any (array(select '{}' from c)) offset 0 for update) e",
        ),
        (
            "{left join run r: r.runid = e.runid}",
            "left join run r on r.runid = e.runid",
            "left join lateral (select * from run r where r.runid = e.runid offset 0) r on true",
        ),
    ],
)
def test_a_placeholder_becomes_the_words_of_each_database(sql: str, sqlite: str, postgres: str) -> None:
    assert queries.expanded(sql, "sqlite") == sqlite
    assert queries.expanded(sql, "postgres") == postgres


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_no_placeholder_is_left(dialect: str) -> None:
    for name, sql in queries.load(dialect).items():
        assert not re.search(r"\{[^0-9}]", sql), name


# Plans ---------------------------------------------------------------------------------------------------------------


def sqlite_scans(store: Store, sql: str) -> Iterator[str]:
    """The big tables that SQLite would scan."""
    connection: Any = store._backend._connection  # type: ignore[attr-defined]
    tables = {alias: table for table, alias in re.findall(r"\b(?:from|join|into|update)\s+(\w+)\s+(?:as )?(\w+)", sql)}
    for statement in sql.split(";\n"):
        given = dict.fromkeys(re.findall(r"(?<![:\w]):([a-z_]+)\b", statement))
        for *_, step in connection.execute(f"explain query plan {statement}", given):
            found = re.match(r"SCAN (\w+)(?:.* USING (?:COVERING )?INDEX (\w+))?", step)
            is_scan = found and tables.get(found[1], found[1]) in BIG and found[2] not in SMALL
            if is_scan or "AUTOMATIC" in step:
                yield step


@pytest.mark.parametrize("rows", ["ten", "a million"])
def test_sqlite_scans_no_big_table(tmp_path: Path, rows: str) -> None:
    with opendataflow.open(f"sqlite:///{tmp_path}/store.db", create=True) as store:
        fill(store)
        if rows == "a million":
            claim_a_million_in_sqlite(store)
        explained = {name: sql for name, sql in queries.load("sqlite").items() if sql.startswith(EXPLAINED)}
        scans = {name: list(sqlite_scans(store, sql)) for name, sql in explained.items() if not is_about_all(name)}
    assert {name: found for name, found in scans.items() if found} == {}


def claim_a_million_in_sqlite(store: Store) -> None:
    """What ANALYZE would write about tables of a million rows; the program itself never runs it."""
    connection: Any = store._backend._connection  # type: ignore[attr-defined]
    connection.execute("analyze").fetchall()
    connection.execute("delete from sqlite_stat1").fetchall()
    for table, name in connection.execute("select tbl_name, name from sqlite_master where type = 'index'").fetchall():
        if table not in BIG:
            continue
        columns = len(connection.execute(f"pragma index_info({name})").fetchall())
        all_rows = 100 if name in SMALL else 1_000_000
        each = [max(1, all_rows // 100 ** (n + 1)) for n in range(columns)]
        connection.execute(
            "insert into sqlite_stat1 values (?, ?, ?)", (table, name, " ".join(map(str, [all_rows, *each])))
        )
    connection.execute("analyze sqlite_schema").fetchall()


def postgres_scans(plan: dict[str, Any], leading: dict[str, str], above: str = "") -> Iterator[str]:
    """The big tables that PostgreSQL would scan: without an index, or with one whose first column is not given."""
    kind, index = plan["Node Type"], plan.get("Index Name", "")
    table = plan.get("Relation Name", "")
    if index in leading:  # not one of the catalogue's
        table, _, first = leading[index].partition(".")
    is_first_row = above == "Limit" and "Filter" not in plan
    condition = plan.get("Index Cond", "")
    if table in BIG and kind == "Seq Scan":
        yield f"{kind} of {table}"
    elif (
        table in BIG and index and index not in SMALL and not is_first_row and not re.search(rf"\b{first}\b", condition)
    ):
        yield f"{kind} of {table} by {index}: {condition}"
    for part in plan.get("Plans", ()):
        yield from postgres_scans(part, leading, kind)


@pytest.mark.postgres
@pytest.mark.parametrize("rows", ["never analysed", "ten", "a million"])
def test_postgres_scans_no_big_table(fresh_postgres_url: str, rows: str) -> None:
    with opendataflow.open(fresh_postgres_url, who="tester") as store:
        connection: Any = store._backend._connection  # type: ignore[attr-defined]
        if rows != "never analysed":
            fill(store)
            connection.execute("analyze")
        if rows == "a million":
            connection.execute(
                "update pg_class set reltuples = 1000000, relpages = greatest(relpages, 1) where relnamespace = 'dataflow'::regnamespace"
                " and relname = any (%s)",
                [list(BIG)],
            )
        leading = dict(
            connection.execute(
                "select i.relname, t.relname || '.' || a.attname from pg_index x join pg_class i on i.oid = x.indexrelid"
                " join pg_class t on t.oid = x.indrelid join pg_attribute a on a.attrelid = t.oid and a.attnum = x.indkey[0]"
                " where i.relnamespace = 'dataflow'::regnamespace"
            ).fetchall()
        )
        scans = {}
        for name, sql in queries.load("postgres").items():
            if not sql.startswith(EXPLAINED) or is_about_all(name):
                continue
            numbered, parameters = queries.to_numbered(sql)
            connection.execute(b"prepare looked_at as " + numbered)
            given = f"({', '.join(['null'] * len(parameters))})" if parameters else ""
            ((plan,),) = connection.execute(f"explain (format json) execute looked_at {given}").fetchall()
            connection.execute("deallocate looked_at")
            scans[name] = list(postgres_scans(plan[0]["Plan"], leading))
    assert {name: found for name, found in scans.items() if found} == {}


if __name__ == "__main__":
    for each in ("sqlite", "postgres"):
        (GOLDEN / f"{each}.sql").write_text(words(each), encoding="utf-8")
        sys.stdout.write(f"{GOLDEN / each}.sql\n")
