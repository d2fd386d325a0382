"""Reading: the rows of a chunk as a DataFrame, exactly those and only from published versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from ..errors import BadConfig, DataNotReady, InvalidPath, NotValidated
from ..files.quarantine import BECAUSE
from ..files.versions import OURS, names_chunk
from ..model import Dataset, InputChunk, Manifest, span
from ..model.definitions.checks import ERROR, policy
from ..model.definitions.dataset import table_name
from ..project import Environment, Project, check_places, resolve_location
from . import TAG
from .columns import in_chunk, quoted
from .footers import schema_in_footer
from .formats import (
    CSV,
    JDBC,
    ORC,
    PARQUET,
    POSTGRES,
    TEXT,
    UNTYPED,
    folder_columns,
    format_of,
    partitions_of,
    read_options,
)
from .lines import check_files
from .schema import DROPPED, RENAMED, differences, from_ddl
from .session import is_connect

if TYPE_CHECKING:
    from .postgres import RowRange

CORRUPT = "__odf_corrupt"


Password = Callable[[Dataset], str]


def is_ours(manifest: Manifest) -> bool:
    """Whether this room wrote the files, so that it knows exactly how they are written; a script may write in any way."""
    return manifest.extra.get("writer") == OURS


def is_readable(dataset: Dataset) -> bool:
    """Whether there is data to read; a dataset without a location is only tracked."""
    return dataset.kind in ("file", "table")


def read_chunks(
    spark: SparkSession,
    where: Project | Environment,
    dataset: Dataset,
    chunks: Sequence[InputChunk],
    password: Password,
    *,
    pinned_schema: str = "",
    are_placed: bool = False,
) -> DataFrame:
    """The rows of these chunks together; are_placed: the gate has checked their locations."""
    if not chunks:
        schema = declared_schema(dataset) or (from_ddl(pinned_schema) if pinned_schema else None)
        if schema is None:
            raise DataNotReady(
                f"dataset {dataset.datasetid}: there is no chunk to read, and nothing says what its columns are; "
                f'declare them: [dataset.{dataset.datasetid}] schema = "…"',
            )
        return spark.createDataFrame([], schema)
    if not are_placed:
        check_places(_environment(where), dataset, chunks, always=True)
    together = _read_together(spark, dataset, chunks)
    if together is not None:
        return together
    frames = [
        read_chunk(spark, where, dataset, chunk, password, pinned_schema=pinned_schema, is_one=len(chunks) == 1)
        for chunk in chunks
    ]
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def read_batch(
    spark: SparkSession,
    where: Project | Environment,
    dataset: Dataset,
    tagged: Sequence[tuple[str, InputChunk]],
    password: Password,
    *,
    tasks: int,
    are_placed: bool = False,
) -> DataFrame:
    """The rows of these chunks, each with the dataid that stands beside its chunk in the column TAG."""
    if dataset.kind == "table" and dataset.format in POSTGRES and dataset.partition.column is not None:
        from .postgres import BatchPart, read_parts

        parts = [BatchPart(tag, _table_rows(dataset, chunk)) for tag, chunk in tagged]
        return read_parts(spark, dataset, password(dataset), parts, tasks)
    if not are_placed:
        check_places(_environment(where), dataset, (chunk for _, chunk in tagged), always=True)
    frames = (
        read_chunk(spark, where, dataset, chunk, password, is_one=len(tagged) == 1).withColumn(TAG, F.lit(tag))
        for tag, chunk in tagged
    )
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def read_chunk(
    spark: SparkSession,
    where: Project | Environment,
    dataset: Dataset,
    chunk: InputChunk,
    password: Password,
    *,
    pinned_schema: str = "",
    is_one: bool = True,
) -> DataFrame:
    """The rows of one chunk."""
    if dataset.kind == "table":
        return _read_table(spark, dataset, chunk, password)
    if dataset.kind != "file":
        raise BadConfig(f"dataset {dataset.datasetid} is only tracked: there is nothing to read")
    manifest = chunk.manifest or Manifest()
    location = manifest.location or resolve_location(where, dataset, chunk.dataid)
    schema = _known_schema(dataset, manifest, pinned_schema)
    if manifest.rows is None:  # otherwise Spark has read it before, and the gate knows that it has not changed
        check_files(dataset, location)
        _check_columns(spark, dataset, chunk.dataid, location)
    schema = schema or schema_in_footer(spark, dataset, location)
    df = read_location(spark, dataset, location, schema=schema, is_ours=is_ours(manifest))
    if manifest.location or names_chunk(dataset, chunk.dataid):
        return df
    return _only(df, dataset, chunk)


def read_location(
    spark: SparkSession,
    dataset: Dataset,
    location: str | list[str],
    *,
    schema: StructType | None = None,
    is_ours: bool = False,
) -> DataFrame:
    """Everything that lies at a location, in the format of the dataset."""
    options = read_options(dataset, has_schema=schema is not None, is_ours=is_ours)
    reader = spark.read.format(format_of(dataset)).options(**options)
    untold = ("delta", "iceberg") if is_ours else ("delta", "iceberg", TEXT)
    if schema is not None and format_of(dataset) not in untold:
        reader = _with_schema(reader, spark, schema)
    try:
        df = reader.load(location)
        # Spark puts the columns that name folders last.
        return df.select(*map(quoted, schema.names)) if schema is not None and folder_columns(dataset) else df
    except AnalysisException as problem:
        if problem.getCondition() == "PATH_NOT_FOUND":
            raise InvalidPath(f"dataset {dataset.datasetid}: there is nothing at {location}") from None
        if problem.getCondition() == "UNABLE_TO_INFER_SCHEMA":
            raise InvalidPath(
                f"dataset {dataset.datasetid}: nothing at {location} can be read as {format_of(dataset)}"
            ) from None
        raise


def _with_schema(reader: Any, spark: SparkSession, schema: StructType) -> Any:
    """The reader for these columns; PySpark would look for the active session first, which is eight calls of Java."""
    if is_connect(spark):
        return reader.schema(schema)
    reader._jreader = reader._jreader.schema(spark._jsparkSession.parseDataType(schema.json()))
    return reader


def read_with_misfits(
    spark: SparkSession, dataset: Dataset, location: str | list[str], schema: StructType, *, enforce: str = "true"
) -> DataFrame:
    """The same for files without types, with a column that holds each row whose values do not fit the schema.

    A header that differs is an error unless the schema is enforced: then its names were compared before.
    """
    options = {**read_options(dataset, has_schema=True), "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    options["enforceSchema"] = enforce
    whole = StructType([*schema.fields, StructField(CORRUPT, StringType())])
    return spark.read.format(format_of(dataset)).options(**options).schema(whole).load(location)


@dataclass(frozen=True)
class Malformed:
    """Rows whose values do not fit the declared types, each with what is wrong with it; how many; and what to release."""

    df: DataFrame
    rows: int
    kept: tuple[DataFrame, ...] = ()

    def __add__(self, other: Malformed) -> Malformed:
        """Those of two inputs, which may have other types under the same name: the reason holds the row itself."""
        both = self.df.select(BECAUSE).unionByName(other.df.select(BECAUSE))
        return Malformed(both, self.rows + other.rows, self.kept + other.kept)


def read_apart(
    spark: SparkSession,
    where: Project | Environment,
    dataset: Dataset,
    chunks: Sequence[InputChunk],
    *,
    are_placed: bool = False,
) -> tuple[DataFrame, Malformed] | None:
    """The rows of chunks of text that fit the declared schema, apart from those that do not.

    None where all rows fit, or where nothing has to be parsed. Both are kept in memory: Spark parses only the columns
    that are asked for, so that the same row could be good for one question and malformed for the next.
    """
    schema = declared_schema(dataset)
    if dataset.kind != "file" or format_of(dataset) not in UNTYPED or schema is None:
        return None
    unread = [chunk for chunk in chunks if chunk.manifest is None or chunk.manifest.rows is None]
    if not unread or not all(chunk.manifest or names_chunk(dataset, chunk.dataid) for chunk in chunks):
        return None
    locations = [
        (chunk.manifest.location if chunk.manifest else "") or resolve_location(where, dataset, chunk.dataid)
        for chunk in chunks
    ]
    if not are_placed:
        check_places(_environment(where), dataset, chunks, always=True)
    check_files(dataset, locations)
    whole = read_with_misfits(spark, dataset, locations, schema, enforce="false")
    is_bad, columns = F.col(CORRUPT).isNotNull(), [quoted(name) for name in schema.fieldNames()]
    # All columns are asked for, so that all are parsed.
    (found,) = whole.agg(F.count_if(is_bad), F.bit_xor(F.xxhash64(*columns))).collect()
    if not found[0]:
        return None
    whole = whole.persist()
    because = F.concat(F.lit(f"malformed {dataset.datasetid}: "), F.col(CORRUPT))
    bad = whole.where(is_bad).withColumn(BECAUSE, because)
    return whole.where(~is_bad).drop(CORRUPT), Malformed(bad.drop(CORRUPT), int(found[0]), (whole,))


def read_names(spark: SparkSession, dataset: Dataset, location: str) -> list[str]:
    """The names in the header of a csv chunk."""
    options = {**read_options(dataset, has_schema=False), "inferSchema": "false"}
    return spark.read.format(CSV).options(**options).load(location).columns


def declared_schema(dataset: Dataset) -> StructType | None:
    """The schema that the project declares; for files without types a check of the schema is one as well."""
    ddl = str(dataset.options.get("schema", ""))
    if not ddl and format_of(dataset) in UNTYPED:
        ddl = next((str(check.params["schema"]) for check in dataset.checks if check.kind == "schema"), "")
    return from_ddl(ddl, f"dataset {dataset.datasetid}: schema") if ddl else None


def _known_schema(dataset: Dataset, manifest: Manifest, pinned_schema: str) -> StructType | None:
    if manifest.schema:
        return from_ddl(manifest.schema)
    declared = declared_schema(dataset)
    if declared is None and pinned_schema and format_of(dataset) in UNTYPED:
        return from_ddl(pinned_schema)
    return declared


def _read_together(spark: SparkSession, dataset: Dataset, chunks: Sequence[InputChunk]) -> DataFrame | None:
    """One scan for many chunks that were published with the same schema, instead of a union of as many plans."""
    manifests = [chunk.manifest for chunk in chunks if chunk.manifest and chunk.manifest.location]
    schemas = {manifest.schema for manifest in manifests}
    if len(chunks) < 2 or len(manifests) < len(chunks) or len(schemas) != 1 or dataset.kind != "file":
        return None
    if format_of(dataset) in ("delta", "iceberg") or folder_columns(dataset):
        return None
    if len({is_ours(manifest) for manifest in manifests}) != 1:
        return None
    ddl, locations = schemas.pop(), [manifest.location for manifest in manifests]
    schema = from_ddl(ddl) if ddl else None
    for chunk in chunks:
        if chunk.manifest and chunk.manifest.rows is None:
            check_files(dataset, chunk.manifest.location)
            _check_columns(spark, dataset, chunk.dataid, chunk.manifest.location)
    return read_location(spark, dataset, locations, schema=schema, is_ours=is_ours(manifests[0]))


def _check_columns(spark: SparkSession, dataset: Dataset, dataid: str, location: str) -> None:
    """Refuse files with types that lack a declared column, where they were not looked into: Spark would read nulls."""
    declared = declared_schema(dataset)
    if declared is None or format_of(dataset) not in (PARQUET, ORC) or policy(dataset, "drift", "refuse") != ERROR:
        return
    found = schema_in_footer(spark, dataset, location) or read_location(spark, dataset, location).schema
    missing = [difference for difference in differences(declared, found) if difference.kind in (DROPPED, RENAMED)]
    if missing:
        raise NotValidated(
            f"{dataset.datasetid} {dataid}: drift: differences {', '.join(map(str, missing))}",
            hint=f"It is at {location}.",
        )


def _only(df: DataFrame, dataset: Dataset, chunk: InputChunk) -> DataFrame:
    condition = in_chunk(df.schema, dataset.partition, chunk.dataid, chunk.bounds)
    if condition is None:
        raise _unbounded(dataset, chunk.dataid)
    return df.where(condition)


def _unbounded(dataset: Dataset, dataid: str) -> BadConfig:
    where = "Write {dataid} into its location, or name" if dataset.kind == "file" else "Name"
    return BadConfig(
        f"dataset {dataset.datasetid}: nothing says which rows belong to dataid {dataid}",
        hint=f"{where} its column (and for ranges the bounds): partition = {{ type = …, column = … }}",
    )


def _table_rows(dataset: Dataset, chunk: InputChunk) -> RowRange:
    """Which rows of a table of PostgreSQL a chunk is."""
    from .postgres import EVERY_ROW, RowRange

    column = dataset.partition.column
    if column is None:
        return EVERY_ROW
    if dataset.partition.type == "text":
        return RowRange(column, equals=chunk.dataid)
    lower, upper = chunk.bounds or span(dataset.partition, chunk.dataid) or (None, None)
    if lower is None and upper is None:
        raise _unbounded(dataset, chunk.dataid)
    return RowRange(column, lower, upper)


def _read_table(spark: SparkSession, dataset: Dataset, chunk: InputChunk, password: Password) -> DataFrame:
    if dataset.format in POSTGRES:
        from .postgres import read_table

        rows = _table_rows(dataset, chunk)
        return read_table(spark, dataset, password(dataset), rows, partitions=partitions_of(dataset))
    if dataset.format == JDBC:
        from .jdbc import checked_bounds
        from .jdbc import read_table as read_jdbc

        checked_bounds(dataset, chunk.dataid, chunk.bounds)
        df = read_jdbc(spark, dataset, password(dataset))
    else:
        df = catalogue_table(spark, dataset)
    return df if dataset.partition.column is None else _only(df, dataset, chunk)


def catalogue_name(dataset: Dataset) -> str:
    """The name of a table of Spark's own catalogue, quoted as Spark wants it."""
    return ".".join(quoted(part.strip('"`')) for part in table_name(dataset).split("."))


def catalogue_table(spark: SparkSession, dataset: Dataset) -> DataFrame:
    """A table of Spark's own catalogue; InvalidPath when there is none."""
    name = catalogue_name(dataset)
    if not spark.catalog.tableExists(name):  # Spark would take text.passwd for the file passwd
        raise InvalidPath(f"dataset {dataset.datasetid}: there is no table {name}")
    return spark.table(name)


def _environment(where: Project | Environment) -> Environment:
    return where.environment if isinstance(where, Project) else where
