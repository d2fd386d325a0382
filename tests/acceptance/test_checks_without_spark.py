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
