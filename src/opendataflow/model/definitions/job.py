"""Define a job: its inputs, outputs, mappings, environment and run rules, without code."""

from __future__ import annotations

from collections.abc import Mapping as Table
from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite
from typing import NamedTuple

from ...errors import BadDefinition, LeaseLost
from ..moment import written
from ..plain import plain_table
from ..timezone import time_zone
from .hours import Hours, next_change, parse_window, slots_at
from .ids import check_id, shown
from .mapping import IDENTITY, Mapping

_MOST_DOUBLINGS = 64
# What happens to a published chunk when a new version of an input is published.
STALE, RERUN, IGNORE = "stale", "rerun", "ignore"
CRASHES = 2  # retries after a lost lease, independent of `retries`


def _is_env_name(name: object) -> bool:
    return isinstance(name, str) and name.isascii() and name.isidentifier()


def _is_outcome(name: object) -> bool:
    return _is_env_name(name) and str(name).isupper()


def _is_number_at_least(least: float, value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value) and value >= least


def _names(names: object) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, (list, tuple)):
        raise BadDefinition(f"outputs must be a list of datasets, not {shown(names)}")
    return tuple(names)


@dataclass(frozen=True, slots=True)
class Input:
    """A dataset that a job reads, and its mapping."""

    datasetid: str
    mapping: Mapping = IDENTITY

    def __post_init__(self) -> None:
        check_id("dataset", self.datasetid)
        if not isinstance(self.mapping, Mapping):
            raise BadDefinition(f"input {self.datasetid}: {shown(self.mapping)} is not a mapping")


@dataclass(frozen=True, slots=True)
class RetryRule:
    """When a failed run is retried, and after how many seconds."""

    retries: int = 0
    backoff: float = 10.0
    backoff_max: float = 3600.0
    on: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.retries, bool) or not isinstance(self.retries, int) or self.retries < 0:
            raise BadDefinition(f"retries must be a whole number from 0, not {shown(self.retries)}")
        for name in ("backoff", "backoff_max"):
            if not _is_number_at_least(0, getattr(self, name)):
                raise BadDefinition(f"{name} must be a number of seconds from 0, not {shown(getattr(self, name))}")
        if isinstance(self.on, str):
            raise BadDefinition(f"on must be a list of names, not {shown(self.on)}")
        object.__setattr__(self, "on", tuple(self.on))
        for outcome in self.on:
            if not _is_outcome(outcome):
                raise BadDefinition(
                    f"{shown(outcome)} is not the name of an outcome", hint="Write for instance JOB_FAILED."
                )

    def delay(self, tries: int, jitter: float = 0.0) -> float:
        """Seconds to wait after this many tries: backoff, doubled with each try up to backoff_max.

        Jitter from 0 to 1 adds up to a quarter, also above backoff_max, so that failures of one moment are not retried together.
        """
        doublings = min(max(tries - 1, 0), _MOST_DOUBLINGS)
        return min(self.backoff * 2.0**doublings, self.backoff_max) * (1 + jitter * 0.25)

    def applies(self, tries: int, outcome: str) -> bool:
        """Whether a run with this many tries and this last outcome is retried.

        A run that lost its lease is retried by default: a crash is not the job's fault.
        """
        if not self.on and outcome == LeaseLost.name:
            return tries <= max(self.retries, CRASHES)
        return tries <= self.retries and (not self.on or outcome in self.on)


@dataclass(frozen=True, slots=True)
class Job:
    """A name, the datasets that a job reads and writes, and the rules of its runs."""

    jobid: str
    inputs: tuple[Input, ...] = ()
    outputs: tuple[str, ...] = ()
    env: Table[str, str] = field(default_factory=dict, hash=False)
    retry: RetryRule = RetryRule()
    lease: float = 30.0
    timeout: float | None = None
    pool: str = ""
    options: Table[str, object] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_id("job", self.jobid)
        object.__setattr__(self, "inputs", tuple(self.inputs))
        object.__setattr__(self, "outputs", _names(self.outputs))
        object.__setattr__(self, "options", plain_table(self.options, f"job {self.jobid}"))
        self._check_datasets()
        self._check_env()
        self._check_limits()

    @property
    def batch(self) -> int:
        """The number of chunks that one Spark job processes together."""
        return int(str(self.options.get("batch", 1)))

    @property
    def on_new_version(self) -> str:
        """What happens to its chunks when a new version of an input is published: stale, rerun or ignore."""
        declared = self.options.get("on_new_version", STALE)
        return str(declared) if declared in (RERUN, IGNORE) else STALE

    def _check_datasets(self) -> None:
        where = f"job {self.jobid}"
        if not self.inputs and not self.outputs:
            raise BadDefinition(f"{where} neither reads nor writes anything", hint="Declare reads, writes or both.")
        for item in self.inputs:
            if not isinstance(item, Input):
                raise BadDefinition(f"{where}: {shown(item)} is not an input")
        for datasetid in self.outputs:
            check_id("dataset", datasetid)
        for verb, names in (("reads", [item.datasetid for item in self.inputs]), ("writes", list(self.outputs))):
            for twice in {name for name in names if names.count(name) > 1}:
                raise BadDefinition(f"{where} {verb} dataset {twice} twice", hint="Name each dataset once.")

    def _check_env(self) -> None:
        if not isinstance(self.env, Table):
            raise BadDefinition(f"job {self.jobid}: env must be a table of names and texts, not {shown(self.env)}")
        object.__setattr__(self, "env", dict(self.env))
        for name, value in self.env.items():
            if not _is_env_name(name):
                raise BadDefinition(
                    f"job {self.jobid}: {shown(name)} cannot be the name of an env item",
                    hint="Use letters, digits and _, and do not begin with a digit.",
                )
            if not isinstance(value, str) or "\0" in value:
                raise BadDefinition(f"job {self.jobid}: env item {name} must be text, not {shown(value)}")

    def _check_limits(self) -> None:
        where = f"job {self.jobid}"
        if not isinstance(self.retry, RetryRule):
            raise BadDefinition(f"{where}: {shown(self.retry)} is not a retry rule")
        for name, seconds in (("lease", self.lease), ("timeout", self.timeout)):
            if (name, seconds) != ("timeout", None) and (not _is_number_at_least(0, seconds) or seconds == 0):
                raise BadDefinition(f"{where}: {name} must be a number of seconds above 0, not {shown(seconds)}")
        if self.pool != "":
            check_id("pool", self.pool)


class Pause(NamedTuple):
    """A pause of a job until it is resumed: by whom, since when, and why."""

    jobid: str
    who: str
    why: str | None
    since: datetime | None

    def __str__(self) -> str:
        since = written(self.since) if self.since else "an unknown time"
        return f"job {self.jobid} is paused by {self.who} since {since}" + (f": {self.why}" if self.why else "")


@dataclass(frozen=True, slots=True)
class Pool:
    """The limit of concurrent runs of its jobs; None is unlimited, 0 is paused.

    options["hours"] sets other slots for parts of the week, options["timezone"] their time zone.
    """

    poolid: str
    slots: int | None = None
    options: Table[str, object] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_id("pool", self.poolid)
        if self.slots is not None and (not isinstance(self.slots, int) or not _is_number_at_least(0, self.slots)):
            raise BadDefinition(
                f"pool {self.poolid}: slots must be a whole number from 0, not {shown(self.slots)}",
                hint="With 0 the pool is paused; leave slots out for no limit.",
            )
        object.__setattr__(self, "options", plain_table(self.options, f"pool {self.poolid}"))
        if "hours" in self.options or "timezone" in self.options:
            self.hours()

    def hours(self) -> Hours:
        """The windows with other slots, and their time zone; BadDefinition if malformed."""
        lines, name = self.options.get("hours", []), self.options.get("timezone", "UTC")
        if not isinstance(lines, list) or not isinstance(name, str):
            raise BadDefinition(f"pool {self.poolid}: hours must be a list of texts, and timezone a text")
        try:
            return tuple(map(parse_window, lines)), time_zone(name)
        except BadDefinition as problem:
            raise BadDefinition(f"pool {self.poolid}: {problem.message}", hint=problem.hint) from None

    def slots_at(self, now: float) -> int | None:
        """The slots at a moment; None is unlimited."""
        return slots_at(self.slots, *self.hours(), now) if "hours" in self.options else self.slots

    def next_change(self, now: float) -> tuple[float, int | None] | None:
        """When the hours next change the slots, and to how many."""
        return next_change(self.slots, *self.hours(), now) if "hours" in self.options else None
