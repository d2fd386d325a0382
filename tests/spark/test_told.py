"""What a person is told when Spark fails: one line with the cause at every door, and the rest in the log of the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.shell import Answer
from tests.support.tables import SQL

PROJECT = """
[environment.dev]
roots = ["./data"]

[spark]
master = "local[2]"

[dataset.raw]
location = "raw/{dataid}.csv"
partition = "day"
schema = "id INT"
options = { mode = "FAILFAST" }

[dataset.clean]
location = "clean/{dataid}"
partition = "day"
checks = { range = { id = { max = 10 } } }

[job.clean]
reads = ["raw"]
writes = ["clean"]
"""
CODE = """
import logging
from opendataflow import job


@job
def clean(raw, chunk):
    print("cleaning", chunk.dataid)
    logging.getLogger(__name__).info("logged for %s", chunk.dataid)
    return raw
"""


@pytest.mark.fault(44)
def test_the_cause_is_told_in_one_line_and_the_rest_is_in_the_log(desk: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / "dataflow.toml").write_text(PROJECT)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/clean.py").write_text(CODE)
    (tmp_path / "data/raw").mkdir(parents=True)
    for day, value in (("01", "5"), ("02", "five"), ("03", "six"), ("04", "77")):
        (tmp_path / f"data/raw/2013-01-{day}.csv").write_text(f"id\n{value}\n")
    desk("apply", "--yes")
    desk("ready", "raw", "2013-01-01..2013-01-04")
    drained = desk("drain", code=1)
    cause = 'NumberFormatException: For input string: "'
    assert "2 × clean JOB_FAILED" in drained.out, "both for the same reason, whatever the value and the file"
    assert cause in drained.out
    assert "range(id): violations 1, max 10, examples 77" in drained.out
    assert "cleaning" not in drained.out + drained.err
    assert "\tat " not in drained.out + drained.err
    runs = {run["dataid"]: run for run in desk("runs", "clean", "--json").data}
    detail = runs["2013-01-02"]["detail"]
    assert f'{cause}five"' in detail
    assert detail.endswith("raw/2013-01-02.csv")
    assert "\n" not in detail
    assert cause in desk("why", "clean", "2013-01-02").out
    log = desk("log", str(runs["2013-01-02"]["runid"])).out
    assert "cleaning 2013-01-02\n" in log
    assert "logged for 2013-01-02\n" in log
    assert "Integer.parseInt" in log
    assert "2013-01-03" not in log


RENAMED = """
import psycopg
from opendataflow import job


@job
def lake(t):
    with psycopg.connect("{url}", autocommit=True) as connection:
        connection.execute("alter table if exists t rename to gone")
    return t
"""


@pytest.mark.postgres
def test_a_table_that_is_renamed_while_it_is_read_has_one_name_and_one_cause(
    desk: Callable[..., Answer], tmp_path: Path, sql: SQL, postgres_url: str
) -> None:
    sql("create table t (day date)", "insert into t values ('2013-01-01'), ('2013-01-02')")
    facts = conninfo_to_dict(postgres_url)
    (tmp_path / "dataflow.toml").write_text(f"""
[environment.dev]
roots = ["./data"]
[dataset.t]
kind = "table"
hostname = "{facts["host"]}:{facts["port"]}"
database = "{facts["dbname"]}"
username = "{facts["user"]}"
tablename = "t"
partition = {{ type = "day", column = "day" }}
[dataset.lake]
location = "lake/{{dataid}}"
partition = "day"
[job.lake]
reads = ["t"]
writes = ["lake"]
""")
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/lake.py").write_text(RENAMED.replace("{url}", postgres_url))
    (tmp_path / "data").mkdir()
    desk("apply", "--yes")
    desk("ready", "t", "2013-01-01..2013-01-02")
    first, second = desk("run", "lake", code=12), desk("run", "lake", code=12)
    runs = desk("runs", "lake", "--json").data
    assert {run["outcome"] for run in runs} == {"INVALID_PATH"}, "noticed by a task, and noticed before"
    assert len({run["detail"] for run in runs}) == 1
    logs = [desk("log", str(run["runid"])) for run in runs]
    for answer in (first, second, desk("recover"), desk("why", "lake", "2013-01-01"), *logs):
        assert "odf-error" not in answer.out + answer.err
    assert len(desk("recover", "--json").data["causes"]) == 1
