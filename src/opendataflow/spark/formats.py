"""Formats: with which options each is read and written, unless the dataset says otherwise."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import BadConfig
from ..files.versions import is_one_file
from ..model import Dataset
from ..model.definitions.dataset import POSTGRES as POSTGRES
from ..model.definitions.ids import shown

CSV, JSON, TEXT, PARQUET, ORC, JDBC, POSTGRESQL = "csv", "json", "text", "parquet", "orc", "jdbc", "postgresql"
DEFAULT = PARQUET
_PARTITION_BY = "partitionby"  # Spark does not mind the case of options

# Their files say nothing about types: a schema comes from the project, from an earlier publish, or from guessing.
UNTYPED = (CSV, JSON)

# These bring back every row as it was written; what is written in another format is read back before it is published.
EXACT = (PARQUET, ORC, "delta", "iceberg")

# Quotes are doubled as RFC 4180 says, which loses nothing; Spark's own backslash does.
_CSV = {"header": "true", "escape": '"'}
# Spark's writer cuts blanks off, and its readers take a carriage return for the end of a line.
_EXACT = {"lineSep": "\n", "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
# Spark takes a column of this name for what could not be parsed, unless another name is set.
_CORRUPT = {"columnNameOfCorruptRecord": "__odf_corrupt"}
# Spark's own format for writing cuts microseconds; reading without one understands all of ISO 8601.
_NEVER_WRITTEN = "\ue000null"
_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def format_of(dataset: Dataset) -> str:
    """The format of a dataset's files."""
    return dataset.format or DEFAULT


def read_options(dataset: Dataset, *, has_schema: bool, is_ours: bool = False) -> dict[str, str]:
    """With which options the files of a dataset are read; ours are those that write_options wrote."""
    options: dict[str, str] = {}
    if format_of(dataset) == CSV:
        options = dict(_CSV)
        if is_ours:
            # We write an empty text as "" and null as nothing; others may mean null by both.
            options |= {**_EXACT, **_CORRUPT, "multiLine": "true", "nullValue": _NEVER_WRITTEN}
        if has_schema:
            # A header that does not fit the schema is an error, not a silent renaming.
            options["enforceSchema"] = "false"
        else:
            options["inferSchema"] = "true"
    elif is_ours and format_of(dataset) == JSON:
        options = dict(_CORRUPT)
    elif is_ours and format_of(dataset) == TEXT:
        options["lineSep"] = _EXACT["lineSep"]
    if format_of(dataset) in UNTYPED and has_schema:
        # A value that does not fit its type is an error, not a silent null.
        options["mode"] = "FAILFAST"
    return {**options, **declared_options(dataset)}


def write_options(dataset: Dataset) -> dict[str, str]:
    """With which options the files of a dataset are written."""
    options: dict[str, str] = {}
    if format_of(dataset) == CSV:
        options = {**_CSV, **_EXACT, **_TIMES}
    elif format_of(dataset) == JSON:
        options = {**_TIMES, "ignoreNullFields": "false"}
    elif format_of(dataset) == TEXT:
        options["lineSep"] = _EXACT["lineSep"]
    compression = dataset.options.get("compression")
    if compression:
        options["compression"] = str(compression)
    return {**options, **declared_options(dataset)}


def has_header(dataset: Dataset) -> bool:
    """Whether each file of the dataset begins with the names of its columns."""
    return format_of(dataset) == CSV and read_options(dataset, has_schema=True)["header"].lower() == "true"


def partitions_of(dataset: Dataset) -> int:
    """How many connections read a chunk of a table side by side."""
    declared = declared_options(dataset).get("partitions", "1")
    if not declared.isdigit() or int(declared) < 1:
        raise BadConfig(f"dataset {dataset.datasetid}: options.partitions is a number from 1, not {shown(declared)}")
    return int(declared)


def declared_options(dataset: Dataset) -> dict[str, str]:
    """What the project declares under options, for Spark's reader and writer."""
    table = dataset.options.get("options", {})
    if not isinstance(table, Mapping):
        raise BadConfig(f"dataset {dataset.datasetid}: options is a table, not {shown(table)}")
    return {key: _text(value) for key, value in table.items() if key.lower() != _PARTITION_BY}


def folder_columns(dataset: Dataset) -> list[str]:
    """The columns whose values are names of folders inside each chunk: what Spark's writer calls partitionBy."""
    table = dataset.options.get("options", {})
    values = (
        [value for key, value in table.items() if key.lower() == _PARTITION_BY] if isinstance(table, Mapping) else []
    )
    names = [each for value in values for each in (value if isinstance(value, (list, tuple)) else [value])]
    if any(not isinstance(name, str) or not name for name in names):
        raise BadConfig(
            f"dataset {dataset.datasetid}: options.partitionBy names columns, not {shown(values[0])}",
            hint='Write it like this: options = { partitionBy = ["carrier"] }',
        )
    if names and (dataset.kind != "file" or is_one_file(dataset)):
        raise BadConfig(
            f"dataset {dataset.datasetid}: options.partitionBy is for chunks that are folders of files",
            hint="Leave it out.",
        )
    return names


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
