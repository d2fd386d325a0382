"""Define how a dataset is partitioned: its dataids, their order, and the part of the data that each one names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import date, datetime
from functools import lru_cache

from ...errors import BadDataid, BadDefinition
from ..plain import within
from ..shard import is_backwards, shard
from .dataid import TYPES, DataidType, moment
from .ids import check_id, is_id, shown

_MALFORMED = (ValueError, LookupError, TypeError, AttributeError)
_END_OF_TIME = "9999-12-31T23:59:59.999999"  # the last moment with a four-digit year


@dataclass(frozen=True, slots=True)
class Partition:
    """How a dataset is divided into chunks: the type of its dataids, their column, and their bounds."""

    type: str = "text"
    column: str | None = None
    count: int | None = None
    start: str | None = None
    end: str | None = None
    lower: str | None = None
    upper: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.type, str) or self.type not in TYPES:
            raise BadDefinition(
                f"there is no partition type {shown(self.type)}", hint=f"The types are {', '.join(TYPES)}."
            )
        for name in ("column", "start", "end", "lower", "upper"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value):
                raise BadDefinition(f"{name} of a partition must be text, not {shown(value)}")
        self._check_count()
        self._check_bounds()
        self._check_key_space()

    def _check_count(self) -> None:
        if self.count is None:
            return
        if self.type != "range":
            raise BadDefinition(f"a {self.type} partition has no count", hint="Only type range has a count of shards.")
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:
            raise BadDefinition(f"count must be a whole number from 1, not {shown(self.count)}")

    def _check_bounds(self) -> None:
        for name, bound in (("start", self.start), ("end", self.end)):
            if bound is None:
                continue
            if not TYPES[self.type].is_ordinal:
                raise BadDefinition(
                    f"a {self.type} partition has no {name}", hint="Only dataids that are numbered have bounds."
                )
            try:
                number = TYPES[self.type].parse(bound)
            except _MALFORMED:
                why, hint = _what_is_wrong(self, bound)
                raise BadDefinition(f"{name} {shown(bound)} is not a {self.type}{why}", hint=hint) from None
            if self.count is not None and number > self.count:
                raise BadDefinition(f"{name} {bound} is greater than count {self.count}")
        first, last = bounds(self)
        if first > last and TYPES[self.type].is_ordinal:
            raise BadDefinition(f"start {self.start} comes after end {self.end}")

    def _check_key_space(self) -> None:
        if self.type != "range" and (self.lower is not None or self.upper is not None):
            raise BadDefinition(
                f"a {self.type} partition has no lower and upper",
                hint="Only type range has them, as bounds of its keys. The bounds of dataids are start and end.",
            )
        if self.lower is not None and self.upper is not None and is_backwards(self.lower, self.upper):
            raise BadDefinition(f"lower {self.lower} is not below upper {self.upper}")

    @classmethod
    def from_data(cls, data: str | Mapping[str, object], where: str = "") -> Partition:
        """Parse a partition: "day", or a table with its type and options."""
        if isinstance(data, str):
            data = {"type": data}
        if not isinstance(data, Mapping):
            raise BadDefinition(f"{within(where)}a partition must be a type or a table, not {shown(data)}")
        known = [field.name for field in fields(cls)]
        for key in data:
            if key not in known:
                raise BadDefinition(
                    f"{within(where)}a partition has no {shown(key)}", hint=f"It may have {', '.join(known)}."
                )
        values = {key: value if key == "count" else _as_text(value, data.get("type")) for key, value in data.items()}
        try:
            return cls(**values)  # type: ignore[arg-type]
        except BadDefinition as problem:
            raise BadDefinition(within(where) + problem.message, hint=problem.hint) from None

    @property
    def has_bounds(self) -> bool:
        """Whether a well-formed dataid may be out of bounds."""
        return not (self.start is None and self.end is None and self.count is None)

    def to_data(self) -> dict[str, object]:
        """Plain data without unset fields."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in values if value is not None}


def _as_text(value: object, type_name: object) -> object:
    """TOML has numbers and dates: `start = 2013-01-01` is converted to text."""
    if isinstance(value, datetime) and type_name == "hour" and (value.minute, value.second) == (0, 0):
        return value.isoformat()[:13]
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


@lru_cache(maxsize=1024)
def bounds(partition: Partition) -> tuple[int, int]:
    """The ordinals of the first and the last possible dataid."""
    dataid_type = TYPES[partition.type]
    first = dataid_type.first if partition.start is None else dataid_type.parse(partition.start)
    last = dataid_type.last if partition.end is None else dataid_type.parse(partition.end)
    return first, last if partition.count is None else min(last, partition.count)


TEXT = Partition()


def _malformed(partition: Partition, dataid: object, datasetid: str = "") -> BadDataid:
    of_dataset = f" of dataset {datasetid}" if datasetid else ""
    why, hint = _what_is_wrong(partition, dataid)
    return BadDataid(f"{shown(dataid)} is not a {partition.type} dataid{of_dataset}{why}", hint=hint)


def _what_is_wrong(partition: Partition, dataid: object) -> tuple[str, str]:
    """Why a dataid is malformed, and the correct form; it may be well-formed but missing from the calendar."""
    dataid_type = TYPES[partition.type]
    if dataid_type.is_time and _shape(str(dataid)) == _shape(dataid_type.form):
        return f": the calendar has no such {dataid_type.name}", f"The form is {dataid_type.form}."
    return "", f"A {dataid_type.name} has the form {dataid_type.form}."


def _shape(text: str) -> str:
    return re.sub("[0-9]", "0", text)


def _ordinal_type(partition: Partition) -> DataidType:
    dataid_type = TYPES[partition.type]
    if not dataid_type.is_ordinal:
        raise BadDefinition(
            f"a {partition.type} partition has no order of steps: its dataids are not numbered",
            hint=f"Types with an order of steps are {', '.join(t.name for t in TYPES.values() if t.is_ordinal)}.",
        )
    return dataid_type


def check_form(partition: Partition, dataid: str, datasetid: str = "") -> str:
    """The dataid if it is well-formed for its type, regardless of bounds."""
    dataid_type = TYPES[partition.type]
    if not dataid_type.is_ordinal:
        return check_id("dataid", dataid)
    try:
        dataid_type.parse(dataid)
    except _MALFORMED:
        check_id("dataid", dataid)
        raise _malformed(partition, dataid, datasetid) from None
    return dataid


def check_dataid(partition: Partition, dataid: str, datasetid: str = "") -> str:
    """The dataid if the dataset can have it; BadDataid or BadId otherwise."""
    check_form(partition, dataid, datasetid)
    if not partition.has_bounds:
        return dataid
    first, last = bounds(partition)
    dataid_type = TYPES[partition.type]
    if not first <= dataid_type.parse(dataid) <= last:
        of_dataset = f" of dataset {datasetid}" if datasetid else ""
        raise BadDataid(
            f"there is no {partition.type} {dataid}{of_dataset}: "
            f"its dataids go from {dataid_type.format(first)} to {dataid_type.format(last)}",
            hint="To allow it, change start, end or count of its partition.",
        )
    return dataid


def ordinal(partition: Partition, dataid: str) -> int:
    """The ordinal of a dataid of its type."""
    dataid_type = _ordinal_type(partition)
    try:
        return dataid_type.parse(dataid)
    except _MALFORMED:
        raise _malformed(partition, dataid) from None


def from_ordinal(partition: Partition, n: int) -> str:
    """The dataid with this ordinal."""
    dataid_type = _ordinal_type(partition)
    if not dataid_type.first <= n <= dataid_type.last:
        raise BadDataid(
            f"no {partition.type} has the ordinal {n}",
            hint=f"They go from {dataid_type.format(dataid_type.first)} to {dataid_type.format(dataid_type.last)}.",
        )
    return dataid_type.format(n)


def sort_key(partition: Partition, dataid: str) -> str:
    """ASCII text whose byte order is the order of the type; different dataids have different keys."""
    try:
        return TYPES[partition.type].sort_key(dataid)
    except _MALFORMED:
        raise _malformed(partition, dataid) from None


def fitting(partition: Partition, dataids: Iterable[str]) -> Iterator[str]:
    """The dataids, of many, that this partition can have."""
    dataid_type = TYPES[partition.type]
    if not dataid_type.is_ordinal:
        yield from filter(is_id, dataids)
        return
    parse, (first, last) = dataid_type.parse, bounds(partition)
    for dataid in dataids:
        try:
            if first <= parse(dataid) <= last:
                yield dataid
        except _MALFORMED:
            continue


def positions(partition: Partition, dataids: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The well-formed dataids, of many, with their sort keys."""
    dataid_type = TYPES[partition.type]
    key = dataid_type.sort_key
    for dataid in dataids if dataid_type.is_ordinal else filter(is_id, dataids):
        try:
            yield dataid, key(dataid)
        except _MALFORMED:
            continue


def checked_positions(partition: Partition, dataids: Iterable[str], datasetid: str = "") -> dict[str, str]:
    """The dataids with their sort keys; BadDataid or BadId if the dataset cannot have one of them."""
    dataids = list(dataids)
    found = dict(positions(partition, dataids))
    if partition.has_bounds or len(found) < len(dataids):
        for dataid in dataids:
            check_dataid(partition, dataid, datasetid)
    return found


def dataids(partition: Partition, first: str, last: str) -> Iterator[str]:
    """Every dataid from first to last in order, both included."""
    check_dataid(partition, first)
    check_dataid(partition, last)
    if first == last:
        return iter((first,))
    if not TYPES[partition.type].is_ordinal:
        raise BadDataid(
            f"{first}..{last} is not a range: {partition.type} dataids are not numbered", hint="Name them one by one."
        )
    low, high = ordinal(partition, first), ordinal(partition, last)
    if low > high:
        raise BadDataid(f"{first} comes after {last}", hint=f"Write {last}..{first}.")
    return map(TYPES[partition.type].format, range(low, high + 1))


def comparable(a: Partition, b: Partition) -> bool:
    """Whether dataids of the two have a common order."""
    return a.type == b.type or (TYPES[a.type].is_time and TYPES[b.type].is_time)


def span(partition: Partition, dataid: str) -> tuple[str, str] | None:
    """The values of the partition column in this chunk, [lower, upper) as text; None if the type does not determine them."""
    dataid_type = TYPES[partition.type]
    if not dataid_type.is_ordinal:
        return None
    n = ordinal(partition, dataid)
    if partition.type == "range":
        return shard(n, partition.count, partition.lower, partition.upper)
    if not dataid_type.is_time:
        return dataid, str(n + 1)
    return moment(dataid), moment(dataid_type.format(n + 1)) if n < dataid_type.last else _END_OF_TIME
