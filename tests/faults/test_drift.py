"""Row 18: a chunk that is empty, or whose columns are not those that were promised, gets an explicit verdict; what differs is shown.

What jobs on Spark write is refused the same way: test_right_data.py and test_publishing.py of tests/spark.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.support.broken import Flow
from tests.support.shell import statuses

pytestmark = pytest.mark.fault(18)

NOT_VALIDATED = 13
PROJECT = """
[environment.dev]
roots = ["./data"]

[dataset.raw]
location = "raw/{dataid}.parquet"
partition = "number"
schema = "id BIGINT NOT NULL, name STRING"

[dataset.made]
location = "made/{dataid}"
partition = "number"

[job.make]
reads = ["raw"]
writes = ["made"]
"""
GOOD = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", "b"]})
BAD = {
    "more STRING added": GOOD.append_column("more", pa.array(["x", "y"])),
    "name STRING dropped": GOOD.drop_columns(["name"]),
    "name STRING dropped, title STRING added": GOOD.rename_columns(["id", "title"]),
    "id was BIGINT and is STRING": GOOD.set_column(0, "id", pa.array(["1", "2"])),
    "id was NOT NULL and has nulls": GOOD.set_column(0, "id", pa.array([1, None], pa.int64())),
    "empty: rows 0": GOOD.slice(0, 0),
}


def test_what_arrives_with_other_columns_or_no_rows_is_refused_and_told(flow: Flow) -> None:
    shell = flow.shell
    shell.write("dataflow.toml", PROJECT)
    shell.script("jobs/make.sh", 'cat "$raw_location" >"$made_location"')
    shell.odf("apply", "--yes")
    (flow.folder / "data/raw").mkdir(parents=True)
    for number, (told, table) in enumerate(BAD.items(), 1):
        parquet.write_table(table, flow.folder / f"data/raw/{number}.parquet")
        refused = shell.odf("ready", "raw", str(number), code=NOT_VALIDATED)
        assert "NOT_VALIDATED" in refused.err
        assert told in refused.err, refused
    shell.odf("drain", code=None)
    assert set(statuses(shell).values()) <= {"FAILED"}, "nothing was published, and nothing made of it"
    for number in range(1, len(BAD) + 1):  # what is delivered again is taken
        rows = GOOD.set_column(0, "id", pa.array([number, 100 + number], pa.int64()))
        parquet.write_table(rows, flow.folder / f"data/raw/{number}.parquet")
        shell.odf("ready", "raw", str(number))
    shell.odf("drain")
    assert list(statuses(shell).values()) == ["READY"] * 2 * len(BAD)
    flow.audit(golden=False)  # the files that came are what the job copies; they are read again
