"""Declared checks of what scripts write and of what arrives, on a machine without Spark; on both stores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.shell import Shell, statuses

TOML = """
[dataset.raw]

[dataset.orders]
location = "orders/{{dataid}}.csv"
checks = {{ {checks} }}

[job.load]
reads = ["raw"]
writes = ["orders"]
"""


@pytest.fixture
def project(shell: Shell, tmp_path: Path) -> Shell:
    """A script that writes what lies in the file `rows`, where nobody can import Spark."""
    (tmp_path / "none").mkdir()
    (tmp_path / "none/pyspark.py").write_text("raise ModuleNotFoundError('there is none', name='pyspark')")
    shell.extra["PYTHONPATH"] = str(tmp_path / "none")
    shell.script("jobs/load.sh", 'touch started; mkdir -p "${orders_location%/*}"; cp rows "$orders_location"')
    return shell


def declare(shell: Shell, checks: str) -> None:
    shell.write("dataflow.toml", TOML.format(checks=checks))
    shell.odf("apply", "--yes")
    shell.odf("ready", "raw", "1")


def test_a_header_alone_is_not_ready_where_a_row_is_declared(project: Shell) -> None:
    declare(project, "rows = { min = 1 }")
    project.write("rows", "id,amount\n")
    assert "NOT_VALIDATED: orders 1: rows: rows 0, min 1" in project.odf("run", "load", code=13).err
    assert statuses(project)["orders", "1"] == "FAILED"
    project.write("rows", "id,amount\n1,5\n")
    project.odf("resubmit", "orders", "1")
    project.odf("run", "load")
    chunk = project.odf("explain", "orders", "1", "--json").data
    assert statuses(project)["orders", "1"] == "READY"
    assert '"rows"' in json.dumps(chunk)


def test_rows_that_fail_a_check_are_not_published(project: Shell) -> None:
    declare(project, 'unique = ["id"], not_null = ["amount"], range = { amount = { min = 0 } }')
    project.write("rows", "id,amount\n1,-5\n1,\n")
    told = project.odf("run", "load", code=13).err
    for words in ("not_null(amount): nulls amount=1", "unique(id): repeated_keys 1", "range(amount): violations 1"):
        assert words in told


def test_checks_that_only_spark_can_run_are_refused_before_the_script_starts(project: Shell) -> None:
    declare(project, 'sql = ["amount > 0"]')
    project.write("rows", "id,amount\n1,5\n")
    for command in (("run", "load"), ("drain",)):
        told = project.odf(*command, code=None)
        assert "the checks of orders run on Spark (check sql), and pyspark is not installed" in told.err + told.out
        assert told.code != 0
    assert ("orders", "1") not in statuses(project)
    assert not (project.folder / "started").exists()


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ('id\n"' + "1" * 140_000 + '"\n', "field larger than field limit"),
        ("id\n1\n\u3000\n", "has a line of unusual whitespace, which not every reader skips"),
    ],
)
def test_rows_that_only_spark_reads_for_sure_are_no_failure_of_the_job(project: Shell, rows: str, why: str) -> None:
    declare(project, 'not_null = ["id"]')
    project.write("rows", rows)
    told = project.odf("run", "load", code=None).err
    assert "MISSING_DEPENDENCY: the checks of orders run on Spark (" in told
    assert why in told
    assert "JOB_FAILED" not in told


def test_why_says_that_the_checks_cannot_run_here(project: Shell) -> None:
    declare(project, 'sql = ["amount > 0"]')
    told = project.odf("why", "load")
    assert "MISSING_DEPENDENCY: the checks of orders run on Spark (check sql), and pyspark is not installed" in told.out


@pytest.mark.parametrize("is_spark_job", [False, True])
def test_without_java_what_needs_spark_is_refused_before_anything_is_claimed(shell: Shell, is_spark_job: bool) -> None:
    if is_spark_job:
        shell.write("jobs/load.sql", "select 1 as id, 5 as amount\n")
        needs = "job load runs on Spark, and Spark cannot start: JAVA_HOME is "
    else:
        shell.script("jobs/load.sh", "touch started")
        needs = "the checks of orders run on Spark (check sql), and Spark cannot start: JAVA_HOME is "
    declare(shell, 'sql = ["amount > 0"]')
    shell.extra["JAVA_HOME"] = str(shell.folder / "nowhere")
    for command in (
        ("run", "load"),
        ("run", "load", "--dataid", "1"),
        ("drain",),
        ("why", "load"),
        ("why", "load", "1"),
    ):
        told = shell.odf(*command, code=None)
        assert needs in told.out + told.err, command
        assert (told.code != 0) is (command[0] != "why")
        assert "starting Spark" not in told.err
    assert "Install Java 17 or 21" in shell.odf("run", "load", code=2).err
    assert ("orders", "1") not in statuses(shell)
    assert not (shell.folder / "started").exists()
    shell.write(
        "dataflow.toml", (shell.folder / "dataflow.toml").read_text() + '[spark]\nremote = "sc://127.0.0.1:9"\n'
    )
    assert "JAVA_HOME" not in shell.odf("why", "load").out, "a Connect server has its own Java"
