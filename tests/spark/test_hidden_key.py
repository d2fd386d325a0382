"""The key is nowhere that the code of a Spark job could look: not in its process, not in Java, not in Spark's workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.shell import Shell

pytestmark = [pytest.mark.fault(25), pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

PROJECT = """
[project]
name = "peeping"

[environment.dev]
roots = ["./data"]

[spark]
master = "local[2]"
"spark.sql.shuffle.partitions" = 2

[dataset.raw]
location = "raw/{dataid}.csv"
partition = "day"

[dataset.seen]
location = "seen/{dataid}"
format = "json"
partition = "day"
"""
CODE = """
import glob
import os

from opendataflow import job


def processes():
    # The environment of this process, and what the system shows of everything that was started with it.
    found = [repr(dict(os.environ))]
    for file in glob.glob("/proc/[0-9]*/environ"):
        try:
            shown = open(file, "rb").read()
        except OSError:
            continue
        if b"OF_THIS_TEST=" in shown:
            found.append(f"{file} {shown!r}")
    return found


def in_a_worker(batches):
    import pyarrow as pa

    for batch in batches:
        yield pa.RecordBatch.from_pydict({"value": ["worker " + " ".join(processes())]})


@job(reads="raw", writes="seen")
def seen(raw):
    spark = raw.sparkSession
    jvm = str(spark._jvm.System.getenv().toString()) + str(spark._jvm.System.getProperties().toString())
    own = spark.createDataFrame([("driver " + " ".join(processes()),), ("java " + jvm,)], "value string")
    return own.unionAll(spark.range(1).mapInArrow(in_a_worker, "value string"))
"""


def test_a_spark_job_finds_the_key_nowhere(tmp_path: Path) -> None:
    shell = Shell(tmp_path, patience=1500)
    shell.write("dataflow.toml", PROJECT)
    shell.write("jobs/seen.py", CODE)
    shell.write("data/raw/2013-01-01.csv", "a\n1\n")
    shell.odf("apply", "--yes")
    shell.odf("ready", "raw", "2013-01-01")
    file = shell.write("key", "the-key-itself\n")
    file.chmod(0o600)
    shell.odf(
        "drain",
        PASSKEY="canary-passkey",
        PASSKEY_FILE=str(file),
        PASSKEY_COMMAND="echo canary-command",
        NEW_PASSKEY="canary-new",
        OF_THIS_TEST="yes",
    )
    found = "".join(part.read_text() for part in (tmp_path / "data/seen").rglob("part-*"))
    assert all(word in found for word in ("driver ", "java ", "worker ", "/proc/", "PATH="))
    assert found.count("/environ b'") >= 6, "the driver, Java and a worker, as the driver and the worker see them"
    assert "canary" not in found
    assert str(file) not in found
