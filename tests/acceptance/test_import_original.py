"""A database of the Java original becomes a store, on both, from H2's script and from PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.support.odf import Odf
from tests.support.postgres import Server

DUMP = Path(__file__).parents[1] / "data/original-h2.sql"
STATUSES = "select datasetid, dataid, jobid, locktype, status from datastatus order by 1, 2, 4, 3"
EXPECTED = [
    ("bobin", "1.0", "loadbob", "IN", "DONE"),
    ("bobin", "1.0", "fakejob", "OUT", "READY"),
    ("bobin", "2.0", "fakejob", "OUT", "READY"),
    ("bobin", "3.0", "fakejob", "OUT", "READY"),
    ("bobout", "1.0", "loadbob", "OUT", "READY"),
    ("bobout", "2.0", "loadbob", "OUT", "FAILED"),
]


def statuses(odf: Odf) -> list[tuple[str, ...]]:
    return [tuple(row.values()) for row in odf("sql", "--json", STATUSES).data]


def goes_on(odf: Odf) -> None:
    """The next chunk is the one that the original would take."""
    assert odf("start", "loadbob", "--json").data["dataid"] == "3.0"
    assert odf("start", "usebob", "--json").data["dataid"] == "1.0"


def test_a_script_of_h2_becomes_a_store(odf: Odf) -> None:
    tried = odf("import", "--original", str(DUMP), "--dry-run")
    assert "would be imported" in tried.out
    answer = odf("import", "--original", str(DUMP), "--json")
    assert answer.data["rows"] == {"dataset": 3, "job": 4, "datastatus": 6}
    assert len(answer.data["left_out"]) == 1
    assert "2025-11-12 10:00:00" in answer.data["left_out"][0]
    assert statuses(odf) == EXPECTED
    [row] = odf("sql", "--json", "select * from dataset where datasetid = 'bobin'").data
    assert (row["tablename"], row["username"], row["database"]) == ("café", "o'neil", "shop; really")
    goes_on(odf)
    assert odf("import", "--original", str(DUMP), code=2).err.startswith("STORE_TAKEN")


@pytest.mark.postgres
def test_a_postgresql_database_becomes_a_store(postgres_url: str, postgres_server: Server, tmp_path: Path) -> None:
    theirs = postgres_server.create_database()
    with psycopg.connect(theirs, autocommit=True) as connection:
        connection.execute("create schema dataflow; set search_path = dataflow")
        script = DUMP.read_text().replace("U&'caf\\00e9'", "'café'").replace(" CACHED ", " ")
        lines = [
            line for line in script.splitlines() if not line.startswith(("--", ";", "CREATE USER", "CREATE SCHEMA"))
        ]
        connection.execute("\n".join(lines).replace('"DATAFLOW"."CONSTRAINT', '"CONSTRAINT').replace('"', "").encode())
    odf = Odf(tmp_path, f"sqlite:///{tmp_path}/store.db")
    assert odf("import", "--original", theirs, "--json").data["rows"]["datastatus"] == 6
    assert statuses(odf) == EXPECTED
    goes_on(odf)
    refused = Odf(tmp_path, theirs)("import", "--original", theirs, code=2)
    assert refused.err.startswith("STORE_TAKEN")
    postgres_server.drop_database(theirs)


def test_what_is_not_the_originals_is_refused(tmp_path: Path) -> None:
    odf = Odf(tmp_path, f"sqlite:///{tmp_path}/store.db")
    (tmp_path / "other.sql").write_text("create table x (a int);\ninsert into x values (1);\n")
    assert odf("import", "--original", "other.sql", code=2).err.startswith("USAGE")
    assert odf("import", "nosuch.jsonl", code=2).err.startswith("USAGE")


def test_a_file_that_is_cut_off_or_crafted_is_refused_by_name(tmp_path: Path) -> None:
    odf = Odf(tmp_path, f"sqlite:///{tmp_path}/store.db")
    whole = DUMP.read_text(encoding="utf-8")
    (tmp_path / "cut.sql").write_text(whole[: whole.index("('2.0', 'bobout'")])
    assert "in the middle of a statement" in odf("import", "--original", str(tmp_path / "cut.sql"), code=2).err
    (tmp_path / "wrong.jsonl").write_text('{"form": "OpenDataFlow store 1", "schema": "x"}\n')
    assert odf("import", str(tmp_path / "wrong.jsonl"), code=2).err.startswith("USAGE: this file cannot be imported")
