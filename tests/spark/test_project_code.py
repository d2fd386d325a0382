"""What job code of a project may do besides returning rows: import its own modules, cut a chunk into folders, add files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.shell import Answer

PROJECT = """
[environment.dev]
roots = ["./data"]

[spark]
master = "local[2]"

[dataset.raw]
location = "raw/{dataid}.csv"
partition = "day"
schema = "carrier STRING, delay INT"

[dataset.flights]
location = "flights/{dataid}"
partition = { type = "day", start = "2013-01-01", end = "2013-01-03" }
options = { partitionBy = ["carrier"] }
checks = { unique = ["carrier"], accepted = { carrier = ["01", "AA"] }, rows = { min = 1 } }

[dataset.back]
location = "back/{dataid}"
partition = "month"

[job.flights]
reads = ["raw"]
writes = ["flights"]

[job.back]
reads = [{ dataset = "flights", mapping = "rollup" }]
writes = ["back"]
"""
CODE = """
from opendataflow import job
from shared.units import doubled


@job
def flights(raw, extra):
    (extra / "model").mkdir()
    (extra / "model/weights.txt").write_text("1 2 3")

    def all_doubled(batches):
        yield from map(doubled, batches)

    return raw.mapInArrow(all_doubled, raw.schema)
"""
UNITS = """
import pyarrow.compute as pc


def doubled(batch):
    return batch.set_column(1, "delay", pc.multiply(batch.column(1), 2).cast("int32"))
"""


@pytest.fixture
def flights(desk: Callable[..., Answer], tmp_path: Path) -> Callable[..., Answer]:
    """Three days in January, and a helper module beside dataflow.toml."""
    (tmp_path / "dataflow.toml").write_text(PROJECT)
    for folder in ("jobs", "shared", "data/raw"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "jobs/flights.py").write_text(CODE)
    (tmp_path / "jobs/back.sql").write_text("SELECT * FROM flights")
    (tmp_path / "shared/units.py").write_text(UNITS)
    for day in range(1, 4):
        (tmp_path / f"data/raw/2013-01-{day:02d}.csv").write_text(f"carrier,delay\n01,{day}\n,7\n")
    desk("apply", "--yes")
    desk("ready", "raw", "2013-01-01..2013-01-03")
    return desk


def test_a_chunk_may_be_cut_into_folders_and_is_read_back_whole(
    flights: Callable[..., Answer], tmp_path: Path, spark: SparkSession
) -> None:
    flights("drain")
    version = tmp_path / "data/flights/2013-01-02/v000001"
    assert sorted(path.name for path in version.glob("[!.]*") if path.is_dir()) == [
        "_extra",
        "carrier=01",
        "carrier=__HIVE_DEFAULT_PARTITION__",
    ]
    assert (version / "_extra/model/weights.txt").read_text() == "1 2 3"
    [manifest] = flights(
        "sql", "select rows, body from data_manifest where datasetid='flights' and dataid='2013-01-02'", "--json"
    ).data
    assert manifest["rows"] == 2, "counted in the footers"
    assert "model/weights.txt" in str(manifest["body"])
    rows = spark.read.parquet(str(tmp_path / "data/back/2013-01/v000001"))
    assert rows.columns == ["carrier", "delay"]
    assert dict(rows.dtypes)["carrier"] == "string", "01 is a text, whatever a folder's name looks like"
    assert {tuple(row) for row in rows.where("carrier = '01'").collect()} == {("01", 2 * day) for day in (1, 2, 3)}
    assert rows.where("carrier IS NULL AND delay = 14").count() == 3


@pytest.mark.parametrize(
    ("values", "called"),
    [
        ("'', 'AA'", "an empty text"),
        ("'__HIVE_DEFAULT_PARTITION__', 'AA'", "the text __HIVE_DEFAULT_PARTITION__"),
        ("'__HIVE_DEFAULT_PARTITION__', null", "the text __HIVE_DEFAULT_PARTITION__"),
    ],
)
def test_a_text_that_would_be_read_as_null_cannot_name_a_folder(
    flights: Callable[..., Answer], tmp_path: Path, values: str, called: str
) -> None:
    rows = f"raw.limit(1).selectExpr(\"explode(array({values})) AS carrier\", 'delay')"
    (tmp_path / "jobs/flights.py").write_text(
        f"from opendataflow import job\n\n\n@job\ndef flights(raw):\n    return {rows}\n"
    )
    answer = flights("run", "flights", code=1)
    assert f"{called} in carrier cannot name a folder" in answer.out + answer.err


def test_a_value_that_the_name_of_a_folder_does_not_hold_is_refused(
    flights: Callable[..., Answer], tmp_path: Path
) -> None:
    toml = (tmp_path / "dataflow.toml").read_text()
    (tmp_path / "dataflow.toml").write_text(
        toml.replace('checks = { unique = ["carrier"]', 'checks = { not_null = ["carrier"]').replace(
            ', accepted = { carrier = ["01", "AA"] }', ""
        )
    )
    flights("apply", "--yes")
    rows = "raw.selectExpr(\"X'FF' AS carrier\", 'delay')"
    (tmp_path / "jobs/flights.py").write_text(
        f"from opendataflow import job\n\n\n@job\ndef flights(raw):\n    return {rows}\n"
    )
    answer = flights("run", "flights", code=13)
    assert "the values of carrier differ" in answer.out + answer.err
