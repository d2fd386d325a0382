"""Parquet: the files of many small chunks, written by the tasks themselves in the pass that also knows each chunk.

Spark's own writer takes some 30 ms for a file, most of it for things that a file of a few hundred rows does not need.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ..errors import OdfError
from ..model import Dataset
from . import TAG
from .auditing import BAD, LOWER, ROWS, UPPER, Audit
from .columns import has_instants, quoted, type_of
from .files import is_local
from .fingerprint import PARTS, in_parts, row_hash
from .formats import PARQUET, format_of, write_options

_BAD, _HASH, _MOMENT = "__odf_bad", "__odf_hash", "__odf_moment"
_RESULT = ", ".join(
    [f"{TAG} string, path string, rows long, bad long, lower string, upper string", *(f"{name} long" for name in PARTS)]
)
_CODECS = ("snappy", "gzip", "zstd", "lz4", "none")
_AT_ONCE = 1 << 18  # rows of a chunk that are kept together before they are written
_PLAIN = (T.IntegralType, T.DecimalType, T.StringType, T.DateType, T.TimestampType, T.TimestampNTZType)
_WRITABLE = (*_PLAIN, T.BooleanType, T.FloatType, T.DoubleType, T.BinaryType)


@dataclass
class Written:
    """What tasks wrote of one chunk: the files, and what is known of the rows in them."""

    files: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    problem: OdfError | None = None  # why a reader would not get these rows


def is_for_tasks(spark: SparkSession, dataset: Dataset, location: str) -> bool:
    """Whether tasks can write the files of a dataset: parquet as it is, on a disk that they share with the driver."""
    return (
        format_of(dataset) == PARQUET
        and is_local(location)
        and str(spark.sparkContext.master).startswith("local")
        and set(write_options(dataset)) <= {"compression"}
        and _codec(dataset) in _CODECS
    )


def can_write(spark: SparkSession, audit: Audit, location: str) -> bool:
    """Whether tasks can write these chunks: columns that are plain, and nothing to know that only Spark computes."""
    dataset = audit.dataset
    known = {ROWS, LOWER, UPPER, *PARTS}
    key = type_of(audit.schema, dataset.partition.column) if dataset.partition.column else None
    return (
        is_for_tasks(spark, dataset, location)
        and set(audit.basic()) <= known
        and (key is None or isinstance(key, _PLAIN))
        and all(isinstance(field.dataType, _WRITABLE) for field in audit.schema.fields)
    )


def write_chunks(df: DataFrame, audit: Audit, bad: Column | None, location: str) -> dict[str, Written]:
    """Write rows that carry their dataid in TAG below a location: by dataid, what was written."""
    os.makedirs(location, exist_ok=True)
    columns = [F.col(quoted(name)) for name in audit.schema.fieldNames()]
    extra = {_BAD: F.lit(False) if bad is None else bad}
    if audit.has_fingerprint:
        extra[_HASH] = row_hash(audit.schema)
    key = audit.dataset.partition.column
    name = next((own for own in audit.schema.fieldNames() if key and own.lower() == key.lower()), None)
    seen = name
    if name is not None and isinstance(type_of(audit.schema, name), T.TimestampType):
        # Bounds are instants or of the session's time zone, and only Spark knows every name of one.
        is_instant, value = has_instants(audit.schema, audit.dataset.partition), F.col(quoted(name))
        extra[_MOMENT], seen = F.unix_micros(value) if is_instant else value.cast("timestamp_ntz"), _MOMENT
    rows = df.select(*columns, TAG).withColumns(extra)
    task = _Write(location, tuple(audit.schema.fieldNames()), seen, audit.has_fingerprint, _codec(audit.dataset))
    written: dict[str, Written] = {}
    for row in rows.mapInArrow(task.write_parquet, _RESULT).collect():
        chunk = written.setdefault(row[TAG], Written())
        chunk.files.append(row.path)
        _add(chunk.figures, row, audit, name)
    return written


def _add(figures: dict[str, Any], row: T.Row, audit: Audit, name: str | None) -> None:
    """Take in what one task knows of a chunk; several may have had a part of it."""
    figures[ROWS] = figures.get(ROWS, 0) + row.rows
    figures[BAD] = figures.get(BAD, 0) + row.bad
    if name is not None:
        is_number = isinstance(type_of(audit.schema, name), (T.IntegralType, T.DecimalType))
        order = Decimal if is_number or has_instants(audit.schema, audit.dataset.partition) else str
        for end, text, choose in ((LOWER, row.lower, min), (UPPER, row.upper, max)):
            known = [value for value in (figures.get(end), text) if value is not None]
            figures[end] = choose(known, key=order) if known else None
    if audit.has_fingerprint:
        for name in PARTS:
            figures[name] = figures.get(name, 0) + row[name]


def _codec(dataset: Dataset) -> str:
    wanted = write_options(dataset).get("compression", "snappy").lower()
    return "none" if wanted == "uncompressed" else wanted


@dataclass(frozen=True, slots=True)
class _Write:
    """Writes the rows that come in, a file for each chunk, under names that no other attempt has."""

    location: str
    columns: tuple[str, ...]
    key: str | None
    has_hash: bool
    codec: str

    def write_parquet(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        attempt = context.taskAttemptId() if context else 0
        open_files: dict[str, _File] = {}
        for batch in batches:
            for dataid, rows in _runs(batch):
                if dataid not in open_files:
                    path = os.path.join(self.location, f"{attempt}-{len(open_files)}.parquet")
                    open_files[dataid] = _File(path, self)
                open_files[dataid].add(rows)
        if not open_files:
            return
        answers = [(dataid, *file.close()) for dataid, file in open_files.items()]
        names = [part.split()[0] for part in _RESULT.split(", ")]
        kinds = [pa.string() if part.endswith("string") else pa.int64() for part in _RESULT.split(", ")]
        columns = [pa.array(values, kind) for values, kind in zip(zip(*answers, strict=True), kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, names=names)


class _File:
    """One file while it is written, and what is known of its rows."""

    def __init__(self, path: str, task: _Write) -> None:
        self.path, self.task = path, task
        self.waiting: list[Any] = []
        self.writer: Any = None
        self.held = self.rows = self.bad = 0
        self.hashes = [0] * len(PARTS)
        self.ends: list[Any] = []

    def add(self, rows: Any) -> None:
        self.waiting.append(rows)
        self.held += rows.num_rows
        if self.held >= _AT_ONCE:
            self.flush()

    def flush(self) -> None:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyarrow.parquet import ParquetWriter

        table = pa.Table.from_batches(self.waiting).combine_chunks()
        self.waiting, self.held = [], 0
        self.rows += table.num_rows
        self.bad += pc.sum(table.column(_BAD)).as_py() or 0
        if self.task.has_hash:
            hashes = table.column(_HASH).to_numpy()
            sums = [int(part.sum()) for part in in_parts(hashes.view(np.uint64))]
            self.hashes = [before + more for before, more in zip(self.hashes, sums, strict=True)]
        if self.task.key is not None:
            ends = pc.min_max(table.column(self.task.key)).as_py()
            self.ends += [end for end in ends.values() if end is not None]
        data = table.select(self.task.columns)
        if self.writer is None:
            self.writer = ParquetWriter(self.path, data.schema, compression=self.task.codec)
        self.writer.write_table(data)

    def close(self) -> tuple[Any, ...]:
        if self.waiting:
            self.flush()
        self.writer.close()
        ends = (_text(min(self.ends)), _text(max(self.ends))) if self.ends else (None, None)
        return self.path, self.rows, self.bad, *ends, *self.hashes


def _runs(batch: Any) -> Iterator[tuple[str, Any]]:
    """The rows of each chunk in a batch: neighbours are of the same chunk, mostly."""
    import pyarrow.compute as pc

    runs = pc.run_end_encode(batch.column(batch.schema.get_field_index(TAG)))
    start = 0
    for dataid, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield dataid, batch.slice(start, end - start)
        start = end


def _text(value: Any) -> str:
    """A value as Spark writes it."""
    from datetime import datetime

    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        text = value.isoformat(" ")
        return text.rstrip("0") if "." in text else text
    return str(value)
