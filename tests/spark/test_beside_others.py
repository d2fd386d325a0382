"""Chunks that run side by side: each way of getting a session gives the chunk's own, or is refused by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.shell import Answer, Shell

DAYS = [f"2013-01-{day:02d}" for day in range(1, 5)]
PROJECT = """
[environment.dev]
roots = ["./data"]

[spark]
master = "local[2]"

[dataset.raw]
location = "raw/{dataid}.csv"
partition = "day"
schema = "day STRING"

[dataset.out]
location = "out/{dataid}"
partition = "day"

[job.out]
reads = ["raw"]
writes = ["out"]
"""
# Four chunks meet between naming their rows and reading them by that name.
MEET = """
import threading

_barrier = threading.Barrier(4)


def meet():
    try:
        _barrier.wait(600)
    except threading.BrokenBarrierError:
        pass


def in_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]
"""
EVERY_WAY = """
from meet import in_thread, meet
from opendataflow import job
from pyspark.sql import SparkSession

try:
    import pyspark.pandas as ps
except ImportError:  # PySpark's does not work with every pandas
    ps = None


def name_rows(way, session, dataid):
    session.sql(f"SELECT '{dataid}' AS day").createOrReplaceTempView(f"rows_{way}")
    return session


@job
def out(raw, spark, chunk):
    day = chunk.dataid
    sessions = {
        "parameter": name_rows("parameter", spark, day),
        "active": name_rows("active", SparkSession.active(), day),
        "get_active": name_rows("get_active", SparkSession.getActiveSession(), day),
        "builder": name_rows("builder", SparkSession.builder.appName("mine").getOrCreate(), day),
        "frame": name_rows("frame", raw.sparkSession, day),
        "thread": in_thread(lambda: name_rows("thread", spark, day)),
    }
    raw.createOrReplaceTempView("raw_rows")
    spark.udf.register("own_day", lambda: day)
    meet()
    in_thread(lambda: spark.table("raw_rows").createOrReplaceTempView("rows_in_thread"))
    sessions["in_thread"] = spark
    result = raw if ps is None else ps.sql("SELECT day FROM {raw}", raw=raw.pandas_api()).to_spark()
    for way, session in sessions.items():
        result = result.crossJoin(session.table(f"rows_{way}").withColumnRenamed("day", way))
    return result.selectExpr("*", "own_day() AS udf")
"""
GLOBAL_VIEW = """
from opendataflow import job
from meet import meet


@job
def out(raw, spark):
    raw.createOrReplaceGlobalTempView("g")
    return spark.table("global_temp.g")
"""


def _project(folder: Path, code: str, more: str = "") -> None:
    (folder / "dataflow.toml").write_text(PROJECT + more)
    (folder / "jobs").mkdir()
    (folder / "jobs/meet.py").write_text(MEET)
    (folder / "jobs/out.py").write_text(code)
    (folder / "data/raw").mkdir(parents=True)
    for day in DAYS:
        (folder / f"data/raw/{day}.csv").write_text(f"day\n{day}\n")


def _published(spark: SparkSession, folder: Path) -> dict[str, set[str]]:
    paths = {day: folder / f"data/out/{day}/v000001" for day in DAYS}
    rows = {day: spark.read.parquet(str(path)).collect() for day, path in paths.items() if path.exists()}
    return {day: {value for row in found for value in row} for day, found in rows.items()}


def test_every_way_of_getting_a_session_gives_that_of_the_chunk(
    desk: Callable[..., Answer], tmp_path: Path, spark: SparkSession
) -> None:
    _project(tmp_path, EVERY_WAY)
    desk("apply", "--yes")
    desk("ready", "raw", f"{DAYS[0]}..{DAYS[-1]}")
    desk("drain", "--workers", "4")
    assert _published(spark, tmp_path) == {day: {day} for day in DAYS}


MODULE_LEVEL = """
from opendataflow import job
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()


@job
def out(raw):
    raw.createOrReplaceTempView("t")
    return spark.table("t")
"""
# Each keeps the session of the first chunk in another way; in the end it reads by a name that every chunk gives.
KEPT = """
import functools
import threading
import types
from concurrent.futures import ThreadPoolExecutor

from meet import in_thread, meet
from opendataflow import job
from package.sessions import ask, first_of
from pyspark.sql import SparkSession, SQLContext

one_at_a_time = threading.Lock()
kept = {{}}
holder = types.SimpleNamespace(spark=None)
cached = functools.cache(lambda: SparkSession.builder.getOrCreate())


@job
def out(raw, spark, chunk, default=[]):
    def named(session):
        session.sql(f"SELECT '{{chunk.dataid}}' AS day").createOrReplaceTempView("t")
        return session

    def asked():
        kept[chunk.dataid] = named(SparkSession.builder.getOrCreate())

    raw.createOrReplaceTempView("t")
    with one_at_a_time:
        session = {way}
    meet()
    return {read}
"""
WAYS = [
    "kept.setdefault('one', raw.sparkSession)",
    "setattr(holder, 'spark', holder.spark or spark) or holder.spark",
    "cached()",
    "[default.append(spark), default[0]][1]",
    "[setattr(meet, 'spark', getattr(meet, 'spark', spark)), meet.spark][1]",
    "first_of(raw)",
    "kept.setdefault('new', named(spark.newSession()))",
    "kept.setdefault('made', named(SparkSession.builder.create()))",
    "kept.setdefault('context', SQLContext(spark.sparkContext).sparkSession)",
    "kept.setdefault('reader', spark.read)",
    "in_thread(lambda: kept.setdefault('reader', spark.read))",
]
# In a thread that the chunk itself starts, which is known to work for it.
WAYS_IN_THREADS = ["kept.setdefault('one', spark)", "kept.setdefault('reader', spark.read)"]
# In threads that the job starts, nothing says to which chunk they belong.
THREADS = [
    "ThreadPoolExecutor(1).submit(lambda: named(SparkSession.active())).result()",
    "[(thread := threading.Thread(target=asked)).start(), thread.join(), kept.get(chunk.dataid, spark)][2]",
    "[(thread := threading.Thread(target=ask)).start(), thread.join(), spark][2]",
]


@pytest.mark.parametrize(
    ("code", "way_out"),
    [
        pytest.param(MODULE_LEVEL, "take `spark` as a parameter", id="module level"),
        pytest.param(GLOBAL_VIEW, "concurrency = 1", id="global view"),
        pytest.param(
            GLOBAL_VIEW.replace("raw.createOrReplaceGlobalTempView", "raw.write.saveAsTable"),
            "concurrency = 1",
            id="table without a schema",
        ),
        pytest.param(
            GLOBAL_VIEW.replace('raw.createOrReplaceGlobalTempView("g")', 'raw.write.saveAsTable("default.g")'),
            "concurrency = 1",
            id="table with a schema",
        ),
    ],
)
def test_code_that_would_share_rows_between_chunks_is_refused_by_name(
    desk: Callable[..., Answer], tmp_path: Path, code: str, way_out: str
) -> None:
    _project(tmp_path, code)
    desk("apply", "--yes")
    desk("ready", "raw", f"{DAYS[0]}..{DAYS[-1]}")
    answer = desk("run", "out", code=2)
    assert "BAD_JOB" in answer.err
    assert way_out in answer.err


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    ("way", "most", "read"),
    [
        *((way, 1, "session.table('t')") for way in WAYS),
        *((way, 1, "ThreadPoolExecutor(1).submit(lambda: session.table('t')).result()") for way in WAYS_IN_THREADS),
        *((way, 0, "session.table('t')") for way in THREADS),
    ],
)
def test_a_session_that_is_not_that_of_the_chunk_is_refused_by_name(
    desk: Callable[..., Answer], tmp_path: Path, spark: SparkSession, way: str, most: int, read: str
) -> None:
    _project(tmp_path, KEPT.format(way=way, read=read).replace("package", f"package_{abs(hash(tmp_path))}"))
    package = tmp_path / f"package_{abs(hash(tmp_path))}"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "sessions.py").write_text(
        "from pyspark.sql import SparkSession\nfirst = []\n\n\ndef ask():\n    SparkSession.active()\n\n\n"
        "def first_of(df):\n    first.append(df.sparkSession)\n    return first[0]\n"
    )
    desk("apply", "--yes")
    desk("ready", "raw", f"{DAYS[0]}..{DAYS[-1]}")
    desk("drain", "--workers", "4", code=1)
    outcomes = Counter(run["outcome"] for run in desk("runs", "out", "--json").data)
    assert outcomes["BAD_JOB"] == 4 - outcomes["READY"] >= 4 - most, outcomes
    published = _published(spark, tmp_path)
    assert published == {day: {day} for day in published}, "the chunk whose session it is has its own rows"


# Each line uses what the chunk that came first keeps: a catalog, a DataFrame, a pool of threads.
KEPT_PARTS = """
import threading
from concurrent.futures import ThreadPoolExecutor

from meet import meet
from opendataflow import job

one_at_a_time = threading.Lock()
kept = {{}}
pool = ThreadPoolExecutor(1)


@job
def out(raw, spark, chunk):
    raw.createOrReplaceTempView("t")
    with one_at_a_time:
        {keep}
    meet()
    {use}
"""


@pytest.mark.parametrize(
    ("keep", "use", "what"),
    [
        (
            "kept.setdefault('catalog', spark.catalog)",
            "kept['catalog'].dropTempView('t'); return raw",
            "uses the Spark session of another chunk",
        ),
        (
            "kept.setdefault('rows', raw)",
            "kept['rows'].createOrReplaceTempView('u'); return spark.table('u')",
            "makes a view of a DataFrame of another chunk",
        ),
        (
            "kept or kept.setdefault('table', pool.submit(spark.table, 't').result())",
            "return pool.submit(spark.table, 't').result()",
            "uses a Spark session in a thread that its chunk did not start",
        ),
    ],
)
def test_what_belongs_to_the_session_of_another_chunk_is_refused_by_name(
    desk: Callable[..., Answer], tmp_path: Path, spark: SparkSession, keep: str, use: str, what: str
) -> None:
    _project(tmp_path, KEPT_PARTS.format(keep=keep, use=use))
    desk("apply", "--yes")
    desk("ready", "raw", f"{DAYS[0]}..{DAYS[-1]}")
    desk("drain", "--workers", "4", code=1)
    runs = desk("runs", "out", "--json").data
    refused = [run["detail"] for run in runs if run["outcome"] == "BAD_JOB"]
    assert refused, runs
    assert all(what in detail for detail in refused), refused
    published = _published(spark, tmp_path)
    assert published == {day: {day} for day in published}


def test_a_pool_of_threads_may_serve_chunks_that_run_one_at_a_time(
    desk: Callable[..., Answer], tmp_path: Path, spark: SparkSession
) -> None:
    code = KEPT_PARTS.format(keep="pass", use="return pool.submit(spark.table, 't').result()")
    _project(tmp_path, code.replace("    meet()\n", ""), more="concurrency = 1\n")
    desk("apply", "--yes")
    desk("ready", "raw", f"{DAYS[0]}..{DAYS[-1]}")
    desk("drain", "--workers", "4")
    assert _published(spark, tmp_path) == {day: {day} for day in DAYS}


@pytest.mark.parametrize(
    "stop",
    [
        "spark.stop()",
        "spark.sparkContext.stop()",
        "[(thread := Thread(target=lambda: spark.stop())).start(), thread.join()]",
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_job_that_stops_spark_is_refused_by_name(
    desk: Callable[..., Answer], tmp_path: Path, spark: SparkSession, stop: str
) -> None:
    _project(tmp_path, STOPPING.format(stop))
    desk("apply", "--yes")
    desk("ready", "raw", f"{DAYS[0]}..{DAYS[-1]}")
    drain = desk("drain", "--workers", "4", code=1)
    assert "BAD_JOB" in drain.out
    runs = {run["dataid"]: run for run in desk("runs", "out", "--json").data}
    assert runs[DAYS[1]]["outcome"] == "BAD_JOB"
    assert "the job stops Spark" in runs[DAYS[1]]["detail"]
    assert spark.range(1).count() == 1


STOPPING = """
from threading import Thread

from opendataflow import job


@job
def out(raw, spark, chunk):
    if chunk.dataid == "2013-01-02":
        {}
    return raw
"""


# What reading the code does not find: the method or the name is worked out when the code runs.
HIDDEN = """
import time

from opendataflow import job


@job
def out(raw, spark, chunk):
    name = "_".join(["shared", "name"])
    {write}
    time.sleep(3)
    return spark.sql("{read}")
"""


@pytest.mark.parametrize(
    ("write", "read", "shared"),
    [
        (
            "getattr(raw, 'createOrReplace' + 'GlobalTempView')(name)",
            "table global_temp.shared_name",
            "global temporary view",
        ),
        (
            "raw.createOrReplaceTempView('r'); spark.sql(' '.join(['create or replace', 'global', 'temp view', name, 'as table r']))",
            "table global_temp.shared_name",
            "global temporary view",
        ),
        ("getattr(raw.write.mode('overwrite'), 'saveAs' + 'Table')(name)", "table shared_name", "table"),
        (
            "getattr(raw.write.mode('overwrite'), 'saveAs' + 'Table')('default.' + name)",
            "table default.shared_name",
            "table",
        ),
        ("raw.writeTo(name).using('parquet').create()", "table shared_name", "table"),
        (
            "raw.createOrReplaceTempView('r'); spark.sql(' '.join(['create table', name, 'using parquet as table r']))",
            "table shared_name",
            "table",
        ),
        (
            "spark.sql(' '.join(['create or replace view', name, 'as select', repr(chunk.dataid), 'as day']))",
            "table shared_name",
            "view",
        ),
        (
            "spark.sql(' '.join(['create or replace function', name + '()', 'returns string return', repr(chunk.dataid)]))",
            "select shared_name()",
            "function",
        ),
    ],
)
def test_a_name_that_another_running_chunk_has_written_is_refused(
    desk: Callable[..., Answer], tmp_path: Path, spark: SparkSession, write: str, read: str, shared: str
) -> None:
    _project(tmp_path, HIDDEN.format(write=write, read=read))
    desk("apply", "--yes")
    desk("ready", "raw", f"{DAYS[0]}..{DAYS[-1]}")
    try:
        desk("drain", "--workers", "4", code=1)
        runs = desk("runs", "out", "--json").data
        refused = [run for run in runs if run["outcome"] == "BAD_JOB"]
        assert refused
        assert (
            f"the job writes the {shared} shared_name, as another chunk that runs beside it does"
            in refused[0]["detail"]
        )
        published = _published(spark, tmp_path)
        assert published, "the first one has its own rows"
        assert published == {day: {day} for day in published}
    finally:
        spark.catalog.dropGlobalTempView("shared_name")
        spark.sql(f"DROP {'VIEW' if shared == 'view' else 'TABLE'} IF EXISTS shared_name")
        spark.sql("DROP FUNCTION IF EXISTS shared_name")


LAZY = """
from functools import cache

from meet import meet
from opendataflow import job
from pyspark.sql import SparkSession


@cache
def days():
    return SparkSession.active().createDataFrame([(f"2013-01-{day:02d}",) for day in range(1, 9)], "day STRING")


@job
def out(raw):
    known = days()
    meet()
    return raw.join(known, "day")
"""


def test_rows_that_one_chunk_keeps_for_the_next_are_not_refused(
    desk: Callable[..., Answer], tmp_path: Path, spark: SparkSession
) -> None:
    _project(tmp_path, LAZY)
    desk("apply", "--yes")
    desk("ready", "raw", f"{DAYS[0]}..{DAYS[-1]}")
    desk("drain", "--workers", "4")
    assert _published(spark, tmp_path) == {day: {day} for day in DAYS}


def test_a_job_whose_chunks_run_one_at_a_time_may_use_global_views(
    desk: Callable[..., Answer], tmp_path: Path, spark: SparkSession
) -> None:
    _project(tmp_path, GLOBAL_VIEW, more="concurrency = 1\n")
    desk("apply", "--yes")
    desk("ready", "raw", f"{DAYS[0]}..{DAYS[-1]}")
    desk("drain", "--workers", "4")
    assert _published(spark, tmp_path) == {day: {day} for day in DAYS}
    spark.catalog.dropGlobalTempView("g")


ON_IMPORT = """
from opendataflow import job
from pyspark.sql import functions as F

late = F.col("day") > "2013-01-02"


@F.udf("string")
def same(day):
    return day


@job
def out(raw, spark):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    return raw.where(late).select(same("day").alias("day"))
"""


@pytest.mark.parametrize("where", ["file", "decorator"])
def test_code_that_needs_spark_when_it_is_imported_gets_ours(tmp_path: Path, where: str) -> None:
    """In a process of its own, since here Spark runs already."""
    home = Shell(tmp_path)
    _project(tmp_path, ON_IMPORT)
    if where == "decorator":
        home.write("dataflow.toml", PROJECT.partition("[job.out]")[0])
        home.write("jobs/out.py", ON_IMPORT.replace("@job\n", '@job(reads="raw", writes="out")\n'))
    applied = home.odf("apply", "--yes")
    assert ("starting Spark" in applied.err) == (where == "decorator")
    home.odf("ready", "raw", f"{DAYS[2]}..{DAYS[3]}")
    drain = home.odf("drain", "--workers", "2")
    assert "2 READY" in drain.out
    assert "leaving out" not in drain.err
