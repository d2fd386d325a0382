"""Manifest: what one published version of a chunk is, and where it lies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from ..errors import BadDefinition
from ..shapes import NamedTuple, dataclass, field, replace
from .checks import ERROR
from .ids import shown
from .plain import plain_table

_SAME_TIME = 1e-6  # seconds; a time loses a little on its way through JSON


class File(NamedTuple):
    """One file of a version, and what it was like when it was published."""

    path: str
    bytes: int
    mtime: float | None = None
    checksum: str | None = None

    def was_touched(self, now: File) -> bool:
        """Whether it has another time now."""
        return self.mtime is not None and now.mtime is not None and abs(now.mtime - self.mtime) > _SAME_TIME

    def is_same(self, now: File) -> bool:
        """Whether this is the same file: by its content where that is known of both, else by its size and time."""
        if (self.path, self.bytes) != (now.path, now.bytes):
            return False
        if self.checksum and now.checksum:
            return self.checksum == now.checksum
        return not self.was_touched(now)


class Consumed(NamedTuple):
    """One input chunk, and the version of it that was read."""

    datasetid: str
    dataid: str
    version: int


class CheckResult(NamedTuple):
    """What one check said of one version, and the figures that say so."""

    check: str
    kind: str
    severity: str = ERROR
    passed: bool = False
    figures: Mapping[str, object] = MappingProxyType({})

    @property
    def refuses(self) -> bool:
        """Whether it keeps the version from being published."""
        return self.severity == ERROR and not self.passed

    @classmethod
    def from_data(cls, data: object, where: str = "manifest.checks") -> CheckResult:
        """A result as it is stored: one that does not say `passed` did not pass, and what is unknown is a figure."""
        table = plain_table(data, where)
        kind = str(table.pop("kind", ""))
        check = str(table.pop("check", kind))
        severity, passed = str(table.pop("severity", ERROR)), table.pop("passed", False) is True
        figures = plain_table(table.pop("figures", {}), f"{where}.figures")
        return cls(check, kind, severity, passed, {**table, **figures})

    def to_data(self) -> dict[str, object]:
        """The same as plain data."""
        return {**self._asdict(), "figures": dict(self.figures)}


@dataclass(frozen=True, slots=True)
class Manifest:
    """The facts that were recorded when a version was published."""

    location: str = ""
    format: str = ""
    files: tuple[File, ...] = ()
    bytes: int | None = None
    rows: int | None = None
    schema: str = ""
    span_lower: str | None = None
    span_upper: str | None = None
    fingerprint: str | None = None
    checks: tuple[CheckResult, ...] = field(default=(), hash=False)
    inputs: tuple[Consumed, ...] = ()
    spark_app: str = ""
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", tuple([_row(File, file) for file in self.files]))
        object.__setattr__(self, "inputs", tuple([_row(Consumed, item) for item in self.inputs]))
        object.__setattr__(self, "checks", tuple(map(_check_result, self.checks)))
        object.__setattr__(self, "extra", plain_table(self.extra, "manifest.extra"))

    def is_same_content(self, fingerprint: str | None) -> bool | None:
        """Whether its rows are those of another fingerprint; None where the two were not computed in the same way."""
        if not self.fingerprint or not fingerprint or _form(self.fingerprint) != _form(fingerprint):
            return None
        return self.fingerprint == fingerprint

    @property
    def passed(self) -> bool:
        """Whether no check of severity error failed."""
        return not any(result.refuses for result in self.checks)

    def has_files_of(self, other: Manifest) -> bool:
        """Whether the two hold the same files, as far as anybody can tell without reading them again."""
        return len(self.files) == len(other.files) and all(map(File.is_same, sorted(self.files), sorted(other.files)))

    def at(self, place: Callable[[str], str]) -> Manifest:
        """The same with another way to say where it lies."""
        location = place(self.location)
        return self if location == self.location else replace(self, location=location)

    def to_data(self) -> dict[str, object]:
        """The same as plain data, without what is not set."""
        data: dict[str, object] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            if not value and (value is None or value in ("", (), {})):
                continue
            if name in ("files", "inputs"):
                value = [list(row) for row in value]
            elif name == "checks":
                value = [result.to_data() for result in value]
            elif name == "extra":
                value = dict(value)
            data[name] = value
        return data

    @classmethod
    def from_data(cls, data: object, where: str = "manifest") -> Manifest:
        """A manifest from what to_data gave, BadDefinition if it is none; what this program does not know is kept under extra."""
        table: dict[str, Any] = plain_table(data, where)
        known = {name: table.pop(name) for name in _SHAPES if name in table}
        for name, value in known.items():
            if not isinstance(value, _SHAPES[name]):
                raise BadDefinition(f"{where}: {name} cannot be {shown(value)}")
        for name, shape in (("files", File), ("inputs", Consumed)):
            known[name] = rows_from_data(shape, known.get(name, []), f"{where}.{name}")
        known["checks"] = tuple(CheckResult.from_data(row, f"{where}.checks") for row in known.get("checks", []))
        known["extra"] = {**table, **known.get("extra", {})}
        return cls(**known)


class InputChunk(NamedTuple):
    """One chunk that a run reads: the version, its manifest if it has one, and its bounds where somebody set them.

    `same_as` is another chunk of the dataset that has exactly this content.
    """

    datasetid: str
    dataid: str
    version: int
    manifest: Manifest | None = None
    bounds: tuple[str | None, str | None] | None = None
    same_as: str | None = None


def _check_result(given: CheckResult | Mapping[str, object]) -> CheckResult:
    return CheckResult.from_data(given.to_data() if isinstance(given, CheckResult) else given)


def rows_from_data(shape: Any, rows: object, where: str) -> tuple[Any, ...]:
    """Files or consumed chunks as they are stored: a list of lists, each with the values of one."""
    if not isinstance(rows, list):
        raise BadDefinition(f"{where} is not a list: {shown(rows)}")
    return tuple(_row(shape, row, where) for row in rows)


def _form(fingerprint: str) -> str:
    """How a fingerprint was computed: `odf2` of rows, `bytes` of files."""
    return fingerprint.partition(":")[0] if ":" in fingerprint else ""


def _row(shape: Any, row: object, where: str = "manifest") -> Any:
    try:
        made = shape(*row)  # type: ignore[misc]
    except TypeError:
        made = None
    if made is None or not all(map(isinstance, made, _ROWS[shape])):
        raise BadDefinition(f"{where}: {shown(row)} is not {', '.join(shape._fields)}")
    return made


# What JSON may hold for each.
_ROWS: dict[Any, tuple[Any, ...]] = {
    File: (str, int, int | float | None, str | None),
    Consumed: (str, str, int),
}
_SHAPES: dict[str, Any] = {
    **dict.fromkeys(("location", "format", "schema", "spark_app"), str),
    **dict.fromkeys(("bytes", "rows"), int | None),
    **dict.fromkeys(("span_lower", "span_upper", "fingerprint"), str | None),
    **dict.fromkeys(("files", "checks", "inputs"), list),
    "extra": dict,
}
