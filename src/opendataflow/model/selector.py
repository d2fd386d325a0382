"""Selectors: which chunks, runs or events somebody means. One grammar for every verb, and for rules in dataflow.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache

from ..errors import BadDataid, BadDefinition, BadId, UsageError
from ..shapes import NamedTuple
from .cause import cause_key
from .ids import check_id, shown
from .partition import Partition, sort_key
from .plain import within
from .status import canonical

_RANGE = ".."
_AT = ":"  # between a dataset and a dataid; no id has one


class Subject(NamedTuple):
    """One chunk or event, as a selector sees it; causes are the name of an outcome and what was said."""

    datasetid: str | None = None
    dataid: str | None = None
    jobid: str | None = None
    status: str | None = None
    at: datetime | None = None
    who: str | None = None
    causes: tuple[str | None, ...] = ()


class End(NamedTuple):
    """Where a flow is followed from: a dataset, or one chunk of it."""

    datasetid: str
    dataid: str | None = None

    @classmethod
    def parse(cls, text: str) -> End:
        """DATASET or DATASET:DATAID."""
        datasetid, colon, dataid = text.partition(_AT)
        return cls(check_id("dataset", datasetid), check_id("dataid", dataid) if colon else None)


@dataclass(frozen=True, slots=True)
class Selector:
    """What somebody named. What is empty means any; several of one kind mean either, different kinds mean both.

    dataids are dataids and ranges FROM..TO. since and until are about the last change; until itself is not in. upstream_of
    and downstream_of are DATASET or DATASET:DATAID. everything says that nothing more is meant to narrow it down.
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
        """Whether nothing at all was named."""
        return replace(self, everything=False) == Selector()

    @property
    def is_by_facts(self) -> bool:
        """Whether it asks for what happened to a chunk, and not only which one it is."""
        return bool(self.statuses or self.causes or self.who or self.since or self.until)

    @property
    def is_by_flow(self) -> bool:
        """Whether it follows the flow from somewhere."""
        return bool(self.upstream_of or self.downstream_of)

    def matches(self, subject: Subject, partition: Partition | None = None) -> bool:
        """Whether a chunk or an event is meant, as far as it says so itself: where it stands in the flow is not asked.

        A range needs the partition of the dataset.
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
        """Whether a dataid is named, or lies in a range."""
        if dataid is None:
            return False
        for word in self.dataids:
            first, dots, last = word.partition(_RANGE)
            if dataid == word or (dots and partition is not None and _is_between(partition, first, dataid, last)):
                return True
        return False

    def has_moment(self, at: datetime | None) -> bool:
        """Whether something happened in the span of time."""
        if at is None:
            return self.since is None and self.until is None
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)

    def has_author(self, who: str | None) -> bool:
        """Whether somebody is named: by user, user@host, or how that begins."""
        return who is not None and any(who.startswith(name) for name in self.who)

    def has_cause(self, *said: str | None) -> bool:
        """Whether one of these is the name of the outcome, or says the same but for numbers and names."""
        known = [each for each in said if each]
        return any(cause.upper() in known or any(_says(each, cause) for each in known) for cause in self.causes)

    def words(self) -> list[str]:
        """The same as words of a command line."""
        words = [*self.datasets, *self.dataids]
        for option, values in (
            ("--job", self.jobs),
            ("--status", self.statuses),
            ("--cause", self.causes),
            ("--since", _moments(self.since)),
            ("--until", _moments(self.until)),
            ("--by", self.who),
            ("--upstream-of", self.upstream_of),
            ("--downstream-of", self.downstream_of),
        ):
            words += [word for value in values for word in (option, value)]
        return words + ["--all"] * self.everything

    @classmethod
    def from_data(cls, table: object, where: str = "") -> Selector:
        """A selector of a file: the words of the command line, each with a text or a list of texts."""
        if not isinstance(table, Mapping):
            raise BadDefinition(f"{within(where)}expected a table, not {shown(table)}")
        named: dict[str, tuple[str, ...]] = {}
        for key, value in table.items():
            if key not in KEYS:
                raise BadDefinition(
                    f"{within(where)}{shown(key)} selects nothing", hint=f"What selects is: {', '.join(KEYS)}."
                )
            texts = [value] if isinstance(value, str) else value
            if not isinstance(texts, (list, tuple)) or not texts or not all(isinstance(text, str) for text in texts):
                raise BadDefinition(f"{within(where)}{key} must be a text or a list of texts, not {shown(value)}")
            named[KEYS[key]] = tuple(texts)
        if "dataids" in named and len(named.get("datasets", ())) + len(named.get("jobs", ())) == 0:
            raise BadDefinition(f"{within(where)}dataid needs a dataset or a job beside it")
        return cls(**named)  # type: ignore[arg-type]

    def to_data(self) -> dict[str, object]:
        """The same as plain data, without what is not set; moments as text."""
        data: dict[str, object] = {key: list(getattr(self, name)) for key, name in KEYS.items() if getattr(self, name)}
        moments = {"since": self.since, "until": self.until}
        data |= {name: moment.isoformat() for name, moment in moments.items() if moment}
        return data | ({"all": True} if self.everything else {})


# What selects in a file, and which part of a selector it is.
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


def _moments(moment: datetime | None) -> tuple[str, ...]:
    return () if moment is None else (moment.isoformat(timespec="seconds"),)


def _says(text: str, cause: str) -> bool:
    key = _folded(cause)
    # A cause that is nothing but numbers and names is looked for as it stands.
    return key in _folded(text) if any(map(str.isalpha, key)) else cause in text


@lru_cache(maxsize=10_000)  # many failures say the same
def _folded(text: str) -> str:
    return cause_key(text).casefold()


def _is_between(partition: Partition, first: str, dataid: str, last: str) -> bool:
    try:
        low, here, high = (sort_key(partition, each) for each in (first, dataid, last))
    except (BadDataid, BadId):
        return False  # a dataid of another type, typed by a person
    return low <= here <= high
