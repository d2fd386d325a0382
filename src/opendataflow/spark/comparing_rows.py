"""Comparing rows: which rows of two versions of a chunk were added, removed or changed, by a key that they share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    IntegralType,
    LongType,
    MapType,
    ShortType,
    StructField,
    StructType,
    VariantType,
)

from ..errors import BadDefinition, OdfError, UsageError
from ..model import Dataset, InputChunk
from ..model.printable import one_line
from ..project import Project
from .columns import quoted
from .formats import format_of
from .problems import SPARK_ERRORS
from .reading import read_chunks
from .sharding import unreadable

LONGEST = 1000  # characters of a value
_REPEATED = 3  # keys that an error names
_SIDE, _ROWS, _OLD, _NEW = "side", "n", "in_old", "in_new"
_DIGITS: dict[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
_MOST_DIGITS = 38

Values = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class ChangedValue:
    """A value of one column before and after, as texts; None is null."""

    column: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A row that both versions have: its key, and what is not the same."""

    key: Values
    changed: tuple[ChangedValue, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """How many rows were added, removed, changed or stayed, how often each column changed, and examples in order of the key.

    What only one version has, what has another type there, and what Spark cannot compare is named and left out.
    """

    added: int
    removed: int
    changed: int
    unchanged: int
    by_column: Mapping[str, int]
    added_rows: tuple[Values, ...]
    removed_rows: tuple[Values, ...]
    changed_rows: tuple[ChangedRow, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    retyped: tuple[str, ...]
    not_comparable: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Pair:
    """A column of both versions, its two spellings, and the type that holds the values of both."""

    old: str
    new: str
    kind: DataType


@dataclass(frozen=True, slots=True)
class _Plan:
    key: tuple[_Pair, ...]
    values: tuple[_Pair, ...]

    def side(self, df: DataFrame, *, is_new: bool) -> DataFrame:
        """One version with columns that are named by their number: the names of the data may be anything."""
        letter, mark = ("b", _NEW) if is_new else ("a", _OLD)
        named = [*zip(_numbered("k", self.key), self.key, strict=True)]
        named += zip(_numbered(letter, self.values), self.values, strict=True)
        schema = df.schema
        columns = [_as(schema, pair.new if is_new else pair.old, pair.kind).alias(name) for name, pair in named]
        return df.select(*columns, F.lit(True).alias(mark))


def read_version(spark: SparkSession, project: Project, dataset: Dataset, chunk: InputChunk) -> DataFrame:
    """The rows of one published version of a chunk of files."""
    manifest = chunk.manifest
    if manifest is not None and manifest.format and manifest.format != format_of(dataset):
        raise BadDefinition(
            f"{chunk.datasetid} {chunk.dataid} version {chunk.version} is {manifest.format}, "
            f"and the dataset is {format_of(dataset)} now: its rows cannot be read",
            hint=f"See what was recorded: odf diff {chunk.datasetid} {chunk.dataid}",
        )
    try:
        return read_chunks(spark, project, dataset, [chunk], lambda dataset: "")
    except SPARK_ERRORS as problem:
        raise unreadable(dataset, problem) from problem


def compare_rows(
    dataset: Dataset, before: tuple[int, DataFrame], after: tuple[int, DataFrame], key: Sequence[str], most: int
) -> Compared:
    """Join two versions, each with its number, on a key that is unique in both; at most so many examples of each kind."""
    old, new = ({field.name.lower(): field for field in df.schema.fields} for _, df in (before, after))
    wanted = list(dict.fromkeys(name.lower() for name in key))
    pairs = {name: _pair(old[name], new[name]) for name in old if name in new}
    for name in wanted:
        if pairs[name] is None:
            raise _no_key(old[name], new[name], before[0], after[0])
    plan = _Plan(
        tuple(pair for name in wanted if (pair := pairs[name])),
        tuple(pair for field in after[1].schema.fields if (pair := _value(field, pairs, wanted))),
    )
    try:
        sides = plan.side(before[1], is_new=False), plan.side(after[1], is_new=True)
        rows = _checked_keys(plan, (before[0], after[0]), sides)
        differing = _differing(plan, *sides).persist()
        try:
            figures = _counted(plan, differing)
            examples = _examples(plan, differing, figures, most)
        finally:
            differing.unpersist()
    except SPARK_ERRORS as problem:
        raise unreadable(dataset, problem) from problem
    added, removed, changed, *by_column = figures
    unknown = [name for name, pair in pairs.items() if pair is None]
    return Compared(
        added,
        removed,
        changed,
        rows - removed - changed,
        {pair.new: n for pair, n in zip(plan.values, by_column, strict=True) if n},
        *examples,
        tuple(field.name for field in before[1].schema.fields if field.name.lower() not in new),
        tuple(field.name for field in after[1].schema.fields if field.name.lower() not in old),
        tuple(_retyped(old[name], new[name]) for name in unknown if not _is_odd(old[name], new[name])),
        tuple(new[name].name for name in unknown if _is_odd(old[name], new[name])),
    )


# Columns ---------------------------------------------------------------------------------------------------------------


def _pair(old: StructField, new: StructField) -> _Pair | None:
    kind = None if _is_odd(old, new) else _common(old.dataType, new.dataType)
    return _Pair(old.name, new.name, kind) if kind is not None else None


def _value(field: StructField, pairs: Mapping[str, _Pair | None], key: Sequence[str]) -> _Pair | None:
    return None if field.name.lower() in key else pairs.get(field.name.lower())


def _is_odd(old: StructField, new: StructField) -> bool:
    return _has_no_order(old.dataType) or _has_no_order(new.dataType)


def _has_no_order(kind: DataType) -> bool:
    """Whether values of a type, or of one inside it, cannot be compared by Spark: maps and variants."""
    if isinstance(kind, StructType):
        return any(_has_no_order(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _has_no_order(kind.elementType)
    return isinstance(kind, (MapType, VariantType))


def _common(old: DataType, new: DataType) -> DataType | None:
    """A type that holds the values of both as they are; None where values would have to be converted."""
    if old.simpleString() == new.simpleString():
        return new
    if isinstance(old, (FloatType, DoubleType)) and isinstance(new, (FloatType, DoubleType)):
        return DoubleType()
    if isinstance(old, IntegralType) and isinstance(new, IntegralType):
        return LongType()
    sizes = [_size(kind) for kind in (old, new)]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return None
    whole, scale = (max(each) for each in zip(*known, strict=True))
    return DecimalType(whole + scale, scale) if whole + scale <= _MOST_DIGITS else None


def _size(kind: DataType) -> tuple[int, int] | None:
    """The digits before and after the point."""
    if isinstance(kind, DecimalType):
        return kind.precision - kind.scale, kind.scale
    return (_DIGITS[type(kind)], 0) if type(kind) in _DIGITS else None


def _as(schema: StructType, name: str, kind: DataType) -> Column:
    value = F.col(quoted(name))
    return value if schema[name].dataType.simpleString() == kind.simpleString() else value.cast(kind)


def _retyped(old: StructField, new: StructField) -> str:
    return f"{new.name} was {old.dataType.simpleString()} and is {new.dataType.simpleString()}"


def _no_key(old: StructField, new: StructField, first: int, second: int) -> OdfError:
    if _is_odd(old, new):
        return UsageError(
            f"column {new.name} is {new.dataType.simpleString()}, which cannot be a key",
            hint="A key is made of columns that can be compared: --key COLUMN,…",
        )
    return UsageError(
        f"column {new.name} is {old.dataType.simpleString()} in version {first} and {new.dataType.simpleString()} in "
        f"version {second}: they cannot be compared",
        hint="Choose another key: --key COLUMN,…",
    )


def _numbered(letter: str, pairs: Sequence[_Pair]) -> list[str]:
    return [f"{letter}{index}" for index in range(len(pairs))]


# Keys ------------------------------------------------------------------------------------------------------------------


def _checked_keys(plan: _Plan, versions: tuple[int, int], sides: tuple[DataFrame, DataFrame]) -> int:
    """How many rows the older version has; UsageError unless each row of both has a key of its own."""
    names = _numbered("k", plan.key)
    both = [side.select(*names, F.lit(index).alias(_SIDE)) for index, side in enumerate(sides)]
    groups = both[0].unionByName(both[1]).groupBy(_SIDE, *names).agg(F.count(F.lit(1)).alias(_ROWS))
    has_null = F.lit(False)
    for name in names:
        has_null = has_null | F.col(name).isNull()
    repeats = (F.col(_ROWS) > 1) & ~has_null
    found = (
        groups.groupBy(_SIDE).agg(F.sum(_ROWS), F.sum(F.when(has_null, F.col(_ROWS))), F.count_if(repeats)).collect()
    )
    rows = 0
    problems = []
    for side, n, nulls, repeated in sorted(tuple(row) for row in found):
        rows = n if side == 0 else rows
        if nulls:
            problems.append(f"version {versions[side]} has {_rows(nulls)} with a null in it")
        if repeated:
            most = (
                groups.where(repeats & (F.col(_SIDE) == side))
                .orderBy(F.col(_ROWS).desc(), *names)
                .limit(_REPEATED)
                .select(*_texts(names, plan.key), _ROWS)
                .collect()
            )
            examples = " and ".join(f"{_key_text(plan, row)} ({_rows(row[_ROWS])})" for row in most)
            problems.append(f"in version {versions[side]}, {_values(repeated)} {examples}")
    if problems:
        raise UsageError(
            f"{', '.join(pair.new for pair in plan.key)} is not a key: {'; '.join(problems)}",
            hint="Name all columns that together tell each row from the others: --key COLUMN,…",
        )
    return int(rows)


def _rows(n: int) -> str:
    return f"{n:,} row{'s' * (n != 1)}"


def _values(n: int) -> str:
    return f"{n:,} {'value repeats:' if n == 1 else 'values repeat, for instance'}"


def _key_text(plan: _Plan, row: Row) -> str:
    values = (row[name] for name in _numbered("k", plan.key))
    return ", ".join(f"{pair.new} = {one_line(value)[:40]}" for pair, value in zip(plan.key, values, strict=True))


# Rows ------------------------------------------------------------------------------------------------------------------


def _differing(plan: _Plan, old: DataFrame, new: DataFrame) -> DataFrame:
    """The rows that are not the same in both, each with a flag c… for every column that changed."""
    is_in_both = F.col(_OLD).isNotNull() & F.col(_NEW).isNotNull()
    flags = {
        flag: is_in_both & ~F.col(a).eqNullSafe(F.col(b))
        for flag, a, b in zip(*(_numbered(letter, plan.values) for letter in "cab"), strict=True)
    }
    joined = old.join(new, _numbered("k", plan.key), "full_outer")
    flagged = joined.select("*", *(flag.alias(name) for name, flag in flags.items()))
    is_other = F.col(_OLD).isNull() | F.col(_NEW).isNull()
    for name in flags:
        is_other = is_other | F.col(name)
    return flagged.where(is_other)


def _counted(plan: _Plan, differing: DataFrame) -> list[int]:
    """Rows that were added, removed and changed, then how often each column changed."""
    added, removed = F.col(_OLD).isNull(), F.col(_NEW).isNull()
    flags = [F.count_if(F.col(flag)) for flag in _numbered("c", plan.values)]
    (row,) = differing.agg(F.count_if(added), F.count_if(removed), F.count_if(~added & ~removed), *flags).collect()
    return [int(figure) for figure in row]


def _examples(
    plan: _Plan, differing: DataFrame, figures: Sequence[int], most: int
) -> tuple[tuple[Values, ...], tuple[Values, ...], tuple[ChangedRow, ...]]:
    keys = _numbered("k", plan.key)
    old, new, flags = (_numbered(letter, plan.values) for letter in "abc")
    kinds = (F.col(_OLD).isNull(), F.col(_NEW).isNull(), F.col(_OLD).isNotNull() & F.col(_NEW).isNotNull())
    shown = [*_texts(keys, plan.key), *_texts(old, plan.values), *_texts(new, plan.values), *map(F.col, flags)]
    rows = [
        differing.where(kind).orderBy(*keys).limit(most).select(*shown).collect() if n else []
        for kind, n in zip(kinds, figures, strict=False)
    ]
    return (
        tuple({**_named(row, keys, plan.key), **_named(row, new, plan.values)} for row in rows[0]),
        tuple({**_named(row, keys, plan.key), **_named(row, old, plan.values)} for row in rows[1]),
        tuple(ChangedRow(_named(row, keys, plan.key), tuple(_cells(plan, row))) for row in rows[2]),
    )


def _cells(plan: _Plan, row: Row) -> Iterator[ChangedValue]:
    for index, pair in enumerate(plan.values):
        if row[f"c{index}"]:
            yield ChangedValue(pair.new, row[f"a{index}"], row[f"b{index}"])


def _named(row: Row, names: Sequence[str], pairs: Sequence[_Pair]) -> dict[str, str | None]:
    return {pair.new: row[name] for name, pair in zip(names, pairs, strict=True)}


def _texts(names: Sequence[str], pairs: Sequence[_Pair]) -> list[Column]:
    """Values as texts of a bounded length, bytes in hexadecimal digits."""
    return [
        _cut(F.hex(name) if isinstance(pair.kind, BinaryType) else F.col(name).cast("string")).alias(name)
        for name, pair in zip(names, pairs, strict=True)
    ]


def _cut(text: Column) -> Column:
    return F.when(F.length(text) > LONGEST, F.concat(text.substr(1, LONGEST), F.lit("…"))).otherwise(text)
