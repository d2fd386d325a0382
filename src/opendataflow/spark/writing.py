"""Writing: files of one epoch at a location of its own, and how many rows really got there."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CalendarIntervalType,
    DataType,
    MapType,
    NullType,
    StringType,
    StructType,
    VariantType,
)

from ..errors import BadConfig, NoSpace, NotValidated
from ..files.versions import another_version_location, is_plain
from ..model import Dataset, ManifestFile
from .columns import column, type_of
from .files import exists, is_local
from .fingerprint import fingerprint_metrics
from .formats import CSV, EXACT, JSON, ORC, PARQUET, TEXT, folder_columns, format_of, write_options
from .observing import computed
from .problems import SPARK_ERRORS, reason_of
from .session import is_connect

_ANOTHER_FORMAT = 'Convert the column in the job, or use format = "parquet", which holds every value.'
# No format holds an interval that counts months and days together.
_NOT_HELD = {
    CSV: (BinaryType, ArrayType, MapType, StructType, VariantType, NullType),
    ORC: (VariantType, NullType),
}
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"  # how Spark calls the folder of rows whose value is null
_FULL = ("No space left on device", "Disk quota exceeded", "DSQuotaExceeded", "NSQuotaExceeded")


def free_location(spark: SparkSession, location: str, mark: str = "") -> str:
    """The location, or another one where something is already; on a disk of this machine, a folder made by this call.

    Nothing is in it but the mark, which says whose it is.
    """
    if not _is_made_here(spark, location):
        return another_version_location(location) if exists(spark, location) else location
    os.makedirs(os.path.dirname(location), exist_ok=True)
    wanted = location
    while True:
        try:
            os.mkdir(location)
        except FileExistsError:  # of another store on the same data, perhaps an old one
            location = another_version_location(wanted)
        else:
            if mark:
                os.mkdir(os.path.join(location, mark))
            return location


def write_mode(spark: SparkSession, location: str) -> str:
    """How Spark writes to a free location: where its folder was made here, that is there."""
    return "append" if _is_made_here(spark, location) else "error"


def _is_made_here(spark: SparkSession, location: str) -> bool:
    """Whether this process makes the folder of a version; a Connect server may have a disk of its own."""
    return is_local(location) and not is_connect(spark)


def write_files(df: DataFrame, dataset: Dataset, location: str) -> None:
    """Write the rows to a free location."""
    options = write_options(dataset)
    if not is_plain(dataset):
        # What is whole is what the store points to: no reader looks for a mark in the folder of a version.
        options = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false", **options}
    mode = write_mode(df.sparkSession, location)
    try:
        folders = folder_columns(dataset)
        writer = _with_names(df, dataset, folders).write.format(format_of(dataset)).mode(mode).options(**options)
        (writer.partitionBy(*folders) if folders else writer).save(location)
    except AnalysisException:
        raise
    except Exception as problem:
        if any(words in str(problem) for words in _FULL):
            raise NoSpace(f"dataset {dataset.datasetid}: there is no space left at {location}") from problem
        raise


def _with_names(df: DataFrame, dataset: Dataset, folders: Sequence[str]) -> DataFrame:
    """The rows, with an error instead of a text that would name the folder of null."""
    texts = [name for name in folders if isinstance(type_of(df.schema, name), StringType)]
    for name in texts:
        value = column(df.schema, name)
        for text, called in (("", "an empty text"), (_NULL_FOLDER, f"the text {_NULL_FOLDER}")):
            problem = f"dataset {dataset.datasetid}: {called} in {name} cannot name a folder"
            value = F.when(value == text, F.raise_error(F.lit(problem)).cast("string")).otherwise(value)
        df = df.withColumn(name, value)
    return df


def rows_written(dataset: Dataset, location: str, files: Sequence[ManifestFile]) -> int | None:
    """How many rows the files hold, where that is cheap to know without Spark; None where it is not."""
    if not is_local(location) or not os.path.exists(location):
        return None
    paths = [os.path.join(location, file.path) if os.path.isdir(location) else location for file in files]
    try:
        if format_of(dataset) == PARQUET:
            from pyarrow.parquet import read_metadata

            return sum(int(read_metadata(path).num_rows) for path in paths)
        if format_of(dataset) == ORC:
            from pyarrow.orc import ORCFile

            return sum(int(ORCFile(path).nrows) for path in paths)
    except Exception:
        return None  # encrypted, or no pyarrow: Spark itself will tell
    return None


def check_types(dataset: Dataset, schema: StructType) -> None:
    """Refuse columns that a format cannot hold, before anything is written."""
    format = format_of(dataset)
    folders = [name.lower() for name in folder_columns(dataset)]
    fields = [field for field in schema.fields if field.name.lower() not in folders]
    if format == TEXT and [type(field.dataType) for field in fields] != [StringType]:
        raise BadConfig(
            f"dataset {dataset.datasetid}: a text file holds one column of type string, "
            f"not {', '.join(f'{field.name} {field.dataType.simpleString()}' for field in fields)}",
            hint=_ANOTHER_FORMAT,
        )
    for field in fields:
        if not _holds(format, field.dataType):
            raise BadConfig(
                f"dataset {dataset.datasetid}: {format} cannot hold column {field.name}, "
                f"which is {field.dataType.simpleString()}",
                hint=_ANOTHER_FORMAT,
            )


def _holds(format: str, kind: DataType) -> bool:
    if isinstance(kind, (CalendarIntervalType, *_NOT_HELD.get(format, ()))):
        return False
    if isinstance(kind, StructType):
        return all(_holds(format, field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _holds(format, kind.elementType)
    if isinstance(kind, MapType):
        has_keys = format != JSON or isinstance(kind.keyType, StringType)
        return has_keys and _holds(format, kind.keyType) and _holds(format, kind.valueType)
    return True


def not_read_back(dataset: Dataset, dataid: str, written: DataFrame, back: DataFrame) -> NotValidated | None:
    """What was not read back as it was written; None where every row and column is the same."""
    metrics: dict[str, Column] = {"rows": F.count(F.lit(1))}
    for field in back.schema.fields:
        for name, metric in fingerprint_metrics(StructType([field])).items():
            metrics[f"{field.name} {name}"] = metric
    try:
        found = computed(back, metrics)
    except SPARK_ERRORS as problem:
        return _lost(dataset, dataid, f"they cannot be read: {reason_of(problem)}")
    expected = computed(written, metrics)
    if expected["rows"] != found["rows"]:
        return _lost(dataset, dataid, f"{expected['rows']:,} were written and {found['rows']:,} are read")
    changed = {name.rpartition(" ")[0]: None for name in metrics if expected[name] != found[name]}
    return _lost(dataset, dataid, f"the values of {', '.join(changed)} differ") if changed else None


def _lost(dataset: Dataset, dataid: str, how: str) -> NotValidated:
    what = f"{format_of(dataset)} does not bring back the rows as they were written"
    hint = (
        _ANOTHER_FORMAT
        if format_of(dataset) not in EXACT
        else "Convert the column in the job, or leave it out of partitionBy."
    )
    return NotValidated(f"{dataset.datasetid} {dataid}: {what}: {how}", hint=hint)
