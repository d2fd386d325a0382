"""What a database itself knows of a store's schema, so that two stores can be compared."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import Any

import psycopg

Catalog = dict[str, list[tuple[Any, ...]]]

_OURS = "= 'dataflow'::regnamespace"
# Left out are the names of NOT NULL rules, since a store of schema 12 has those of columns that were renamed, the places of columns that
# were dropped, and the parentheses of triggers, of which pg_dump writes more.
_POSTGRES = {
    "relations": f"select relname, relkind, reloptions, obj_description(oid, 'pg_class'), relacl::text from pg_class where relnamespace {_OURS}",
    "columns": "select c.relname, row_number() over (partition by c.oid order by a.attnum), a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated,"
    " pg_get_expr(d.adbin, d.adrelid), l.collname, a.attacl::text, a.attstorage, col_description(c.oid, a.attnum)"
    " from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum"
    f" left join pg_collation l on l.oid = a.attcollation where c.relnamespace {_OURS}",
    "constraints": "select conrelid::regclass::text, conname, contype, convalidated, condeferrable, condeferred, conkey, pg_get_constraintdef(oid)"
    f" from pg_constraint where connamespace {_OURS} and contype not in ('n', 't')",
    "indexes": "select i.indexrelid::regclass::text, i.indisunique, i.indisprimary, i.indisvalid, pg_get_indexdef(i.indexrelid)"
    f" from pg_index i join pg_class c on c.oid = i.indexrelid where c.relnamespace {_OURS}",
    "views": f"select relname, pg_get_viewdef(oid) from pg_class where relnamespace {_OURS} and relkind = 'v'",
    "functions": "select proname, pg_get_functiondef(oid), proacl::text, provolatile, prosecdef, obj_description(oid, 'pg_proc')"
    f" from pg_proc where pronamespace {_OURS}",
    "triggers": "select t.tgrelid::regclass::text, t.tgname, t.tgenabled, t.tgdeferrable, t.tginitdeferred, translate(pg_get_triggerdef(t.oid), '()', '')"
    f" from pg_trigger t join pg_class c on c.oid = t.tgrelid where c.relnamespace {_OURS} and not t.tgisinternal",
    "sequences": f"select c.relname, s.seqtypid::regtype::text, s.seqstart, s.seqincrement, s.seqmax, s.seqcycle, pg_get_serial_sequence(d.refobjid::regclass::text, a.attname)"
    " from pg_sequence s join pg_class c on c.oid = s.seqrelid join pg_depend d on d.objid = c.oid and d.deptype = 'i'"
    f" join pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid where c.relnamespace {_OURS}",
    "types": f"select typname, typtype from pg_type where typnamespace {_OURS}",
    "others": "select 'rule ' || rulename from pg_rewrite where rulename <> '_RETURN' and ev_class in"
    f" (select oid from pg_class where relnamespace {_OURS}) union all select 'policy ' || polname from pg_policy"
    " union all select 'statistics ' || stxname from pg_statistic_ext union all select 'default ' || defaclobjtype::text from pg_default_acl",
}


def postgres_catalog(url: str) -> Catalog:
    """What is in schema dataflow."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("set search_path = ''")  # every name is shown with its schema
        return {
            what: sorted(connection.execute(query.encode()).fetchall(), key=str) for what, query in _POSTGRES.items()
        }


def sqlite_catalog(file: str) -> Catalog:
    """What is in a file; statements without the comments, blanks and quotes that a person typed."""
    with closing(sqlite3.connect(file)) as connection:
        made = connection.execute(
            "select type, name, tbl_name, sql from sqlite_master where name <> 'sqlite_sequence' order by tbl_name, type, rowid"
        )
        # In the order of each table: among equal indexes and triggers, SQLite goes by it.
        found: Catalog = {"statements": [(*names, _normalised(sql or "")) for *names, sql in made]}
        tables = sorted({table for _, _, table, _ in found["statements"]})
        for pragma, names in (
            ("table_xinfo", tables),
            ("foreign_key_list", tables),
            ("index_list", tables),
            ("index_xinfo", [name for what, name, *_ in found["statements"] if what == "index"]),
        ):
            found[pragma] = [(name, *row) for name in names for row in connection.execute(f"pragma {pragma}({name})")]
        found["tables"] = sorted(row for row in connection.execute("pragma table_list") if row[1] != "sqlite_sequence")
        return found


def _normalised(sql: str) -> str:
    return re.sub(r"\s*([(),;])\s*", r"\1", re.sub(r"--.*|\s+", " ", sql).replace('"', "")).strip()
