"""Reads column names, column types and row counts from files without Spark."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

from ..errors import NotValidated
from ..model import Dataset, Manifest
from .listing import filesystem_at


class FileColumns(NamedTuple):
    """The columns of one file with their types (empty if untyped), its number of rows, and its columns with nulls."""

    path: str
    columns: Mapping[str, str]
    rows: int | None = None
    nulls: frozenset[str] = frozenset()  # columns that are known to contain nulls, in lower case


def columns_of_files(dataset: Dataset, manifest: Manifest, required: Iterable[str]) -> list[FileColumns]:
    """The columns of the files of a chunk; empty if only Spark can read them.

    Each row of json may add columns: rows are read until every required column was found.
    """
    format = dataset.format or ("parquet" if dataset.options.get("schema") else "")
    read = _READERS.get(format)
    if read is None:
        return []
    with filesystem_at(manifest.location) as system:
        is_file = system.is_file(manifest.location)

        def opened() -> Iterator[tuple[str, BinaryIO]]:
            for file in manifest.files:
                path = manifest.location if is_file else posixpath.join(manifest.location, file.path)
                with system.open(path) as stream:
                    yield file.path, stream

        return read(opened(), reader_options(dataset), frozenset(name.lower() for name in required))


def reader_options(dataset: Dataset) -> dict[str, Any]:
    """The reader options of a dataset, with their names in lower case."""
    options = dataset.options.get("options")
    return {name.lower(): value for name, value in options.items()} if isinstance(options, Mapping) else {}


_Files = Iterator[tuple[str, BinaryIO]]


def _parquet(files: _Files, options: Mapping[str, Any], required: frozenset[str]) -> list[FileColumns]:
    from pyarrow.parquet import ParquetFile

    return [_footer(path, lambda stream=stream: ParquetFile(stream), "parquet") for path, stream in files]


def _orc(files: _Files, options: Mapping[str, Any], required: frozenset[str]) -> list[FileColumns]:
    from pyarrow.orc import ORCFile

    return [_footer(path, lambda stream=stream: ORCFile(stream), "orc") for path, stream in files]


def _footer(path: str, read: Any, format: str) -> FileColumns:
    from pyarrow import ArrowException

    try:
        file = read()
        schema = file.schema_arrow if format == "parquet" else file.schema
        rows = file.metadata.num_rows if format == "parquet" else file.nrows
        nulls = _with_nulls(file.metadata) if format == "parquet" else frozenset()
    except (ArrowException, OSError) as problem:
        reason = next(iter(str(problem).splitlines()), "")
        raise NotValidated(f"file {path} cannot be read as {format}: {reason}") from None
    columns = {**_in_path(path), **{field.name: arrow_type(field.type) for field in schema}}
    return FileColumns(path, columns, rows, nulls)


def _with_nulls(metadata: Any) -> frozenset[str]:
    """The columns of a parquet file that contain nulls by its footer."""
    found = set()
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            facts = column.statistics
            if facts is not None and facts.has_null_count and facts.null_count:
                found.add(column.path_in_schema.lower())
    return frozenset(found)


def _in_path(path: str) -> dict[str, str]:
    """Partition columns in the folder names of a path: carrier=AA/part.parquet."""
    folders = posixpath.dirname(path).split("/")
    return {folder.partition("=")[0]: "" for folder in folders if "=" in folder}


def arrow_type(kind: Any) -> str:
    """An Arrow type under its Spark name; empty if Spark has no equal type."""
    import pyarrow as pa

    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    return _TYPES.get(str(kind), "")


_TYPES = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "large_string": "string",
    "binary": "binary",
    "large_binary": "binary",
    "date32[day]": "date",
}


def _csv(files: _Files, options: Mapping[str, Any], required: frozenset[str]) -> list[FileColumns]:
    import csv

    if str(options.get("header", True)).lower() != "true" or "comment" in options:
        return []
    separator = str(options.get("sep", options.get("delimiter", ",")))
    found = []
    for path, stream in files:
        line = next(_lines(path, stream, options), "")
        if line and len(separator) == 1:
            try:
                names = next(csv.reader([line], delimiter=separator))
            except csv.Error:
                return []  # the reader reports the error
            found.append(FileColumns(path, {**_in_path(path), **dict.fromkeys(names, "")}))
    return found


def _json(files: _Files, options: Mapping[str, Any], required: frozenset[str]) -> list[FileColumns]:
    import json

    if "multiline" in options:
        return []
    columns: dict[str, str] = {}
    last = ""
    for last, stream in files:
        columns |= _in_path(last)
        for line in _lines(last, stream, options):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                return []  # the reader reports the error
            if isinstance(row, dict):
                columns |= dict.fromkeys(row, "")
            if required <= {name.lower() for name in columns}:
                return [FileColumns(last, columns)]
    return [FileColumns(last, columns)] if columns else []


def _lines(path: str, stream: BinaryIO, options: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a text file, plain or compressed with gzip or bzip2; none if it cannot be read."""
    import bz2
    import gzip
    import io

    suffix = posixpath.splitext(path)[1]
    unpack: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}
    if suffix in (".zst", ".lz4", ".snappy", ".deflate"):
        return
    unpacked = unpack[suffix](stream) if suffix in unpack else stream
    encoding = str(options.get("encoding", options.get("charset", "utf-8-sig")))
    try:
        while line := unpacked.readline(_LONGEST_LINE):
            if len(line) == _LONGEST_LINE:
                return
            if line.strip():
                yield line.decode(encoding).rstrip("\r\n")
    except (OSError, EOFError, ValueError, LookupError, io.UnsupportedOperation):
        return


_LONGEST_LINE = 1 << 20
_READERS = {"parquet": _parquet, "orc": _orc, "csv": _csv, "json": _json}
