"""Select chunks, runs or events with one grammar for every verb and for rules in dataflow.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from ..errors import BadDataid, BadDefinition, BadId, UsageError
from .decision.cause import cause_key
from .decision.status import canonical
from .definitions.ids import check_id, shown
from .definitions.partition import Partition, sort_key
from .plain import within

_RANGE = ".."
_AT = ":"  # separates dataset and dataid; invalid in ids


class Subject(NamedTuple):
    """The facts about a chunk or event that a selector matches; causes are an outcome and its messages."""

    datasetid: str | None = None
    dataid: str | None = None
    jobid: str | None = None
    status: str | None = None
    at: datetime | None = None
    who: str | None = None
    causes: tuple[str | None, ...] = ()


class End(NamedTuple):
    """The start of a flow selection: a dataset, or one of its chunks."""

    datasetid: str
    dataid: str | None = None

    @classmethod
    def parse(cls, text: str) -> End:
        """Parse DATASET or DATASET:DATAID."""
        datasetid, colon, dataid = text.partition(_AT)
        return cls(check_id("dataset", datasetid), check_id("dataid", dataid) if colon else None)


@dataclass(frozen=True, slots=True)
class Selector:
    """A selection. Empty fields match anything; several values of one field are alternatives; all fields must match.

    dataids are dataids and ranges FROM..TO. since and until are about the last change; until is exclusive. upstream_of
    and downstream_of are DATASET or DATASET:DATAID. everything confirms that an empty selection is intended.
    """

    datasets: tuple[str, ...] = ()
    dataids: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    who: tuple[str, ...] = ()
    upstream_of: tuple[str, ...] = ()
    downstream_of: tuple[str, ...] = ()
    everything: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        for name in self.datasets:
            check_id("dataset", name)
        for name in self.jobs:
            check_id("job", name)
        for word in self.dataids:
            for part in word.split(_RANGE, 1):
                check_id("dataid", part)
        for text in (*self.upstream_of, *self.downstream_of):
            End.parse(text)
        object.__setattr__(self, "statuses", tuple(dict.fromkeys(map(canonical, self.statuses))))
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise UsageError("--since is not before --until", hint="Swap them, or leave one out.")

    @property
    def is_empty(self) -> bool:
        """Whether nothing is selected by name."""
        return replace(self, everything=False) == Selector()

    @property
    def is_by_facts(self) -> bool:
        """Whether it selects by what happened to a chunk, not only by its name."""
        return bool(self.statuses or self.causes or self.who or self.since or self.until)

    @property
    def is_by_flow(self) -> bool:
        """Whether it selects by position in the flow."""
        return bool(self.upstream_of or self.downstream_of)

    def matches(self, subject: Subject, partition: Partition | None = None) -> bool:
        """Whether a chunk or an event matches by its own facts; upstream_of and downstream_of are not evaluated.

        Ranges need the partition of the dataset.
        """
        return (
            (not self.datasets or subject.datasetid in self.datasets)
            and (not self.jobs or subject.jobid in self.jobs)
            and (not self.dataids or self.has_dataid(subject.dataid, partition))
            and (not self.statuses or subject.status in self.statuses)
            and self.has_moment(subject.at)
            and (not self.who or self.has_author(subject.who))
            and (not self.causes or self.has_cause(*subject.causes))
        )

    def has_dataid(self, dataid: str | None, partition: Partition | None = None) -> bool:
        """Whether a dataid is selected, by name or in a range."""
        if dataid is None:
            return False
        for word in self.dataids:
            first, dots, last = word.partition(_RANGE)
            if dataid == word or (dots and partition is not None and _is_between(partition, first, dataid, last)):
                return True
        return False

    def has_moment(self, at: datetime | None) -> bool:
        """Whether a moment is in the selected time span."""
        if at is None:
            return self.since is None and self.until is None
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)

    def has_author(self, who: str | None) -> bool:
        """Whether an author is selected, by user, user@host, or a prefix of these."""
        return who is not None and any(who.startswith(name) for name in self.who)

    def has_cause(self, *said: str | None) -> bool:
        """Whether an outcome or a message matches a selected cause, ignoring numbers and names."""
        known = [each for each in said if each]
        return any(cause.upper() in known or any(_says(each, cause) for each in known) for cause in self.causes)

    def words(self) -> list[str]:
        """The selector as words of a command line."""
        words = [*self.datasets, *self.dataids]
        for option, values in (
            ("--job", self.jobs),
            ("--status", self.statuses),
            ("--cause", self.causes),
            ("--since", _moments(self.since)),
            ("--until", _moments(self.until, end=True)),
            ("--by", self.who),
            ("--upstream-of", self.upstream_of),
            ("--downstream-of", self.downstream_of),
        ):
            words += [word for value in values for word in (option, value)]
        return words + ["--all"] * self.everything

    @classmethod
    def from_data(cls, table: object, where: str = "") -> Selector:
        """A selector from a file: the options of the command line as keys, each with a text or a list of texts."""
        if not isinstance(table, Mapping):
            raise BadDefinition(f"{within(where)}expected a table, not {shown(table)}")
        named: dict[str, tuple[str, ...]] = {}
        for key, value in table.items():
            if key not in KEYS:
                raise BadDefinition(
                    f"{within(where)}{shown(key)} is not a selector", hint=f"The selectors are: {', '.join(KEYS)}."
                )
            texts = [value] if isinstance(value, str) else value
            if not isinstance(texts, (list, tuple)) or not texts or not all(isinstance(text, str) for text in texts):
                raise BadDefinition(f"{within(where)}{key} must be a text or a list of texts, not {shown(value)}")
            named[KEYS[key]] = tuple(texts)
        if "dataids" in named and len(named.get("datasets", ())) + len(named.get("jobs", ())) == 0:
            raise BadDefinition(f"{within(where)}dataid needs a dataset or a job")
        return cls(**named)  # type: ignore[arg-type]

    def to_data(self) -> dict[str, object]:
        """Plain data without unset fields; moments as text."""
        data: dict[str, object] = {key: list(getattr(self, name)) for key, name in KEYS.items() if getattr(self, name)}
        moments = {"since": self.since, "until": self.until}
        data |= {name: moment.isoformat() for name, moment in moments.items() if moment}
        return data | ({"all": True} if self.everything else {})


# Keys in a file, and the fields that they set.
KEYS = {
    "dataset": "datasets",
    "dataid": "dataids",
    "job": "jobs",
    "status": "statuses",
    "cause": "causes",
    "by": "who",
    "upstream_of": "upstream_of",
    "downstream_of": "downstream_of",
}


def _moments(moment: datetime | None, *, end: bool = False) -> tuple[str, ...]:
    if moment is None:
        return ()
    # An end with seconds is read as the end of its second; one on the minute is exact.
    on_the_minute = end and moment.second == moment.microsecond == 0
    return (moment.isoformat(timespec="minutes" if on_the_minute else "seconds"),)


def _says(text: str, cause: str) -> bool:
    key = _folded(cause)
    # A cause of only numbers and names is compared as written.
    return key in _folded(text) if any(map(str.isalpha, key)) else cause in text


@lru_cache(maxsize=10_000)  # many failures have the same message
def _folded(text: str) -> str:
    return cause_key(text).casefold()


def _is_between(partition: Partition, first: str, dataid: str, last: str) -> bool:
    try:
        low, here, high = (sort_key(partition, each) for each in (first, dataid, last))
    except (BadDataid, BadId):
        return False  # a dataid of another type, written by SQL
    return low <= here <= high
