"""Declared columns are compared with what files tell of themselves, without Spark."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from opendataflow import files
from opendataflow.errors import NotValidated
from opendataflow.model import Dataset, Manifest
from opendataflow.model.definitions.ddl import required_of
from opendataflow.run.drift import inspected_manifest

DDL = "id BIGINT NOT NULL, amount DECIMAL(10, 2), at TIMESTAMP, tags ARRAY<STRING>"
TABLE = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "amount": pa.array([1, 2], pa.decimal128(10, 2)),
        "at": pa.array([1, 2], pa.timestamp("us", "UTC")),
        "tags": pa.array([["a"], []], pa.list_(pa.string())),
    }
)


def looked(path: Path, format: str, ddl: str = DDL, **options: object) -> Manifest:
    dataset = Dataset("raw", kind="file", location="{dataid}", format=format, options={"schema": ddl, **options})
    return inspected_manifest(dataset, "1", files.light_manifest(str(path)))


@pytest.mark.parametrize(("format", "write"), [("parquet", parquet.write_table), ("orc", orc.write_table)])
def test_what_is_declared_is_taken_with_its_rows(tmp_path: Path, format: str, write: object) -> None:
    write(TABLE, tmp_path / "1")  # type: ignore[operator]
    seen = looked(tmp_path / "1", format)
    assert seen.rows == 2
    assert [(check.kind, check.passed) for check in seen.checks] == [("drift", True)]


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (TABLE.drop_columns(["amount"]), "amount DECIMAL(10,2) dropped"),
        (TABLE.append_column("more", pa.array(["x", "y"])), "more STRING added"),
        (TABLE.set_column(0, "id", pa.array(["x", "y"])), "id was BIGINT and is STRING"),
        (TABLE.set_column(0, "ID", pa.array([1, None], pa.int64())), "id was NOT NULL and has nulls"),
    ],
)
def test_other_columns_are_a_drift(tmp_path: Path, table: pa.Table, told: str) -> None:
    folder = tmp_path / "1"
    folder.mkdir()
    parquet.write_table(TABLE, folder / "a.parquet")
    parquet.write_table(table, folder / "b.parquet")
    with pytest.raises(NotValidated, match="raw 1: drift: differences") as refused:
        looked(folder, "parquet")
    assert told in refused.value.message
    assert "files b.parquet" in refused.value.message
    warned = looked(folder, "parquet", drift="warn")
    assert [check.passed for check in warned.checks] == [False]
    assert [check.passed for check in looked(folder, "parquet", drift="allow").checks] == [True]


def test_a_column_in_the_name_of_a_folder_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "1/id=5"
    folder.mkdir(parents=True)
    parquet.write_table(TABLE.drop_columns(["id"]), folder / "a.parquet")
    assert looked(tmp_path / "1", "parquet").rows == 2


def test_what_is_no_parquet_is_refused_where_columns_are_promised(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("id\n1\n")
    with pytest.raises(NotValidated, match="cannot be read as parquet"):
        looked(tmp_path / "1", "parquet")
    assert looked(tmp_path / "1", "parquet", ddl="").rows is None


def test_a_chunk_without_rows_is_refused_unless_it_is_fine(tmp_path: Path) -> None:
    parquet.write_table(TABLE.slice(0, 0), tmp_path / "1")
    with pytest.raises(NotValidated, match="raw 1: empty: rows 0"):
        looked(tmp_path / "1", "parquet")
    seen = looked(tmp_path / "1", "parquet", empty="warn")
    assert [(check.check, check.passed) for check in seen.checks] == [("drift", True), ("empty", False)]


def test_text_tells_the_names_of_its_columns(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("\ufeffamount;id\n1;2\n")
    assert looked(tmp_path / "a", "csv", "id INT, amount INT", options={"sep": ";"}).checks[0].passed
    with pytest.raises(NotValidated, match="amount INT dropped"):
        looked(tmp_path / "a", "csv", "id INT, amount INT")
    with gzip.open(tmp_path / "b.gz", "wt") as file:
        file.write('{"id": 1}\n\n{"id": 2, "amount": 3, "more": 4}\n')
    assert looked(tmp_path / "b.gz", "json", "id INT, amount INT").checks[0].passed
    with pytest.raises(NotValidated, match=r"differences sum INT dropped\n"):
        looked(tmp_path / "b.gz", "json", "id INT, sum INT")
    (tmp_path / "c").write_text("[{\n")
    assert looked(tmp_path / "c", "json", "id INT").checks == ()


def test_only_a_column_that_is_not_null_itself_must_have_values() -> None:
    ddl = "a STRUCT<b: INT NOT NULL>, `c not null` INT, d DECIMAL(5, 2) not  null, e INT COMMENT 'NOT NULL', F INT NOT NULL"
    assert required_of(ddl) == ["d", "F"]


def test_keys_of_json_in_another_case_are_a_drift(tmp_path: Path) -> None:
    (tmp_path / "1").write_text('{"ID": 1, "amount": 1}\n')
    with pytest.raises(NotValidated, match=r"raw 1: drift: differences id renamed to ID\?"):
        looked(tmp_path / "1", "json", "id BIGINT, amount DOUBLE")
    (tmp_path / "1").write_text("ID,amount\n1,1\n")
    assert looked(tmp_path / "1", "csv", "id BIGINT, amount DOUBLE").passed


def test_text_that_python_cannot_hold_is_left_to_its_readers(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("a" * 140_000 + ",id\n1,2\n")
    assert looked(tmp_path / "1", "csv", "id BIGINT").checks == ()
    (tmp_path / "1").write_text('{"id": ' + "[" * 5000 + "]" * 5000 + "}\n")
    assert looked(tmp_path / "1", "json", "id BIGINT").checks == ()
