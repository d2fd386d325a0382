"""Published chunks as rows, for a notebook, without Spark."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.parquet import write_table

import opendataflow
from opendataflow.cli.door import open_door
from opendataflow.errors import BadConfig, DataNotReady, NotValidated, UntrustedDefinition, UsageError

PROJECT = """
[environment.dev]
roots = ["./data"]

[dataset.flights]
location = "flights/{dataid}.parquet"
format = "parquet"
partition = "day"

[dataset.notes]
location = "notes/{dataid}.csv"
partition = "day"
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dataflow.toml").write_text(PROJECT)
    for name in ("flights", "notes"):
        (tmp_path / "data" / name).mkdir(parents=True)
    for day in (1, 2, 4):
        write_table(pa.table({"delay": [day, day * 10]}), tmp_path / f"data/flights/2013-01-0{day}.parquet")
    (tmp_path / "data/notes/2013-01-01.csv").write_text("a\n1\n")
    assert open_door(["apply", "--yes"]) == 0
    assert open_door(["ready", "flights", "2013-01-01", "2013-01-02", "2013-01-04"]) == 0
    assert open_door(["ready", "notes", "2013-01-01"]) == 0
    return tmp_path


def test_the_published_rows_come_as_arrow_or_pandas(home: Path) -> None:
    table = opendataflow.read("flights", "2013-01-01..2013-01-02", as_="arrow")
    assert table.to_pydict() == {"delay": [1, 10, 2, 20]}
    assert opendataflow.read("flights", ["2013-01-04"], as_="pandas").delay.tolist() == [4, 40]
    assert opendataflow.read("flights", as_="arrow", folder=home / "data").num_rows == 6


def test_a_chunk_that_is_not_ready_is_not_left_out_silently(home: Path) -> None:
    with pytest.raises(DataNotReady, match="2013-01-03"):
        opendataflow.read("flights", "2013-01-01..2013-01-04", as_="arrow")
    assert open_door(["hold", "flights", "2013-01-02", "--yes"]) == 0
    with pytest.raises(DataNotReady, match="2013-01-02"):
        opendataflow.read("flights", "2013-01-02", as_="arrow")


def test_what_is_not_what_was_published_is_not_given(home: Path) -> None:
    write_table(pa.table({"delay": [5]}), home / "data/flights/2013-01-01.parquet")
    with pytest.raises(NotValidated):
        opendataflow.read("flights", "2013-01-01", as_="arrow")


def test_a_definition_that_the_project_does_not_vouch_for_is_refused(home: Path) -> None:
    assert open_door(["dml", "update dataset set location = 'elsewhere/{dataid}' where datasetid = 'flights'"]) == 0
    with pytest.raises(UntrustedDefinition):
        opendataflow.read("flights", "2013-01-01", as_="arrow")


def test_what_only_spark_can_read_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSKEY", "correct horse")
    with pytest.raises(BadConfig, match="without Spark"):
        opendataflow.read("notes", as_="pandas")
    with pytest.raises(UsageError):
        opendataflow.read("notes", as_="polars")
    assert os.environ["PASSKEY"] == "correct horse", "the notebook may still need it"
