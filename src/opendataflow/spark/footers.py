"""Footers: the columns that Spark wrote down in a parquet file, found without the job that it starts to look for them."""

from __future__ import annotations

import json
import os

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from .. import files
from ..model import Dataset
from .files import is_local
from .formats import PARQUET, declared_options, format_of
from .session import is_connect

_COLUMNS = b"org.apache.spark.sql.parquet.row.metadata"
_SUMMARIES = ("_common_metadata", "_metadata")  # Spark asks them first
_MERGED = "spark.sql.parquet.mergeSchema"


def schema_in_footer(spark: SparkSession, dataset: Dataset, location: str) -> StructType | None:
    """The columns that Spark would find at a location: those of the first file; None where only Spark itself can tell."""
    if format_of(dataset) != PARQUET or declared_options(dataset) or not is_local(location) or is_connect(spark):
        return None
    listed = files.list_files(location) or ()
    is_folder = os.path.isdir(location)
    if not listed or any("/" in file.path for file in listed):  # folders may hold values of columns
        return None
    if is_folder and any(os.path.exists(os.path.join(location, name)) for name in _SUMMARIES):
        return None
    try:
        from pyarrow.parquet import read_metadata

        found = read_metadata(os.path.join(location, listed[0].path) if is_folder else location).metadata or {}
        if _COLUMNS not in found or str(spark.conf.get(_MERGED)).lower() == "true":
            return None
        return StructType.fromJson(json.loads(found[_COLUMNS]))
    except Exception:
        return None  # encrypted, of another version, or no parquet: Spark says what it is
