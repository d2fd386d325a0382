"""What goes wrong with a table of PostgreSQL has a name, loses nothing and shows no password."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opendataflow.errors import (
    BadConfig,
    BadDefinition,
    InvalidPath,
    OdfError,
)
from opendataflow.model import Dataset, Partition
from opendataflow.spark.postgres import RowRange, read_table, stage_table
from opendataflow.spark.postgres.connection import address_of
from tests.support.tables import count_rows, guarded_role, load, publish, rows_of_day, staging_tables

pytestmark = [pytest.mark.postgres, pytest.mark.spark]

SECRET = "canary-5f1c0a9e"


class LosesAnswer:
    """A proxy that delivers the first COMMIT of a publish and loses its answer."""

    def __init__(self, port: int, word: bytes) -> None:
        self.server_port, self.word, self.lost = port, word, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets: list[socket.socket] = []
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.server_port))
            seen: list[bytes] = []
            self.sockets += [client, server]
            for way in ((client, server, seen, True), (server, client, seen, False)):
                self.threads.append(threading.Thread(target=self._forward, args=way, daemon=True))
                self.threads[-1].start()

    def _forward(self, source: socket.socket, sink: socket.socket, seen: list[bytes], is_client: bool) -> None:
        try:
            while data := source.recv(65536):
                if is_client and self.word in data:
                    seen.append(data)
                if is_client and seen and data.upper().find(b"COMMIT") >= 0 and not self.lost:
                    self.lost += 1
                    sink.sendall(data)
                    threading.Event().wait(0.3)  # the server commits
                    return
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for each in (source, sink):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(10)
        for each in self.sockets:
            each.close()


def test_a_lost_answer_to_commit_is_found_out(spark, sql, days: Dataset) -> None:
    staged = stage_table(spark, rows_of_day(spark, 4), days, None, dataid="2025-01-02", epoch=1)
    proxy = LosesAnswer(int(days.hostname.partition(":")[2]), b"drop table")
    through = replace(days, tablename="t", hostname=f"127.0.0.1:{proxy.port}")
    assert publish(through, staged) == 4
    assert proxy.lost == 1
    assert sql("select count(*), min(s) from t where day = '2025-01-02'") == [(4, "new")]
    proxy.close()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"hostname": "127.0.0.1:1"}, InvalidPath),
        ({"hostname": "no-such-host.invalid"}, InvalidPath),
        ({"database": "nowhere"}, InvalidPath),
        ({"tablename": "nothing"}, InvalidPath),
        ({"schemaname": "nothing"}, InvalidPath),
        ({"username": "nobody-here"}, BadConfig),
        ({"username": "guarded"}, BadConfig),
        ({"tablename": ""}, BadDefinition),
        ({"options": {"sslmode": "maybe"}}, BadConfig),
        ({"options": {"timezone": "no' where"}}, BadConfig),
        ({"hostname": "127.0.0.1:x"}, BadConfig),
        ({"options": {"as_text": ["nothing"]}}, BadDefinition),
    ],
)
def test_errors_have_names_and_no_password(
    spark, sql, days: Dataset, change: dict[str, Any], error: type[OdfError]
) -> None:
    guarded_role(sql, "another")
    # The server trusts everybody else, and asks nobody else for a password.
    options = {"require_auth": ["scram-sha-256", "none"], **change.get("options", {})}
    dataset = replace(days, **{**change, "options": options})
    for call in (
        lambda: read_table(spark, dataset, SECRET),
        lambda: stage_table(spark, rows_of_day(spark, 1), dataset, SECRET, dataid="2025-01-02", epoch=1),
    ):
        with pytest.raises(error) as caught:
            call()
        assert type(caught.value) is error
        assert caught.value.hint or error is BadConfig
        assert SECRET not in str(caught.value) + repr(caught.value)


def test_a_missing_partition_column_and_wrong_bounds_are_definition_errors(spark, days: Dataset) -> None:
    with pytest.raises(BadDefinition, match="nothing"):
        read_table(spark, days, None, RowRange("nothing", "1", "2"))
    with pytest.raises(BadDefinition, match=r"\bn\b"):
        count_rows(days, RowRange("n", "x", "2"))
    with pytest.raises(BadDefinition, match=r"\bday\b"):
        count_rows(days, RowRange("day", "7", "8"))
    with pytest.raises(BadDefinition, match="nothing"):
        load(spark, rows_of_day(spark, 1), replace(days, tablename="t", partition=Partition("day", column="nothing")))
    with pytest.raises(BadDefinition):
        count_rows(days, RowRange(lower="1"))


def test_a_role_without_rights_is_told_so(spark, sql, days: Dataset) -> None:
    sql("drop role if exists poor", "create role poor login", "grant select on t to poor")
    poor = replace(days, tablename="t", username="poor")
    try:
        assert read_table(spark, poor, None).count() == 6
        with pytest.raises(InvalidPath, match="public"):
            stage_table(spark, rows_of_day(spark, 1), poor, None, dataid="2025-01-02", epoch=1)
    finally:
        sql("drop owned by poor", "drop role poor")


def test_an_address_does_not_show_its_password(days: Dataset) -> None:
    address = address_of(replace(days, tablename="t", options={"port": 7, "sslmode": "prefer"}), "it's \\ secret")
    assert "secret" not in repr(address) + str(address) + address.location
    assert "password='it\\'s \\\\ secret'" in address.conninfo()
    assert address_of(replace(days, tablename="t", hostname="h", options={"port": 7}), None).port == "7"
    assert address_of(replace(days, tablename="t", hostname="[::1]:5"), None).hostname == "::1"


RETRIED = """
import os, sys, warnings
warnings.simplefilter("ignore")
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark import TaskContext
from pyspark.sql import SparkSession
from opendataflow.model import Dataset, Partition
from opendataflow.spark.postgres import RowRange, loading, named_error, publish_table, read_table, stage_table

host, database, log = sys.argv[1:]
secret = sys.stdin.readline()


class DiesAfterItsCopy(loading.Load):
    def load_postgres(self, batches):
        answer = list(super().load_postgres(batches))
        if TaskContext.get().attemptNumber() == 0 and TaskContext.get().partitionId() != 1:
            raise RuntimeError("killed after its COPY was committed")
        yield from answer


def dies_before(batches):
    for batch in batches:
        yield batch
        if TaskContext.get().attemptNumber() == 0 and TaskContext.get().partitionId() == 1:
            raise RuntimeError("killed while copying")


settings = {"spark.ui.enabled": "false", "spark.eventLog.enabled": "true", "spark.eventLog.dir": log,
            "spark.eventLog.compress": "false", "spark.sql.shuffle.partitions": "2",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1", "spark.ui.showConsoleProgress": "false"}
spark = SparkSession.builder.master("local[2,3]").config(map=settings).getOrCreate()
loading.Load = DiesAfterItsCopy
dataset = Dataset("t", "table", host, database, tablename="t", username="postgres", partition=Partition("day", column="day"),
                  options={"require_auth": "none"})  # the tests' server trusts everybody
df = spark.range(0, 3000, 1, 3).selectExpr("date '2025-01-02' as day", "cast(id as int) as n", "'new' as s")
df = df.mapInArrow(dies_before, df.schema)
day = ("2025-01-02T00:00:00", "2025-01-03T00:00:00")
done = stage_table(spark, df, dataset, secret, dataid="2025-01-02", epoch=1)
publish_table(dataset, secret, dataid="2025-01-02", epoch=1, partition=dataset.partition, span=day, staging=done)
print("LOADED", done.rows)
back = read_table(spark, dataset, secret, RowRange("n", "0", "3000"), partitions=2)
back.explain(True)
print("READ", back.count(), back.distinct().count())
from dataclasses import replace
spark.sql("select 1").collect()
try:
    broken = read_table(spark, replace(dataset, tablename="u"), secret)
    broken.collect()
except Exception as problem:
    print("FAILED", type(named_error(problem)).__name__, problem)
spark.stop()
"""


def test_retried_tasks_load_exactly_and_the_password_shows_nowhere(sql, days: Dataset, tmp_path: Path) -> None:
    """A task dies while copying, and others after their COPY was committed but before Spark heard of it."""
    sql("create table u (x date)", "insert into u values ('infinity')")
    script, log = tmp_path / "retried.py", tmp_path / "events"
    log.mkdir()
    script.write_text(RETRIED)
    command = [sys.executable, str(script), days.hostname, days.database, str(log)]
    environment = {**os.environ, "PYTHONPATH": "."}
    done = subprocess.run(command, input=SECRET, capture_output=True, text=True, timeout=240, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "LOADED 3000" in done.stdout
    assert "FAILED NotValidated" in done.stdout
    assert "READ 3004 3004" in done.stdout  # with what other days hold
    assert "killed after its COPY" in done.stderr
    assert "killed while copying" in done.stderr
    assert "MapInArrow read_postgres" in done.stdout
    assert sql("select count(*), count(distinct n) from t where day = '2025-01-02'") == [(3000, 3000)]
    assert staging_tables(sql) == 0
    events = [path for path in log.rglob("*") if path.is_file()]
    texts = [done.stdout, done.stderr, *(path.read_text(errors="replace") for path in events)]
    assert any("SparkListenerSQLExecutionStart" in text for text in texts)
    assert all(SECRET not in text for text in texts)
