"""One Spark session for all tests of this folder, and a small project to run them in."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from opendataflow.model import Catalogue, Consumed, Dataset, Facts, Input, Job, Manifest
from opendataflow.project import Environment, Project, Trust
from opendataflow.store.records import Claim
from opendataflow.testing import small_session
from tests.support.shell import Answer
from tests.support.tables import SQL, dataset_of

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            # PySpark says so wherever a newer pandas is merely installed; we use none.
            item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"))


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return small_session()


@pytest.fixture
def berlin(spark: SparkSession) -> Iterator[SparkSession]:
    """The same session with the time zone of Berlin."""
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.fixture
def desk(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Answer]:
    """`odf` in this process and in an empty folder: whatever needs Spark finds the session of these tests."""
    from opendataflow.cli.door import open_door

    monkeypatch.chdir(tmp_path)

    def odf(*arguments: str, code: int = 0) -> Answer:
        capsys.readouterr()
        ended = open_door(list(arguments))
        answer = Answer(ended, *capsys.readouterr())
        assert ended == code, (arguments, answer)
        return answer

    return odf


@pytest.fixture
def sql(postgres_url: str) -> Iterator[SQL]:
    """Runs statements in the test's database, and answers the rows of the last one."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:

        def run(*statements: str) -> list[tuple[Any, ...]]:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

        yield run


@pytest.fixture
def days(postgres_url: str, sql: SQL) -> Dataset:
    """A table with three days of two rows each."""
    sql(
        "create table t (day date, n int, s text)",
        "insert into t select date '2025-01-01' + d, d * 10 + i, 'old' from generate_series(0, 2) d,"
        " generate_series(1, 2) i",
    )
    return dataset_of(postgres_url)


@pytest.fixture
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Project:
    """A project that declares nothing but where data may lie, and the test's database if the test has one."""
    url = request.getfixturevalue("postgres_url") if "postgres_url" in request.fixturenames else ""
    hosts = (url.rpartition("@")[2].partition("/")[0],) if url else ()
    environment = Environment("dev", (str(tmp_path / "data"),))
    return Project(
        tmp_path, None, "test", (tmp_path / "jobs",), environment, ("dev",), tmp_path / "logs", trust=Trust(hosts=hosts)
    )


@pytest.fixture
def produce(spark: SparkSession, project: Project) -> Callable[..., Any]:
    """Run one chunk of a job that writes these datasets, as `run` would after a claim."""
    from opendataflow.spark.chunks import Application, ChunkWork, run_chunk

    def run(
        code: Any,
        *outputs: Dataset,
        dataid: str = "2013-01-01",
        epoch: int = 1,
        reads: Sequence[tuple[Dataset, Any]] = (),
        options: dict[str, object] | None = None,
        **more: Any,
    ) -> dict[str, Manifest]:
        datasets = [*outputs, *(dataset for dataset, _ in reads), *more.pop("others", ())]
        inputs = tuple(Input(dataset.datasetid) for dataset, _ in reads)
        job = Job("job", inputs, tuple(dataset.datasetid for dataset in outputs), options=options or {})
        catalogue = Catalogue.build(datasets, [job])
        consumed = tuple(Consumed(dataset.datasetid, dataid, 1) for dataset, _ in reads)
        claim = Claim(
            1, "job", dataid, epoch, consumed, job.outputs, 30.0, 1, False, False, "test", Facts("job", dataid)
        )
        chunks = tuple(chunk for _, chunks in reads for chunk in chunks)
        around = {name: more.pop(name) for name in ("bounds", "past") if name in more}
        application = Application(spark, project, catalogue, log=logging.getLogger("test"), **more)
        return run_chunk(application, ChunkWork(claim, chunks, **around), job, code)

    return run
