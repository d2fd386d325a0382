"""Define the kinds of checks: their parameters, and how a project file declares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ...errors import OdfError
from ..duration import seconds
from .ids import check_id

Params = dict[str, object]
Require = Callable[[object], bool]


class CheckKind(NamedTuple):
    """A kind of check: its parameters, and its form in a project file."""

    needs: dict[str, Require]
    may_have: dict[str, Require]
    read: Callable[[object], list[Params] | None]
    write: Callable[[list[Params]], object]
    shape: str
    one_of: tuple[str, ...] = ()


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value.strip() != ""


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_scalar(value: object) -> bool:
    return isinstance(value, (str, int, float))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def _is_positive_count(value: object) -> bool:
    return _is_count(value) and _is_positive(value)


def _is_bound(value: object) -> bool:
    return _is_number(value) or _is_text(value)


def _are_columns(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_text, value)) and len(set(value)) == len(value)


def _are_values(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_scalar, value))


def _is_dataset(value: object) -> bool:
    return _holds(check_id, "dataset", value)


def _is_duration(value: object) -> bool:
    return _holds(seconds, value)


def _holds(check: Callable[..., object], *values: object) -> bool:
    try:
        check(*values)
    except OdfError:
        return False
    return True


# Readers of the declaration in a project file: the parameters, or None if the value has another form.


def _read_one(key: str) -> Callable[[object], list[Params] | None]:
    return lambda value: [{key: value}] if isinstance(value, str) else None


def _read_table(value: object) -> list[Params] | None:
    return [dict(value)] if isinstance(value, Mapping) else None


def _read_columns(value: object) -> list[Params] | None:
    return [{"columns": value}] if isinstance(value, list) and all(isinstance(v, str) for v in value) else None


def _read_keys(value: object) -> list[Params] | None:
    if isinstance(value, list) and value and all(isinstance(columns, list) for columns in value):
        return [{"columns": columns} for columns in value]
    return _read_columns(value)


def _read_flag(value: object) -> list[Params] | None:
    return ([{}] if value else []) if isinstance(value, bool) else None


def _by_column(shape: type, params: Callable[[str, object], Params]) -> Callable[[object], list[Params] | None]:
    def read(value: object) -> list[Params] | None:
        if not isinstance(value, Mapping) or not value or not all(isinstance(item, shape) for item in value.values()):
            return None
        return [params(column, value[column]) for column in sorted(value)]

    return read


def _reference(column: str, target: object) -> Params:
    # Ids may contain dots, columns may not.
    dataset, _, its_column = str(target).rpartition(".")
    return {"column": column, "dataset": dataset, "its_column": its_column}


def _read_datasets(value: object) -> list[Params] | None:
    if isinstance(value, str):
        return [{"dataset": value}]
    return [{"dataset": dataset} for dataset in value] if isinstance(value, list) and value else None


def _read_sql(value: object) -> list[Params] | None:
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list) and value and all(isinstance(expression, str) for expression in value):
        return [{"name": expression, "expression": expression} for expression in value]
    return _by_column(str, lambda name, expression: {"name": name, "expression": expression})(value)


def _write_first(key: str) -> Callable[[list[Params]], object]:
    return lambda params: params[0][key]


def _write_keys(params: list[Params]) -> object:
    return [item["columns"] for item in params]


def _write_by(key: str, item: Callable[[Params], object]) -> Callable[[list[Params]], object]:
    return lambda params: {str(param[key]): item(param) for param in params}


def _write_bounds(params: Params) -> object:
    return {key: params[key] for key in ("min", "max") if key in params}


def _write_reference(params: Params) -> object:
    return f"{params['dataset']}.{params['its_column']}"


def _write_table(params: list[Params]) -> object:
    return dict(params[0])


KINDS: dict[str, CheckKind] = {
    "schema": CheckKind(
        {"schema": _is_text}, {}, _read_one("schema"), _write_first("schema"), 'schema = "carrier string, delay double"'
    ),
    "rows": CheckKind(
        {},
        {"min": _is_count, "max": _is_count, "within_percent": _is_positive, "trailing": _is_positive_count},
        _read_table,
        _write_table,
        "rows = { min = 1, max = 1000 } or rows = { within_percent = 20, trailing = 7 }",
        one_of=("min", "max", "within_percent"),
    ),
    "not_null": CheckKind(
        {"columns": _are_columns}, {}, _read_columns, _write_first("columns"), 'not_null = ["carrier", "origin"]'
    ),
    "unique": CheckKind(
        {"columns": _are_columns}, {}, _read_keys, _write_keys, 'unique = ["id"] or unique = [["a", "b"], ["c"]]'
    ),
    "accepted": CheckKind(
        {"column": _is_text, "values": _are_values},
        {},
        _by_column(list, lambda column, values: {"column": column, "values": values}),
        _write_by("column", lambda params: params["values"]),
        'accepted = { carrier = ["AA", "UA"] }',
    ),
    "range": CheckKind(
        {"column": _is_text},
        {"min": _is_bound, "max": _is_bound},
        _by_column(Mapping, lambda column, bounds: {**bounds, "column": column}),  # type: ignore[dict-item]
        _write_by("column", _write_bounds),
        "range = { dep_delay = { min = -100, max = 3000 } }",
        one_of=("min", "max"),
    ),
    "regex": CheckKind(
        {"column": _is_text, "pattern": _is_text},
        {},
        _by_column(str, lambda column, pattern: {"column": column, "pattern": pattern}),
        _write_by("column", lambda params: params["pattern"]),
        'regex = { tailnum = "N.*" }',
    ),
    "span": CheckKind({}, {}, _read_flag, lambda params: True, "span = true"),
    "fresh": CheckKind(
        {"column": _is_text, "max_age": _is_duration},
        {},
        _read_table,
        _write_table,
        'fresh = { column = "ts", max_age = "36h" }',
    ),
    "references": CheckKind(
        {"column": _is_text, "dataset": _is_dataset, "its_column": _is_text},
        {},
        _by_column(str, _reference),
        _write_by("column", _write_reference),
        'references = { carrier = "airlines.carrier" }',
    ),
    "conserves": CheckKind(
        {"dataset": _is_dataset}, {}, _read_datasets, _write_first("dataset"), 'conserves = "flights_raw"'
    ),
    "sql": CheckKind(
        {"name": _is_text, "expression": _is_text},
        {},
        _read_sql,
        _write_by("name", lambda params: params["expression"]),
        'sql = ["dep_delay < 3000"] or sql = { short_delay = "dep_delay < 3000" }',
    ),
}
