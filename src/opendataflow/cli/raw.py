"""Verbs for people who think in SQL: sql (reads only), dml (writes)."""

from __future__ import annotations

import re
import sys
from typing import Any

import click

from ..errors import UsageError
from .app import App, table
from .common import Within, verb

_EXAMPLE = 'Write for instance: odf sql "select * from job_status"'


def _statement(given: str | None) -> str:
    if given is None or given == "-":
        if sys.stdin.isatty():
            raise UsageError("which statement?", hint=_EXAMPLE)
        given = sys.stdin.read()
    if "\0" in given or not given.strip():
        raise UsageError("this is not a statement", hint=_EXAMPLE)
    return given


@verb("sql")
@click.option(
    "--timeout",
    type=Within(0.001, 86400),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="End the statement when it takes longer, or waits longer for a lock.",
)
@click.option(
    "--as-superuser",
    is_flag=True,
    envvar="ODF_AS_SUPERUSER",
    help="Query even as a superuser of the PostgreSQL server, to whom functions give its files (or ODF_AS_SUPERUSER=1).",
)
@click.argument("statement", required=False)
def sql_verb(app: App, statement: str | None, timeout: float, as_superuser: bool) -> int:
    """Query the store with SQL. Nothing can be changed this way.

    Without a statement, or with -, it is read from the input. PostgreSQL runs SELECT, WITH, VALUES, SHOW and EXPLAIN.

    \b
      odf sql "select datasetid, status, count(*) from job_status group by 1, 2"
      odf sql --json "select * from run where status = 'FAILED'"
      odf sql < question.sql
    """
    names, rows = app.store.sql(_statement(statement), timeout=timeout, as_superuser=as_superuser)
    app.show(
        [dict(zip(names, map(_plain, row), strict=True)) for row in rows],
        lambda: [*table(names, rows), f"{len(rows):,} row{'s' * (len(rows) != 1)}"] if names else [],
        exact=True,
    )
    return 0


def _plain(value: Any) -> Any:
    """What JSON has no word for, as text."""
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)


@verb("dml", creates=True)
@click.option("--dry-run", is_flag=True, help="Count the rows that would change, and change nothing.")
@click.argument("statement", required=False)
def dml_verb(app: App, statement: str | None, dry_run: bool) -> int:
    """Change the store with SQL. The next claim acts on it like on any other change.

    Without a statement, or with -, it is read from the input.

    \b
      odf dml "update job_status set status = 'RESUBMIT' where dataid = '2025-11-12'"
      odf dml --dry-run "delete from datastatus where datasetid = 'flights_raw'"
      odf dml "insert into dataset (datasetid) values ('orders')"
    """
    statement = _statement(statement)
    n = None
    if app.is_missing and not app.store_url:
        n = _inserted_into_a_new_store(statement)
        app.creates = n > 0  # in a wrong folder nothing is left behind
    if not (n and dry_run):
        n = app.store.dml(statement, dry_run=dry_run)
    app.show(
        {"rows": n, "dry_run": dry_run},
        lambda: [f"{n:,} row{'s' * (n != 1)} {'would change' if dry_run else 'changed'}"],
    )
    return 0


def _inserted_into_a_new_store(statement: str) -> int:
    """The rows that a statement would insert into a store that does not exist yet; tried on a temporary one."""
    if not re.search(r"\b(insert|replace)\b", statement, re.IGNORECASE):
        return 0
    from tempfile import TemporaryDirectory

    from ..store import open_store

    with (
        TemporaryDirectory() as folder,
        open_store(f"sqlite:///{folder}/dataflow.db", create=True) as store,
    ):
        return store.dml(statement, dry_run=True)
