"""Auditing: what was staged or found, judged by everything that is declared about it, and its manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ..errors import BadDefinition
from ..files.checks import ChecksFailed
from ..files.quarantine import has_quarantine, is_within, limit_of
from ..model import CheckResult, Dataset, span
from ..model.decision.remarks import QUARANTINE
from ..model.definitions.checks import ERROR, WARN, policy
from .check_kinds import probes
from .checking import CheckFacts, Load, Probe, about, any_of, null_counts, null_differences
from .columns import Bounds, column, has_instants, lies_within, quoted, type_of
from .fingerprint import fingerprint_metrics, fingerprint_of
from .keys import INSTANT, as_text, bound_of
from .observing import Figures, computed, how_many
from .reading import Malformed, declared_schema
from .schema import Difference, differences, from_ddl, not_null_columns

ROWS, BAD, LOWER, UPPER, MISFITS = "rows", "bad", "lower", "upper", "misfits"


@dataclass(frozen=True)
class EarlierPublishes:
    """What earlier publishes of a dataset say: its pinned schema, and the rows of its chunks, newest first."""

    schema: str = ""
    rows: Sequence[int] = ()
    rejected: bool = False  # whether an earlier version of this chunk kept rows aside


@dataclass(frozen=True)
class Surroundings:
    """What is around one chunk when it is judged."""

    past: EarlierPublishes = field(default_factory=EarlierPublishes)
    bounds: Bounds | None = None
    rows_in: Callable[[str], int | None] = lambda datasetid: None
    load: Load | None = None
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    spark_app: str = ""
    malformed: Malformed | None = None  # rows of the inputs that could not be read
    known: Mapping[str, Figures] = field(default_factory=dict)  # what a pass over many chunks found out, by check
    mark: str = ""  # of the run, in the folder that it writes
    extra: Path | None = None  # a folder with other files that the job made for this version
    location: str = ""  # of the chunk, if already known


class Audit:
    """Everything that is asked of one chunk: made before it is written, answered afterwards."""

    def __init__(self, df: DataFrame, dataset: Dataset, dataid: str, around: Surroundings, drift: Drift) -> None:
        self.dataset, self.dataid, self.around, self.drift = dataset, dataid, around, drift
        self.schema = df.schema
        self.probes = probes(df, dataset, dataid, around.bounds)
        self.has_fingerprint = dataset.options.get("fingerprint") is not False
        self._nulls = null_counts(self.schema, drift.not_null)

    def twin(self, dataid: str, around: Surroundings) -> Audit:
        """The same questions about another chunk of the same columns, for figures that are known already."""
        other = copy(self)
        other.dataid, other.around = dataid, around
        other.probes = [about(probe, dataid) for probe in self.probes]
        return other

    def counts(self, *, without: Sequence[Probe] = ()) -> dict[str, Column]:
        """Conditions that should hold for no row, by the name of what counts them."""
        conditions = dict(self._nulls)
        for probe in self.probes:
            if probe not in without:
                conditions |= probe.counts
        return conditions

    @property
    def row_checks(self) -> list[Probe]:
        """The checks whose bad rows can be told from the good ones."""
        return [probe for probe in self.probes if probe.is_by_row and probe.check.severity == ERROR]

    @property
    def keeps_aside(self) -> bool:
        """Whether bad rows go into quarantine."""
        return has_quarantine(self.dataset) and bool(self.row_checks or self.around.malformed)

    def metrics(self, *, without: Sequence[Probe] = ()) -> dict[str, Column]:
        """Everything that must be known of the chunk."""
        return {**self.basic(without=without), **counted(self.counts(without=without))}

    def summary(self, *, without: Sequence[Probe] = ()) -> dict[str, Column]:
        """The same with one number for all that should not be there: enough, and cheaper, where it is nought.

        Whether all rows lie in the chunk is told by the least and the greatest value: a condition with the bounds of
        the chunk in it would have Spark compile new code for every chunk.
        """
        bad = self.suspicious(without=without)
        return {**self.basic(without=without), **({} if bad is None else {BAD: how_many(bad)})}

    def suspicious(self, *, without: Sequence[Probe] = ()) -> Column | None:
        """Rows that should not be there, but for those that lie in another chunk; None when every row may be there."""
        spans = self._spans(without)
        conditions = list(self.counts(without=[*without, *spans]).values())
        if spans:
            conditions.append(column(self.schema, str(self.dataset.partition.column)).isNull())
        return any_of(conditions) if conditions else None

    def is_clean(self, summary: Figures, *, without: Sequence[Probe] = ()) -> bool:
        """Whether a summary says that there is surely nothing that should not be there."""
        return not summary.get(BAD) and (not self._spans(without) or self._lies_within(summary))

    def _spans(self, without: Sequence[Probe]) -> list[Probe]:
        return [
            probe for probe in self.probes if probe.check.kind == "span" and probe.is_by_row and probe not in without
        ]

    def _lies_within(self, summary: Figures) -> bool:
        partition = self.dataset.partition
        if not int(summary[ROWS] or 0):
            return True
        if partition.type == "text":
            return summary.get(LOWER) == summary.get(UPPER) == self.dataid
        limits = self.around.bounds or span(partition, self.dataid)
        return lies_within(type_of(self.schema, partition.column or ""), limits, *self.span(summary))

    def details(self, figures: Figures, staged: Callable[[], DataFrame], *, without: Sequence[Probe] = ()) -> Figures:
        """A summary with every number in it that is not nought: counted by a pass of their own."""
        if self.is_clean(figures, without=without):
            return figures
        return {**figures, **computed(staged(), counted(self.counts(without=without)))}

    def basic(self, *, without: Sequence[Probe] = ()) -> dict[str, Column]:
        """What must be known of all rows together."""
        metrics: dict[str, Column] = {ROWS: F.expr("count(1)"), **self._span()}
        for probe in self.probes:
            if probe not in without:
                metrics |= probe.metrics
        return {**metrics, **fingerprint_metrics(self.schema)} if self.has_fingerprint else metrics

    def fingerprint(self, figures: Figures, rows: int) -> str | None:
        """The fingerprint of the chunk."""
        return fingerprint_of(figures, rows, self.schema) if self.has_fingerprint else None

    def span(self, figures: Figures) -> tuple[str | None, str | None]:
        """The least and the greatest value of the partition column, as ISO text."""
        return self._iso(figures.get(LOWER)), self._iso(figures.get(UPPER))

    def _iso(self, value: object) -> str | None:
        if value is None or not has_instants(self.schema, self.dataset.partition):
            return _iso(value)
        try:
            return bound_of(INSTANT, str(value))
        except BadDefinition:  # ISO has no text for a year after 9999
            return None

    def results(
        self, figures: Figures, rows: int, staged: Callable[[], DataFrame], *, total: int | None = None
    ) -> list[CheckResult]:
        """The verdict of every check, of drift and of emptiness; of quarantined rows where a total is given."""
        rejected = 0 if total is None else total - rows
        around = self.around
        facts = CheckFacts(
            rows, staged, rejected, around.past.rows, around.rows_in, around.load, around.now, around.known
        )
        results = [*self.drift.results(figures, null_differences(figures, self._nulls)), *self._emptiness(rows)]
        for probe in self.probes:
            result = probe.result(figures, facts)
            if total is not None and probe in self.row_checks:
                # The rows that did not pass are not in the chunk.
                result = result._replace(passed=True, figures={**result.figures, "quarantined": True})
            results.append(result)
        if total is not None and rejected:
            results.append(self._quarantine(figures, rejected, total))
        return results

    def _quarantine(self, figures: Figures, rejected: int, total: int) -> CheckResult:
        """Whether as few rows were kept aside as the dataset allows; a chunk without any rows left is no good one."""
        limit = limit_of(self.dataset)
        counts = {
            probe.check.label: sum(int(figures.get(name) or 0) for name in probe.counts) for probe in self.row_checks
        }
        if self.around.malformed:
            counts["malformed"] = self.around.malformed.rows
        passed = is_within(limit, rejected, total) and (rejected < total or self._may_be_empty)
        told = {"rejected": rejected, "of": total, "max": limit, "because": {k: n for k, n in counts.items() if n}}
        return CheckResult(QUARANTINE, QUARANTINE, ERROR, passed, told)

    @property
    def _may_be_empty(self) -> bool:
        return not policy(self.dataset, "empty", WARN)

    def require(self, results: Sequence[CheckResult], hint: str = "") -> None:
        """Raise when a check of severity error did not pass."""
        if any(result.refuses for result in results):
            raise ChecksFailed(self.dataset.datasetid, self.dataid, results, hint)

    def _span(self) -> dict[str, Column]:
        name = self.dataset.partition.column
        if name is None or type_of(self.schema, name) is None:
            return {}
        value = column(self.schema, name)
        kind = INSTANT if has_instants(self.schema, self.dataset.partition) else ""
        return {LOWER: as_text(kind, F.min(value)), UPPER: as_text(kind, F.max(value))}

    def _emptiness(self, rows: int) -> list[CheckResult]:
        if rows:
            return []
        severity = policy(self.dataset, "empty", WARN)
        return [CheckResult("empty", "empty", severity or WARN, not severity, {"rows": 0})]


class Drift:
    """How the columns of a chunk differ from those that were declared, or that the first publish had."""

    def __init__(
        self, dataset: Dataset, past: EarlierPublishes, actual: StructType, known: list[Difference] | None = None
    ) -> None:
        self.expected = expected_schema(dataset, past)
        if known is None:
            known = differences(self.expected, actual) if self.expected is not None else []
        self.differences = known
        # Unlike `empty`, drift without a declared policy is refused: the readers of the dataset rely on its columns.
        self.severity = policy(dataset, "drift", "refuse")

    @property
    def not_null(self) -> list[str]:
        """Columns that were NOT NULL, whatever they are now."""
        return not_null_columns(self.expected) if self.expected is not None else []

    def results(self, figures: Figures, nulls: Sequence[Difference] = ()) -> list[CheckResult]:
        """The verdict: no differences, or which."""
        if self.expected is None:
            return []
        misfits = int(figures.get(MISFITS) or 0)
        told: dict[str, object] = {}
        if self.differences or nulls:
            told["differences"] = [str(difference) for difference in (*self.differences, *nulls)]
        if misfits:
            told["misfits"] = misfits
            told["example"] = str(figures.get("misfit", ""))[:200]
        return [CheckResult("drift", "drift", self.severity or WARN, not told or not self.severity, told)]


def counted(conditions: Mapping[str, Column]) -> dict[str, Column]:
    """How many rows fulfil each condition."""
    return {name: how_many(condition) for name, condition in conditions.items()}


def expected_schema(dataset: Dataset, past: EarlierPublishes) -> StructType | None:
    """The columns that a chunk of this dataset must have; None before anything was declared or published."""
    declared = declared_schema(dataset)
    if declared is not None:
        return declared
    return from_ddl(past.schema) if past.schema else None


def in_expected_order(df: DataFrame, expected: StructType | None) -> DataFrame:
    """The same columns in the order that earlier chunks have them, so that readers by position find them."""
    if expected is None:
        return df
    names = {name.lower(): name for name in df.columns}
    known = [names.pop(field.name.lower()) for field in expected.fields if field.name.lower() in names]
    order = [*known, *names.values()]
    return df if order == df.columns else df.select(*map(quoted, order))


def _iso(value: object) -> str | None:
    if value is None:
        return None
    text = str(value)
    is_moment = len(text) > 11 and text[4:5] == "-" and text[10] == " "
    return f"{text[:10]}T{text[11:]}" if is_moment else text
