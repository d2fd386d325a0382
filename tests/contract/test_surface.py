"""The public surface, and the SQL that people can read."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import opendataflow
from opendataflow.store.drivers import queries
from tests.support.workers import ROOT

SQL = ROOT / "src/opendataflow/store/sql"


def test_the_public_names_are_these() -> None:
    assert sorted(opendataflow.__all__) == [
        "Dataset",
        "Input",
        "Job",
        "Manifest",
        "Mapping",
        "Partition",
        "Pool",
        "Store",
        "job",
        "open",
        "read",
    ]
    for name in opendataflow.__all__:
        assert getattr(opendataflow, name) is not None
    with pytest.raises(AttributeError):
        opendataflow.nosuch  # noqa: B018


def test_importing_it_costs_no_heavy_import() -> None:
    heavy = ["pyspark", "pyarrow", "psycopg", "apsw", "cryptography", "rich", "click"]
    code = f"import sys, opendataflow; print([name for name in {heavy!r} if name in sys.modules])"
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env={"PYTHONPATH": "src"}
    )
    assert told.stdout.strip() == "[]"


def test_a_sqlite_store_needs_no_postgresql_driver(tmp_path: object) -> None:
    heavy = ["pyspark", "psycopg", "cryptography"]
    code = (
        f"import sys, opendataflow; opendataflow.open('sqlite:///{tmp_path}/x.db', create=True).close();"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env={"PYTHONPATH": "src"}
    )
    assert told.stdout.strip() == "[]"


FILES = sorted(f"{path.parent.name}/{path.name}" for path in SQL.glob("*/*.sql") if path.parent.name != "schema")


def named(file: str) -> list[str]:
    """The names of the queries in one file, as they are written."""
    return re.findall(r"^-- name: (.*)$", (SQL / file).read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("file", FILES)
def test_every_query_says_in_a_line_what_it_does(file: str) -> None:
    for part in re.split(r"^-- name: ", (SQL / file).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        name, comment = part.splitlines()[:2]
        assert re.fullmatch(r"[a-z][a-z0-9_]*( \((sqlite|postgres)\))?", name)
        assert re.fullmatch(r"-- \S.*[.;,]", comment), name


def test_a_query_is_written_once() -> None:
    for _, other in (("sqlite", "postgres"), ("postgres", "sqlite")):
        names = [name for file in FILES if not file.startswith(other) for name in named(file)]
        names = [name.partition(" ")[0] for name in names if not name.endswith(f"({other})")]
        assert len(names) == len(set(names))


def test_every_query_is_used() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in SQL.parent.rglob("*.py"))
    for name in set(queries.load("sqlite")) | set(queries.load("postgres")):
        assert f'"{name}"' in code, name
