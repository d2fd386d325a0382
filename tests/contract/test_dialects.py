"""Two dialects that cannot drift: the same tables and indexes, and the same columns from every named query."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import opendataflow
from opendataflow import Store
from opendataflow.errors import LeaseLost
from opendataflow.model import Answer, Receipt
from opendataflow.store import incidents, records, rows, version_records
from opendataflow.store.drivers import queries
from opendataflow.store.drivers.postgres_transaction import check
from opendataflow.store.views import activity, history, sheets
from tests.support.flows import chain, claim_one, dump, in_status, produce, status
from tests.support.workers import ROOT

pytestmark = pytest.mark.postgres

STORE = ROOT / "src/opendataflow/store"

# What a type of PostgreSQL is in SQLite.
TYPES = {
    "text": "text",
    "timestamp with time zone": "text",
    "bigint": "integer",
    "integer": "integer",
    "smallint": "integer",
    "boolean": "integer",
    "double precision": "real",
}
# A default, the same in SQLite: who is connected to a file is nobody in particular.
DEFAULTS = {"now()": "current_timestamp", "true": "1", "false": "0", "SESSION_USER": None}


@pytest.fixture
def both(tmp_path: Path, postgres_url: str) -> Iterator[tuple[Store, Store]]:
    """A fresh store of each kind."""
    with (
        opendataflow.open(f"sqlite:///{tmp_path}/store.db", create=True) as sqlite,
        opendataflow.open(postgres_url, create=True) as postgres,
    ):
        yield sqlite, postgres


# Tables --------------------------------------------------------------------------------------------------------------


def sqlite_columns(store: Store) -> dict[tuple[str, str], tuple[str, bool, str | None]]:
    """(table, column) → (type, whether it must be there, default)."""
    columns_of = {}
    for (table,) in store.sql("select name from sqlite_master where type = 'table' and name not like 'sqlite_%'")[1]:
        names, columns = store.sql(f"select * from pragma_table_info('{table}')")
        for column in (dict(zip(names, row, strict=True)) for row in columns):
            must = bool(column["notnull"]) or bool(column["pk"])
            columns_of[table, column["name"]] = (column["type"].lower(), must, column["dflt_value"])
    return columns_of


def postgres_columns(store: Store) -> dict[tuple[str, str], tuple[str, bool, str | None]]:
    _, columns = store.sql(
        "select c.table_name, c.column_name, c.data_type, c.is_nullable, c.column_default from information_schema.columns c "
        "join information_schema.tables t using (table_schema, table_name) "
        "where table_schema = 'dataflow' and t.table_type = 'BASE TABLE'"
    )
    columns_of: dict[tuple[str, str], tuple[str, bool, str | None]] = {}
    for table, column, kind, nullable, default in columns:
        plain = default and re.sub(r"::\w+( \w+)*", "", default)
        columns_of[table, column] = (TYPES[kind], nullable == "NO", DEFAULTS.get(plain, plain))
    return columns_of


def test_tables_have_the_same_columns_types_and_defaults(both: tuple[Store, Store]) -> None:
    sqlite, postgres = sqlite_columns(both[0]), postgres_columns(both[1])
    assert sqlite.keys() == postgres.keys()
    assert {name: fact for name, fact in sqlite.items() if postgres[name] != fact} == {}


def test_views_have_the_same_columns(both: tuple[Store, Store]) -> None:
    sqlite, postgres = both
    views = {name for (name,) in sqlite.sql("select name from sqlite_master where type = 'view'")[1]}
    others = postgres.sql("select table_name from information_schema.views where table_schema = 'dataflow'")[1]
    assert views == {name for (name,) in others}
    for view in sorted(views):
        assert sqlite.sql(f"select * from {view}")[0] == postgres.sql(f"select * from {view}")[0], view


def index(definition: str) -> tuple[bool, str, str]:
    """An index as (is unique, columns, condition), however the database writes it."""
    text = re.sub(r"::\w+|using btree|dataflow\.", "", definition.lower())
    text = text.replace("locktype <> 'in'", "locktype = 'out'")  # the same rows, and PostgreSQL guesses better how many
    match = re.search(r"create (unique )?index \w+ on \w+\s*\((.*?)\)\s*(?:where (.*))?$", text, re.DOTALL)
    assert match, definition
    plain = [re.sub(r"[\s()]", "", part or "") for part in match.groups()]
    return bool(plain[0]), plain[1], plain[2]


def test_indexes_are_the_same(both: tuple[Store, Store]) -> None:
    sqlite = both[0].sql("select name, sql from sqlite_master where type = 'index' and sql is not null")[1]
    # What stands behind a primary key or a unique constraint is compared with the tables, by its columns.
    postgres = both[1].sql(
        "select i.relname, pg_get_indexdef(x.indexrelid) from pg_index x join pg_class i on i.oid = x.indexrelid "
        "where i.relnamespace = 'dataflow'::regnamespace and not exists (select 1 from pg_constraint c where c.conindid = x.indexrelid)"
    )[1]
    assert {name: index(sql) for name, sql in sqlite} == {name: index(sql) for name, sql in postgres}


def test_keys_are_the_same(both: tuple[Store, Store]) -> None:
    sqlite: dict[str, set[str]] = {}
    for (table,) in both[0].sql("select name from sqlite_master where type = 'table' and name not like 'sqlite_%'")[1]:
        names, columns = both[0].sql(f"select * from pragma_table_info('{table}')")
        facts = [dict(zip(names, row, strict=True)) for row in columns]
        keys = [",".join(fact["name"] for fact in sorted(facts, key=lambda fact: fact["pk"]) if fact["pk"])]
        names, indexes = both[0].sql(f"select * from pragma_index_list('{table}')")
        for made in (dict(zip(names, row, strict=True)) for row in indexes):
            if made["origin"] == "u":
                _, parts = both[0].sql(f"select name from pragma_index_info('{made['name']}')")
                keys.append(",".join(name for (name,) in parts))
        sqlite[table] = set(keys) - {""}
    postgres: dict[str, set[str]] = {}
    for table, key in both[1].sql(
        "select c.conrelid::regclass::text, (select string_agg(a.attname, ',' order by k.position) "
        "from unnest(c.conkey) with ordinality k (number, position) join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.number) "
        "from pg_constraint c where c.connamespace = 'dataflow'::regnamespace and c.contype in ('p', 'u')"
    )[1]:
        postgres.setdefault(table, set()).add(key)
    assert {table: keys for table, keys in sqlite.items() if keys} == postgres


# Queries -------------------------------------------------------------------------------------------------------------


def parameters(sql: str) -> set[str]:
    return set(re.findall(r"(?<![:\w]):([a-z_]+)\b", sql))


def sqlite_result(store: Store, sql: str) -> list[str]:
    """The columns that a query returns, as SQLite says when it compiles it; nothing is run."""
    connection: apsw.Connection = store._backend._connection  # type: ignore[attr-defined]
    columns: list[str] = []

    def see(cursor: apsw.Cursor, statement: str, bindings: Any) -> bool:
        columns[:] = [column[0] for column in cursor.get_description()]
        return False

    returned: list[str] = []
    for statement in sql.split(";\n"):
        cursor = connection.cursor()
        cursor.exec_trace = see
        columns = []
        with pytest.raises(apsw.ExecTraceAbort):
            cursor.execute(statement, dict.fromkeys(parameters(statement)))
        returned = returned or columns
    return returned


def postgres_result(store: Store, sql: str) -> list[str]:
    """The same by PostgreSQL."""
    connection = store._backend._connection.pgconn  # type: ignore[attr-defined]
    numbered, _ = queries.to_numbered(sql)
    check(connection.prepare(b"", numbered))
    told = check(connection.describe_prepared(b""))
    return [told.fname(column).decode() for column in range(told.nfields)]


def comments() -> dict[str, str]:
    """The first comment line of every query, by the words after `-- name: `, in the order of the files."""
    found: dict[str, str] = {}
    for file in sorted((STORE / "sql/queries").glob("*.sql")):
        text = file.read_text(encoding="utf-8")
        parts = re.findall(r"^-- name: (.*)\n(-- .*)\n", text, re.MULTILINE)
        assert len(parts) == text.count("-- name: "), f"{file.name}: every query has a comment"
        assert not found.keys() & dict(parts).keys(), file.name
        found |= parts
    return found


def test_what_only_one_dialect_needs_is_listed() -> None:
    sqlite, postgres = queries.load("sqlite"), queries.load("postgres")
    assert sqlite.keys() - postgres.keys() == {"clock_offset", "clock_offset_put"}
    assert {name for name in postgres.keys() - sqlite.keys() if not name.startswith("lock_")} == {
        "schema",
        "may_create_schema",
        "open_schemas",
        "schema_mark",
        "schema_marked",
        "schema_drop",
        "migration_lock",
        "numbered_columns",
        "transaction_status",
    }


def test_what_each_dialect_says_in_its_own_way_is_listed() -> None:
    """The versions stand next to each other, so that a change of one is a change of the other, and do the same."""
    what = comments()
    names = list(what)
    twice = [name for name in (each.removesuffix(" (sqlite)") for each in names) if f"{name} (postgres)" in names]
    for name in twice:
        assert names.index(f"{name} (postgres)") == names.index(f"{name} (sqlite)") + 1
        assert what[f"{name} (postgres)"] == what[f"{name} (sqlite)"]
    assert set(twice) == {
        "chunks_announce",
        "chunks_put",
        "claim_take",
        "claim_take_one",
        "columns",
        "datasets_not_encrypted",
        "end_run",
        "end_runs",
        "give_back",
        "links_of_versions",
        "made_from_version",
        "other_tables",
    }


def test_every_query_returns_the_same_columns_and_takes_the_same_parameters(both: tuple[Store, Store]) -> None:
    sqlite, postgres = queries.load("sqlite"), queries.load("postgres")
    for name in sorted(set(sqlite) & set(postgres)):
        assert parameters(sqlite[name]) == parameters(postgres[name]), name
        columns = sqlite_result(both[0], sqlite[name])
        assert columns == postgres_result(both[1], postgres[name]), name
        assert all(re.fullmatch(r"[a-z_]+", column) for column in columns), f"{name}: {columns}"


def test_every_row_has_the_fields_that_its_query_returns(both: tuple[Store, Store]) -> None:
    """Wherever a query is fetched into a named tuple, the names are those of its columns, in their order."""
    makes = {
        "records.chunk": records.Chunk,
        "records.input_row": records.InputRow,
        "input_row": records.InputRow,
        "records.run": records.Run,
        "records.event": records.Event,
        "records.link": records.LineageLink,
        "records.current": records.Current,
        "link": records.LineageLink,
        "current": records.Current,
        "version_records.stale_chunk": version_records.StaleChunk,
        "version_records.recalled": version_records.Recalled,
        "recalled": version_records.Recalled,
        "version_records.descendant": version_records.Descendant,
        "records.sample": records.Sample,
        "last_change": history.LastChange,
        "attempted": activity.Attempted,
        "deed": activity.OperatorEvent,
        "row_count": activity.RowCount,
        "stint": activity.RunSpan,
        "made_chunk": activity.MadeChunk,
        "chunk_line": sheets.ChunkLine,
        "columns": sheets.Columns,
        "failed_chunk": activity.FailedChunk,
        "history_line": history.HistoryLine,
        "records.published": records.ManifestRow,
        "_incident": incidents.Incident,
        "_message": incidents.Message,
    }
    sqlite = queries.load("sqlite")
    seen = set()
    for file in sorted(STORE.rglob("*.py")):
        code = re.sub(r"\s+", " ", file.read_text(encoding="utf-8"))
        for make, query in re.findall(r'(?:fetch|fetch_later|first)\( ?([\w.]+), "(\w+)"', code):
            name = make.removesuffix("._make")
            shape: Any = makes.get(name) or _named_tuple(file, name)
            columns = sqlite_result(both[0], sqlite[query])
            fields = [field for field in shape._fields if field in columns or field not in shape._field_defaults]
            assert fields == columns, f"{file.name}: {make} of {query}"
            seen.add(query)
    returning = {name for name, sql in sqlite.items() if len(sqlite_result(both[0], sql)) > 1}
    assert returning - seen == set(), "every row of several columns gets names"


def _named_tuple(file: Path, name: str) -> Any:
    import importlib

    from opendataflow import model

    module = importlib.import_module(".".join(file.relative_to(ROOT / "src").with_suffix("").parts))
    for place in (module, rows, records, model):
        if hasattr(place, name):
            return getattr(place, name)
    raise AssertionError(f"{file.name}: there is no {name}")


# Guards --------------------------------------------------------------------------------------------------------------


def over(store: Store) -> Any:
    """A claim whose run is over, although the chunk still says that it holds it."""
    chain(store)
    store.announce("raw", ["1"])
    produce(store, "make", "1")
    store.resubmit("product", ["1"])
    claim = claim_one(store, "make")
    store.dml(f"update run set status = 'LOST' where runid = {claim.runid}")
    return claim


def test_a_run_that_is_over_ends_nothing(store: Store) -> None:
    claim = over(store)
    before = dump(store)
    for end in (store.commit, store.fail):
        with pytest.raises(LeaseLost):
            end(claim)
    with pytest.raises(LeaseLost):
        store.give_back(claim, Receipt("make", "1", (Answer("place", False),)), "no")
    assert dump(store) == before
    assert (status(store, "product", "1"), in_status(store, "raw", "1", "make")) == ("RUNNING", "RUNNING")


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("claim_pick", "chunks_in_order"),
        ("statuses_given", "chunks_in_order"),
        ("end_run", "chunks_in_order|leases"),
        ("end_runs", "chunks_in_order|leases"),
    ],
)
def test_postgres_looks_up_a_chunk_by_its_key_in_a_store_that_it_has_never_analysed(
    both: tuple[Store, Store], query: str, wrong: str
) -> None:
    connection = both[1]._backend._connection.pgconn  # type: ignore[attr-defined]
    sql, names = queries.to_numbered(queries.load("postgres")[query])
    check(connection.exec_(b"prepare looked_at as " + sql))
    nothing = b", ".join([b"null"] * len(names))
    plan = check(connection.exec_(b"explain execute looked_at (" + nothing + b")"))
    told = "\n".join(plan.get_value(line, 0).decode() for line in range(plan.ntuples))
    assert "Index Scan using one_out_row_per_chunk on datastatus" in told
    assert not re.search(wrong, "\n".join(re.findall(r"Index Scan using \w+", told))), told
