"""Staging: an output written to a location of its epoch alone, audited there, and published only afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ..errors import BadConfig, JobFailed
from ..files.checks import ChecksFailed
from ..files.quarantine import BECAUSE, has_quarantine, rejected_dataset
from ..files.versions import OURS
from ..model import CheckResult, Dataset, Manifest
from ..model.definitions.checks import ERROR
from ..project import Environment, Project, resolve_location
from .auditing import ROWS, Audit, Drift, Surroundings, counted, in_expected_order
from .check_kinds import by_mark
from .checking import Probe, any_of
from .columns import quoted
from .fingerprint import fingerprint_metrics
from .formats import EXACT, folder_columns, format_of
from .observing import Figures, Observed, computed
from .problems import SPARK_ERRORS
from .reading import Password
from .schema import to_ddl
from .sinks import FileSink, Sink, table_sink
from .writing import not_read_back

KEPT = "What was written is kept for you to look at until the next odf vacuum: {}"


@dataclass(frozen=True)
class Staged:
    """An output that passed its checks: what is recorded of it, and what is left to do when it is published."""

    manifest: Manifest
    publish: Callable[[], None]
    rejected: Manifest | None = None
    is_visible: bool = True  # whether publishing changes what readers outside the store see


def stage(
    spark: SparkSession,
    where: Project | Environment,
    df: DataFrame,
    dataset: Dataset,
    dataid: str,
    epoch: int,
    around: Surroundings,
    password: Password,
) -> Staged:
    """Write an output, judge it, and hand over its manifest; ChecksFailed when it may not be published."""
    drift = Drift(dataset, around.past, df.schema)
    df = in_expected_order(df, drift.expected)
    audit = Audit(df, dataset, dataid, around, drift)
    if drift.differences:
        audit.require(drift.results({}))  # before anything is written
    df = _marked(df, audit)
    sink: Sink
    if dataset.kind == "table":
        sink = table_sink(spark, dataset, dataid, epoch, password(dataset), around.bounds)
    else:
        location = around.location or resolve_location(where, dataset, dataid)
        sink = FileSink(spark, dataset, dataid, epoch, location, audit.schema, around.mark)
    written = _write(df, audit, sink)
    malformed = around.malformed.rows if around.malformed else 0
    total = written.total + malformed if audit.keeps_aside else None
    results = audit.results(written.figures, written.rows, sink.read_back, total=total)
    try:
        audit.require(results, KEPT.format(sink.kept()) if sink.kept() else "")
        rejected = None
        if total is not None and (total > written.rows or around.past.rejected):
            rejected = _keep_aside(spark, where, df, audit, epoch, total - written.rows)
        others = sink.take(around.extra) if around.extra is not None else []
    except (ChecksFailed, JobFailed, BadConfig):
        sink.discard()
        raise
    extra: dict[str, object] = {"writer": OURS, "metrics": written.source}
    if total is not None:
        extra["rejected"] = total - written.rows
    if others:
        extra["others"] = others
    manifest = manifest_of(audit, sink, written.figures, written.rows, results, extra)
    return Staged(manifest, sink.publish, rejected, sink.is_visible)


def manifest_of(
    audit: Audit, sink: Sink, figures: Figures, rows: int, results: Sequence[CheckResult], extra: Mapping[str, object]
) -> Manifest:
    """What is recorded of an output that passed its checks."""
    lower, upper = audit.span(figures)
    return replace(
        sink.facts(),
        rows=rows,
        schema=to_ddl(audit.schema),
        span_lower=lower,
        span_upper=upper,
        fingerprint=audit.fingerprint(figures, rows),
        checks=tuple(results),
        spark_app=audit.around.spark_app,
        extra=dict(extra),
    )


@dataclass(frozen=True)
class _Written:
    rows: int
    total: int
    figures: Figures
    source: str


def _write(df: DataFrame, audit: Audit, sink: Sink) -> _Written:
    """Write in one pass with everything that is observed, and believe that only where it fits what is there."""
    apart = audit.row_checks if audit.keeps_aside else []
    before = Observed(df, _before(apart)) if apart else None
    good = before.df.where(~_any_bad(apart)).select(*map(quoted, audit.schema.names)) if before else df
    dataset = audit.dataset
    is_read_back = dataset.kind == "file" and (format_of(dataset) not in EXACT or bool(folder_columns(dataset)))
    content = fingerprint_metrics(audit.schema) if is_read_back else {}
    observed = Observed(good, {**audit.summary(without=apart), **content})
    sink.write(observed.df)
    if is_read_back:
        figures, rows, source = _as_read(audit, observed.figures(), good, sink, apart)
    else:
        figures, rows, source = _believed(audit, observed.figures(), sink, apart)
    total = rows
    if before is not None:
        counts = before.figures() if source == "observed" else None
        if counts is None:
            counts = computed(df, _before(apart))
        figures, total = {**counts, **figures}, int(counts["total"])
    return _Written(rows, total, figures, source)


def _believed(audit: Audit, figures: Figures | None, sink: Sink, apart: Sequence[Probe]) -> tuple[Figures, int, str]:
    seen = None if figures is None else int(figures[ROWS])
    rows = sink.rows()
    if rows is None or rows != seen:
        rows = sink.read_back().count()
    if figures is not None and seen == rows:
        return audit.details(figures, sink.read_back, without=apart), rows, "observed"
    return computed(sink.read_back(), audit.metrics(without=apart)), rows, "read back"


def _as_read(
    audit: Audit, figures: Figures | None, df: DataFrame, sink: Sink, apart: Sequence[Probe]
) -> tuple[Figures, int, str]:
    """What a reader gets of texts and names of folders; NotValidated where that is not what the job returned."""
    content = fingerprint_metrics(audit.schema)
    try:
        back: Figures = computed(sink.read_back(), {**audit.summary(without=apart), **content})
    except SPARK_ERRORS:
        back = {}
    if not back or figures is None or any(figures[name] != back[name] for name in (ROWS, *content)):
        problem = not_read_back(audit.dataset, audit.dataid, df, sink.read_back())
        if problem is not None:
            raise problem
    return audit.details(back, sink.read_back, without=apart), int(back[ROWS]), "read back"


def _marked(df: DataFrame, audit: Audit) -> DataFrame:
    """Where bad rows are kept aside: each row with what the checks that compare rows say of it."""
    if not has_quarantine(audit.dataset):
        return df
    for index, probe in enumerate(audit.probes):
        if probe.across is not None and probe.check.severity == ERROR:
            name = f"__odf_wrong_{index}"
            df = probe.across.mark(df, audit.around.load, name)
            audit.probes[index] = by_mark(probe, name)
    return df


def _before(apart: Sequence[Probe]) -> dict[str, Column]:
    counts = {name: condition for probe in apart for name, condition in probe.counts.items()}
    return {"total": F.count(F.lit(1)), **counted(counts)}


def _any_bad(apart: Sequence[Probe]) -> Column:
    return any_of(probe.bad for probe in apart if probe.bad is not None)


def _keep_aside(
    spark: SparkSession, where: Project | Environment, df: DataFrame, audit: Audit, epoch: int, expected: int
) -> Manifest:
    """The bad rows with what is wrong with each, as a chunk of their own; none, where an earlier version had some."""
    dataset, dataid = rejected_dataset(audit.dataset), audit.dataid
    reasons = [F.when(probe.bad, F.lit(probe.check.label)) for probe in audit.row_checks if probe.bad is not None]
    bad = df.where(_any_bad(audit.row_checks) if reasons else F.lit(False))
    bad = bad.withColumn(BECAUSE, F.concat_ws(", ", *reasons))
    bad = bad.select(*map(quoted, (*audit.schema.names, BECAUSE)))
    if audit.around.malformed:
        bad = bad.unionByName(_alike(audit.around.malformed.df, bad.schema), allowMissingColumns=True)
    schema = bad.schema
    location = resolve_location(where, dataset, dataid)
    sink = FileSink(spark, dataset, dataid, epoch, location, schema, audit.around.mark)
    sink.write(bad)
    rows = sink.rows()
    if rows is None:
        rows = sink.read_back().count()
    if rows != expected:
        raise JobFailed(
            f"{audit.dataset.datasetid} {dataid}: {expected} rows were rejected, but {rows} the second time",
            hint="The job returns other rows each time it is computed. Make it deterministic, or cache its result.",
        )
    return replace(
        sink.facts(),
        rows=rows,
        schema=to_ddl(schema),
        spark_app=audit.around.spark_app,
        extra={"writer": OURS, "rejected_from": audit.dataset.datasetid},
    )


def _alike(malformed: DataFrame, schema: StructType) -> DataFrame:
    """Malformed rows of an input with those of their columns that the output has too."""
    known = {field.name: field.dataType for field in schema.fields}
    return malformed.select(*(quoted(f.name) for f in malformed.schema.fields if known.get(f.name) == f.dataType))
