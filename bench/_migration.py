"""The migration: a PostgreSQL table in 10,000 chunks of about 600 rows to parquet, beside a bare PySpark thread pool.

One Spark application serves both sides: 8 threads each, local[*], warm. ODF_BENCH_CHUNKS makes it smaller.
"""

from __future__ import annotations

import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg

from bench._report import bar, figure
from opendataflow.model import Manifest
from opendataflow.project import load
from opendataflow.run.drain import Drain
from opendataflow.run.worker import Worker
from opendataflow.store import Store, open_store
from tests.support.postgres import Server

ODF = [sys.executable, "-m", "opendataflow"]
JDBC_JAR = "/usr/share/java/postgresql.jar"
ROWS, THREADS = 600, 8

PROJECT = """
[project]
name = "migration"

[store]
url = "{store}"

[environment.dev]
roots = ["./lake"]

[spark]
master = "local[*]"
memory = "4g"
jars = "{jar}"
"spark.sql.shuffle.partitions" = 2

[dataset.orders_pg]
kind = "table"
format = "postgres"
hostname = "{host}"
database = "{database}"
tablename = "orders"
username = "postgres"
partition = {{ type = "range", column = "id" }}

[dataset.orders_lake]
location = "{folder}/{{dataid}}"
format = "parquet"
partition = {{ type = "range", column = "id" }}
checks = {{ not_null = ["id"], range = {{ amount = {{ min = 0 }} }}, span = true }}

[job.migrate]
copy = {{ from = "orders_pg", to = "orders_lake" }}
batch = {batch}
"""


def resident() -> float:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() / 1e6


def migration(server: Server) -> None:
    """10,000 chunks PostgreSQL → parquet with 1 % failing, resubmitted and proven; one by one and in batches, beside bare Spark."""
    chunks = int(os.environ.get("ODF_BENCH_CHUNKS", "10000"))
    if not os.path.exists(JDBC_JAR) and os.geteuid() == 0:
        subprocess.run(["apt-get", "install", "-qq", "-y", "libpostgresql-jdbc-java"], stdout=subprocess.DEVNULL)
    source = server.create_database()
    bad = sorted(random.Random(4).sample(range(chunks), chunks // 100))
    with psycopg.connect(source, autocommit=True) as connection:
        connection.execute(
            "create table orders as select id::bigint, 'customer ' || id % 1000 as customer, (id % 997)::numeric(10, 2)"
            f" as amount, timestamp '2025-01-01' + id * interval '1 second' as ordered from generate_series(0, {chunks * ROWS - 1}) as id"
        )
        connection.execute("alter table orders add primary key (id)")
        for number in bad:
            connection.execute(f"update orders set amount = -1 where id = {number * ROWS + 7}")
        connection.execute("vacuum analyze orders")
    host, _, database = source.removeprefix("postgresql://postgres@").partition("/")
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)

        def start(folder: str, batch: int, wanted: int) -> tuple[Store, Worker]:
            """A project of its own on a store of its own, with chunks that are announced."""
            url = server.create_database()
            text = PROJECT.format(store=url, jar=JDBC_JAR, host=host, database=database, folder=folder, batch=batch)
            (home / "dataflow.toml").write_text(text)
            subprocess.run([*ODF, "migrate"], cwd=home, check=True, capture_output=True)
            subprocess.run([*ODF, "apply", "--yes"], cwd=home, check=True, capture_output=True)
            store = open_store(url)
            bounds = {str(number + 1): (str(number * ROWS), str((number + 1) * ROWS)) for number in range(wanted)}
            store.announce(
                "orders_pg", list(bounds), bounds=bounds, manifests={each: Manifest(rows=ROWS) for each in bounds}
            )
            return store, Worker(store, load(home / "dataflow.toml"), None, echo=False)

        def drained(store: Store, worker: Worker) -> tuple[float, dict[str, int]]:
            began = time.perf_counter()
            outcomes = Drain(store, worker, ["migrate"], workers=THREADS).run().outcomes
            return time.perf_counter() - began, dict(outcomes)

        some = min(400, chunks // 10)
        store, worker = start("one", 1, some * 3)
        spark = worker.spark()

        def bare(first: int) -> float:
            def one_chunk(number: int) -> None:
                low, high = number * ROWS, (number + 1) * ROWS
                spark.read.format("jdbc").options(
                    url=f"jdbc:postgresql://{host}/{database}",
                    user="postgres",
                    driver="org.postgresql.Driver",
                    dbtable=f"(select * from orders where id >= {low} and id < {high}) chunk",
                    fetchsize="10000",
                ).load().write.parquet(f"{home}/bare/{first}-{number}")

            began = time.perf_counter()
            with ThreadPoolExecutor(THREADS) as pool:
                list(pool.map(one_chunk, range(first, first + some)))
            return some / (time.perf_counter() - began)

        bare(0)  # warm
        rates = [bare(some)]
        seconds, outcomes = drained(store, worker)
        expected = sum(1 for number in bad if number < some * 3)
        assert outcomes == {"READY": some * 3 - expected, **({"NOT_VALIDATED": expected} if expected else {})}, outcomes
        rates.append(bare(some * 2))
        store.close()
        figure("bare_thread_pool_jdbc", statistics.mean(rates), "chunks/s")
        figure("one_by_one", some * 3 / seconds, "chunks/s")
        bar("one_by_one_over_bare", some * 3 / seconds / statistics.mean(rates), 0.5, at_least=True)

        store, batched = start("many", 100, chunks)
        batched._spark = spark  # one application for both sides
        before = resident()
        seconds, outcomes = drained(store, batched)
        figure("driver_memory", resident(), "MB")
        bar("driver_memory_growth_MB", resident() - before, 50, at_least=False)
        bar("first_drain_ready", outcomes.get("READY", 0), chunks - len(bad), at_least=True)
        bar("first_drain_failed", outcomes.get("NOT_VALIDATED", 0), len(bad), at_least=False)
        rates.append(bare(some * 3))
        figure("in_batches", chunks / seconds, "chunks/s")
        bar("in_batches_over_bare", chunks / seconds / statistics.mean(rates), 5, at_least=True)

        with psycopg.connect(source, autocommit=True) as connection:
            connection.execute("update orders set amount = 1 where amount = -1")
        subprocess.run([*ODF, "resubmit", "--failed", "--yes"], cwd=home, check=True, capture_output=True)
        drained(store, batched)
        ready = store.sql("select count(*) from datastatus where datasetid = 'orders_lake' and status = 'READY'")[1][0][
            0
        ]
        bar("ready_after_resubmit", int(ready), chunks, at_least=True)
        store.close()
        spark.stop()
        began = time.perf_counter()
        proof = subprocess.run([*ODF, "prove", "orders_lake", "--rows"], cwd=home, capture_output=True, text=True)
        figure("prove_rows", time.perf_counter() - began, "s")
        print("\n".join(f"# {line}" for line in (proof.stdout + proof.stderr).strip().splitlines()[:10]))
        bar("prove_rows_exit_code", proof.returncode, 0, at_least=False)
