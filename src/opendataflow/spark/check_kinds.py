"""Kinds of checks: what each declared one observes, which rows it takes for bad, and when it passes.

Null passes `accepted`, `range`, `regex` and `sql`, as it passes a CHECK of SQL: whether a value may be missing is for
`not_null` to say. `regex` must match the whole value. A row without its partition column lies in no chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import median
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, NumericType, StringType, StructType

from ..errors import BadDefinition
from ..model import Check, Dataset, seconds, span
from ..model.definitions.expression import check_expression
from .checking import Across, CheckFacts, Load, Probe, Verdict, any_of, key_of, null_counts, null_differences
from .columns import Bounds, column, in_chunk, literal, type_of
from .observing import Figures, computed
from .problems import SPARK_ERRORS, reason_of
from .schema import differences, from_ddl, not_null_columns

EXAMPLES, LONGEST = 3, 40


def probes(df: DataFrame, dataset: Dataset, dataid: str, bounds: Bounds | None = None) -> list[Probe]:
    """The declared checks of a dataset, made ready for this DataFrame."""
    chunk = _Subject(df, df.schema, dataset, dataid, bounds)
    return [_PREPARE[check.kind](chunk, check) for check in dataset.checks]


@dataclass(frozen=True)
class _Subject:
    df: DataFrame
    schema: StructType
    dataset: Dataset
    dataid: str
    bounds: Bounds | None


Prepare = Callable[[_Subject, Check], Probe]


def _missing(check: Check, *names: str) -> Probe:
    """A check of a column that is not there fails, and says so."""
    verdict = Verdict(False, {"missing": list(names)})
    return Probe(check, lambda figures, facts: verdict)


def _by_row(check: Check, bad: Callable[[], Column], value: Column | None = None, **told: object) -> Probe:
    """A check that looks at one row at a time: it passes when there is no bad one; some of the bad values are told."""
    name = f"bad {key_of(check)}"

    def judge(figures: Figures, facts: CheckFacts) -> Verdict:
        count = int(figures.get(name) or 0)
        found: dict[str, object] = {}
        if count and value is not None and not facts.rejected:  # rows that were kept aside are not staged
            shown = facts.staged().where(bad()).select(value.cast("string").substr(1, LONGEST).alias("value"))
            found = {"examples": sorted(row.value for row in shown.distinct().limit(EXAMPLES).collect())}
        return Verdict(count == 0, {"violations": count, **told, **found})

    return Probe(check, judge, lambda: {name: bad()}, is_by_row=True)


def _never_null(condition: Column, default: bool) -> Column:
    return F.coalesce(condition, F.lit(default))


def _schema(subject: _Subject, check: Check) -> Probe:
    expected = from_ddl(str(check.params["schema"]), f"dataset {subject.dataset.datasetid}: checks.schema")
    of_types = differences(expected, subject.schema)
    nulls = null_counts(subject.schema, not_null_columns(expected))

    def judge(figures: Figures, facts: CheckFacts) -> Verdict:
        texts = [str(difference) for difference in (*of_types, *null_differences(figures, nulls))]
        return Verdict(not texts, {"differences": texts} if texts else {})

    return Probe(check, judge, lambda: nulls)


def _rows(subject: _Subject, check: Check) -> Probe:
    params: Mapping[str, Any] = check.params

    def judge(figures: Figures, facts: CheckFacts) -> Verdict:
        told: dict[str, object] = {"rows": facts.rows, **params}
        passed = params.get("min", 0) <= facts.rows <= params.get("max", facts.rows)
        if "within_percent" in params:
            earlier = list(facts.earlier_rows)[: params["trailing"]]
            middle = float(median(earlier)) if earlier else None
            told["median"] = middle
            if middle is not None:
                passed = passed and abs(facts.rows - middle) <= middle * params["within_percent"] / 100
        return Verdict(passed, told)

    return Probe(check, judge)


def _not_null(subject: _Subject, check: Check) -> Probe:
    names = _texts(check.params["columns"])
    missing = [name for name in names if type_of(subject.schema, name) is None]
    if missing:
        return _missing(check, *missing)
    nulls = null_counts(subject.schema, names)

    def judge(figures: Figures, facts: CheckFacts) -> Verdict:
        counts = {name: int(figures.get(f"nulls {name}") or 0) for name in names}
        return Verdict(not any(counts.values()), {"nulls": counts})

    return Probe(check, judge, lambda: nulls, is_by_row=True)


def _accepted(subject: _Subject, check: Check) -> Probe:
    name, values = str(check.params["column"]), list(_items(check.params["values"]))
    kind = type_of(subject.schema, name)
    if kind is None:
        return _missing(check, name)
    value = column(subject.schema, name)
    if not _are_of(values, kind):
        value, values = value.cast("string"), [_as_text(accepted) for accepted in values]
    return _by_row(check, lambda: ~_never_null(value.isin(values), True), value)


def _range(subject: _Subject, check: Check) -> Probe:
    name = str(check.params["column"])
    kind = type_of(subject.schema, name)
    if kind is None:
        return _missing(check, name)
    value = shown = column(subject.schema, name)
    low, high = check.params.get("min"), check.params.get("max")
    bad = F.lit(False)
    if isinstance(kind, StringType) and not any(isinstance(bound, str) for bound in (low, high)):
        # Numbers that came as text; what is no number is outside every range.
        number, kind = value.try_cast("double"), NumericType()
        bad, value = value.isNotNull() & number.isNull(), number
    if low is not None:
        bad = bad | _never_null(value < literal(low, kind), False)
    if high is not None:
        bad = bad | _never_null(value > literal(high, kind), False)
    return _by_row(
        check, lambda: bad, shown, **{key: check.params[key] for key in ("min", "max") if key in check.params}
    )


def _regex(subject: _Subject, check: Check) -> Probe:
    name, pattern = str(check.params["column"]), str(check.params["pattern"])
    if type_of(subject.schema, name) is None:
        return _missing(check, name)
    value = column(subject.schema, name).cast("string")
    return _by_row(check, lambda: ~_never_null(value.rlike(rf"\A(?:{pattern})\z"), True), value, pattern=pattern)


def _span(subject: _Subject, check: Check) -> Probe:
    partition = subject.dataset.partition
    if partition.column is None:
        raise BadDefinition(
            f"dataset {subject.dataset.datasetid}: the check span needs the partition column",
            hint='Declare it: partition = { type = "day", column = "flight_date" }',
        )
    if type_of(subject.schema, partition.column) is None:
        return _missing(check, partition.column)
    if partition.type != "text" and subject.bounds is None and span(partition, subject.dataid) is None:
        return Probe(check, lambda figures, facts: Verdict(True, {"bounds": None}))

    def outside() -> Column:
        belongs = in_chunk(subject.schema, partition, subject.dataid, subject.bounds)
        return F.lit(False) if belongs is None else ~belongs

    return _by_row(check, outside, column=partition.column, dataid=subject.dataid)


def _fresh(subject: _Subject, check: Check) -> Probe:
    name, limit = str(check.params["column"]), seconds(check.params["max_age"])
    if type_of(subject.schema, name) is None:
        return _missing(check, name)
    metric = f"newest {name}"
    newest = F.unix_micros(F.max(column(subject.schema, name).try_cast("timestamp")))

    def judge(figures: Figures, facts: CheckFacts) -> Verdict:
        micros = figures[metric]
        told: dict[str, object] = {"newest": None, "max_age": check.params["max_age"]}
        if micros is None:
            return Verdict(False, told)
        moment = datetime.fromtimestamp(micros / 1e6, UTC)
        age = (facts.now - moment).total_seconds()
        return Verdict(age <= limit, {**told, "newest": moment.isoformat(), "age_seconds": round(age)})

    return Probe(check, judge, metrics={metric: newest})


def _unique(subject: _Subject, check: Check) -> Probe:
    names = _texts(check.params["columns"])
    missing = [name for name in names if type_of(subject.schema, name) is None]
    if missing:
        return _missing(check, *missing)

    def wrong(df: DataFrame, load: Load | None, by: Sequence[str]) -> DataFrame:
        keys = [f"k{index}" for index in range(len(names))]
        values = [column(df.schema, name).alias(key) for name, key in zip(names, keys, strict=True)]
        repeated = df.select(*by, *values).dropna(subset=keys).groupBy(*by, *keys).count().where("count > 1")
        return repeated.select(*by, "count", F.struct(*keys).alias("key"))

    metrics = {
        "repeated_keys": F.count(F.lit(1)),
        "surplus_rows": F.coalesce(F.sum(F.col("count") - 1), F.lit(0)),
        "examples": _examples(F.col("key")),
    }

    def mark(df: DataFrame, load: Load | None, to: str) -> DataFrame:
        keys = [column(df.schema, name) for name in names]
        count = F.count(F.lit(1)).over(Window.partitionBy(*keys))
        return df.withColumn(to, ~any_of(key.isNull() for key in keys) & (count > 1))  # whichever of them is right

    return _across(check, Across(wrong, metrics, mark), "repeated_keys")


def by_mark(probe: Probe, name: str) -> Probe:
    """A check that compares rows, as one of single rows: those that are marked are bad."""
    return _by_row(probe.check, lambda: F.col(name))


def _across(check: Check, across: Across, count: str) -> Probe:
    """A check that compares rows: it costs a pass of its own, unless one over many chunks has answered it."""

    def judge(figures: Figures, facts: CheckFacts) -> Verdict:
        if key_of(check) in facts.known:
            return _verdict(facts.known[key_of(check)], count)
        return _verdict(computed(across.wrong(facts.staged(), facts.load, ()), across.metrics), count)

    return Probe(check, judge, across=across)


def _examples(value: Column) -> Column:
    return F.slice(F.collect_list(value.cast("string").substr(1, LONGEST)), 1, EXAMPLES)


def _verdict(told: Figures, count: str) -> Verdict:
    """A check passes when there is nothing to count; examples are told when there is."""
    has_passed = told[count] == 0
    return Verdict(has_passed, {name: value for name, value in told.items() if name != "examples" or not has_passed})


def _references(subject: _Subject, check: Check) -> Probe:
    name, dataset, its_column = (str(check.params[key]) for key in ("column", "dataset", "its_column"))
    if type_of(subject.schema, name) is None:
        return _missing(check, name)

    def wrong(df: DataFrame, load: Load | None, by: Sequence[str]) -> DataFrame:
        assert load is not None
        other = load(dataset)
        values = df.select(*by, column(df.schema, name).alias("value")).dropna(subset=["value"])
        known = other.select(column(other.schema, its_column).alias("value")).dropna().distinct()
        return values.groupBy(*by, "value").count().join(known, "value", "left_anti")

    metrics = {
        "unknown_values": F.count(F.lit(1)),
        "rows": F.coalesce(F.sum("count"), F.lit(0)),
        "examples": _examples(F.col("value")),
    }

    def mark(df: DataFrame, load: Load | None, to: str) -> DataFrame:
        assert load is not None
        other, value, known = load(dataset), column(df.schema, name), F.col(f"{to}_known")
        values = other.select(column(other.schema, its_column).alias(f"{to}_known")).dropna().distinct()
        joined = df.join(values, value == known, "left")
        return joined.withColumn(to, value.isNotNull() & known.isNull()).drop(f"{to}_known")

    probe = _across(check, Across(wrong, metrics, mark), "unknown_values")

    def judge(figures: Figures, facts: CheckFacts) -> Verdict:
        if facts.load is None:
            return Verdict(False, {"unknown": f"no published chunk of {dataset} to compare with"})
        if key_of(check) not in facts.known and type_of(facts.load(dataset).schema, its_column) is None:
            return Verdict(False, {"missing": [f"{dataset}.{its_column}"]})
        return probe.judge(figures, facts)

    return replace(probe, judge=judge)


def _conserves(subject: _Subject, check: Check) -> Probe:
    def judge(figures: Figures, facts: CheckFacts) -> Verdict:
        rows_in = facts.rows_in(str(check.params["dataset"]))
        told = {"rows_in": rows_in, "rows_out": facts.rows, "rejected": facts.rejected}
        return Verdict(rows_in is not None and rows_in == facts.rows + facts.rejected, told)

    return Probe(check, judge)


def _sql(subject: _Subject, check: Check) -> Probe:
    expression = str(check.params["expression"])
    where = f"dataset {subject.dataset.datasetid}: checks.sql"
    # Where the definition came from does not matter here: this is where text becomes code.
    if subject.dataset.options.get("unsafe_sql") is not True:
        check_expression(expression, where)
    try:
        condition = F.expr(expression)
        if _is_by_row(subject.df, condition):
            return _by_row(check, lambda: ~_never_null(condition, True), expression=expression)
    except SPARK_ERRORS as problem:
        raise BadDefinition(f"{where}: {expression} does not work here: {reason_of(problem)}") from None
    metric = f"sql {expression}"

    def judge(figures: Figures, facts: CheckFacts) -> Verdict:
        return Verdict(figures[metric] is not False, {"expression": expression, "value": figures[metric]})

    return Probe(check, judge, metrics={metric: condition})


def _is_by_row(df: DataFrame, condition: Column) -> bool:
    """Whether the expression speaks of a row, and not of all of them: count(*) > 5 is no condition of a row."""
    try:
        # Connect knows the schema of a filter without asking its server; that of a projection it must ask for.
        return isinstance(df.where(condition).select(F.lit(1)).schema, StructType)
    except AnalysisException as problem:
        if problem.getCondition() in ("INVALID_WHERE_CONDITION", "GROUP_BY_AGGREGATE"):
            return False
        raise


_PREPARE: dict[str, Prepare] = {
    "schema": _schema,
    "rows": _rows,
    "not_null": _not_null,
    "unique": _unique,
    "accepted": _accepted,
    "range": _range,
    "regex": _regex,
    "span": _span,
    "fresh": _fresh,
    "references": _references,
    "conserves": _conserves,
    "sql": _sql,
}


def _texts(value: object) -> list[str]:
    return [str(item) for item in _items(value)]


def _items(value: object) -> Sequence[object]:
    return value if isinstance(value, (list, tuple)) else ()


def _are_of(values: list[object], kind: DataType) -> bool:
    if isinstance(kind, StringType):
        return all(isinstance(value, str) for value in values)
    if isinstance(kind, BooleanType):
        return all(isinstance(value, bool) for value in values)
    if isinstance(kind, NumericType):
        return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    return False


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
