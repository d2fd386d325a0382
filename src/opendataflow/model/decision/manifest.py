"""Define the manifest of a published version: its content and location."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from ...errors import BadDefinition
from ..definitions.checks import ERROR
from ..definitions.ids import shown
from ..plain import plain_table

_SAME_TIME = 1e-6  # seconds; JSON does not keep full precision


class ManifestFile(NamedTuple):
    """One file of a version, as it was when published."""

    path: str
    bytes: int
    mtime: float | None = None
    checksum: str | None = None

    def was_touched(self, now: ManifestFile) -> bool:
        """Whether the file has another modification time now."""
        return self.mtime is not None and now.mtime is not None and abs(now.mtime - self.mtime) > _SAME_TIME

    def is_same(self, now: ManifestFile) -> bool:
        """Whether two files are the same: by checksum if both have one, otherwise by size and time."""
        if (self.path, self.bytes) != (now.path, now.bytes):
            return False
        if self.checksum and now.checksum:
            return self.checksum == now.checksum
        return not self.was_touched(now)


class Consumed(NamedTuple):
    """An input chunk with the version that was read."""

    datasetid: str
    dataid: str
    version: int


class CheckResult(NamedTuple):
    """The result of one check for one version, with its figures."""

    check: str
    kind: str
    severity: str = ERROR
    passed: bool = False
    figures: Mapping[str, object] = MappingProxyType({})

    @property
    def refuses(self) -> bool:
        """Whether the failed check prevents the publish."""
        return self.severity == ERROR and not self.passed

    @classmethod
    def from_data(cls, data: object, where: str = "manifest.checks") -> CheckResult:
        """A stored result; without `passed` it counts as failed, and unknown keys become figures."""
        table = plain_table(data, where)
        kind = str(table.pop("kind", ""))
        check = str(table.pop("check", kind))
        severity, passed = str(table.pop("severity", ERROR)), table.pop("passed", False) is True
        figures = plain_table(table.pop("figures", {}), f"{where}.figures")
        return cls(check, kind, severity, passed, {**table, **figures})

    def to_data(self) -> dict[str, object]:
        """Plain data."""
        return {**self._asdict(), "figures": dict(self.figures)}


@dataclass(frozen=True, slots=True)
class Manifest:
    """The facts recorded when a version was published."""

    location: str = ""
    format: str = ""
    files: tuple[ManifestFile, ...] = ()
    bytes: int | None = None
    rows: int | None = None
    schema: str = ""
    span_lower: str | None = None
    span_upper: str | None = None
    fingerprint: str | None = None
    checks: tuple[CheckResult, ...] = field(default=(), hash=False)
    spark_app: str = ""
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", tuple(map(_file, self.files)))
        object.__setattr__(self, "checks", tuple(map(_check_result, self.checks)))
        object.__setattr__(self, "extra", plain_table(self.extra, "manifest.extra"))

    def is_same_content(self, fingerprint: str | None) -> bool | None:
        """Whether the rows have another fingerprint's content; None if the two were computed in different ways."""
        if not self.fingerprint or not fingerprint or _form(self.fingerprint) != _form(fingerprint):
            return None
        return self.fingerprint == fingerprint

    @property
    def passed(self) -> bool:
        """Whether no check with severity error failed."""
        return not any(result.refuses for result in self.checks)

    def has_files_of(self, other: Manifest) -> bool:
        """Whether two manifests have the same files, as far as known without reading them."""
        return len(self.files) == len(other.files) and all(
            map(ManifestFile.is_same, sorted(self.files), sorted(other.files))
        )

    def at(self, place: Callable[[str], str]) -> Manifest:
        """The manifest with its location converted by `place`."""
        location = place(self.location)
        return self if location == self.location else replace(self, location=location)

    def to_data(self) -> dict[str, object]:
        """Plain data without unset fields."""
        data: dict[str, object] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            if not value and (value is None or value in ("", (), {})):
                continue
            if name == "files":
                value = [list(row) for row in value]
            elif name == "checks":
                value = [result.to_data() for result in value]
            elif name == "extra":
                value = dict(value)
            data[name] = value
        return data

    @classmethod
    def from_data(cls, data: object, where: str = "manifest") -> Manifest:
        """A manifest from to_data; BadDefinition if it is malformed. Unknown keys are kept in `extra`."""
        table: dict[str, Any] = plain_table(data, where)
        known = {name: table.pop(name) for name in _SHAPES if name in table}
        for name, value in known.items():
            if not isinstance(value, _SHAPES[name]):
                raise BadDefinition(f"{where}: {name} cannot be {shown(value)}")
        known["files"] = tuple(_file(row, f"{where}.files") for row in known.get("files", []))
        known["checks"] = tuple(CheckResult.from_data(row, f"{where}.checks") for row in known.get("checks", []))
        known["extra"] = {**table, **known.get("extra", {})}
        return cls(**known)


class InputChunk(NamedTuple):
    """An input chunk of a run: the version, its manifest if any, and its bounds if set.

    `same_as` is another chunk of the dataset with exactly the same content.
    """

    datasetid: str
    dataid: str
    version: int
    manifest: Manifest | None = None
    bounds: tuple[str | None, str | None] | None = None
    same_as: str | None = None


def _check_result(given: CheckResult | Mapping[str, object]) -> CheckResult:
    return CheckResult.from_data(given.to_data() if isinstance(given, CheckResult) else given)


def _form(fingerprint: str) -> str:
    """How a fingerprint was computed: `odf2` from rows, `bytes` from files."""
    return fingerprint.partition(":")[0] if ":" in fingerprint else ""


def _file(row: object, where: str = "manifest") -> ManifestFile:
    try:
        file = ManifestFile(*row)  # type: ignore[misc]
    except TypeError:
        file = None
    if file is None or not all(map(isinstance, file, _FILE)):
        raise BadDefinition(f"{where}: {shown(row)} is not {', '.join(ManifestFile._fields)}")
    return file


# The JSON types of each field.
_FILE: tuple[Any, ...] = (str, int, int | float | None, str | None)
_SHAPES: dict[str, Any] = {
    **dict.fromkeys(("location", "format", "schema", "spark_app"), str),
    **dict.fromkeys(("bytes", "rows"), int | None),
    **dict.fromkeys(("span_lower", "span_upper", "fingerprint"), str | None),
    **dict.fromkeys(("files", "checks"), list),
    "extra": dict,
}
