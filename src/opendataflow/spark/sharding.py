"""Sharding: the ranges of keys that part a table or file set evenly by its data, computed on Spark.

A small dataset is looked at whole. Of a large one a sample says where to cut, finer than asked; then one pass counts
what lies between the cuts, and the pieces are put together evenly: the counts are exact, whatever the sample was like.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from ..errors import DataNotReady, JobFailed, NotValidated, OdfError, UsageError
from ..model import Dataset
from ..model.bounds import Range, after, ends, even
from ..project import Environment, Project, resolve_location
from .files import list_files
from .formats import POSTGRES
from .keys import Key, as_text, bound_of, bucket, key_of, read_all
from .postgres import named_error
from .problems import SPARK_ERRORS, reason_of
from .reading import Password

SAMPLE = 2_000_000  # up to this many keys are looked at one by one
_FINER, _MOST_CUTS = 10, 100_000
_SEED = 7


@dataclass(frozen=True, slots=True)
class Size:
    """How large a chunk is to be: so many of them, or so many rows or bytes each; as large as the others if none is set."""

    count: int | None = None
    rows: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Shard:
    """A range of keys, and how many rows it held when it was cut."""

    lower: str
    upper: str
    rows: int


@dataclass(frozen=True, slots=True)
class Shards:
    """What a dataset is cut into, in the order of its keys; what lies below all earlier chunks comes last."""

    column: str
    kind: str
    rows: int  # in the whole dataset
    asked: int
    shards: tuple[Shard, ...]


@dataclass(frozen=True, slots=True)
class _Side:
    """Keys that no chunk holds yet: how many rows, from which key to which, and bounds that are given already."""

    rows: int
    least: str
    greatest: str
    lower: str | None = None
    upper: str | None = None


def shards_of(
    spark: SparkSession,
    where: Project | Environment,
    dataset: Dataset,
    password: Password,
    size: Size,
    known: Sequence[Range] = (),
    *,
    sample: int = SAMPLE,
) -> Shards:
    """The ranges that hold every row which the known ones do not; none of them cuts through the rows of one key."""
    name = str(dataset.partition.column)
    try:
        keys = read_all(spark, where, dataset, password, columns=[name])
        key = key_of(dataset, keys.schema, name, password)
        total, inside, sides = _looked_at(keys, key, dataset, known)
        outside = sum(side.rows for side in sides)
        asked = _asked(spark, where, dataset, password, size, total, inside, outside, len(known)) if outside else 0
        found = []
        for side in sides:
            found += _cut(keys, key, side, max(1, round(asked * side.rows / outside)), sample)
        return Shards(name, key.kind, total, asked, tuple(found))
    except SPARK_ERRORS as problem:
        raise unreadable(dataset, problem) from problem


def _looked_at(keys: DataFrame, key: Key, dataset: Dataset, known: Sequence[Range]) -> tuple[int, int, list[_Side]]:
    """How many rows there are, how many of them known ranges hold, and what lies above and below those."""
    low, high = ends(known) if known else (None, None)
    value = key.value
    is_above = value >= key.literal(high) if high is not None else value.isNotNull()
    is_below = value < key.literal(low) if low is not None else F.lit(False)
    is_odd = F.lit(False)
    if key.kind in ("float", "double"):
        is_odd = F.isnan(value) | (F.abs(value) == F.lit(float("inf")))
    figures = [F.count(F.lit(1)), F.count_if(value.isNull()), F.count_if(is_odd)]
    for side in (is_above, is_below):
        own = F.when(side, value)
        figures += [F.count_if(side), as_text(key.kind, F.min(own)), as_text(key.kind, F.max(own))]
    row = keys.agg(*(figure.alias(f"f{index}") for index, figure in enumerate(figures))).collect()[0]
    total, nulls, odd = row[0], row[1], row[2]
    if total == 0:
        raise DataNotReady(f"dataset {dataset.datasetid} has no rows: there is nothing to shard")
    if nulls or odd:
        what = f"{nulls:,} rows have no {key.name}" if nulls else f"{odd:,} rows have a {key.name} that is no number"
        raise NotValidated(
            f"dataset {dataset.datasetid}: {what}, and no range would hold them",
            hint="Give them a key, or shard by a column that every row has: --by COLUMN.",
        )
    sides = [_side(key, *row[3:6], lower=high), _side(key, *row[6:9], upper=low)]
    there = [side for side in sides if side is not None]
    return total, total - sum(side.rows for side in there), there


def _side(key: Key, rows: int, least: str, greatest: str, **given: str | None) -> _Side | None:
    if not rows:
        return None
    # The greatest key itself, for the bound goes right above it: a text may be a little less as a bound.
    return _Side(
        rows, bound_of(key.kind, least), greatest if key.kind == "text" else bound_of(key.kind, greatest), **given
    )


def _asked(
    spark: SparkSession,
    where: Project | Environment,
    dataset: Dataset,
    password: Password,
    size: Size,
    total: int,
    inside: int,
    outside: int,
    chunks: int,
) -> int:
    """How many chunks the rows outside are asked to become."""
    if size.count:
        return size.count
    if size.bytes:
        return -(-bytes_of(spark, where, dataset, password) * outside // (total * size.bytes)) or 1
    rows = size.rows or (max(inside // chunks, 1) if chunks else 0)
    if not rows:
        raise UsageError(
            f"into how many chunks is {dataset.datasetid} to be cut?",
            hint="Say --count N, --rows N or --size 100MB, or write count into its partition.",
        )
    return -(-outside // rows)


def _cut(keys: DataFrame, key: Key, side: _Side, parts: int, sample: int) -> list[Shard]:
    """One side in at most so many even ranges."""
    # Rows that arrive while we look are left to the next time.
    scope = keys.where((key.value >= key.literal(side.least)) & (key.value <= key.literal(side.greatest)))
    is_small = side.rows <= sample
    some = scope if is_small else scope.sample(fraction=sample / side.rows, seed=_SEED)
    cuts, rows = _quantiles(some, key, parts if is_small else max(parts, min(parts * _FINER, _MOST_CUTS)))
    if not is_small:
        rows = _counted(scope, key, cuts)
    starts = [*even(rows, parts), len(rows)]
    inner = [cuts[index] for index in starts[1:-1]]
    lowers = [side.least if side.lower is None else side.lower, *inner]
    uppers = [*inner, after(key.kind, side.greatest) if side.upper is None else side.upper]
    counts = [sum(rows[first:last]) for first, last in pairwise(starts)]
    return [Shard(*each) for each in zip(lowers, uppers, counts, strict=True)]


def _quantiles(keys: DataFrame, key: Key, parts: int) -> tuple[list[str], list[int]]:
    """The first key of each of at most so many even parts, and how many rows each part has."""
    in_order = Window.orderBy("key")
    everything = in_order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    found = (
        keys.groupBy(key.value.alias("key"))
        .agg(F.count(F.lit(1)).alias("n"))
        .withColumn("before", F.sum("n").over(in_order) - F.col("n"))
        .withColumn("total", F.sum("n").over(everything))
        .withColumn("part", F.expr(f"before * {parts}L div total"))
        .withColumn("last", F.lag("part").over(in_order))
        .where("last is null or part > last")
        .select(as_text(key.kind, F.col("key")).alias("text"), "before", "total")
        .orderBy("before")
        .collect()
    )
    befores = [*(row["before"] for row in found), found[0]["total"] if found else 0]
    rows = [last - first for first, last in pairwise(befores)]
    return _ascending([bound_of(key.kind, row["text"]) for row in found], rows)


def _ascending(cuts: list[str], rows: list[int]) -> tuple[list[str], list[int]]:
    """Without a cut that became the same as the one before when it was written as text."""
    kept_cuts: list[str] = []
    kept_rows: list[int] = []
    for cut, n in zip(cuts, rows, strict=True):
        if kept_cuts and cut == kept_cuts[-1]:
            kept_rows[-1] += n
        else:
            kept_cuts.append(cut)
            kept_rows.append(n)
    return kept_cuts, kept_rows


def _counted(keys: DataFrame, key: Key, cuts: Sequence[str]) -> list[int]:
    """How many rows lie from each cut to the next; what lies below the first belongs to it too."""
    counts = keys.groupBy(bucket(key, cuts[1:]).alias("index")).count().collect()
    found = {int(row["index"]): int(row["count"]) for row in counts}
    return [found.get(index, 0) for index in range(len(cuts))]


def bytes_of(spark: SparkSession, where: Project | Environment, dataset: Dataset, password: Password) -> int:
    """How large the dataset is where it lies; UsageError when nobody knows."""
    found = 0
    if dataset.kind == "file":
        found = sum(file.bytes for file in list_files(spark, resolve_location(where, dataset, "1")))
    elif dataset.format in POSTGRES:
        from .postgres.connection import address_of, connected, literal

        address = address_of(dataset, password(dataset))
        with connected(address, read_only=True) as connection:
            table = f"to_regclass({literal(address.target)})"
            parts = f"select sum(pg_table_size(relid)) from pg_partition_tree({table})"
            found = int(connection.value(f"select coalesce(nullif(({parts}), 0), pg_table_size({table}), 0)::int8"))
    if not found:
        raise UsageError(
            f"nobody knows how many bytes dataset {dataset.datasetid} has", hint="Say --count N or --rows N instead."
        )
    return found


def unreadable(dataset: Dataset, problem: BaseException) -> OdfError:
    """What is told when Spark cannot read the dataset."""
    return named_error(problem) or JobFailed(f"dataset {dataset.datasetid} cannot be read: {reason_of(problem)}")
