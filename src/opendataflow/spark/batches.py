"""Batches: many small chunks through one pass of Spark, each of them judged and published on its own."""

from __future__ import annotations

import inspect
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from ..api import ChunkContext
from ..errors import BadConfig, OdfError
from ..files.quarantine import has_quarantine
from ..files.versions import OURS, another_version_location, is_one_file, version_location
from ..model import Catalogue, Dataset, Job, Manifest
from ..project import resolve_location
from ..store import Claim
from . import TAG
from .auditing import ROWS, Audit, Drift, EarlierPublishes, Surroundings, in_expected_order
from .checking import key_of
from .chunks import Application, ChunkWork, publish_all
from .code import Code, SqlJob, argument_of
from .columns import quoted
from .files import list_files, remove
from .fingerprint import PARTS, fingerprint_metrics
from .formats import EXACT, folder_columns, format_of, write_options
from .observing import Figures, Observed
from .parquet import Written, can_write, is_for_tasks, write_chunks
from .reading import is_readable, read_batch, read_location
from .running import run_code
from .session import app_id, is_connect
from .sinks import FileSink
from .staging import KEPT, Staged, manifest_of
from .writing import check_types, free_location, not_read_back, write_mode

_of_one_chunk = re.compile(r":(dataid|epoch|lower|upper)\b").search


# No other process knows the location, and it is read back before anything of it counts: files may go there as tasks end.
_COMMITTER = {
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


_FILE = "__odf_file"

Outcome = dict[str, Manifest] | OdfError


def check_batch(catalogue: Catalogue, job: Job, code: Code | None) -> None:
    """Refuse a batch whose chunks could not be told apart, or not be published one by one."""
    for wrong, hint in _problems(catalogue, job, code):
        raise BadConfig(f"job {job.jobid} cannot take its chunks in batches: {wrong}", hint=hint)


def can_batch(spark: SparkSession, catalogue: Catalogue, job: Job, location: Callable[[str], str]) -> bool:
    """Whether a copy of one chunk can go the way of a batch, where its tasks write the files."""
    if is_connect(spark) or _problems(catalogue, job, None):
        return False
    outputs = map(catalogue.dataset, job.outputs)
    return all(is_for_tasks(spark, each, location(each.datasetid)) for each in outputs)


def _problems(catalogue: Catalogue, job: Job, code: Code | None) -> list[tuple[str, str]]:
    found = [
        (f"{item.datasetid} is mapped by {item.mapping}", "Only a chunk-wise job can: leave batch out.")
        for item in job.inputs
        if item.mapping.kind != "identity"
    ]
    read = [item.datasetid for item in job.inputs]
    for dataset in map(catalogue.dataset, job.outputs):
        what, hint = f"output {dataset.datasetid}", "Leave batch out."
        if dataset.kind != "file" or format_of(dataset) in ("delta", "iceberg") or is_one_file(dataset):
            found.append((f"{what} is not a folder of files for each chunk", hint))
        if has_quarantine(dataset):
            found.append((f"{what} keeps bad rows aside", hint))
        if folder_columns(dataset):
            found.append((f"{what} has folders inside each chunk (partitionBy)", hint))
    if isinstance(code, SqlJob) and (parameter := _of_one_chunk(code.text)):
        found.append((f"its query asks for {parameter[0]}, which is of one chunk", f"Use the column {TAG}."))
    elif callable(code):
        for name in ("chunk", "extra"):
            if name in inspect.signature(code).parameters and name not in map(argument_of, read):
                found.append((f"its function asks for {name}, which is of one", f"Use the column {TAG} of the rows."))
    return found


def run_batch(app: Application, works: Sequence[ChunkWork], job: Job, code: Code | None) -> dict[str, Outcome]:
    """Produce the outputs of many chunks together: by dataid, what is left to commit, or what went wrong there.

    A chunk that is missing from the answer has no rows. What goes wrong for all raises, and nothing is visible.
    """
    if is_connect(app.spark):
        raise BadConfig("a batch moves files, which Spark Connect cannot do")
    datasets = [app.dataset(item.datasetid) for item in job.inputs]
    frames = {dataset.datasetid: _read(app, works, dataset) for dataset in datasets if is_readable(dataset)}
    counts = {name: _counts(frame) for name, frame in frames.items()}
    application = app_id(app.spark)

    def around(work: ChunkWork, datasetid: str) -> Surroundings:
        def rows_in(name: str) -> int | None:
            known = work.rows_in(name)
            if known is not None or name not in counts:
                return known
            return counts[name]().get(work.claim.dataid, 0)

        past = work.past.get(datasetid, EarlierPublishes())
        return Surroundings(past, work.bounds, rows_in, app.load, spark_app=application, mark=work.mark)

    whole = ChunkContext(job.jobid, "", 0, None, dict(job.env), {}, app.log)
    outputs = run_code(app.spark, code, job, frames, whole)
    staged: dict[str, dict[str, Staged]] = {}
    wrong: dict[str, OdfError] = {}
    for datasetid in job.outputs:
        if datasetid not in outputs or TAG not in outputs[datasetid].columns:
            raise BadConfig(
                f"job {job.jobid} gave nothing back for {datasetid} that says which chunk it is",
                hint=f"Rows of a batch carry their dataid in the column {TAG}: keep it.",
            )
        surroundings = {work.claim.dataid: around(work, datasetid) for work in works}
        for dataid, done in _stage(app, outputs[datasetid], app.dataset(datasetid), works, surroundings).items():
            if isinstance(done, OdfError):
                wrong.setdefault(dataid, done)
            else:
                staged.setdefault(dataid, {})[datasetid] = done
    return {
        work.claim.dataid: wrong.get(work.claim.dataid) or _publish(work.claim, staged[work.claim.dataid], app.fence)
        for work in works
        if work.claim.dataid in wrong or len(staged.get(work.claim.dataid, ())) == len(job.outputs)
    }


def _read(app: Application, works: Sequence[ChunkWork], dataset: Dataset) -> DataFrame:
    tagged = [(work.claim.dataid, chunk) for work in works for chunk in work.chunks(dataset.datasetid)]
    if not tagged:
        return app.no_rows(dataset, works[0]).withColumn(TAG, F.lit(""))
    tasks = app.spark.sparkContext.defaultParallelism
    are_placed = all(work.are_placed for work in works)
    return read_batch(app.spark, app.project, dataset, tagged, app.password, tasks=tasks, are_placed=are_placed)


def _publish(claim: Claim, outputs: Mapping[str, Staged], fence: Callable[[Claim], object]) -> Outcome:
    try:
        publish_all(claim, outputs, fence)
    except OdfError as problem:
        return problem
    return {datasetid: output.manifest for datasetid, output in outputs.items()}


def _stage(
    app: Application,
    df: DataFrame,
    dataset: Dataset,
    works: Sequence[ChunkWork],
    around: Mapping[str, Surroundings],
) -> dict[str, Staged | OdfError]:
    """Write one output of all chunks, look at all of it once, and give each chunk what is its own."""
    first = works[0]
    drift = Drift(dataset, around[first.claim.dataid].past, df.drop(TAG).schema)
    plain = in_expected_order(df.drop(TAG), drift.expected)
    audit = Audit(plain, dataset, first.claim.dataid, around[first.claim.dataid], drift)
    if drift.differences:
        audit.require(drift.results({}))  # before anything is written
    location = {
        work.claim.dataid: work.locations.get(dataset.datasetid)
        or resolve_location(app.project, dataset, work.claim.dataid)
        for work in works
    }
    together = another_version_location(
        version_location(dataset, location[first.claim.dataid], first.claim.dataid, first.claim.epoch)
    )
    together = free_location(app.spark, together, first.mark)
    try:
        tagged = df.select(*(F.col(quoted(name)) for name in plain.columns), TAG)
        written = _write(app.spark, tagged, audit, together)
        strangers = [dataid for dataid in written if dataid not in around]
        if strangers:
            raise BadConfig(
                f"dataset {dataset.datasetid}: rows say {TAG} = {strangers[0]}, which is no chunk of the batch",
                hint=f"Keep the column {TAG} as it came.",
            )
        done: dict[str, Staged | OdfError] = {}
        known = _across(app, audit, _read_again(app.spark, audit, together, written), written)
        around = {dataid: replace(each, known=known.get(dataid, {})) for dataid, each in around.items()}
        for work in works:
            dataid = work.claim.dataid
            if dataid in written and (problem := written[dataid].problem) is not None:
                done[dataid] = problem
            elif dataid in written:
                sink = FileSink(app.spark, dataset, dataid, work.claim.epoch, location[dataid], audit.schema, work.mark)
                sink.adopt(written[dataid].files)
                own = audit.twin(dataid, around[dataid])
                if not own.is_clean(written[dataid].figures):
                    own = Audit(plain, dataset, dataid, around[dataid], drift)  # with conditions of its own
                done[dataid] = _judged(own, sink, written[dataid].figures)
        return done
    finally:
        remove(app.spark, together)


def _read_again(
    spark: SparkSession, audit: Audit, location: str, written: Mapping[str, Written]
) -> Callable[[], DataFrame]:
    """What was written for all chunks, each row with its dataid: in the name of its folder, or known by its file."""

    def read() -> DataFrame:
        if any(posixpath.dirname(file) != location for chunk in written.values() for file in chunk.files):
            schema = StructType([*audit.schema.fields, StructField(TAG, StringType())])
            return read_location(spark, audit.dataset, location, schema=schema, is_ours=True)
        owners = [(posixpath.basename(file), dataid) for dataid, chunk in written.items() for file in chunk.files]
        rows = read_location(spark, audit.dataset, location, schema=audit.schema, is_ours=True)
        named = rows.select("*", F.col("_metadata.file_name").alias(_FILE))
        return named.join(F.broadcast(spark.createDataFrame(owners, f"{_FILE} string, {TAG} string")), _FILE)

    return read


def _across(
    app: Application, audit: Audit, rows: Callable[[], DataFrame], written: Iterable[str]
) -> dict[str, dict[str, Figures]]:
    """What the checks that compare rows find in each chunk: one pass for each check, however many chunks there are."""
    found: dict[str, dict[str, Figures]] = {dataid: {} for dataid in written}
    for probe in audit.probes:
        if probe.across is None:
            continue
        names = list(probe.across.metrics)
        try:
            wrong = probe.across.wrong(rows(), app.load, [TAG])
        except (OdfError, AnalysisException):
            continue  # each chunk on its own tells what is missing
        figures = [metric.alias(f"m{index}") for index, metric in enumerate(probe.across.metrics.values())]
        told = {row[0]: dict(zip(names, row[1:], strict=True)) for row in wrong.groupBy(TAG).agg(*figures).collect()}
        nothing: Figures = {name: [] if name == "examples" else 0 for name in names}
        for dataid in found:
            found[dataid][key_of(probe.check)] = told.get(dataid, nothing)
    return found


def _counts(frame: DataFrame) -> Callable[[], Mapping[str, int]]:
    """How many rows each chunk of an input has, counted on demand, and once."""
    return cache(lambda: {row[0]: row[1] for row in frame.groupBy(TAG).count().collect()})


def _write(spark: SparkSession, df: DataFrame, audit: Audit, location: str) -> dict[str, Written]:
    """What was written for each chunk, and what is known of it from the pass that wrote it, or from one that reads it."""
    if can_write(spark, audit, location):
        return write_chunks(df, audit, audit.suspicious(), location)
    check_types(audit.dataset, audit.schema)
    is_read_back = format_of(audit.dataset) not in EXACT
    content = {ROWS: F.count(F.lit(1)), **fingerprint_metrics(audit.schema)} if is_read_back else {}
    observed = Observed(df, content) if is_read_back else None
    writer = (observed.df if observed else df).write.format(format_of(audit.dataset)).mode(write_mode(spark, location))
    writer.options(**write_options(audit.dataset), **_COMMITTER).partitionBy(TAG).save(location)
    schema = StructType([*audit.schema.fields, StructField(TAG, StringType())])
    metrics = {**audit.summary(), **content}
    written = read_location(spark, audit.dataset, location, schema=schema, is_ours=True)
    rows = written.groupBy(TAG).agg(*(metric.alias(f"m{index}") for index, metric in enumerate(metrics.values())))
    files: dict[str, list[str]] = {}
    for file in list_files(spark, location):
        files.setdefault(unquote(file.path.partition("/")[0].partition("=")[2]), []).append(
            posixpath.join(location, file.path)
        )
    found = {row[0]: Written(files.get(row[0], []), dict(zip(metrics, row[1:], strict=True))) for row in rows.collect()}
    if observed is not None and not _is_all(observed.figures(), [chunk.figures for chunk in found.values()]):
        for dataid, chunk in found.items():
            own = F.col(TAG) == dataid
            chunk.problem = not_read_back(audit.dataset, dataid, df.where(own).drop(TAG), written.where(own).drop(TAG))
    return found


def _is_all(observed: Figures | None, chunks: Sequence[Figures]) -> bool:
    """Whether the chunks that were read back are, together, what was written."""
    if observed is None:
        return False
    return all((observed[name] or 0) == sum(chunk[name] for chunk in chunks) for name in (ROWS, *PARTS))


def _judged(audit: Audit, sink: FileSink, summary: Figures) -> Staged | OdfError:
    try:
        figures = audit.details(summary, sink.read_back)
        rows = int(figures[ROWS])
        results = audit.results(figures, rows, sink.read_back)
        audit.require(results, KEPT.format(sink.kept()))
        extra = {"writer": OURS, "batch": True}
        return Staged(manifest_of(audit, sink, figures, rows, results, extra), sink.publish, is_visible=sink.is_visible)
    except OdfError as problem:
        return problem
