"""Sharding: the ranges of keys that part a table or file set evenly by its data, computed on Spark.

A small dataset is looked at whole. Of a large one a sample says where to cut, finer than asked; then one pass counts
what lies between the cuts, and the pieces are put together evenly: the counts are exact, whatever the sample was like.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from ..errors import DataNotReady, JobFailed, NotValidated, OdfError, UsageError
from ..model import Dataset
from ..model.bounds import Range, Size, after, ends, even
from ..project import Environment, Project, resolve_location
from .files import list_files
from .formats import POSTGRES
from .keys import RangeKey, as_text, bound_of, bucket, key_of, read_all
from .observing import Figures, computed
from .problems import SPARK_ERRORS, named_cause, reason_of
from .reading import Password

SAMPLE = 2_000_000  # up to this many keys are looked at one by one
_FINER, _MOST_CUTS = 10, 100_000
_SEED = 7


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


@dataclass(frozen=True, slots=True)
class _Looked:
    """What a look at all keys told: how many rows there are, and those that no known range holds."""

    rows: int
    sides: tuple[_Side, ...]

    @property
    def outside(self) -> int:
        return sum(side.rows for side in self.sides)

    @property
    def inside(self) -> int:
        return self.rows - self.outside


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
        looked = _looked_at(keys, key, dataset, known)
        all_bytes = partial(bytes_of, spark, where, dataset, password)
        asked = _asked(dataset, size, looked, len(known), all_bytes) if looked.sides else 0
        shards: list[Shard] = []
        for side in looked.sides:
            shards += _cut(keys, key, side, max(1, round(asked * side.rows / looked.outside)), sample)
        return Shards(name, key.kind, looked.rows, asked, tuple(shards))
    except SPARK_ERRORS as problem:
        raise unreadable(dataset, problem) from problem


def _looked_at(keys: DataFrame, key: RangeKey, dataset: Dataset, known: Sequence[Range]) -> _Looked:
    """How many rows there are, and what lies above and below the known ranges."""
    low, high = ends(known) if known else (None, None)
    value = key.value
    above = value >= key.literal(high) if high is not None else value.isNotNull()
    below = value < key.literal(low) if low is not None else F.lit(False)
    odd = F.lit(False)
    if key.kind in ("float", "double"):
        odd = F.isnan(value) | (F.abs(value) == F.lit(float("inf")))
    figures = {"total": F.count(F.lit(1)), "nulls": F.count_if(value.isNull()), "odd": F.count_if(odd)}
    for name, condition in (("above", above), ("below", below)):
        own = F.when(condition, value)
        figures |= {
            f"{name} rows": F.count_if(condition),
            f"{name} least": as_text(key.kind, F.min(own)),
            f"{name} greatest": as_text(key.kind, F.max(own)),
        }
    told = computed(keys, figures)
    nulls, odds = told["nulls"], told["odd"]
    if told["total"] == 0:
        raise DataNotReady(f"dataset {dataset.datasetid} has no rows: there is nothing to shard")
    if nulls or odds:
        what = (
            f"{nulls:,} rows have no {key.name}" if nulls else f"{odds:,} rows have a {key.name} that is not a number"
        )
        raise NotValidated(
            f"dataset {dataset.datasetid}: {what}, so no range can hold them",
            hint="Give them a key, or shard by a column that every row has: --by COLUMN",
        )
    sides = (_side(key, told, "above", lower=high), _side(key, told, "below", upper=low))
    return _Looked(told["total"], tuple(side for side in sides if side.rows))


def _side(key: RangeKey, told: Figures, name: str, *, lower: str | None = None, upper: str | None = None) -> _Side:
    rows, least, greatest = (told[f"{name} {figure}"] for figure in ("rows", "least", "greatest"))
    if not rows:
        return _Side(0, "", "")
    # The greatest key itself, for the bound goes right above it: a text may be a little less as a bound.
    last = greatest if key.kind == "text" else bound_of(key.kind, greatest)
    return _Side(rows, bound_of(key.kind, least), last, lower, upper)


def _asked(dataset: Dataset, size: Size, looked: _Looked, known: int, all_bytes: Callable[[], int]) -> int:
    """How many chunks the rows outside are asked to become."""
    if size.count:
        return size.count
    if size.bytes:
        return -(-all_bytes() * looked.outside // (looked.rows * size.bytes)) or 1
    rows = size.rows or (max(looked.inside // known, 1) if known else 0)
    if not rows:
        raise UsageError(
            f"how many chunks should dataset {dataset.datasetid} become?",
            hint="Say --count N, --rows N or --size 100MB, or declare count in its partition.",
        )
    return -(-looked.outside // rows)


def _cut(keys: DataFrame, key: RangeKey, side: _Side, parts: int, sample: int) -> list[Shard]:
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
    return [Shard(*shard) for shard in zip(lowers, uppers, counts, strict=True)]


def _quantiles(keys: DataFrame, key: RangeKey, parts: int) -> tuple[list[str], list[int]]:
    """The first key of each of at most so many even parts, and how many rows each part has."""
    in_order = Window.orderBy("key")
    everything = in_order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    parts_of_keys = (
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
    totals = [row["total"] for row in parts_of_keys]
    befores = [*(row["before"] for row in parts_of_keys), *totals[:1]]
    rows = [last - first for first, last in pairwise(befores)]
    return _ascending([bound_of(key.kind, row["text"]) for row in parts_of_keys], rows)


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


def _counted(keys: DataFrame, key: RangeKey, cuts: Sequence[str]) -> list[int]:
    """How many rows lie from each cut to the next; what lies below the first belongs to it too."""
    counts = keys.groupBy(bucket(key, cuts[1:]).alias("index")).count().collect()
    rows_between = {int(row["index"]): int(row["count"]) for row in counts}
    return [rows_between.get(index, 0) for index in range(len(cuts))]


def bytes_of(spark: SparkSession, where: Project | Environment, dataset: Dataset, password: Password) -> int:
    """How large the dataset is where it lies; UsageError when that is not known."""
    total = 0
    if dataset.kind == "file":
        total = sum(file.bytes for file in list_files(spark, resolve_location(where, dataset, "1")))
    elif dataset.format in POSTGRES:
        from .postgres.connection import address_of, connected, literal

        address = address_of(dataset, password(dataset))
        with connected(address, read_only=True) as connection:
            table = f"to_regclass({literal(address.target)})"
            parts = f"select sum(pg_table_size(relid)) from pg_partition_tree({table})"
            total = int(connection.value(f"select coalesce(nullif(({parts}), 0), pg_table_size({table}), 0)::int8"))
    if not total:
        raise UsageError(
            f"the size of dataset {dataset.datasetid} in bytes is not known", hint="Say --count N or --rows N instead."
        )
    return total


def unreadable(dataset: Dataset, problem: BaseException) -> OdfError:
    """The error when Spark cannot read the dataset."""
    return named_cause(problem) or JobFailed(f"dataset {dataset.datasetid} cannot be read: {reason_of(problem)}")
