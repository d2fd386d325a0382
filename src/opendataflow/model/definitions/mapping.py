"""Map input dataids to output dataids and back."""

from __future__ import annotations

from collections import abc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...errors import BadMapping
from ..plain import within
from .dataid import TYPES, DataidType, moment
from .ids import check_id, shown
from .partition import Partition, bounds, check_form, comparable, ordinal, sort_key

_LONGEST_WINDOW = 1_000  # a chunk touches this many outputs, each with this many inputs

Interval = tuple[int, int]
Between = Callable[[int, DataidType, DataidType, str], Interval]


class MappingKind(NamedTuple):
    """A kind of mapping; `needs` and `touches` return ordinals of the other side, and are None for dynamic mappings."""

    needs: Between | None
    touches: Between | None
    fits: Callable[[Partition, Partition], bool]
    rule: str
    has_number: bool = False
    is_shared: bool = False


def _container(n: int, this: DataidType, other: DataidType, dataid: str) -> Interval:
    step = other.parse(dataid[: other.width])
    return step, step


def _contents(n: int, this: DataidType, other: DataidType, dataid: str) -> Interval:
    first = other.parse(moment(dataid)[: other.width])
    period = this.parse(dataid)
    if period == this.last:
        return first, other.last
    return first, other.parse(moment(this.format(period + 1))[: other.width]) - 1


def _same(n: int, this: DataidType, other: DataidType, dataid: str) -> Interval:
    step = this.parse(dataid)
    return step, step


def _earlier(n: int, this: DataidType, other: DataidType, dataid: str) -> Interval:
    step = this.parse(dataid) - n
    return step, step


def _later(n: int, this: DataidType, other: DataidType, dataid: str) -> Interval:
    step = this.parse(dataid) + n
    return step, step


def _last_n(n: int, this: DataidType, other: DataidType, dataid: str) -> Interval:
    step = this.parse(dataid)
    return step - n + 1, step


def _next_n(n: int, this: DataidType, other: DataidType, dataid: str) -> Interval:
    step = this.parse(dataid)
    return step, step + n - 1


def _same_type(input: Partition, output: Partition) -> bool:
    counts_fit = input.count is None or output.count is None or input.count == output.count
    return input.type == output.type and counts_fit


def _same_type_or_day_as_text(input: Partition, output: Partition) -> bool:
    return _same_type(input, output) or _is_day_as_text(input, output)


def _is_day_as_text(input: Partition, output: Partition) -> bool:
    """Whether the input has days and the output no declared partition, so that it takes ids of days, such as those of `today`."""
    return input.type == "day" and output.type == "text"


def _same_ordinal_type(input: Partition, output: Partition) -> bool:
    return TYPES[input.type].is_ordinal and _same_type(input, output)


def _is_finer(a: Partition, b: Partition) -> bool:
    return TYPES[a.type].width > TYPES[b.type].width > 0


def _is_coarser(a: Partition, b: Partition) -> bool:
    return _is_finer(b, a)


def _always(input: Partition, output: Partition) -> bool:
    return True


_SAME = "input and output to have the same partition type (and count)"
_STEPS = "input and output to have the same partition type (and count), one with an order of steps"

KINDS: dict[str, MappingKind] = {
    "identity": MappingKind(_same, _same, _same_type_or_day_as_text, f"{_SAME}, or a day as text"),
    "lag": MappingKind(_earlier, _later, _same_ordinal_type, _STEPS, has_number=True),
    "window": MappingKind(_last_n, _next_n, _same_ordinal_type, _STEPS, has_number=True, is_shared=True),
    "rollup": MappingKind(_contents, _container, _is_finer, "an input of a finer time type: hour < day < month < year"),
    "fan_out": MappingKind(
        _container, _contents, _is_coarser, "an input of a coarser time type: year > month > day > hour", is_shared=True
    ),
    "latest": MappingKind(None, None, comparable, "two time types, or twice the same type", is_shared=True),
    "all": MappingKind(None, None, _always, "nothing", is_shared=True),
}


@dataclass(frozen=True, slots=True)
class Mapping:
    """How the dataids of an input relate to the dataid of the output."""

    kind: str = "identity"
    n: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise BadMapping(f"there is no mapping {shown(self.kind)}", hint=f"The mappings are {', '.join(KINDS)}.")
        if isinstance(self.n, bool) or not isinstance(self.n, int) or self.n < 1:
            raise BadMapping(f"{self.kind} takes a whole number from 1, not {shown(self.n)}")
        if self.n != 1 and not KINDS[self.kind].has_number:
            raise BadMapping(f"{self.kind} takes no number, but was given {self.n}")
        if self.kind == "window" and self.n > _LONGEST_WINDOW:
            raise BadMapping(f"a window of {self.n} is too long", hint=f"The longest window is {_LONGEST_WINDOW}.")

    @classmethod
    def from_data(cls, data: str | abc.Mapping[str, object] | Mapping | None, where: str = "") -> Mapping:
        """Parse a mapping: None, "rollup", "lag 2", {"lag": 2} or {"kind": "lag", "n": 2}."""
        if isinstance(data, Mapping):
            return data
        try:
            return cls(*_kind_and_number(data))
        except BadMapping as problem:
            raise BadMapping(within(where) + problem.message, hint=problem.hint) from None

    def __str__(self) -> str:
        return f"{self.kind} {self.n}" if KINDS[self.kind].has_number else self.kind

    @property
    def is_dynamic(self) -> bool:
        """Whether it depends on which chunks exist."""
        return KINDS[self.kind].needs is None

    @property
    def is_shared(self) -> bool:
        """Whether an input chunk may belong to several outputs of one job."""
        return KINDS[self.kind].is_shared and (self.kind, self.n) != ("window", 1)


IDENTITY = Mapping()


def _kind_and_number(data: object) -> tuple[str, int]:
    if data is None or data == "":
        return "identity", 1
    if isinstance(data, str):
        return _from_words(data.split())
    if isinstance(data, abc.Mapping):
        keys = set(data)
        if keys in ({"kind"}, {"kind", "n"}):
            return data["kind"], data.get("n", 1)
        if len(keys) == 1 and keys <= set(KINDS):
            ((kind, n),) = data.items()
            return kind, n
    raise BadMapping(f"{shown(data)} is not a mapping", hint='Write for instance "rollup", "lag 2" or { window = 7 }.')


def _from_words(words: list[str]) -> tuple[str, int]:
    if words == ["window"]:
        raise BadMapping("window takes a number", hint='Write for instance "window 7": the last 7.')
    if len(words) == 1:
        return words[0], 1
    if len(words) == 2 and len(words[1]) <= 18 and words[1].isascii() and words[1].isdigit():
        return words[0], int(words[1])
    raise BadMapping(
        f"{shown(' '.join(words))} is not a mapping", hint='Write for instance "rollup", "lag 2" or "window 7".'
    )


def check_mapping(mapping: Mapping, input: Partition, output: Partition, where: str = "") -> None:
    """Raise BadMapping if the partition types of input and output do not fit the mapping."""
    kind = KINDS[mapping.kind]
    if not kind.fits(input, output):
        raise BadMapping(
            f"{within(where)}{mapping} does not fit from {_described(input)} to {_described(output)}",
            hint=f"{mapping.kind} needs {kind.rule}.",
        )


def _described(partition: Partition) -> str:
    return partition.type if partition.count is None else f"{partition.type} of {partition.count}"


def inputs(mapping: Mapping, input: Partition, output: Partition, output_id: str) -> list[str]:
    """The input dataids that an output needs, in order, within the bounds of the input."""
    return _other_side(mapping, KINDS[mapping.kind].needs, output, input, output_id, input, output)


def outputs(mapping: Mapping, input: Partition, output: Partition, input_id: str) -> list[str]:
    """The output dataids that an input touches, in order, within the bounds of the output."""
    return _other_side(mapping, KINDS[mapping.kind].touches, input, output, input_id, input, output)


def is_same(mapping: Mapping, input: Partition, output: Partition) -> bool:
    """Whether an output needs exactly the input with its own dataid, within the bounds."""
    return mapping.kind == "identity" and input.type == output.type


def _other_side(
    mapping: Mapping,
    between: Between | None,
    this: Partition,
    other: Partition,
    dataid: str,
    input: Partition,
    output: Partition,
) -> list[str]:
    if is_same(mapping, input, output) and not other.has_bounds:
        check_form(this, dataid)  # the most common case
        return [dataid]
    if between is None:
        raise BadMapping(
            f"{mapping} depends on which chunks exist", hint="Ask resolve() or touches() with the known dataids."
        )
    check_mapping(mapping, input, output)
    if mapping.kind == "identity" and _is_day_as_text(input, output):
        first, last = bounds(input)
        return [dataid] if first <= ordinal(input, dataid) <= last else []
    if not TYPES[this.type].is_ordinal:
        return [check_id("dataid", dataid)]
    ordinal(this, dataid)
    low, high = between(mapping.n, TYPES[this.type], TYPES[other.type], dataid)
    first, last = bounds(other)
    return [TYPES[other.type].format(step) for step in range(max(low, first), min(high, last) + 1)]


def resolve(mapping: Mapping, input: Partition, output: Partition, output_id: str, known: Sequence[str]) -> list[str]:
    """The input dataids that an output needs, given the existing dataids of the input."""
    if not mapping.is_dynamic:
        return inputs(mapping, input, output, output_id)
    if mapping.kind == "all":
        return _in_order(input, known)
    check_mapping(mapping, input, output)
    until = _position(output, output_id)
    usable = [(position, dataid) for dataid in known if (position := _position(input, dataid)) <= until]
    return [max(usable)[1]] if usable else []


def latest_bound(input: Partition, output: Partition, output_id: str) -> str:
    """The last input dataid up to this output, from which `latest` looks back."""
    check_form(output, output_id)
    if input.type == output.type:
        return output_id
    return moment(output_id)[: TYPES[input.type].width]


def touches(
    mapping: Mapping, input: Partition, output: Partition, input_id: str, known_outputs: Sequence[str]
) -> list[str]:
    """The outputs, among the known ones, that an input may belong to."""
    if not mapping.is_dynamic:
        known = set(known_outputs)
        return [dataid for dataid in outputs(mapping, input, output, input_id) if dataid in known]
    if mapping.kind == "all":
        return _in_order(output, known_outputs)
    check_mapping(mapping, input, output)
    since = _position(input, input_id)
    return _in_order(output, (dataid for dataid in known_outputs if _position(output, dataid) >= since))


def _position(partition: Partition, dataid: str) -> str:
    """The position of a dataid in the common order of comparable types: periods by their begin."""
    check_form(partition, dataid)
    return moment(dataid) if TYPES[partition.type].is_time else sort_key(partition, dataid)


def _in_order(partition: Partition, dataids: Iterable[str]) -> list[str]:
    return sorted(set(dataids), key=lambda dataid: sort_key(partition, dataid))
