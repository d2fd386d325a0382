"""Names that all chunks of an application share: found by reading the code of a job, and the modules that it imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from opendataflow.errors import BadJob
from opendataflow.spark.code_rules import check_shared_names

IN_FUNCTION = "TABLE = 't'\nOWN = 't_{{}}'\ndef out(raw):\n    return {}\n"


@pytest.mark.parametrize(
    "call",
    [
        "raw.createGlobalTempView('g')",
        "raw.createOrReplaceGlobalTempView(name)",
        "spark.sql('CREATE OR REPLACE GLOBAL TEMPORARY VIEW g AS SELECT 1')",
        "spark.sql(f'create global temp view {name} as select 1')",
        "raw.write.mode('overwrite').saveAsTable('t')",
        "raw.write.saveAsTable(name='t')",
        "raw.write.insertInto('t')",
        "spark.sql('CREATE TABLE IF NOT EXISTS t AS SELECT 1')",
        "spark.sql('insert overwrite t select 1')",
        "spark.sql(f'CREATE TABLE t AS SELECT * FROM {name}')",
        "raw.write.saveAsTable(TABLE)",
        "spark.sql(f'insert into {TABLE} select 1')",
        "spark.sql('/* stage */ create external table t location \\'x\\'')",
        "spark.sql('REPLACE TABLE t AS SELECT 1')",
        "spark.sql('MERGE INTO t USING x ON true WHEN MATCHED THEN DELETE')",
        "spark.sql('WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a')",
        "spark.sql('CREATE /* all */ GLOBAL TEMP VIEW g AS SELECT 1')",
        "spark.catalog.createTable('t')",
        "raw.write.saveAsTable('t' + 'able')",
        "raw.write.saveAsTable('`a.b`')",
        "raw.write.mode('overwrite').saveAsTable('default.t')",
        "raw.write.insertInto('spark_catalog.lake.t')",
        "spark.sql('INSERT INTO lake.t SELECT 1')",
        "raw.writeTo('lake.t').append()",
        "spark.sql('CREATE OR REPLACE VIEW v AS SELECT 1')",
        "spark.sql('create view if not exists lake.v as select 1')",
        "spark.sql('CREATE OR REPLACE FUNCTION f() RETURNS INT RETURN 1')",
    ],
)
def test_names_that_all_chunks_share_are_refused(tmp_path: Path, call: str) -> None:
    with pytest.raises(BadJob, match="line 4") as refused:
        check_shared_names(tmp_path / "out.py", IN_FUNCTION.format(call), [tmp_path])
    assert "concurrency = 1" in refused.value.hint
    check_shared_names(tmp_path / "out.py", IN_FUNCTION.format(call), [tmp_path], others=["out"])


@pytest.mark.parametrize(
    "call",
    [
        "raw.createOrReplaceTempView('t')",
        "raw.write.saveAsTable(f't_{chunk.dataid}')",
        "raw.write.saveAsTable(OWN.format(chunk.dataid))",
        "spark.sql(f'CREATE TABLE t_{chunk.dataid} AS SELECT 1')",
        "spark.sql(f'CREATE TABLE {chunk.dataid}_t AS SELECT 1')",
        "spark.sql(f'CREATE TABLE {schema}.t AS SELECT 1')",
        "spark.sql('SELECT * FROM t')",
        "spark.sql('SELECT \\'insert into t\\' AS told -- create table t')",
        "raw.write.saveAsTable('t_' + chunk.dataid)",
        "spark.sql('CREATE OR REPLACE TEMPORARY VIEW t AS SELECT 1')",
        "spark.sql('CREATE OR REPLACE TEMPORARY FUNCTION f() RETURNS INT RETURN 1')",
        "spark.sql(f'CREATE VIEW v_{chunk.dataid} AS SELECT 1')",
        "spark.sql('SHOW CREATE TABLE t')",
        "spark.sql('INSERT OVERWRITE LOCAL DIRECTORY \\'x\\' USING csv SELECT 1')",
    ],
)
def test_names_of_one_chunk_are_not(tmp_path: Path, call: str) -> None:
    check_shared_names(tmp_path / "out.py", IN_FUNCTION.format(call), [tmp_path])


def test_modules_that_a_package_imports_by_dots_are_read(tmp_path: Path) -> None:
    (tmp_path / "tools/deep").mkdir(parents=True)
    (tmp_path / "tools/__init__.py").write_text("from . import base")
    (tmp_path / "tools/base.py").write_text("from .deep import tables")
    (tmp_path / "tools/deep/__init__.py").write_text("")
    (tmp_path / "tools/deep/tables.py").write_text("def save(df):\n    df.write.saveAsTable('t')\n")
    with pytest.raises(BadJob, match=r"tables\.py: line 2"):
        check_shared_names(tmp_path / "out.py", "import tools", [tmp_path])
