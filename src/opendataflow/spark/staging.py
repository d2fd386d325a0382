"""Staging: an output written to a place of its epoch alone, audited there, and published only afterwards."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ..errors import JobFailed
from ..model import Dataset, File, Manifest
from ..project import Environment, Project, resolve_location
from .auditing import ROWS, Audit, Drift, Surroundings, in_expected_order
from .checking import Probe
from .files import list_files, move, remove
from .formats import format_of
from .observing import Figures, Observed, computed
from .quarantine import BECAUSE, rejected_dataset
from .reading import OURS, read_place
from .schema import to_ddl
from .versions import chunk_place, is_one_file, is_plain, staging_place, version_place
from .writing import check_nothing_split, free_place, rows_written, write_files

KEPT = "What was written is kept for you to look at until the next odf vacuum: {}"


@dataclass(frozen=True)
class Staged:
    """An output that passed its checks: what is recorded of it, and what is left to do when it is published."""

    manifest: Manifest
    publish: Callable[[], None] = lambda: None
    rejected: Manifest | None = None


def stage_files(
    spark: SparkSession,
    where: Project | Environment,
    df: DataFrame,
    dataset: Dataset,
    dataid: str,
    epoch: int,
    around: Surroundings,
) -> Staged:
    """Write an output of kind file, judge it, and hand over its manifest; ChecksFailed when it may not be published."""
    drift = Drift(dataset, around.past, df.schema)
    df = in_expected_order(df, drift.expected)
    audit = Audit(df, dataset, dataid, around, drift)
    if drift.found:
        audit.require(drift.results({}))  # before anything is written
    location = resolve_location(where, dataset, dataid)
    target = chunk_place(dataset, location, dataid)
    wanted = staging_place(target, epoch) if is_plain(dataset) else version_place(dataset, location, dataid, epoch)
    written = _write(spark, df, audit, wanted)
    hint = KEPT.format(written.place)
    total = written.total if audit.keeps_aside else None
    results = audit.results(written.figures, written.rows, written.read_back, total=total)
    audit.require(results, hint)
    rejected = None
    if total is not None and total > written.rows:
        rejected = _write_rejected(spark, where, df, audit, dataid, epoch, total - written.rows, around)
    lower, upper = audit.span(written.figures)
    manifest = Manifest(
        place=written.place,
        format=format_of(dataset),
        files=written.files,
        bytes=sum(file.bytes for file in written.files),
        rows=written.rows,
        schema=to_ddl(audit.schema),
        span_lower=lower,
        span_upper=upper,
        fingerprint=audit.fingerprint(written.figures, written.rows),
        checks=tuple(results),
        inputs=around.inputs,
        spark_app=around.spark_app,
        extra=_extra(written, total),
    )
    if is_plain(dataset):
        return _plain(spark, manifest, dataset, target, rejected)
    return Staged(manifest, rejected=rejected)


@dataclass(frozen=True)
class _Written:
    place: str
    files: tuple[File, ...]
    rows: int
    total: int
    figures: Figures
    observed: bool
    read_back: Callable[[], DataFrame]


def _write(spark: SparkSession, df: DataFrame, audit: Audit, place: str) -> _Written:
    """Write in one pass with everything that is observed, and believe that only where it fits what is there."""
    dataset = audit.dataset
    apart = audit.row_checks if audit.keeps_aside else []
    before = Observed(df, _before(apart)) if apart else None
    good = before.df.where(~_any_bad(apart)) if before else df
    metrics = audit.metrics(without=apart)
    observed = Observed(audit.with_hash(good), metrics)
    output = audit.without_hash(observed.df)
    place = free_place(spark, place)
    write_files(output.coalesce(1) if is_one_file(dataset) else output, dataset, place)
    files = list_files(spark, place)

    def read_back() -> DataFrame:
        return read_place(spark, dataset, place, schema=audit.schema, is_ours=True)

    figures, rows, is_observed = _believed(spark, audit, observed.figures(), place, files, metrics, read_back)
    total = rows
    if before is not None:
        found = before.figures()
        if found is None or not is_observed:
            found = computed(df, _before(apart))
        figures, total = {**found, **figures}, int(found["total"])
    return _Written(place, files, rows, total, figures, is_observed, read_back)


def _believed(
    spark: SparkSession,
    audit: Audit,
    figures: Figures | None,
    place: str,
    files: Sequence[File],
    metrics: dict[str, Column],
    read_back: Callable[[], DataFrame],
) -> tuple[Figures, int, bool]:
    seen = None if figures is None else int(figures[ROWS])
    rows = rows_written(spark, audit.dataset, place, files)
    if rows is None or rows != seen:
        rows = read_back().count()
    if figures is not None and seen == rows:
        return figures, rows, True
    check_nothing_split(audit.dataset, place, seen, rows)
    return computed(audit.with_hash(read_back()), metrics), rows, False


def _before(apart: Sequence[Probe]) -> dict[str, Column]:
    found = {"total": F.count(F.lit(1))}
    for probe in apart:
        found |= probe.metrics
    return found


def _any_bad(apart: Sequence[Probe]) -> Column:
    return reduce(lambda one, other: one | other, (probe.bad for probe in apart if probe.bad is not None))


def _write_rejected(
    spark: SparkSession,
    where: Project | Environment,
    df: DataFrame,
    audit: Audit,
    dataid: str,
    epoch: int,
    expected: int,
    around: Surroundings,
) -> Manifest:
    """The bad rows with what is wrong with each, as a chunk of their own."""
    dataset = rejected_dataset(audit.dataset)
    reasons = [F.when(probe.bad, F.lit(probe.check.label)) for probe in audit.row_checks if probe.bad is not None]
    bad = df.where(_any_bad(audit.row_checks)).withColumn(BECAUSE, F.concat_ws(", ", *reasons))
    schema = bad.schema
    location = resolve_location(where, dataset, dataid)
    place = free_place(spark, version_place(dataset, location, dataid, epoch))
    write_files(bad, dataset, place)
    files = list_files(spark, place)
    rows = rows_written(spark, dataset, place, files)
    if rows is None:
        rows = read_place(spark, dataset, place, schema=schema, is_ours=True).count()
    if rows != expected:
        raise JobFailed(
            f"{audit.dataset.datasetid} {dataid}: {expected} rows were rejected, but {rows} when asked again",
            hint="The job gives other rows each time that it is computed. Make it deterministic, or cache its result.",
        )
    return Manifest(
        place=place,
        format=format_of(dataset),
        files=files,
        bytes=sum(file.bytes for file in files),
        rows=rows,
        schema=to_ddl(schema),
        inputs=around.inputs,
        spark_app=around.spark_app,
        extra={"writer": OURS, "rejected_from": audit.dataset.datasetid},
    )


def _extra(written: _Written, total: int | None) -> dict[str, object]:
    extra: dict[str, object] = {"writer": OURS, "metrics": "observed" if written.observed else "read back"}
    if total is not None:
        extra["rejected"] = total - written.rows
    return extra


def _plain(spark: SparkSession, manifest: Manifest, dataset: Dataset, target: str, rejected: Manifest | None) -> Staged:
    """A fixed place: what is staged takes it when it is published."""
    staged, files, source = manifest.place, manifest.files, manifest.place
    if is_one_file(dataset):
        source = posixpath.join(staged, files[0].path)
        files = (files[0]._replace(path=posixpath.basename(target)),)

    def publish() -> None:
        move(spark, source, target)
        if source != staged:
            remove(spark, staged)

    return Staged(replace(manifest, place=target, files=files), publish, rejected)
