"""Checks that compare a chunk with a table get the password of that table, also for what a script wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.shell import Shell, statuses
from tests.support.tables import SQL, guarded_role

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(1800)]

SECRET = "canary-41f0c2"
KEY = {"PASSKEY": "correct horse"}
PROJECT = """
[project]
name = "references"
jobs = ["jobs"]

[environment.dev]
roots = ["./data"]

[spark]
master = "local[2]"
"spark.sql.shuffle.partitions" = 2

[dataset.days]
partition = "day"

[dataset.airlines]
kind = "table"
hostname = "HOST"
database = "DATABASE"
tablename = "airlines"
username = "guarded"
encryptedpass = "TOKEN"

[dataset.flights]
location = "flights/{dataid}.csv"
partition = "day"
checks = { references = { carrier = "airlines.code" } }

[job.flights]
reads = ["days"]
writes = ["flights"]
"""


@pytest.fixture
def home(tmp_path: Path, postgres_url: str, sql: SQL) -> Iterator[Shell]:
    """A script that writes flights, and a table of airlines that opens to its password only."""
    role = guarded_role(sql, SECRET)
    sql("create table airlines (code text)", "insert into airlines values ('AA'), ('UA')")
    sql(f"grant select on airlines to {role}")
    shell = Shell(tmp_path, extra=KEY, patience=1500)
    facts = conninfo_to_dict(postgres_url)
    project = PROJECT.replace("HOST", f"{facts['host']}:{facts['port']}").replace("DATABASE", str(facts["dbname"]))
    shell.write("dataflow.toml", project.replace('encryptedpass = "TOKEN"', ""))
    token = shell.odf("crypt", "encrypt", "--for", "airlines", stdin=SECRET).out.strip()
    shell.write("dataflow.toml", project.replace("TOKEN", token))
    shell.script("jobs/flights.sh", 'mkdir -p "${flights_location%/*}"; cp "arrived/$dataid.csv" "$flights_location"')
    shell.write("arrived/2013-01-01.csv", "carrier,delay\nAA,1\nUA,2\n")
    shell.write("arrived/2013-01-02.csv", "carrier,delay\nAA,1\nXX,2\nXX,3\n")
    shell.odf("apply", "--yes")
    shell.odf("ready", "days", "2013-01-01", "2013-01-02")
    shell.odf("ready", "airlines", "all")
    yield shell
    sql(f"drop owned by {role}", f"drop role {role}")


def test_a_scripts_chunk_is_compared_with_a_table_that_needs_a_password(home: Shell) -> None:
    home.odf("run", "flights", "--dataid", "2013-01-01")
    refused = home.odf("run", "flights", "--dataid", "2013-01-02", code=13)
    status = statuses(home)
    assert (status["flights", "2013-01-01"], status["flights", "2013-01-02"]) == ("READY", "FAILED")
    [failed] = [run for run in home.odf("runs", "flights", "--json").data if run["dataid"] == "2013-01-02"]
    assert failed["outcome"] == "NOT_VALIDATED"
    assert "references(carrier): unknown_values 1, rows 2, examples XX" in failed["detail"]
    assert SECRET not in refused.out + refused.err + str(failed)
