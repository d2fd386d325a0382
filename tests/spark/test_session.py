"""The session: its settings, its Java, and cancelling the work of one run."""

from __future__ import annotations

import logging
import threading
import time

import pytest
from pyspark.sql import SparkSession

from opendataflow.errors import BadConfig
from opendataflow.spark.session import app_id, cancel, chunk_context, ui_of
from opendataflow.spark.settings import spark_settings, without_parameters


def test_settings_are_written_as_spark_does_or_short():
    found = spark_settings(
        {
            "master": "spark://host:7077",
            "packages": ["a:b:1", "c:d:2"],
            "ui": True,
            "sql": {"shuffle": {"partitions": 8}},
            "spark": {"executor": {"memory": "2g"}},
            "spark.x.y": 1.5,
            "conf": {"spark.z": "1"},
        }
    )
    assert found["spark.master"] == "spark://host:7077"
    assert found["spark.jars.packages"] == "a:b:1,c:d:2"
    assert found["spark.ui.enabled"] == "true"
    assert found["spark.sql.shuffle.partitions"] == "8"
    assert found["spark.executor.memory"] == "2g"
    assert (found["spark.x.y"], found["spark.z"]) == ("1.5", "1")
    assert found["spark.sql.session.timeZone"] == "UTC"
    assert "spark.driver.host" not in found
    assert spark_settings({}, "local[1]")["spark.driver.host"] == "127.0.0.1"
    assert spark_settings({})["spark.master"] == "local[*]"
    assert "spark.master" not in spark_settings({"master": "local"}, "sc://host")
    assert spark_settings({"master": "sc://host"})["spark.remote"] == "sc://host"
    with pytest.raises(BadConfig, match="mastre"):
        spark_settings({"mastre": "local"})


@pytest.mark.parametrize(
    "address", ["sc://host:15002", "sc://host:15002/", "sc://host:15002/;token=canary;use_ssl=true"]
)
def test_the_token_of_a_connect_server_is_not_shown(address: str) -> None:
    assert without_parameters(address) == "sc://host:15002"


def test_a_run_is_cancelled_by_its_tag_and_only_that_run(spark):
    failures = []

    def sleep(tag: str, millis: int) -> None:
        try:
            with chunk_context(spark, tag, "pool"):
                assert tag in spark.sparkContext.getJobTags()
                spark.range(1).selectExpr(f"reflect('java.lang.Thread', 'sleep', {millis}L)").collect()
        except Exception as problem:
            failures.append((tag, problem))

    threads = [threading.Thread(target=sleep, args=args) for args in (("odf-1", 600_000), ("odf-2", 100))]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 240
    while threads[0].is_alive() and time.monotonic() < until:
        cancel(spark, "odf-1")
        threads[0].join(0.2)
    threads[1].join(240)
    assert [tag for tag, _ in failures] == ["odf-1"]
    assert not spark.sparkContext.getJobTags()


def test_the_session_is_quiet_and_ours(spark):
    import signal

    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert app_id(spark).startswith("local-")
    assert ui_of(spark) == ""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_py4j_puts_no_stack_on_the_screen_and_job_code_is_heard(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[logging.LogRecord] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", heard.append)
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    logged = (
        "import logging\ntry: 1 / 0\nexcept ZeroDivisionError: logging.exception('Exception while sending command.')"
    )
    for path in ("/site-packages/py4j/java_gateway.py", "/project/jobs/mine.py"):
        exec(compile(logged, path, "exec"), {})
    logging.getLogger("py4j.clientserver").error("ConnectionResetError", exc_info=True)
    assert [record.pathname for record in heard] == ["/project/jobs/mine.py"]
