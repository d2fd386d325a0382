"""Job code: found by name, told clearly when it is wrong, and run with the rows of its chunk."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from opendataflow.api import ChunkContext, declared, job
from opendataflow.errors import BadConfig, BadDefinition, JobFailed
from opendataflow.model import Dataset, Input, InputChunk, Job, Partition
from opendataflow.spark.code import SqlJob, load_job
from opendataflow.testing import run_job

FLIGHTS: list[dict[str, object]] = [{"carrier": "AA", "delay": 1.0}, {"carrier": "UA", "delay": None}]


@pytest.fixture
def write(tmp_path: Path):
    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_a_decorated_function_stays_a_function_and_says_what_it_reads_and_writes():
    @job(
        reads=["raw", {"dataset": "planes", "mapping": "latest"}],
        writes="clean",
        retries=2,
        env={"A": "b"},
        timeout="5m",
    )
    def clean(raw: int, planes: int) -> int:
        return raw + planes

    assert clean(1, 2) == 3
    found = declared(clean)
    assert found is not None
    assert (found.jobid, found.outputs, found.retry.retries, found.timeout) == ("clean", ("clean",), 2, 300.0)
    assert [(item.datasetid, item.mapping.kind) for item in found.inputs] == [("raw", "identity"), ("planes", "latest")]
    with pytest.raises(BadDefinition):
        job(reads=[{"data": "x"}])(clean)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def clean(:\n", "line 1: "),
        ("import nowhere_at_all\n", "line 1: ModuleNotFoundError"),
        ("x = 1\n\n\ny = 1 / 0\n", "line 4: ZeroDivisionError"),
        ("x = 1\n", "@job"),
        (
            "from opendataflow.api import job\n@job\ndef a(raw): pass\n@job\ndef b(raw): pass\n",
            "@job function is called clean",
        ),
        ("def clean(raw, planes): pass\n", "clean asks for 'planes'"),
    ],
)
def test_code_that_cannot_be_right_is_told_with_its_file(write, text, told):
    path = write("clean.py", text)
    with pytest.raises(BadConfig) as problem:
        load_job(path, "clean", Job("clean", (Input("raw"),), ("clean",)))
    assert problem.value.message.startswith(f"{path}: ")
    assert told in problem.value.message


@pytest.mark.parametrize(
    ("text", "fact"),
    [("-- nothing\n", "SELECT"), ("DROP TABLE x", "DROP"), ("SELECT 1; SELECT 2", "statement")],
)
def test_a_sql_job_is_one_select(write, text, fact):
    path = write("x.sql", text)
    with pytest.raises(BadConfig) as problem:
        load_job(path, "x")
    assert problem.value.message.startswith(f"{path}: ")
    assert fact in problem.value.message


def test_sql_is_read_without_comments_and_last_semicolon(write):
    found = load_job(write("x.sql", "/* a; */ SELECT /*+ BROADCAST(b) */ ';', \"--\" -- c;\nFROM b ;\n"), "x")
    assert isinstance(found, SqlJob)
    assert re.sub(r"\s+", " ", found.text) == "SELECT /*+ BROADCAST(b) */ ';', \"--\" FROM b"


def test_the_function_of_that_name_or_the_only_one_is_the_job(write):
    text = "from opendataflow.api import job\n@job(name='other.name')\ndef f(raw): return 1\ndef plain(): return 2\n"
    path = write("file.py", text)
    found: list[Any] = [load_job(path, name) for name in ("other.name", "plain", "whatever")]
    assert (found[0](None), found[1](), found[2](None)) == (1, 2, 1)


def test_a_job_runs_on_given_rows_without_a_store(spark, write):
    path = write(
        "clean.py",
        "from helper import LIMIT\nfrom opendataflow.api import job\n\n@job(reads='raw', writes='clean', env={'CUR': 'USD'})\n"
        "def clean(raw, chunk, spark):\n    from pyspark.sql import functions as F\n"
        "    double = F.udf(lambda x: (x or LIMIT) * 2, 'double')\n"
        "    return raw.select('carrier', double('delay').alias('delay'), F.lit(chunk.dataid + chunk.env['CUR']).alias('d'))\n",
    )
    write("helper.py", "LIMIT = 20.0\n")
    rows = run_job(path, {"raw": FLIGHTS}, "2013-01-01", spark=spark).orderBy("carrier").collect()
    assert [tuple(row) for row in rows] == [("AA", 2.0, "2013-01-01USD"), ("UA", 40.0, "2013-01-01USD")]


def test_functions_may_give_back_several_and_ask_for_bounds(spark):
    def split(raw, chunk: ChunkContext):
        assert (chunk.lower, chunk.upper) == ("2013-01-01T00:00:00", "2013-01-02T00:00:00")
        return {"late": raw.where("delay > 0"), "unknown": raw.where("delay IS NULL")}

    found = run_job(split, {"raw": FLIGHTS}, "2013-01-01", spark=spark)
    assert {name: df.count() for name, df in found.items()} == {"late": 1, "unknown": 1}
    assert run_job(lambda raw: raw, {"raw": []}, spark=spark, schemas={"raw": "a int"}).columns == ["a"]
    with pytest.raises(BadDefinition, match="raw"):
        run_job(lambda raw: raw, {"raw": []}, spark=spark)
    with pytest.raises(BadConfig, match="int"):
        run_job(lambda raw: 3, {"raw": FLIGHTS}, spark=spark)
    with pytest.raises(JobFailed, match="ZeroDivisionError"):
        run_job(lambda raw: 1 // 0, {"raw": FLIGHTS}, spark=spark)
    with pytest.raises(BadConfig, match="Column"):
        run_job(lambda raw: raw["carrier"], {"raw": FLIGHTS}, spark=spark)


def test_a_select_sees_its_inputs_as_views_and_its_chunk_as_parameters(spark, write):
    path = write(
        "report.sql",
        "WITH late AS (SELECT * FROM raw_x WHERE delay > 0)\n"
        "SELECT carrier, :dataid AS day, :CUR AS cur, '{x}' AS b FROM late -- all\n",
    )
    found = run_job(path, {"raw-x": FLIGHTS}, "2013-01-01", spark=spark, env={"CUR": "USD"})
    assert [tuple(row) for row in found.collect()] == [("AA", "2013-01-01", "USD", "{x}")]
    assert not [table.name for table in spark.catalog.listTables() if table.isTemporary]
    with pytest.raises(JobFailed, match=r"bad\.sql: .*nowhere"):
        run_job(write("bad.sql", "SELECT nowhere FROM raw"), {"raw": FLIGHTS}, spark=spark)


def test_a_copy_needs_no_code(spark, project, produce):
    raw = Dataset("raw", kind="file", location="raw/{dataid}.csv", format="csv", partition=Partition("day"))
    lake = Dataset("lake", kind="file", location="lake/{dataid}", format="parquet", partition=Partition("day"))
    path = Path(project.environment.roots[0], "raw", "2013-01-01.csv")
    path.parent.mkdir(parents=True)
    path.write_text("carrier,delay,tail\nAA,1,N1\nUA,2,N2\n")
    reads = [(raw, [InputChunk("raw", "2013-01-01", 1)])]
    copy = {"from": "raw", "to": "lake", "columns": ["delay", "carrier"], "rename": {"delay": "dep delay"}}
    manifest = produce(None, lake, reads=reads, options={"copy": copy})["lake"]
    assert (manifest.rows, manifest.schema) == (2, "`dep delay` INT, carrier STRING")
    with pytest.raises(BadConfig, match="nowhere"):
        produce(None, lake, reads=reads, options={"copy": {**copy, "columns": ["nowhere"]}}, epoch=2)
