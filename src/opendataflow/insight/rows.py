"""Where a published chunk lies, and its first rows."""

from __future__ import annotations

import bz2
import csv
import gzip
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from ..errors import DataNotReady, InvalidPath, MissingDependency, UsageError, install_command
from ..gate import place_of_input
from ..model import READY, DataLook, InputChunk, check_dataid, check_id
from ..model.definitions.dataset import table_location, table_name
from ..project import Project
from ..store import Store
from .read import format_errors, readable
from .words import state

_COLUMNAR = ("parquet", "orc")
_LONGEST_LINE = 10_000
_UNPACK: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """The version of a chunk that jobs read now, and where it is."""

    datasetid: str
    dataid: str
    version: int
    location: str
    format: str
    rows: int | None


def published(store: Store, project: Project, datasetid: str, dataid: str) -> ChunkPlace:
    """Where a READY chunk lies, inside the roots of this environment."""
    dataset = store.catalogue().dataset(check_id("dataset", datasetid))
    check_dataid(dataset.partition, dataid, datasetid)
    chunk = store.views.chunk(datasetid, dataid)
    if chunk is None or chunk.status != READY:
        raise DataNotReady(
            f"{datasetid} {dataid} {state(chunk.status if chunk else None)}",
            hint=f"See: odf explain {datasetid} {dataid}",
        )
    version = store.views.manifest(datasetid, dataid, chunk.version)
    manifest = version.manifest if version else None
    looked = place_of_input(project.environment, dataset, InputChunk(datasetid, dataid, chunk.version, manifest))
    if isinstance(looked, DataLook) and looked.problem:
        raise InvalidPath(f"{datasetid} {dataid}: {looked.problem}", hint=f"See: odf explain {datasetid} {dataid}")
    if dataset.tablename and not (manifest and manifest.location):  # a script loaded it
        location = table_location(dataset) if dataset.hostname else table_name(dataset)
    elif isinstance(looked, DataLook):
        location = str(looked.evidence["location"])
    else:
        raise UsageError(
            f"dataset {datasetid} has no location: it is only tracked", hint=f"See: odf datasets {datasetid}"
        )
    kind = (manifest.format if manifest else "") or dataset.format
    return ChunkPlace(datasetid, dataid, chunk.version, location, kind, manifest.rows if manifest else None)


@dataclass(frozen=True, slots=True)
class Head:
    """The first rows of a chunk: columns and rows, or the lines of a format that is text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    lines: tuple[str, ...] = ()


def head(store: Store, project: Project, datasetid: str, dataid: str, n: int) -> Head:
    """The first rows of a chunk that is READY and as it was published; without Spark."""
    dataset, [chunk] = readable(store, project, check_id("dataset", datasetid), [dataid])
    paths = _paths(chunk)
    if dataset.kind != "file" or not paths or not all(map(os.path.isfile, paths)):
        raise UsageError(
            f"{datasetid} {dataid} does not lie in files on this machine",
            hint=f"Read it with Spark: opendataflow.read({datasetid!r}, {dataid!r}, spark=spark)",
        )
    if dataset.format and dataset.format not in _COLUMNAR:
        options: Any = dataset.options.get("options") or {}
        header = int(dataset.format == "csv" and str(options.get("header", True)).lower() == "true")
        read = partial(_csv_rows, options) if dataset.format == "csv" else _lines
        first = islice(read(paths[0]), header)  # beside the rows, and not again for each file
        rows = (row for path in paths for row in islice(read(path), header, None))
        lines = (line for row in (*first, *islice(rows, n)) for line in row.split("\n"))
        return Head((), (), tuple(lines))
    try:
        from pyarrow import dataset as arrow
    except ImportError:
        raise MissingDependency("pyarrow is not installed", hint=f"Install it: {install_command('spark')}") from None
    with format_errors(dataset, chunk):
        table = arrow.dataset(paths, format=dataset.format or _COLUMNAR[0]).head(n)
    return Head(tuple(table.column_names), tuple(tuple(row.values()) for row in table.to_pylist()))


def _paths(chunk: InputChunk) -> list[str]:
    """The data files of a chunk, in order."""
    manifest = chunk.manifest
    if manifest is None or not manifest.location.startswith("/"):
        return []
    if not os.path.isdir(manifest.location):
        return [manifest.location]
    return [os.path.join(manifest.location, file.path) for file in manifest.files]


def _lines(path: str) -> Iterator[str]:
    unpack = _UNPACK.get(os.path.splitext(path)[1], open)
    with unpack(path, "rt", encoding="utf-8", errors="replace") as file:
        while line := file.readline(_LONGEST_LINE):
            yield line.rstrip("\n")


def _csv_rows(options: Mapping[str, object], path: str) -> Iterator[str]:
    """The rows of a csv file as they are written; one with a line break inside quotes takes several lines."""
    quote, escape = str(options.get("quote", '"')), str(options.get("escape", '"'))
    form: Any = {"delimiter": str(options.get("sep", options.get("delimiter", ","))), "quotechar": quote}
    form |= {} if escape == quote else {"escapechar": escape}
    read: list[str] = []

    def with_ends() -> Iterator[str]:
        for line in lines:
            read.append(line)
            yield f"{line}\n"

    lines = _lines(path)
    try:
        for _ in csv.reader(with_ends(), **form):
            yield "\n".join(read)
            read.clear()
    except (csv.Error, TypeError):  # options or fields that Python does not know: line by line
        yield from read
        yield from lines
