"""Chunks: one run of a Spark job, from the published inputs to the manifests of its outputs."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..api import Chunk
from ..errors import BadKey, JobFailed, OdfError
from ..files.quarantine import rejected_id
from ..model import Catalogue, Dataset, InputChunk, Job, Manifest, span
from ..project import Project
from ..store.records import Claim
from . import TAG
from .auditing import Past, Surroundings
from .code import Code
from .columns import Bounds
from .reading import Password, is_readable, read_chunks
from .running import failed, run_code
from .session import app_id
from .staging import Staged, stage

Inputs = Mapping[str, Sequence[InputChunk]]


def no_password(dataset: Dataset) -> str:
    """For those who use no tables."""
    if dataset.encryptedpass:
        raise BadKey(f"dataset {dataset.datasetid} needs its password, and nobody decrypted it")
    return ""


def run_chunk(
    spark: SparkSession,
    project: Project,
    catalogue: Catalogue,
    claim: Claim,
    inputs: Inputs,
    job: Job,
    code: Code | None,
    *,
    log: logging.Logger,
    past: Mapping[str, Past] | None = None,
    password: Password = no_password,
    referenced: Callable[[str], Sequence[InputChunk]] | None = None,
    fence: Callable[[], object] = lambda: None,
    bounds: Bounds | None = None,
) -> dict[str, Manifest]:
    """Produce every output of a claimed chunk; what it returns is all that is left to commit.

    Reads exactly the given chunks, runs the code (or the copy, where there is none), writes each output to a location of
    this epoch, and judges it. ChecksFailed when one may not be published: then nothing is visible. `past` says what
    earlier publishes of each output were like, `referenced` which chunks a check compares with. `fence` is called
    right before anything outside the store changes (tables, plain layout) and raises when the epoch is no longer ours.
    The manifest of rejected rows comes under `<dataset>__rejected`.
    """
    frames = {
        datasetid: read_chunks(spark, project, catalogue.dataset(datasetid), chunks, password)
        for datasetid, chunks in inputs.items()
        if is_readable(catalogue.dataset(datasetid))
    }
    if job.batch > 1:
        # Code that takes many chunks together finds the same column when it is given one.
        frames = {datasetid: frame.withColumn(TAG, F.lit(claim.dataid)) for datasetid, frame in frames.items()}
    chunk = Chunk(
        claim.jobid,
        claim.dataid,
        claim.epoch,
        _known(bounds) or span(catalogue.output_partition(job), claim.dataid),
        dict(job.env),
        {datasetid: tuple(each.dataid for each in chunks) for datasetid, chunks in inputs.items()},
        log,
    )
    try:
        outputs = run_code(spark, code, job, frames, chunk)
        if job.batch > 1:
            outputs = {datasetid: df.drop(TAG) for datasetid, df in outputs.items()}
        staged = _stage(
            spark, project, catalogue, claim, inputs, frames, outputs, past or {}, password, referenced, bounds
        )
        for output in staged.values():
            if output.is_visible:
                fence()
            output.publish()
    except OdfError:
        raise
    except Exception as problem:
        log.error("%s", "".join(traceback.format_exception(problem)))
        raise failed(job.jobid, problem) from problem
    manifests = {datasetid: output.manifest for datasetid, output in staged.items()}
    for datasetid, output in staged.items():
        if output.rejected is not None:
            manifests[rejected_id(datasetid)] = output.rejected
    return manifests


def _stage(
    spark: SparkSession,
    project: Project,
    catalogue: Catalogue,
    claim: Claim,
    inputs: Inputs,
    frames: Mapping[str, DataFrame],
    outputs: Mapping[str, DataFrame],
    past: Mapping[str, Past],
    password: Password,
    referenced: Callable[[str], Sequence[InputChunk]] | None,
    bounds: Bounds | None,
) -> dict[str, Staged]:
    def rows_in(datasetid: str) -> int | None:
        if datasetid not in frames:
            return None
        counts = [chunk.manifest.rows if chunk.manifest else None for chunk in inputs[datasetid]]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else frames[datasetid].count()

    def load(datasetid: str) -> DataFrame:
        if datasetid in frames:
            return frames[datasetid]
        chunks = referenced(datasetid) if referenced else ()
        return read_chunks(spark, project, catalogue.dataset(datasetid), chunks, password)

    application = app_id(spark)
    staged: dict[str, Staged] = {}
    for datasetid in claim.outputs:
        dataset = catalogue.dataset(datasetid)
        if not is_readable(dataset):
            continue  # only tracked: that it ran is all there is to know
        if datasetid not in outputs:
            raise JobFailed(
                f"job {claim.jobid} gave nothing back for {datasetid}", hint="Return a DataFrame, or a dict of them."
            )
        around = Surroundings(
            past.get(datasetid, Past()),
            bounds,
            rows_in,
            load,
            claim.inputs,
            spark_app=application,
        )
        staged[datasetid] = stage(
            spark, project, outputs[datasetid], dataset, claim.dataid, claim.epoch, around, password
        )
    return staged


def _known(bounds: Bounds | None) -> tuple[str, str] | None:
    if bounds is None or bounds[0] is None or bounds[1] is None:
        return None
    return bounds[0], bounds[1]
