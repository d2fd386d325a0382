"""Proving: how many rows of a dataset belong to each chunk and what their fingerprint is, in one pass over all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StringType, StructType

from ..errors import BadDefinition
from ..model import Dataset, InputChunk, Job, span
from ..model.bounds import Range, ends, order_by
from ..model.definitions.dataid import TYPES
from ..model.timezone import time_zone
from ..project import Environment, Project, resolve_location
from .columns import column, quoted, type_of
from .fingerprint import fingerprint_metrics, fingerprint_of
from .keys import RangeKey, bucket, key_of, read_all, shares_one_location
from .problems import SPARK_ERRORS
from .reading import Password, read_chunks
from .running import copied
from .sharding import unreadable

_LABEL, _FILE, _ROWS = "__odf_label", "__odf_file", "__odf_rows"
# What lies in no chunk has labels of its own.
BELOW, ABOVE, BETWEEN, WITHOUT = -1, -2, -3, -4
_OUTSIDE = {
    BELOW: "below the first chunk",
    ABOVE: "beyond the last chunk",
    BETWEEN: "between chunks",
    WITHOUT: "without a key",
}
_digits = re.compile("[^0-9]")


@dataclass(frozen=True, slots=True)
class Content:
    """What was found of one chunk; no fingerprint where there are no rows."""

    rows: int
    fingerprint: str | None


@dataclass(frozen=True, slots=True)
class Contents:
    """What was found of each chunk, and how many rows lie in none, by where."""

    chunks: Mapping[str, Content]
    outside: Mapping[str, int] = field(default_factory=dict)


def contents_of(
    spark: SparkSession,
    where: Project | Environment,
    dataset: Dataset,
    chunks: Sequence[InputChunk],
    groups: Mapping[str, str],
    password: Password,
    copy: Job | None = None,
    *,
    is_all: bool = True,
) -> Contents:
    """Rows and fingerprint of each group of chunks (dataid → group), as a copy would publish them.

    Without is_all, what lies in no chunk is not asked for, and less need be read.
    """
    names = sorted(set(groups.values()))
    indexes = {name: index for index, name in enumerate(names)}
    labels = {chunk.dataid: indexes[groups[chunk.dataid]] for chunk in chunks}
    try:
        if shares_one_location(dataset):
            labelled = _by_key(spark, where, dataset, chunks, labels, password, is_all)
        else:
            labelled = _by_file(spark, where, dataset, chunks, labels, password)
        contents = _figures(labelled, dataset, copy)
    except SPARK_ERRORS as problem:
        raise unreadable(dataset, problem) from problem
    nothing = Content(0, None)
    return Contents(
        {name: contents.get(index, nothing) for name, index in indexes.items()},
        {_OUTSIDE[label]: content.rows for label, content in sorted(contents.items(), reverse=True) if label < 0},
    )


def _figures(labelled: DataFrame, dataset: Dataset, copy: Job | None) -> dict[int, Content]:
    own = [name for name in labelled.columns if name not in (_LABEL, _FILE)]
    plain = labelled.select(*map(quoted, own))
    if copy is not None:
        plain = copied(copy, {dataset.datasetid: plain})[copy.outputs[0]]
        table: Any = copy.options["copy"]
        own = list(table.get("columns") or own)
    named = [F.col(quoted(old)).alias(new) for old, new in zip(own, plain.columns, strict=True)]
    metrics = {_ROWS: F.count(F.lit(1)), **fingerprint_metrics(plain.schema)}
    rows = (
        labelled.select(*named, _LABEL)
        .groupBy(_LABEL)
        .agg(*(metric.alias(name) for name, metric in metrics.items()))
        .collect()
    )
    contents = {}
    for row in rows:
        figures = row.asDict()
        count = int(figures[_ROWS])
        label = figures[_LABEL]
        content = Content(count, fingerprint_of(figures, count, plain.schema))
        contents[WITHOUT if label is None else int(label)] = content
    return contents


def _by_key(
    spark: SparkSession,
    where: Project | Environment,
    dataset: Dataset,
    chunks: Sequence[InputChunk],
    labels: Mapping[str, int],
    password: Password,
    is_all: bool,
) -> DataFrame:
    """All rows with the label of the range that holds their key."""
    if dataset.partition.column is None:
        raise BadDefinition(
            f"dataset {dataset.datasetid}: nothing says which rows belong to which chunk",
            hint="Name its column: partition = { type = …, column = … }",
        )
    if dataset.partition.type == "text":
        return _by_text(read_all(spark, where, dataset, password), dataset, labels)
    limits = {chunk.dataid: _limits(dataset, chunk) for chunk in chunks}
    rows = read_all(spark, where, dataset, password)
    key = _key(dataset, rows.schema, password)
    if not is_all and limits and (key.kind != "whole" or dataset.partition.type == "range"):
        whole = ends([Range(dataid, *pair) for dataid, pair in limits.items()])
        rows = read_all(spark, where, dataset, password, bounds=whole)
    ranges = {dataid: _comparable(dataset, key, dataid, pair) for dataid, pair in limits.items()}
    order = order_by(key.kind)
    cuts = sorted({bound for pair in ranges.values() for bound in pair}, key=order)
    indexes = {cut: index for index, cut in enumerate(cuts)}
    label_of = [BELOW, *(BETWEEN for _ in pairwise(cuts)), ABOVE]
    for dataid, (lower, upper) in ranges.items():
        for index in range(indexes[lower] + 1, indexes[upper] + 1):
            label_of[index] = labels[dataid]
    return rows.withColumn(_LABEL, F.get(_constant(label_of), bucket(key, cuts)))


def _constant(numbers: Sequence[int]) -> Column:
    return F.from_json(F.lit(json.dumps(list(numbers))), "array<int>")


def _by_text(rows: DataFrame, dataset: Dataset, labels: Mapping[str, int]) -> DataFrame:
    names = sorted(labels)
    known = F.from_json(F.lit(json.dumps(names)), "array<string>")
    value = column(rows.schema, str(dataset.partition.column)).cast("string")
    index = F.array_position(known, value) - F.lit(1)  # -1 for what is none of them
    label = F.coalesce(F.get(_constant([labels[name] for name in names]), index.cast("int")), F.lit(BETWEEN))
    return rows.withColumn(_LABEL, F.when(value.isNotNull(), label))


def _limits(dataset: Dataset, chunk: InputChunk) -> tuple[str, str]:
    lower, upper = chunk.bounds or span(dataset.partition, chunk.dataid) or (None, None)
    if lower is None or upper is None:
        raise BadDefinition(
            f"{dataset.datasetid} {chunk.dataid} has no bounds: nothing says which rows belong to it",
            hint=f"Forget its chunks (odf forget {dataset.datasetid} --all), then: odf shard {dataset.datasetid}",
        )
    return lower, upper


def _key(dataset: Dataset, schema: StructType, password: Password) -> RangeKey:
    """The key; texts that are moments compare as those where the dataset is partitioned by time."""
    name = str(dataset.partition.column)
    kind = type_of(schema, name)
    if TYPES[dataset.partition.type].is_time and isinstance(kind, StringType):
        value = column(schema, name)
        moment = F.coalesce(value.try_cast("timestamp_ntz"), F.concat(value, F.lit(":00")).try_cast("timestamp_ntz"))
        return RangeKey(name, "timestamp_ntz", "timestamp_ntz", moment)
    if dataset.partition.type == "hour" and isinstance(kind, DateType):
        raise BadDefinition(f"dataset {dataset.datasetid}: column {name} holds days, but the chunks are hours")
    return key_of(dataset, schema, name, password)


def _comparable(dataset: Dataset, key: RangeKey, dataid: str, limits: tuple[str, str]) -> tuple[str, str]:
    """The bounds of a chunk as the key is compared."""
    if not TYPES[dataset.partition.type].is_time:
        return limits
    if key.kind == "whole":  # 2025-11-12 is 20251112
        number = int(_digits.sub("", dataid))
        return str(number), str(number + 1)
    zone = dataset.options.get("timezone")
    if key.kind != "timestamp" or not zone:
        return limits
    first, last = (datetime.fromisoformat(limit).replace(tzinfo=time_zone(str(zone))) for limit in limits)
    return first.astimezone(UTC).isoformat(), last.astimezone(UTC).isoformat()


def _by_file(
    spark: SparkSession,
    where: Project | Environment,
    dataset: Dataset,
    chunks: Sequence[InputChunk],
    labels: Mapping[str, int],
    password: Password,
) -> DataFrame:
    """All rows with the label of the chunk in whose location their file lies."""
    rows = read_chunks(spark, where, dataset, chunks, password)
    locations = {}
    for chunk in chunks:
        location = chunk.manifest.location if chunk.manifest else ""
        locations[_path(location or resolve_location(where, dataset, chunk.dataid))] = labels[chunk.dataid]
    files = [(file, _label(_path(file), locations)) for file in rows.inputFiles()]
    known = spark.createDataFrame(files, f"{_FILE} string, {_LABEL} int")
    return rows.withColumn(_FILE, F.input_file_name()).join(F.broadcast(known), _FILE, "left")


def _path(address: str) -> str:
    if "://" not in address and not address.startswith("file:"):
        return address.rstrip("/")
    parts = urlsplit(address)
    return unquote(parts.path).rstrip("/")


def _label(path: str, locations: Mapping[str, int]) -> int:
    while path and path not in locations:
        path = path.rpartition("/")[0]
    return locations.get(path, BETWEEN)
