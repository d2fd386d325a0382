"""Checking: one check as figures to observe, a condition that bad rows fulfil, and a verdict on both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from ..model import Check, CheckResult
from .columns import column, type_of
from .observing import Figures
from .schema import NULLABLE, Difference

Load = Callable[[str], DataFrame]


@dataclass(frozen=True)
class CheckFacts:
    """What a verdict may need besides the figures of the chunk itself."""

    rows: int
    staged: Callable[[], DataFrame]
    rejected: int = 0
    earlier_rows: Sequence[int] = ()
    rows_in: Callable[[str], int | None] = lambda datasetid: None
    load: Load | None = None
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    known: Mapping[str, Figures] = field(default_factory=dict)  # by check: what a pass over many chunks found out


@dataclass(frozen=True)
class Verdict:
    """Whether a check passed, and the figures that say so."""

    passed: bool
    figures: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Across:
    """What a check compares across rows: those that are wrong, which keep the columns `by`, and figures of them.

    `mark` adds a column that says of each row whether it is wrong, for rows that are kept aside.
    """

    wrong: Callable[[DataFrame, Load | None, Sequence[str]], DataFrame]
    metrics: Mapping[str, Column]
    mark: Callable[[DataFrame, Load | None, str], DataFrame]


@dataclass(frozen=True, eq=False)  # columns do not compare to true or false
class Probe:
    """One check, ready to be asked: what to observe, which rows are bad, and how to judge."""

    check: Check
    judge: Callable[[Figures, CheckFacts], Verdict]
    conditions: Callable[[], Mapping[str, Column]] = dict  # how many rows fulfil each; made when somebody counts them
    metrics: Mapping[str, Column] = field(default_factory=dict)  # whatever else must be known of all rows
    is_by_row: bool = False
    across: Across | None = None

    @cached_property
    def counts(self) -> Mapping[str, Column]:
        """The conditions, by the name of what counts them."""
        return self.conditions()

    @property
    def bad(self) -> Column | None:
        """Which rows do not pass, where that can be told row by row."""
        return any_of(self.counts.values()) if self.is_by_row else None

    def result(self, figures: Figures, facts: CheckFacts) -> CheckResult:
        """The verdict as it is kept in the manifest and in the receipt."""
        verdict = self.judge(figures, facts)
        return CheckResult(self.check.label, self.check.kind, self.check.severity, verdict.passed, verdict.figures)


def key_of(check: Check) -> str:
    """A name that no other check of the dataset has."""
    return f"{check.kind} {check.label} {sorted(check.params.items())}"


def about(probe: Probe, dataid: str) -> Probe:
    """The same question about another chunk; its conditions are still those of the chunk that it was made for."""
    if probe.check.kind != "span":
        return probe

    def judge(figures: Figures, facts: CheckFacts) -> Verdict:
        verdict = probe.judge(figures, facts)
        return Verdict(verdict.passed, {**verdict.figures, "dataid": dataid})

    return replace(probe, judge=judge)


def any_of(conditions: Iterable[Column]) -> Column:
    """Rows that fulfil at least one condition."""
    return reduce(lambda one, other: one | other, conditions)


def null_counts(schema: StructType, names: Sequence[str]) -> dict[str, Column]:
    """What to count for the number of nulls in each of these columns."""
    return {f"nulls {name}": column(schema, name).isNull() for name in names if type_of(schema, name)}


def null_differences(figures: Figures, nulls: Mapping[str, Column]) -> list[Difference]:
    """Columns that must not have nulls and do."""
    return [Difference(NULLABLE, name.removeprefix("nulls ")) for name in nulls if figures.get(name)]
