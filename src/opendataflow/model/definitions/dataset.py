"""Define a dataset: a named body of data, and everything needed to access it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...errors import BadDefinition
from ..plain import plain_table
from .calendar import parse_calendar
from .checks import Check, in_order
from .dataid import TYPES
from .ids import check_id, shown
from .partition import TEXT, Partition, check_form

if TYPE_CHECKING:
    from .job import Job

KINDS = ("", "file", "table")
# Authentication methods for passwords, in libpq's terms.
AUTH = ("scram-sha-256", "md5", "password", "gss", "none")
POSTGRES = ("", "postgres", "postgresql")  # table formats that PostgreSQL reads and writes itself

FENCED = (*POSTGRES, "jdbc")  # table formats whose own transaction records the epoch
# Formats whose name may be written in any case; another one may be the name of a class.
_FORMATS = (*FENCED, "csv", "json", "text", "xml", "avro", "parquet", "orc", "delta", "iceberg")

_TEXTS = ("kind", "hostname", "database", "schemaname", "tablename", "username", "encryptedpass", "location", "format")
_PARTS_OF_TIME = {"year": slice(0, 4), "month": slice(5, 7), "day": slice(8, 10), "hour": slice(11, 13)}
_WORD = r"(?:\w(?:[\w$]|-(?!-))*|\"\w[\w $-]*\"|`\w[\w $-]*`)"
_NAME = rf"{_WORD}(?:\.{_WORD}){{0,3}}"
_PLACEHOLDER = r"\{([^{}]*)\}"


@dataclass(frozen=True, slots=True)
class Dataset:
    """A named body of data: kind, location, format, user, encrypted password, partition and checks."""

    datasetid: str
    kind: str = ""
    hostname: str = ""
    database: str = ""
    schemaname: str = ""
    tablename: str = ""
    username: str = ""
    encryptedpass: str = field(default="", repr=False)
    location: str = ""
    format: str = ""
    partition: Partition = TEXT
    checks: tuple[Check, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_id("dataset", self.datasetid)
        where = f"dataset {self.datasetid}"
        for name in _TEXTS:
            if not isinstance(getattr(self, name), str):
                raise BadDefinition(f"{where}: {name} must be text, not {shown(getattr(self, name))}")
        if self.kind not in KINDS:
            raise BadDefinition(
                f"{where}: there is no kind {shown(self.kind)}",
                hint="Write file or table; without a kind the dataset is only tracked.",
            )
        if not isinstance(self.partition, Partition):
            raise BadDefinition(f"{where}: {shown(self.partition)} is not a partition")
        if self.location:
            self._check_location(where)
        if self.format.lower() in _FORMATS:
            object.__setattr__(self, "format", self.format.lower())
        object.__setattr__(self, "checks", in_order(self.checks))
        object.__setattr__(self, "options", plain_table(self.options, where))
        if "calendar" in self.options:
            parse_calendar(self.options["calendar"], self.partition, where)
        readers = self.options.get("readers", 0)
        if not isinstance(readers, int) or isinstance(readers, bool) or readers < 0:
            raise BadDefinition(f"{where}: readers must be a whole number from 0, not {shown(readers)}")

    def _check_location(self, where: str) -> None:
        known = placeholders(self.partition)
        for name in re.findall(_PLACEHOLDER, self.location):
            if name not in known:
                raise BadDefinition(
                    f"{where}: location has the unknown placeholder {{{name}}}",
                    hint=f"A {self.partition.type} partition has {' '.join(f'{{{name}}}' for name in known)}.",
                )
        if set("{}") & set(re.sub(_PLACEHOLDER, "", self.location)):
            raise BadDefinition(f"{where}: location {shown(self.location)} has an unmatched brace")

    @property
    def is_only_tracked(self) -> bool:
        """Whether there is no data to check: no kind, location, host or checks are declared."""
        return not (self.kind or self.location or self.hostname or self.checks)

    def location_of(self, dataid: str) -> str:
        """The location of a chunk by the location template; empty if the dataset has none."""
        check_form(self.partition, dataid, self.datasetid)
        values = {"dataid": dataid, "datasetid": self.datasetid}
        values |= {name: dataid[part] for name, part in _PARTS_OF_TIME.items()}
        return re.sub(_PLACEHOLDER, lambda placeholder: values[placeholder[1]], self.location) if self.location else ""


def placeholders(partition: Partition) -> tuple[str, ...]:
    """The placeholders of a location template for this partition."""
    width = TYPES[partition.type].width
    return ("dataid", "datasetid", *(name for name, part in _PARTS_OF_TIME.items() if part.stop <= width))


def table_name(dataset: Dataset, name: str = "", *, of_catalogue: bool = True) -> str:
    """The name of a table, or of another table in its schema, with catalogue and schema; BadDefinition if it is malformed.

    Only words, quoted or not, are names: Spark would read ``text.`/etc/passwd` `` as a file, and JDBC parentheses as a query.
    """
    parts = (dataset.database if of_catalogue else "", dataset.schemaname, name or dataset.tablename)
    whole = ".".join(part for part in parts if part)
    if not re.fullmatch(_NAME, whole):
        raise BadDefinition(
            f"dataset {dataset.datasetid}: {shown(whole)} is not the name of a table",
            hint="A name has letters, digits, _, $ and -; catalogue, schema and table are separated by dots.",
        )
    return whole


def table_location(dataset: Dataset) -> str:
    """The location of a table in a manifest."""
    if dataset.format in FENCED:
        names = ".".join(part for part in (dataset.schemaname, dataset.tablename) if part)
        scheme = "postgresql" if dataset.format in POSTGRES else dataset.format
        return f"{scheme}://{dataset.hostname}/{dataset.database}/{names}"
    return ".".join(part for part in (dataset.database, dataset.schemaname, dataset.tablename) if part)


def is_table_location(location: str) -> bool:
    """Whether a location in a manifest is that of a table, not of files."""
    return location.startswith(("postgresql://", "jdbc://")) or re.fullmatch(_NAME, location) is not None


TODAY = Dataset("today", partition=Partition("day"), options={"timezone": "UTC"})


def unfenced(datasets: Iterable[Dataset], jobs: Iterable[Job]) -> list[str]:
    """A warning for each table that a job writes and that cannot refuse an older attempt."""
    written = {name for job in jobs for name in job.outputs}
    return [
        f"dataset {each.datasetid}: a table of format {each.format} stores no epoch, so a worker that is suspended for "
        "longer than its lease may replace the rows of its successor"
        for each in datasets
        if each.kind == "table" and each.datasetid in written and each.format not in FENCED
    ]
