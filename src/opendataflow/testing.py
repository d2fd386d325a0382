"""Runs one job on given rows, without a store, for the tests of job authors.

from opendataflow.testing import odf_spark, run_job

def test_flights_without_delay_are_dropped(odf_spark):
    flights = [{"carrier": "AA", "dep_delay": 1.0}, {"carrier": "UA", "dep_delay": None}]
    result = run_job("jobs/clean_flights.py", {"flights_raw": flights}, spark=odf_spark)
    assert [row.carrier for row in result.collect()] == ["AA"]
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .api import ChunkContext, declared, name_of
from .errors import BadDataid, BadDefinition
from .model import Partition, span
from .model.definitions.dataid import TYPES

if TYPE_CHECKING:
    from .spark.types import DataFrame, SparkSession

# The smallest session: it starts fastest.
SETTINGS: Mapping[str, object] = {"sql.shuffle.partitions": 2, "default.parallelism": 2}


@pytest.fixture(scope="session")
def odf_spark() -> SparkSession:
    """A small local session that all tests of a process share."""
    return small_session()


def small_session() -> SparkSession:
    """The session of a test process: local, or on the master that ODF_TEST_MASTER names."""
    from .spark.session import session

    master = os.environ.get("ODF_TEST_MASTER", "local[2]")
    return session(SETTINGS, app_name="opendataflow-tests", master=master)


def run_job(
    code: Callable[..., Any] | str | Path,
    inputs: Mapping[str, DataFrame | Iterable[Mapping[str, object]]],
    dataid: str = "1",
    *,
    spark: SparkSession | None = None,
    schemas: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    epoch: int = 1,
) -> Any:
    """The result of a job for these inputs: a DataFrame, or a dict of DataFrames if the job returns a dict.

    `code` is a function, or the path of a .py or .sql file. Inputs are DataFrames, or rows as dicts; rows get the types
    that Spark infers, or those of `schemas`. An empty list of rows needs a schema.
    """
    from .spark.code import load_job
    from .spark.running import by_output, extra_folder, result_of

    spark = spark or small_session()
    if isinstance(code, (str, Path)):
        jobid = Path(code).stem
        code_of_job = load_job(Path(code), jobid)
    else:
        jobid, code_of_job = name_of(code), code
    job = declared(code_of_job) if callable(code_of_job) else None
    frames = {name: _frame(spark, name, rows, (schemas or {}).get(name)) for name, rows in inputs.items()}
    settings = {**(job.env if job else {}), **(env or {})}
    chunk = ChunkContext(
        jobid, dataid, epoch, _bounds(dataid), settings, {}, logging.getLogger(f"opendataflow.job.{jobid}")
    )
    with extra_folder(code_of_job, frames) as extra:
        result = result_of(spark, code_of_job, frames, chunk, extra)
    if isinstance(result, Mapping):
        return by_output(result, job.outputs if job and job.outputs else tuple(map(str, result)), f"job {jobid}")
    return by_output(result, ("result",), f"job {jobid}").get("result")


def _frame(spark: SparkSession, name: str, rows: DataFrame | Iterable[Mapping[str, object]], schema: str | None) -> Any:
    from .spark.running import is_dataframe

    if is_dataframe(rows):
        return rows
    listed: list[Any] = [dict(row) for row in rows]  # type: ignore[union-attr]
    if not listed and schema is None:
        raise BadDefinition(
            f"{name}: without rows its columns are unknown", hint=f'Declare them: schemas={{"{name}": "a string"}}'
        )
    return spark.createDataFrame(listed, schema) if schema else spark.createDataFrame(listed)


def _bounds(dataid: str) -> tuple[str, str] | None:
    """The bounds of a dataid, whose time type is inferred from its length."""
    for name, dataid_type in TYPES.items():
        if dataid_type.is_time and len(dataid) == dataid_type.width:
            try:
                return span(Partition(name), dataid)
            except BadDataid:
                return None
    return None
