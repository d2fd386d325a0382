"""Runs the declared checks on small files without Spark, with the same results as on Spark."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from importlib.util import find_spec
from statistics import median
from typing import Any, NamedTuple

from ..errors import BadDefinition, NotValidated, OdfError
from ..model import CheckResult, Dataset, Manifest, span
from ..model.decision.remarks import described
from ..model.definitions.checks import WARN, policy
from ..model.definitions.dataid import TYPES
from ..model.definitions.ddl import column_differences, columns_of, required_of
from .quarantine import has_quarantine
from .rows import FORMATS, FileRows, NeedsSpark, options_for_spark, read_rows, typed_text
from .versions import names_chunk

EXAMPLES, LONGEST = 3, 40  # bad values in a check result, and characters of each
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "double")
_Verdict = tuple[bool, dict[str, object]]
_Judge = Callable[["_Subject", Mapping[str, Any]], _Verdict]


class ChecksFailed(NotValidated):
    """Checks of severity error failed; carries all results for the receipt."""

    def __init__(self, datasetid: str, dataid: str, results: Sequence[CheckResult], hint: str = "") -> None:
        self.datasetid, self.dataid = datasetid, dataid
        self.results = tuple(results)
        failed = "; ".join(described(result) for result in results if result.refuses)
        if drift := [result.figures for result in results if result.refuses and result.kind == "drift"]:
            way = "values do not fit the types of the columns; to see them"
            if any(figures.get("differences") for figures in drift):
                way = "to accept the new columns"
            failed += f" ({way}: odf schema {datasetid})"
        super().__init__(f"{datasetid} {dataid}: {failed}", hint=hint)


class _NoColumn(Exception):
    """The data has no column of these names."""


class _Subject(NamedTuple):
    dataset: Dataset
    dataid: str
    rows: FileRows
    earlier_rows: Sequence[int]

    def column(self, name: str) -> tuple[str, list[Any]] | None:
        """The type and the values of a column; None if it does not exist."""
        names = [known.lower() for known in self.rows.types]
        if name.lower() not in names:
            return None
        index = names.index(name.lower())
        return list(self.rows.types.values())[index], [row[index] for row in self.rows.values]

    def columns(self, *names: str) -> dict[str, tuple[str, list[Any]]]:
        """The types and the values of these columns; _NoColumn where one is missing."""
        found = {name: self.column(name) for name in names}
        if missing := [name for name, column in found.items() if column is None]:
            raise _NoColumn(*missing)
        return {name: column for name, column in found.items() if column is not None}


def spark_reason(dataset: Dataset) -> str:
    """The reason why the checks of a dataset always run on Spark; empty if small chunks are checked without it."""
    format = dataset.format or "parquet"
    kinds = [check.kind for check in dataset.checks if check.kind not in _JUDGES]
    if dataset.kind != "file" or format not in FORMATS:
        return f"its format is {format}"
    if kinds:
        return f"check {kinds[0]}"
    if has_quarantine(dataset):
        return "quarantine"
    if format == "parquet" and find_spec("pyarrow") is None:
        return "parquet, and pyarrow is not installed"
    return options_for_spark(dataset)


def checked_manifest(
    dataset: Dataset, dataid: str, seen: Manifest, pinned_schema: str = "", earlier_rows: Sequence[int] = ()
) -> Manifest:
    """The manifest with rows and check results; ChecksFailed if it may not be published, NeedsSpark if only Spark can check."""
    if reason := spark_reason(dataset):
        raise NeedsSpark(reason)
    if not names_chunk(dataset, dataid):
        raise NeedsSpark("its location is shared with other chunks")
    try:
        return _checked(dataset, dataid, seen, pinned_schema, earlier_rows)
    except (OdfError, NeedsSpark):
        raise
    except Exception as problem:  # values that Python cannot hold, such as a date before the year 1
        raise NeedsSpark(f"reading it without Spark failed with {type(problem).__name__}") from problem


def _checked(
    dataset: Dataset, dataid: str, seen: Manifest, pinned_schema: str, earlier_rows: Sequence[int]
) -> Manifest:
    ddl = _expected_ddl(dataset) or pinned_schema
    expected = _columns(ddl) if ddl else {}
    rows = read_rows(dataset, seen, expected if dataset.format in ("csv", "json") else {})
    subject = _Subject(dataset, dataid, rows, earlier_rows)
    results = [*_drift(subject, ddl), *_emptiness(subject)]
    for check in dataset.checks:
        try:
            passed, figures = _JUDGES[check.kind](subject, check.params)
        except _NoColumn as problem:
            passed, figures = False, {"missing": list(problem.args)}
        results.append(CheckResult(check.label, check.kind, check.severity, passed, figures))
    if any(result.refuses for result in results):
        raise ChecksFailed(dataset.datasetid, dataid, results)
    lower, upper = _span_of(subject)
    schema = ", ".join(f"{_quoted(name)} {kind.upper()}" for name, kind in rows.types.items())
    extra = {**seen.extra, "metrics": "read"}
    facts = replace(seen, rows=len(rows.values), schema=schema, span_lower=lower, span_upper=upper)
    return replace(facts, checks=tuple(results), extra=extra)


def _expected_ddl(dataset: Dataset) -> str:
    declared = str(dataset.options.get("schema", ""))
    if declared or dataset.format not in ("csv", "json"):
        return declared
    return next((str(check.params["schema"]) for check in dataset.checks if check.kind == "schema"), "")


def _columns(ddl: str) -> dict[str, str]:
    if re.search("(?i)ntz|ltz|char|collate|interval|void|variant", re.sub("`[^`]*`", "", ddl)):
        raise NeedsSpark("its schema has unusual types")
    columns = columns_of(ddl)
    if not columns or not all(columns.values()):
        raise NeedsSpark("its schema has nested types")
    return columns


def _quoted(name: str) -> str:
    return name if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"


def _drift(subject: _Subject, ddl: str) -> list[CheckResult]:
    if not ddl:
        return []
    severity = policy(subject.dataset, "drift", "refuse")
    differing, misfits = _differences(subject, ddl), subject.rows.misfits
    figures: dict[str, object] = {"differences": differing} if differing else {}
    if misfits:
        figures |= {"misfits": len(misfits), "example": max(misfits)[:200]}
    return [CheckResult("drift", "drift", severity or WARN, not figures or not severity, figures)]


def _emptiness(subject: _Subject) -> list[CheckResult]:
    if subject.rows.values:
        return []
    severity = policy(subject.dataset, "empty", WARN)
    return [CheckResult("empty", "empty", severity or WARN, not severity, {"rows": 0})]


def _differences(subject: _Subject, ddl: str) -> list[str]:
    """The differences between the columns and a schema, with the wording of Spark's audit."""
    before = {name.lower(): (name, kind) for name, kind in _columns(ddl).items()}
    after = {name.lower(): (name, kind) for name, kind in subject.rows.types.items()}
    dropped = [before[key] for key in before if key not in after]
    added = [after[key] for key in after if key not in before]
    differences = []
    for name, kind in list(dropped):
        same_type = [column for column in added if column[1] == kind]
        if len(same_type) == 1 and [other[1] for other in dropped].count(kind) == 1:
            dropped.remove((name, kind))
            added.remove(same_type[0])
            del before[name.lower()], after[same_type[0][0].lower()]
            differences.append(f"{name} renamed to {same_type[0][0]}?")
    differences += column_differences(dict(before.values()), dict(after.values()))
    columns = ((name, subject.column(name)) for name in required_of(ddl))
    return differences + [f"{name} was NOT NULL and has nulls" for name, found in columns if found and None in found[1]]


def _span_of(subject: _Subject) -> tuple[str | None, str | None]:
    name = subject.dataset.partition.column
    found = subject.column(name) if name else None
    values = [value for value in found[1] if value is not None] if found else []
    if found is None or not values:
        return None, None
    return _iso(_as_text(min(values), found[0])), _iso(_as_text(max(values), found[0]))


def _iso(text: str) -> str:
    return f"{text[:10]}T{text[11:]}" if len(text) > 11 and text[4:5] == "-" and text[10] == " " else text


# The kinds of checks ------------------------------------------------------------------------------------------------


def _schema(subject: _Subject, params: Mapping[str, Any]) -> _Verdict:
    texts = _differences(subject, str(params["schema"]))
    return not texts, {"differences": texts} if texts else {}


def _rows(subject: _Subject, params: Mapping[str, Any]) -> _Verdict:
    n = len(subject.rows.values)
    figures: dict[str, object] = {"rows": n, **params}
    passed = params.get("min", 0) <= n <= params.get("max", n)
    if "within_percent" in params:
        earlier = list(subject.earlier_rows)[: params["trailing"]]
        middle = float(median(earlier)) if earlier else None
        figures["median"] = middle
        if middle is not None:
            passed = passed and abs(n - middle) <= middle * params["within_percent"] / 100
    return passed, figures


def _not_null(subject: _Subject, params: Mapping[str, Any]) -> _Verdict:
    nulls = {name: values.count(None) for name, (_, values) in subject.columns(*params["columns"]).items()}
    return not any(nulls.values()), {"nulls": nulls}


def _unique(subject: _Subject, params: Mapping[str, Any]) -> _Verdict:
    columns = subject.columns(*params["columns"]).values()
    keys = Counter(key for key in zip(*(map(_key, values) for _, values in columns), strict=True) if None not in key)
    repeated = {key: n for key, n in keys.items() if n > 1}
    surplus = sum(repeated.values()) - len(repeated)
    figures: dict[str, object] = {"repeated_keys": len(repeated), "surplus_rows": surplus}
    if repeated:
        texts = (", ".join(map(_as_text, key, (kind for kind, _ in columns))) for key in repeated)
        figures["examples"] = [f"{{{text}}}"[:LONGEST] for text in texts][:EXAMPLES]
    return not repeated, figures


def _key(value: Any) -> Any:
    return 0.0 if isinstance(value, float) and not value else value  # Spark groups -0.0 with 0.0


def _accepted(subject: _Subject, params: Mapping[str, Any]) -> _Verdict:
    [(kind, values)] = subject.columns(params["column"]).values()
    accepted = params["values"]
    shapes: Any = {"string": str, "boolean": bool}.get(kind, (int, float) if kind in _NUMBERS else None)
    if shapes is None or not all(
        isinstance(each, shapes) and (kind == "boolean" or not isinstance(each, bool)) for each in accepted
    ):
        raise NeedsSpark(f"the accepted values of {params['column']} have another type")
    return _by_row(kind, [value for value in values if value is not None and value not in accepted])


def _range(subject: _Subject, params: Mapping[str, Any]) -> _Verdict:
    [(kind, values)] = subject.columns(params["column"]).values()
    low, high = params.get("min"), params.get("max")
    bounds = [bound for bound in (low, high) if bound is not None]
    are_texts = [isinstance(bound, str) for bound in bounds]
    number: Callable[[Any], Any] = lambda value: value  # noqa: E731  (the alternatives are functions too)
    if kind == "string" and not any(are_texts):
        number = lambda text: typed_text(text, "double")  # noqa: E731
    elif kind in ("date", "timestamp") and all(are_texts):
        low, high = (None if bound is None else typed_text(bound, kind) for bound in (low, high))
        if [low, high].count(None) > 2 - len(bounds):
            raise NeedsSpark(f"a bound of {params['column']} is not a {kind}")
    elif (kind == "string") != all(are_texts) or (kind != "string" and kind not in _NUMBERS):
        raise NeedsSpark(f"the bounds of {params['column']} have another type")

    def is_bad(value: Any) -> bool:
        compared = number(value)
        return compared is None or (low is not None and compared < low) or (high is not None and compared > high)

    bounds_given = {key: params[key] for key in ("min", "max") if key in params}
    return _by_row(kind, [value for value in values if value is not None and is_bad(value)], **bounds_given)


def _span(subject: _Subject, params: Mapping[str, Any]) -> _Verdict:
    partition = subject.dataset.partition
    if partition.column is None:
        raise BadDefinition(
            f"dataset {subject.dataset.datasetid}: the check span needs the partition column",
            hint='Declare it: partition = { type = "day", column = "flight_date" }',
        )
    [(kind, values)] = subject.columns(partition.column).values()
    limits = span(partition, subject.dataid)
    if partition.type != "text" and limits is None:
        return True, {"bounds": None}
    belongs = _belongs(subject, kind, limits)
    outside = sum(1 for value in values if value is None or not belongs(value))
    return not outside, {"violations": outside, "column": partition.column, "dataid": subject.dataid}


def _belongs(subject: _Subject, kind: str, limits: Any) -> Callable[[Any], bool]:
    """A predicate: whether a value of the partition column lies in the chunk."""
    partition, dataid = subject.dataset.partition, subject.dataid
    if partition.type == "text":
        return lambda value: _as_text(value, kind) == dataid
    lower, upper = limits
    if not TYPES[partition.type].is_time:
        if kind not in _NUMBERS:
            raise NeedsSpark(f"column {partition.column} is {kind}")
        try:
            least, end = Decimal(lower), Decimal(upper)
        except (InvalidOperation, TypeError):
            raise NeedsSpark(f"the bounds of {dataid} are not numbers") from None
        return lambda value: bool(least <= Decimal(value) < end)
    if kind in _NUMBERS[:-1]:
        number = int(re.sub("[^0-9]", "", dataid))
        return lambda value: bool(value == number)
    if kind == "date" and TYPES[partition.type].width > len("2025-11-12"):
        return lambda value: bool(value == date.fromisoformat(dataid[:10]))
    if kind not in ("date", "timestamp", "string"):
        raise NeedsSpark(f"column {partition.column} is {kind}")
    first, last = datetime.fromisoformat(lower), datetime.fromisoformat(upper)

    def is_within(value: Any) -> bool:
        if isinstance(value, str):
            if value == dataid:
                return True
            value = typed_text(value, "date" if len(value) == len("2025-11-12") else "timestamp")
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        return value is not None and bool(first <= value < last)

    return is_within


def _by_row(kind: str, bad: Sequence[Any], **details: object) -> _Verdict:
    figures: dict[str, object] = {"violations": len(bad), **details}
    if bad:
        texts = dict.fromkeys(_as_text(value, kind)[:LONGEST] for value in bad)
        figures["examples"] = sorted(list(texts)[:EXAMPLES])
    return not bad, figures


def _as_text(value: Any, kind: str) -> str:
    """A value as Spark writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat(" ").rstrip("0") if value.microsecond else value.isoformat(" ")
    if isinstance(value, float) and value and not 1e-3 <= abs(value) < 1e7:
        sign, digits, exponent = Decimal(repr(value)).as_tuple()
        shown = "".join(map(str, digits)).rstrip("0")
        power = len(digits) - 1 + int(exponent)
        return f"{'-' if sign else ''}{shown[0]}.{shown[1:] or '0'}E{power}"
    return str(value)


_JUDGES: dict[str, _Judge] = {
    "schema": _schema,
    "rows": _rows,
    "not_null": _not_null,
    "unique": _unique,
    "accepted": _accepted,
    "range": _range,
    "span": _span,
}
