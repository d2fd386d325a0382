"""Chunks: one run of a Spark job, from the published inputs to the manifests of its outputs."""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from .. import faults
from ..api import ChunkContext
from ..errors import BadKey, JobFailed, OdfError
from ..files.quarantine import has_quarantine, rejected_id
from ..model import Catalogue, Dataset, InputChunk, Job, Manifest, span
from ..project import Project
from ..store.records import Claim
from . import TAG
from .auditing import EarlierPublishes, Surroundings
from .code import Code
from .columns import Bounds
from .problems import whole_of
from .reading import Malformed, Password, is_readable, read_apart, read_chunks
from .running import extra_folder, failed, run_code
from .session import app_id
from .staging import Staged, stage


def no_password(dataset: Dataset) -> str:
    """For those who use no tables."""
    if dataset.encryptedpass:
        raise BadKey(f"dataset {dataset.datasetid} needs its password, which was not decrypted")
    return ""


@dataclass(frozen=True)
class Application:
    """What all chunks of one Spark application share.

    `referenced` says which chunks a check compares with. `fence` is called right before anything outside the store
    changes (tables, plain layout), and raises when the epoch is no longer ours.
    """

    spark: SparkSession
    project: Project
    catalogue: Catalogue
    password: Password = no_password
    referenced: Callable[[str], Sequence[InputChunk]] = lambda datasetid: ()
    fence: Callable[[Claim], object] = lambda claim: None
    log: logging.Logger = field(default_factory=logging.getLogger)

    def dataset(self, datasetid: str) -> Dataset:
        """A dataset by its name."""
        return self.catalogue.dataset(datasetid)

    def load(self, datasetid: str) -> DataFrame:
        """All published rows of a dataset that a check compares with."""
        return read_chunks(self.spark, self.project, self.dataset(datasetid), self.referenced(datasetid), self.password)

    def no_rows(self, dataset: Dataset, work: ChunkWork) -> DataFrame:
        """An input that has no chunk to read, as where its partition begins later: the columns that its chunks have."""
        past = work.past.get(dataset.datasetid, EarlierPublishes())
        return read_chunks(self.spark, self.project, dataset, (), self.password, pinned_schema=past.schema)


@dataclass(frozen=True)
class ChunkWork:
    """One claimed chunk, with what is around it; `past` says what earlier publishes were like, of each output and of
    each input that has no chunk to read."""

    claim: Claim
    inputs: Sequence[InputChunk] = ()
    bounds: Bounds | None = None
    past: Mapping[str, EarlierPublishes] = field(default_factory=dict)
    mark: str = ""  # says in a folder that it was made for this claim
    locations: Mapping[str, str] = field(default_factory=dict)  # of the outputs, if already known
    are_placed: bool = False  # the gate has checked the locations of the inputs

    def chunks(self, datasetid: str) -> list[InputChunk]:
        """The chunks of one input."""
        return [chunk for chunk in self.inputs if chunk.datasetid == datasetid]

    def rows_in(self, datasetid: str) -> int | None:
        """How many rows the chunks of an input have, if their manifests know."""
        counts = [chunk.manifest.rows if chunk.manifest else None for chunk in self.chunks(datasetid)]
        known = [count for count in counts if count is not None]
        return sum(known) if counts and len(known) == len(counts) else None


def run_chunk(app: Application, work: ChunkWork, job: Job, code: Code | None) -> dict[str, Manifest]:
    """Produce every output of a claimed chunk; what it returns is all that is left to commit.

    Reads exactly the given chunks, runs the code (or the copy, where there is none), writes each output to a location
    of this epoch, and judges it. ChecksFailed when one may not be published: then nothing is visible. The manifest of
    rejected rows comes under `<dataset>__rejected`.
    """
    claim = work.claim
    datasets = {item.datasetid: app.dataset(item.datasetid) for item in job.inputs}
    frames = {
        datasetid: read_chunks(app.spark, app.project, dataset, chunks, app.password, are_placed=work.are_placed)
        if (chunks := work.chunks(datasetid))
        else app.no_rows(dataset, work)
        for datasetid, dataset in datasets.items()
        if is_readable(dataset)
    }
    malformed = _kept_apart(app, work, frames)
    if job.batch > 1:
        # Code that takes many chunks together finds the same column when it is given one.
        frames = {datasetid: frame.withColumn(TAG, F.lit(claim.dataid)) for datasetid, frame in frames.items()}
    chunk = ChunkContext(
        claim.jobid,
        claim.dataid,
        claim.epoch,
        _known(work.bounds) or span(app.catalogue.output_partition(job), claim.dataid),
        dict(job.env),
        {datasetid: tuple(chunk.dataid for chunk in work.chunks(datasetid)) for datasetid in datasets},
        app.log,
    )
    try:
        with extra_folder(code, frames) as extra:
            outputs = run_code(app.spark, code, job, frames, chunk, extra)
            if job.batch > 1:
                outputs = {datasetid: df.drop(TAG) for datasetid, df in outputs.items()}
            staged = _stage(app, work, frames, outputs, malformed, extra)
        publish_all(claim, staged, app.fence)
    except OdfError:
        raise
    except Exception as problem:
        app.log.error("%s", whole_of(problem))
        raise failed(job.jobid, problem) from problem
    finally:
        for frame in (frame for each in malformed.values() for frame in each.kept):
            frame.unpersist()
    manifests = {datasetid: output.manifest for datasetid, output in staged.items()}
    for datasetid, output in staged.items():
        if output.rejected is not None:
            manifests[rejected_id(datasetid)] = output.rejected
    return manifests


def publish_all(claim: Claim, outputs: Mapping[str, Staged], fence: Callable[[Claim], object]) -> None:
    """Make visible what the store's own pointer does not, under the fence; the commit is still to come."""
    faults.point("staged")
    for output in outputs.values():
        if output.is_visible:
            fence(claim)
            faults.point("fenced")
        output.publish()
        if output.is_visible:
            faults.point("placed")


def _kept_apart(app: Application, work: ChunkWork, frames: dict[str, DataFrame]) -> dict[str, Malformed]:
    """Leave rows that cannot be parsed out of the inputs, where an output has a quarantine for them; by input, those rows."""
    malformed: dict[str, Malformed] = {}
    if any(has_quarantine(app.dataset(name)) for name in work.claim.outputs):
        for datasetid in frames:
            chunks = work.chunks(datasetid)
            apart = read_apart(app.spark, app.project, app.dataset(datasetid), chunks, are_placed=work.are_placed)
            if apart is not None:
                frames[datasetid], malformed[datasetid] = apart
    return malformed


def _stage(
    app: Application,
    work: ChunkWork,
    frames: Mapping[str, DataFrame],
    outputs: Mapping[str, DataFrame],
    malformed: Mapping[str, Malformed],
    extra: Path | None,
) -> dict[str, Staged]:
    def rows_in(datasetid: str) -> int | None:
        if datasetid not in frames:
            return None
        known = work.rows_in(datasetid)
        if known is not None:
            return known
        return frames[datasetid].count() + (malformed[datasetid].rows if datasetid in malformed else 0)

    claim, application = work.claim, app_id(app.spark)
    staged: dict[str, Staged] = {}
    # Rows that could not be read go aside with the first output that keeps rows aside.
    keeper = next((name for name in claim.outputs if has_quarantine(app.dataset(name))), "")
    for datasetid in claim.outputs:
        dataset = app.dataset(datasetid)
        if not is_readable(dataset):
            continue  # only tracked: that it ran is all there is to know
        if datasetid not in outputs:
            raise JobFailed(
                f"job {claim.jobid} gave nothing back for {datasetid}", hint="Return a DataFrame, or a dict of them."
            )
        around = Surroundings(
            work.past.get(datasetid, EarlierPublishes()),
            work.bounds,
            rows_in,
            lambda name: frames[name] if name in frames else app.load(name),
            spark_app=application,
            mark=work.mark,
            location=work.locations.get(datasetid, ""),
            malformed=reduce(operator.add, malformed.values()) if malformed and datasetid == keeper else None,
            extra=None if staged else extra,  # of the first output
        )
        staged[datasetid] = stage(
            app.spark, app.project, outputs[datasetid], dataset, claim.dataid, claim.epoch, around, app.password
        )
    return staged


def _known(bounds: Bounds | None) -> tuple[str, str] | None:
    if bounds is None or bounds[0] is None or bounds[1] is None:
        return None
    return bounds[0], bounds[1]
