"""Row 1 on Spark: a worker that is killed while it makes chunks on Spark; its JVM dies with it, so each kill costs a session."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from pyarrow.parquet import read_table

from tests.support.broken import Flow, until

pytestmark = [
    pytest.mark.fault(1),
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
]

# In the order in which a run comes to them.
STEPS = ["in claim", "in admit", "staged", "fenced", "placed", "audited", "in commit", "after commit"]
FEW = (["placed"], ["staged"])  # where there is no time: on a file, on a server
ROWS = 50
PROJECT = """
[environment.dev]
roots = ["./data"]

[spark]
"spark.sql.shuffle.partitions" = 1
"spark.ui.enabled" = false

[dataset.raw]
location = "raw/{dataid}.csv"
partition = "number"
schema = "id INT, name STRING"

[dataset.fixed]
location = "fixed/{dataid}"
partition = "number"
layout = "plain"

[dataset.versions]
location = "versions/{dataid}"
partition = "number"

[job.keep]
reads = ["raw"]
writes = ["fixed", "versions"]
lease = "5s"
retries = 30
backoff = "0s"
"""
KEEP = """
from opendataflow import job


@job
def keep(raw):
    return {"fixed": raw.repartition(2), "versions": raw.repartition(2)}
"""


def test_a_worker_that_dies_on_spark_loses_nothing(flow: Flow, soak: bool) -> None:
    steps = STEPS if soak else FEW[flow.shell.store_url is not None]
    chunks = range(len(steps))
    shell = flow.shell
    shell.write("dataflow.toml", PROJECT)
    shell.write("jobs/keep.py", KEEP)
    for number in chunks:
        rows = "".join(f"{1000 * number + row},name {row}\n" for row in range(ROWS))
        shell.write(f"data/raw/{number}.csv", f"id,name\n{rows}")
    shell.odf("apply", "--yes")
    shell.odf("ready", "raw", *map(str, chunks))
    for step in steps:
        worker = flow.start("drain", "--workers", "1", at=step)
        out, said = worker.communicate(timeout=400)
        assert worker.returncode == -signal.SIGKILL, (step, out, said)
        until(lambda: not javas(flow.folder), "the end of its JVM")
    shell.patience = 400
    shell.odf("drain", "--workers", "1")
    flow.audit(golden=False)  # of what is in the files, the rows are compared: Spark names and packs them as it likes
    for dataset in ("fixed", "versions"):
        assert {number: ids(flow, dataset, number) for number in chunks} == {
            number: list(range(1000 * number, 1000 * number + ROWS)) for number in chunks
        }
    assert flow.attempts() <= len(chunks) + len(steps)
    print(f"Spark kills: {len(steps)} kills, {len(chunks)} chunks, {flow.attempts() - len(chunks)} extra attempts")


def ids(flow: Flow, dataset: str, number: int) -> list[int]:
    """The keys in the current version of a chunk, read without Spark."""
    location = flow.shell.odf("where", dataset, str(number)).out.strip()
    return sorted(read_table(location).column("id").to_pylist())


def javas(folder: Path) -> list[int]:
    """The virtual machines of Java that were started in this folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (entry / "comm").read_text().strip() == "java" and Path(os.readlink(entry / "cwd")) == folder:
                found.append(int(entry.name))
    return found
