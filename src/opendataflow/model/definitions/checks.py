"""Parse the checks of a dataset as data; they run where the data is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...errors import BadConfig, BadDefinition
from ..plain import plain, plain_table, within
from .check_kinds import KINDS, Params
from .ids import shown

if TYPE_CHECKING:
    from .dataset import Dataset

ERROR = "error"
WARN = "warn"
TRAILING = 7  # the default number of earlier chunks for the median of rows


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that every chunk must satisfy before it is published."""

    kind: str
    params: Mapping[str, object] = field(default_factory=dict, hash=False)
    severity: str = ERROR

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise BadDefinition(f"there is no check {shown(self.kind)}", hint=f"The checks are {', '.join(KINDS)}.")
        _check_severity(self.kind, self.severity)
        object.__setattr__(self, "params", _checked_params(self.kind, plain_table(self.params, self.kind)))

    @property
    def label(self) -> str:
        """A short name: not_null(carrier)."""
        names = (self.params.get(key) for key in ("column", "columns", "dataset", "name") if key in self.params)
        words = [", ".join(map(str, name)) if isinstance(name, list) else str(name) for name in names]
        return f"{self.kind}({words[0]})" if words else self.kind


def _check_severity(kind: str, severity: object) -> str:
    if severity in (ERROR, WARN):
        return str(severity)
    raise BadDefinition(
        f"{kind}: there is no severity {shown(severity)}",
        hint="Write error or warn. A column called severity goes into a table under the key value.",
    )


def _checked_params(name: str, params: Params) -> Params:
    kind = KINDS[name]
    known = {**kind.needs, **kind.may_have}
    for key, value in params.items():
        if key not in known:
            raise BadDefinition(
                f"{name} has no {shown(key)}", hint=f"It may have {', '.join(known) or 'no parameters'}."
            )
        if not known[key](value):
            raise BadDefinition(f"{name}: {shown(value)} is not a valid {key}", hint=f"Write {kind.shape}.")
    missing = [key for key in kind.needs if key not in params]
    if missing or (kind.one_of and not any(key in params for key in kind.one_of)):
        wanted = " and ".join(missing) or " or ".join(kind.one_of)
        raise BadDefinition(f"{name} needs {wanted}", hint=f"Write {kind.shape}.")
    low, high = params.get("min"), params.get("max")
    if low is not None and high is not None and (isinstance(low, str) != isinstance(high, str) or low > high):  # type: ignore[operator]
        raise BadDefinition(f"{name}: min {shown(low)} is not below max {shown(high)}")
    if "within_percent" in params:
        params.setdefault("trailing", TRAILING)
    elif "trailing" in params:
        raise BadDefinition(f"{name}: trailing has no meaning without within_percent", hint=f"Write {kind.shape}.")
    return {key: params[key] for key in known if key in params}


def policy(dataset: Dataset, option: str, default: str) -> str:
    """The severity of drift or of an empty chunk in this dataset: error, warn, or "" if allowed."""
    declared = dataset.options.get(option, default)
    if not isinstance(declared, (str, bool)) or declared not in _POLICIES:
        raise BadConfig(
            f"dataset {dataset.datasetid}: {option} cannot be {shown(declared)}",
            hint='Use "refuse", "warn" or "allow".',
        )
    return _POLICIES[declared]


_POLICIES = {"refuse": ERROR, "error": ERROR, False: ERROR, "warn": WARN, "allow": "", True: ""}


def in_order(checks: Iterable[Check]) -> tuple[Check, ...]:
    """The checks sorted by kind, each kind in declared order, so that equal declarations are equal data."""
    position = list(KINDS).index
    return tuple(sorted(checks, key=lambda check: position(check.kind)))


def parse_checks(data: Mapping[str, object], where: str) -> tuple[Check, ...]:
    """The checks that a project file declares for a dataset."""
    if not isinstance(data, Mapping):
        raise BadDefinition(f"{within(where)}checks must be a table, not {shown(data)}")
    checks: list[Check] = []
    for kind, value in data.items():
        if kind not in KINDS:
            raise BadDefinition(
                f"{within(where)}there is no check {shown(kind)}", hint=f"The checks are {', '.join(KINDS)}."
            )
        for declaration in _declarations(value):
            checks.extend(_parse(kind, declaration, where))
    return in_order(checks)


def _declarations(value: object) -> list[object]:
    """No kind has a list of tables as value, so such a list declares the kind several times."""
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        return list(value)
    return [value]


def _parse(kind: str, value: object, where: str) -> list[Check]:
    key = f"{where}.{kind}" if where else kind
    value, severity = _severity_apart(kind, plain(value, key))
    try:
        severity = _check_severity(kind, severity)
        declared = KINDS[kind].read(value)
        if declared is None:
            raise BadDefinition(f"{shown(value)} is not a valid value of {kind}", hint=f"Write {KINDS[kind].shape}.")
        return [Check(kind, params, severity) for params in declared]
    except BadDefinition as problem:
        raise BadDefinition(f"{key}: {problem.message}", hint=problem.hint) from None


def _severity_apart(kind: str, value: object) -> tuple[object, object]:
    if not isinstance(value, Mapping):
        return value, ERROR
    # `value` may be the name of a column: it wraps the declaration only if its value has the form of the kind.
    if "value" in value and set(value) <= {"value", "severity"} and KINDS[kind].read(value["value"]) is not None:
        return value["value"], value.get("severity", ERROR)
    return {key: item for key, item in value.items() if key != "severity"}, value.get("severity", ERROR)


def checks_to_data(checks: Iterable[Check]) -> dict[str, object]:
    """Plain data in the form that parse_checks reads."""
    by_kind: dict[str, list[Check]] = {}
    for check in in_order(checks):
        by_kind.setdefault(check.kind, []).append(check)
    data: dict[str, object] = {}
    for kind, some in by_kind.items():
        whole = _declared(kind, some)
        if _reads_back(kind, whole, some):
            data[kind] = whole
        else:
            data[kind] = [_wrapped(kind, check) for check in some]
    return data


def _declared(kind: str, checks: list[Check]) -> object:
    params = [dict(check.params) for check in checks]
    if kind == "sql" and all(item["name"] == item["expression"] for item in params):
        value: object = [item["expression"] for item in params]
    else:
        value = KINDS[kind].write(params)
    return value if checks[0].severity == ERROR else {"value": value, "severity": checks[0].severity}


def _wrapped(kind: str, check: Check) -> object:
    return {"value": KINDS[kind].write([dict(check.params)]), "severity": check.severity}


def _reads_back(kind: str, value: object, checks: list[Check]) -> bool:
    """Whether one declaration can hold these checks, not for example two ranges of one column or two severities."""
    try:
        return [check for one in _declarations(value) for check in _parse(kind, one, "")] == checks
    except BadDefinition:
        return False
