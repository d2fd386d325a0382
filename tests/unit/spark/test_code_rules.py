"""What the code of a job must not do, because its chunks run side by side: found by reading it."""

from __future__ import annotations

from pathlib import Path

import pytest

from opendataflow.errors import BadJob
from opendataflow.spark.code_rules import check_sessions, check_shared_names

HELPER = """
from pyspark.sql import SparkSession

def get_spark():
    return SparkSession.builder.appName("x").getOrCreate()
"""
IN_FUNCTION = "def out(raw):\n    return {}\n"


@pytest.mark.parametrize(
    "code",
    [
        "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()",
        "spark = SparkSession.builder.master('local').config('a', 'b').getOrCreate()",
        "import pyspark\nspark = pyspark.sql.SparkSession.builder.remote('sc://x').create()",
        "spark = SparkSession.active()",
        "sc = SparkContext.getOrCreate()",
        "sc = pyspark.SparkContext(conf=conf)",
        "def f(spark=SparkSession.builder.getOrCreate()): pass",
        "class Jobs:\n    spark = SparkSession.getActiveSession()",
        "try:\n    spark = SparkSession.builder.getOrCreate()\nexcept Exception:\n    pass",
        "from helper import get_spark\nspark = get_spark()",
        "import helper\nspark = helper.get_spark()",
        "def mine():\n    return SparkSession.builder.getOrCreate()\nspark = mine()",
        "import functools\n@functools.lru_cache(maxsize=None)\ndef mine():\n    return SparkSession.builder.getOrCreate()",
        "from threading import Thread\ndef out(raw):\n    SparkSession.active()",
        "import concurrent.futures\nfrom helper import get_spark\ndef out(raw):\n    get_spark()",
    ],
)
def test_code_that_would_share_a_session_is_refused(tmp_path: Path, code: str) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    with pytest.raises(BadJob, match=r"line \d+") as refused:
        check_sessions(tmp_path / "out.py", code, [tmp_path])
    assert "take `spark` as a parameter" in refused.value.hint


def test_a_helper_that_asks_on_import_is_refused_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/__init__.py").write_text("")
    (tmp_path / "tools/base.py").write_text("spark = SparkSession.builder.getOrCreate()")
    with pytest.raises(BadJob, match=r"base\.py: line 1"):
        check_sessions(tmp_path / "out.py", "from tools.base import spark", [tmp_path])


@pytest.mark.parametrize(
    "code",
    [
        "def out(raw, spark):\n    return spark.table('t')",
        "from pyspark.sql import SparkSession\ndef out(raw):\n    return SparkSession.active().table('t')",
        "from helper import get_spark\ndef out(raw):\n    return get_spark().table('t')",
        "if __name__ == '__main__':\n    spark = SparkSession.builder.getOrCreate()",
        "import threading\ndef out(raw, spark):\n    threading.Thread(target=spark.range).start()",
        "registry = Registry.getOrCreate()",
        "this is no Python",
    ],
)
def test_other_code_is_left_alone(tmp_path: Path, code: str) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    assert tmp_path / "out.py" in check_sessions(tmp_path / "out.py", code, [tmp_path])


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
    ],
)
def test_names_that_all_chunks_share_are_refused(tmp_path: Path, call: str) -> None:
    with pytest.raises(BadJob, match="line 2") as refused:
        check_shared_names(tmp_path / "out.py", IN_FUNCTION.format(call), [tmp_path])
    assert "concurrency = 1" in refused.value.hint
    check_shared_names(tmp_path / "out.py", IN_FUNCTION.format(call), [tmp_path], others=["out"])


@pytest.mark.parametrize(
    "call",
    [
        "raw.createOrReplaceTempView('t')",
        "raw.write.saveAsTable(f't_{chunk.dataid}')",
        "raw.write.saveAsTable('lake.t')",
        "spark.sql('SELECT * FROM t')",
        "spark.sql('CREATE OR REPLACE TEMPORARY VIEW t AS SELECT 1')",
    ],
)
def test_names_of_one_chunk_are_not(tmp_path: Path, call: str) -> None:
    check_shared_names(tmp_path / "out.py", IN_FUNCTION.format(call), [tmp_path])
