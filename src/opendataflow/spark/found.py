"""Found: chunks that were written elsewhere (by a script, or outside), read once and judged like our own."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from ..errors import InvalidPath, NotValidated
from ..files.versions import names_chunk
from ..model import Dataset, Manifest
from ..model.definitions.ddl import other_case
from .auditing import MISFITS, ROWS, Audit, Drift, Surroundings, expected_schema
from .columns import in_chunk
from .files import list_files
from .formats import JSON, UNTYPED, format_of, has_header
from .lines import check_files
from .observing import computed, how_many
from .problems import SPARK_ERRORS, reason_of
from .reading import CORRUPT, read_location, read_names, read_with_misfits
from .schema import RENAMED, Difference, differences, to_ddl
from .session import app_id

NOTHING = Surroundings()


def audit_location(
    spark: SparkSession, dataset: Dataset, location: str, dataid: str, *, around: Surroundings = NOTHING
) -> Manifest:
    """The manifest of the files at a location; ChecksFailed when they may not be published as this chunk."""
    check_files(dataset, location)
    try:
        df, drifted = _read(spark, dataset, location, around)
        if not names_chunk(dataset, dataid):
            df = _only_chunk(df, dataset, dataid, around)
        return _judged(spark, df, dataset, location, dataid, around, Drift(dataset, around.past, df.schema, drifted))
    except SPARK_ERRORS as problem:
        if isinstance(problem, PySparkException) and problem.getCondition() == "PATH_NOT_FOUND":
            # Connect looks for the files only when they are read.
            raise InvalidPath(f"dataset {dataset.datasetid}: there is nothing at {location}") from None
        raise NotValidated(
            f"{dataset.datasetid} {dataid}: {location} cannot be read as {format_of(dataset)}: {reason_of(problem)}"
        ) from problem


def _read(
    spark: SparkSession, dataset: Dataset, location: str, around: Surroundings
) -> tuple[DataFrame, list[Difference] | None]:
    """The rows, and how their columns differ where the files themselves do not tell types."""
    expected = expected_schema(dataset, around.past)
    if expected is None or format_of(dataset) not in UNTYPED:
        return read_location(spark, dataset, location), None
    if format_of(dataset) == JSON:
        inferred = read_location(spark, dataset, location).schema
        drifted = differences(expected, inferred, is_inferred=True)
        renamed = other_case(expected.names, inferred.names).items()
        drifted += [Difference(RENAMED, name, after=now) for name, now in renamed]
        actual = _typed(expected, inferred.fieldNames(), inferred)
    elif has_header(dataset):
        actual = _typed(expected, read_names(spark, dataset, location))
        drifted = differences(expected, actual)
    else:
        actual, drifted = expected, []
    return read_with_misfits(spark, dataset, location, actual), drifted


def _typed(expected: StructType, names: list[str], inferred: StructType | None = None) -> StructType:
    """The columns that are there, in their order, with the types that they should have; in json their case counts."""
    key = str if inferred else str.lower
    known = {key(field.name): field for field in expected.fields}
    others = {field.name: field.dataType for field in inferred.fields} if inferred else {}
    return StructType([known.get(key(name), StructField(name, others.get(name, StringType()))) for name in names])


def _only_chunk(df: DataFrame, dataset: Dataset, dataid: str, around: Surroundings) -> DataFrame:
    belongs = in_chunk(df.schema, dataset.partition, dataid, around.bounds)
    return df if belongs is None else df.where(belongs)


def _judged(
    spark: SparkSession,
    df: DataFrame,
    dataset: Dataset,
    location: str,
    dataid: str,
    around: Surroundings,
    drift: Drift,
) -> Manifest:
    has_misfits = CORRUPT in df.columns
    data = df.drop(CORRUPT) if has_misfits else df
    audit = Audit(data, dataset, dataid, around, drift)
    metrics = audit.metrics()
    if has_misfits:
        metrics[MISFITS] = how_many(F.col(CORRUPT).isNotNull())
        metrics["misfit"] = F.max(F.col(CORRUPT))
    figures = computed(df, metrics)
    rows = int(figures[ROWS])
    results = audit.results(figures, rows, lambda: data)
    audit.require(results)
    lower, upper = audit.span(figures)
    files = list_files(spark, location)
    return Manifest(
        location=location,
        format=format_of(dataset),
        files=files,
        bytes=sum(file.bytes for file in files),
        rows=rows,
        schema=to_ddl(audit.schema),
        span_lower=lower,
        span_upper=upper,
        fingerprint=audit.fingerprint(figures, rows),
        checks=tuple(results),
        spark_app=around.spark_app or app_id(spark),
        extra={"metrics": "read"},
    )
