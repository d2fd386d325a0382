"""Tables: an output that goes into a database, judged before it replaces anything there."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame, SparkSession

from ..errors import BadConfig, JobFailed
from ..model import Dataset, Manifest, span
from .auditing import ROWS, Audit, Drift, Surroundings, in_expected_order
from .columns import in_chunk
from .formats import JDBC, POSTGRES
from .observing import computed
from .quarantine import has_quarantine
from .reading import Password, table_name
from .schema import to_ddl
from .staging import Staged


def stage_table(
    spark: SparkSession,
    df: DataFrame,
    dataset: Dataset,
    dataid: str,
    epoch: int,
    around: Surroundings,
    password: Password,
) -> Staged:
    """Judge an output of kind table; it is loaded when it is published, since a load is seen at once."""
    if has_quarantine(dataset):
        raise BadConfig(
            f"dataset {dataset.datasetid}: a table has no quarantine",
            hint="Let the job write a file dataset with quarantine, and copy that one into the table.",
        )
    drift = Drift(dataset, around.past, df.schema)
    df = in_expected_order(df, drift.expected)
    audit = Audit(df, dataset, dataid, around, drift)
    if drift.found:
        audit.require(drift.results({}))
    figures = computed(audit.with_hash(df), audit.metrics())
    rows = int(figures[ROWS])
    results = audit.results(figures, rows, lambda: df)
    audit.require(results)
    lower, upper = audit.span(figures)
    manifest = Manifest(
        place=table_place(dataset),
        format=dataset.format or POSTGRES[-1],
        rows=rows,
        schema=to_ddl(audit.schema),
        span_lower=lower,
        span_upper=upper,
        fingerprint=audit.fingerprint(figures, rows),
        checks=tuple(results),
        inputs=around.inputs,
        spark_app=around.spark_app,
        extra={"metrics": "computed before the load"},
    )
    return Staged(manifest, partial(_load, spark, df, dataset, dataid, epoch, around, password, rows))


def table_place(dataset: Dataset) -> str:
    """Where a table is, as a manifest says it."""
    if dataset.format in POSTGRES or dataset.format == JDBC:
        names = ".".join(part for part in (dataset.schemaname, dataset.tablename) if part)
        scheme = POSTGRES[-1] if dataset.format in POSTGRES else JDBC
        return f"{scheme}://{dataset.hostname}/{dataset.database}/{names}"
    return table_name(dataset)


def _load(
    spark: SparkSession,
    df: DataFrame,
    dataset: Dataset,
    dataid: str,
    epoch: int,
    around: Surroundings,
    password: Password,
    expected: int,
) -> None:
    if dataset.format in POSTGRES:
        from .postgres import load_table

        bounds = around.bounds or span(dataset.partition, dataid)
        loaded = load_table(
            spark,
            df,
            dataset,
            password(dataset),
            dataid=dataid,
            epoch=epoch,
            partition=dataset.partition,
            span=bounds,
        ).rows
    elif dataset.format == JDBC:
        from .jdbc import load_table as load_jdbc

        loaded = load_jdbc(spark, df, dataset, password(dataset), dataid=dataid, epoch=epoch, bounds=around.bounds)
    else:
        _overwrite(df, dataset, dataid, around)
        return
    if loaded != expected:
        raise JobFailed(
            f"{dataset.datasetid} {dataid}: {expected} rows were judged, but {loaded} were loaded",
            hint="The job gives other rows each time that it is computed. Make it deterministic, or cache its result.",
        )


def _overwrite(df: DataFrame, dataset: Dataset, dataid: str, around: Surroundings) -> None:
    """Delta and Iceberg replace the rows of a condition in one transaction of their own."""
    condition = in_chunk(df.schema, dataset.partition, dataid, around.bounds)
    writer = df.writeTo(table_name(dataset))
    if condition is None:
        writer.overwritePartitions()
    else:
        writer.overwrite(condition)
