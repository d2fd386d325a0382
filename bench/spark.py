"""The pipeline on Spark against bare PySpark: one large chunk, many small ones, PostgreSQL against JDBC, memory.

Both sides run in one application with the same settings, warm, and alternate.

./dev bench spark                every part
./dev bench spark large tables   only these
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench._report import bar, figure, finish
from opendataflow.model import Dataset, Input, Job, Partition, parse_checks
from opendataflow.project import Environment, Project, Trust
from opendataflow.run.drain import Drain
from opendataflow.run.worker import Worker
from opendataflow.store import Store, open_store

JDBC_JAR = "/usr/share/java/postgresql.jar"
CHECKS = {
    "rows": {"min": 1},
    "not_null": ["l_orderkey", "l_partkey"],
    "range": {"l_quantity": {"min": 0, "max": 1000}},
    "accepted": {"l_returnflag": ["A", "N", "R"]},
    "sql": ["l_discount < 1"],
}


TRUST = Trust(copies=("check", "print", "small"), sql_checks=True)


def project_in(folder: Path, **spark: object) -> Project:
    environment = Environment("bench", (str(folder),), (), f"sqlite:///{folder}/dataflow.db")
    settings = {"master": "local[2]", "memory": "4g", "spark.sql.shuffle.partitions": 2, **spark}
    return Project(
        folder, None, "bench", (folder / "jobs",), environment, ("bench",), folder / "logs", spark=settings, trust=TRUST
    )


def drained(store: Store, worker: Worker, jobid: str, workers: int) -> float:
    """Seconds to drain a job; everything must end READY."""
    start = time.perf_counter()
    outcomes = Drain(store, worker, [jobid], workers=workers).run().outcomes
    assert set(outcomes) == {"READY"}, outcomes
    return time.perf_counter() - start


def timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def lineitem(folder: Path, scale: float) -> str:
    location = folder / "tpch"
    subprocess.run(
        [
            str(Path(sys.executable).parent / "tpchgen-cli"),
            "parquet",
            "-s",
            str(scale),
            "--tables=lineitem",
            f"--output-dir={location}",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return str(next(location.rglob("*.parquet")))


def large(folder: Path, store: Store, worker: Worker, source: str, rounds: int) -> None:
    spark = worker.spark()
    one = Partition("number")
    store.register(
        [
            Dataset(
                "lineitem",
                kind="file",
                format="parquet",
                location="tpch/{dataid}.parquet",
                partition=one,
                options={"repeats": True},
            ),
            Dataset(
                "checked",
                kind="file",
                format="parquet",
                location="checked/{dataid}",
                partition=one,
                checks=parse_checks(CHECKS, "bench"),
                options={"fingerprint": False, "repeats": True},
            ),
            Dataset(
                "printed",
                kind="file",
                format="parquet",
                location="printed/{dataid}",
                partition=one,
                checks=parse_checks(CHECKS, "bench"),
                options={"repeats": True},
            ),
        ],
        [
            Job("check", (Input("lineitem"),), ("checked",), options={"copy": {"from": "lineitem", "to": "checked"}}),
            Job("print", (Input("lineitem"),), ("printed",), options={"copy": {"from": "lineitem", "to": "printed"}}),
        ],
    )
    rows = spark.read.parquet(source).count()
    figure("large_chunk", rows, "rows")
    times: dict[str, list[float]] = {"bare": [], "check": [], "print": []}
    for round_ in range(rounds + 1):
        os.link(source, folder / "tpch" / f"{round_ + 1}.parquet")
        store.announce("lineitem", [str(round_ + 1)])
        sides = {
            "bare": lambda: timed(lambda: spark.read.parquet(source).write.parquet(f"{folder}/bare/{round_}")),
            "check": lambda: drained(store, worker, "check", 1),
            "print": lambda: drained(store, worker, "print", 1),
        }
        # Each comes first in its turn: what the disk has still to write is the next one's burden.
        names = list(sides)
        for name in names[round_ % 3 :] + names[: round_ % 3]:
            seconds = sides[name]()
            if round_:
                times[name].append(seconds)
        for location in ("bare", "checked", "printed"):
            shutil.rmtree(folder / location)
    for name, each in times.items():
        figure(f"large_{name}", rows / statistics.median(each) / 1e6, "million rows/s")
    ratio = {
        name: statistics.median(b / o for b, o in zip(times["bare"], times[name], strict=True))
        for name in ("check", "print")
    }
    bar("large_with_five_checks_over_bare", ratio["check"], 0.93, at_least=True)
    bar("large_with_fingerprint_over_bare", ratio["print"], 0.87, at_least=True)


def small(folder: Path, store: Store, worker: Worker, chunks: int) -> None:
    spark = worker.spark()
    one = Partition("number")
    spark.range(0, 1000).selectExpr("id", "id * 3 as three", "cast(id as string) as name").coalesce(1).write.parquet(
        f"{folder}/seed"
    )
    for number in range(1, chunks + 1):
        shutil.copytree(folder / "seed", folder / "in" / str(number))
    store.register(
        [
            Dataset(
                "in", kind="file", format="parquet", location="in/{dataid}", partition=one, options={"repeats": True}
            ),
            Dataset(
                "out", kind="file", format="parquet", location="out/{dataid}", partition=one, options={"repeats": True}
            ),
        ],
        [Job("small", (Input("in"),), ("out",), options={"copy": {"from": "in", "to": "out"}})],
    )

    def bare(first: int, last: int) -> float:
        def one_chunk(number: int) -> None:
            spark.read.parquet(f"{folder}/in/{number}").write.parquet(f"{folder}/bare_small/{number}")

        with ThreadPoolExecutor(8) as pool:
            return timed(lambda: list(pool.map(one_chunk, range(first, last + 1))))

    step = chunks // 5
    pairs = []
    for start in range(1, chunks, step):
        last = start + step - 1
        seconds = bare(start, last)
        store.announce("in", [str(number) for number in range(start, last + 1)])
        pairs.append((step / seconds, step / drained(store, worker, "small", 8)))
    figure("small_bare", statistics.median(pair[0] for pair in pairs), "chunks/s")
    figure("small_ours", statistics.median(pair[1] for pair in pairs), "chunks/s")
    bar("small_over_bare_thread_pool", statistics.median(pair[1] / pair[0] for pair in pairs[1:]), 0.9, at_least=True)


def memory(store: Store, worker: Worker, chunks: int) -> None:
    """Driver Python memory over many chunks: the high-water mark after a warm-up, and at the end."""

    def resident() -> float:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize() / 1e6

    before = resident()
    for start in range(0, chunks, 250):
        store.forget("out", [chunk.dataid for chunk in store.views.all_chunks("out")])
        drained(store, worker, "small", 8)
        if start == 0:
            before = resident()
    figure("memory_after_250_chunks", before, "MB")
    bar("memory_growth_MB", resident() - before, 50, at_least=False)


def tables(folder: Path, worker: Worker, source: str, server: Any, rounds: int) -> None:
    import psycopg

    from opendataflow.spark.postgres import RowRange, publish_table, read_table, stage_table

    spark = worker.spark()
    url = server.create_database()
    address, _, database = url.removeprefix("postgresql://postgres@").partition("/")
    dataset = Dataset(
        "items",
        kind="table",
        hostname=address,
        database=database,
        tablename="items",
        username="postgres",
        options={"replace": "table"},
    )
    df = spark.read.parquet(source)
    jdbc = {
        "url": f"jdbc:postgresql://{address}/{database}?reWriteBatchedInserts=true",
        "user": "postgres",
        "driver": "org.postgresql.Driver",
    }
    df.limit(0).write.format("jdbc").options(**jdbc, dbtable="items").save()
    rows = df.count()
    times: dict[str, list[float]] = {"jdbc_load": [], "ours_load": [], "jdbc_read": [], "ours_read": []}
    lower, upper = df.selectExpr("min(l_orderkey)", "max(l_orderkey) + 1").first()
    for round_ in range(rounds + 1):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("truncate items")
        once = {
            "jdbc_load": timed(
                lambda: (
                    df.coalesce(2)
                    .write.format("jdbc")
                    .options(**jdbc, dbtable="items", batchsize=10000)
                    .mode("append")
                    .save()
                )
            )
        }
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("truncate items")
        attempt = {"dataid": "all", "epoch": round_ + 1}

        def load() -> None:
            staged = stage_table(spark, df.coalesce(2), dataset, "", **attempt)
            publish_table(dataset, "", **attempt, partition=Partition(), span=None, staging=staged)

        once["ours_load"] = timed(load)
        with psycopg.connect(url, autocommit=True) as connection:
            assert connection.execute("select count(*) from items").fetchone() == (rows,)
            connection.execute("analyze items")
        parallel = {
            "partitionColumn": "l_orderkey",
            "lowerBound": str(lower),
            "upperBound": str(upper),
            "numPartitions": "2",
            "fetchsize": "10000",
        }
        once["jdbc_read"] = timed(
            lambda: (
                spark.read.format("jdbc")
                .options(**jdbc, dbtable="items", **parallel)
                .load()
                .write.mode("overwrite")
                .parquet(f"{folder}/jdbc_read")
            )
        )
        once["ours_read"] = timed(
            lambda: (
                read_table(spark, dataset, "", RowRange("l_orderkey", str(lower), str(upper)), partitions=2)
                .write.mode("overwrite")
                .parquet(f"{folder}/ours_read")
            )
        )
        if round_:
            for name, seconds in once.items():
                times[name].append(seconds)
    for name, each in times.items():
        figure(f"postgres_{name}", rows / statistics.median(each) / 1e6, "million rows/s")
    bar(
        "postgres_load_over_jdbc",
        statistics.median(j / o for j, o in zip(times["jdbc_load"], times["ours_load"], strict=True)),
        1.3,
        at_least=True,
    )
    bar(
        "postgres_read_over_jdbc",
        statistics.median(j / o for j, o in zip(times["jdbc_read"], times["ours_read"], strict=True)),
        1.0,
        at_least=True,
    )


def main() -> None:
    names = sys.argv[1:] or ["small", "memory", "large", "tables"]
    from tests.support.postgres import start_postgres

    if not os.path.exists(JDBC_JAR) and os.geteuid() == 0:
        subprocess.run(
            ["apt-get", "install", "-qq", "-y", "libpostgresql-jdbc-java"], check=False, stdout=subprocess.DEVNULL
        )
    with tempfile.TemporaryDirectory() as name, start_postgres() as server:
        folder = Path(name)
        store = open_store(f"sqlite:///{folder}/dataflow.db", create=True)
        jars: dict[str, object] = {"jars": JDBC_JAR} if os.path.exists(JDBC_JAR) else {}
        worker = Worker(store, project_in(folder, **jars), None, echo=False)
        source = lineitem(folder, 1.0) if {"large", "tables"} & set(names) else ""
        if "small" in names or "memory" in names:
            small(folder, store, worker, 500)
        if "memory" in names:
            memory(store, worker, 1000)
        if "large" in names:
            large(folder, store, worker, source, 6)
        if "tables" in names and jars:
            tables(folder, worker, source, server, 2)
        elif "tables" in names:
            print("no JDBC driver to compare with: apt-get install libpostgresql-jdbc-java", file=sys.stderr)
        worker.spark().stop()
        store.close()
    finish()


if __name__ == "__main__":
    main()
