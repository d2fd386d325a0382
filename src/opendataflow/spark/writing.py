"""Writing: files of one epoch at a location of its own, and how many rows really got there."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from ..errors import JobFailed, NoSpace
from ..files.versions import another_version_location, is_plain
from ..model import Dataset, File
from .columns import column, type_of
from .files import exists, is_local
from .formats import CSV, JSON, ORC, PARQUET, TEXT, folder_columns, format_of, has_header, write_options

_LINES = (CSV, JSON, TEXT)
_PIECE = 1 << 20
_FULL = ("No space left on device", "Disk quota exceeded", "DSQuotaExceeded", "NSQuotaExceeded")


def free_location(spark: SparkSession, location: str) -> str:
    """The location, or another one where something is already: it belongs to somebody else, perhaps to an old store."""
    return another_version_location(location) if exists(spark, location) else location


def write_files(df: DataFrame, dataset: Dataset, location: str) -> None:
    """Write the rows to a folder that does not exist yet."""
    options = write_options(dataset)
    if not is_plain(dataset):
        # What is whole is what the store points to: nobody looks for a mark in the folder of a version.
        options = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false", **options}
    if is_local(location):
        os.makedirs(os.path.dirname(location), exist_ok=True)  # Hadoop starts a process for every folder that it makes
    try:
        folders = folder_columns(dataset)
        writer = _with_names(df, dataset, folders).write.format(format_of(dataset)).options(**options)
        (writer.partitionBy(*folders) if folders else writer).save(location)
    except AnalysisException:
        raise
    except Exception as problem:
        if any(words in str(problem) for words in _FULL):
            raise NoSpace(f"dataset {dataset.datasetid}: there is no space left at {location}") from problem
        raise


def _with_names(df: DataFrame, dataset: Dataset, folders: Sequence[str]) -> DataFrame:
    """The rows, with an error instead of an empty text that would name a folder: Spark would read it back as null."""
    texts = [name for name in folders if isinstance(type_of(df.schema, name), StringType)]
    for name in texts:
        value = column(df.schema, name)
        told = F.raise_error(F.lit(f"dataset {dataset.datasetid}: an empty text in {name} cannot name a folder"))
        df = df.withColumn(name, F.when(value == "", told.cast("string")).otherwise(value))
    return df


def rows_written(dataset: Dataset, location: str, files: Sequence[File]) -> int | None:
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
    if format_of(dataset) in _LINES and all(_is_plain_text(path) for path in paths):
        header = 1 if has_header(dataset) else 0
        return sum(max(_lines(path) - header, 0) for path in paths)
    return None


def check_nothing_split(dataset: Dataset, location: str, observed: int | None, written: int) -> None:
    """Refuse what reads back as more rows than were written; fewer only mean that Spark counted a task twice."""
    if observed is None or observed >= written or format_of(dataset) not in _LINES:
        return
    hints = {
        CSV: "A value may hold a line break. Set on the dataset: options = { multiLine = true }",
        TEXT: "A value holds a line break, which a text file cannot tell from the end of a row.",
    }
    raise JobFailed(
        f"dataset {dataset.datasetid}: {observed} rows were written to {location}, but {written} can be read there",
        hint=hints.get(format_of(dataset), ""),
    )


def _is_plain_text(path: str) -> bool:
    return path.endswith((".csv", ".json", ".txt"))


def _lines(path: str) -> int:
    count, last = 0, b"\n"
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(_PIECE), b""):
            count, last = count + piece.count(b"\n"), piece[-1:]
    return count if last == b"\n" else count + 1
