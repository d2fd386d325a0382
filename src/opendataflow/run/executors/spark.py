"""Runs Spark jobs in one application, one chunk at a time or many chunks in one pass."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...errors import OdfError
from ...model import InputChunk, Manifest
from ..attempt import cause
from ..audit import earlier_publishes, published_chunks
from ..heartbeat import Heartbeat
from ..process.capture import captured_output
from ..process.logs import SPARK_UI
from ..records import Attempt, ExecutorResult

if TYPE_CHECKING:
    from ...spark.chunks import Application, ChunkWork
    from ...spark.types import SparkSession
    from ..process.logs import LogFile
    from ..worker import Worker

_SMALL = 100_000  # rows, up to which tasks write a copied chunk faster than Spark's writer


class Spark:
    """Runs the chunks of one job by the code that its attempts carry; a copy has no code."""

    on_spark = True

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    def execute(self, attempts: Sequence[Attempt], heartbeat: Heartbeat, log: LogFile) -> Mapping[int, ExecutorResult]:
        """Run chunks together if possible, and the remaining ones one by one, which also isolates failures."""
        spark = self.worker.spark()
        done: dict[int, ExecutorResult] = {}
        if len(attempts) > 1 or self._is_small_copy(spark, attempts[0]):
            done = self._together(spark, attempts, heartbeat, log)
        remaining = [attempt for attempt in attempts if attempt.claim.runid not in done]
        for attempt in remaining:
            heartbeat.check()
            if self.worker.cancelled.is_set():
                done[attempt.claim.runid] = ExecutorResult(problem=self.worker.stopped("before the run started"))
            elif len(attempts) == 1:
                done[attempt.claim.runid] = self._alone(spark, attempt, heartbeat, log)
            else:
                with self.worker.new_log(attempt.claim) as own:
                    self.worker.store.log(attempt.claim.runid, str(own.path))
                    done[attempt.claim.runid] = self._alone(spark, attempt, heartbeat, own)
        return done

    def audit(self, attempt: Attempt, done: ExecutorResult) -> Mapping[str, Manifest]:
        """No-op: Spark ran the checks in the pass that wrote the output."""
        return done.manifests

    def publish_files(self, attempt: Attempt, manifests: Mapping[str, Manifest]) -> None:
        """No-op: Spark moved the output to its fixed location under the fence already."""

    # One chunk ----------------------------------------------------------------------------------------------------

    def _alone(self, spark: SparkSession, attempt: Attempt, heartbeat: Heartbeat, log: LogFile) -> ExecutorResult:
        from ...spark.chunks import run_chunk

        path = attempt.code.path
        words = [str(path) if path else f"copy {attempt.job.options.get('copy')}"]
        try:
            log.begin(words, self.worker.project.folder)
            with self._own(spark, attempt, heartbeat) as own, captured_output(log, is_shown=self.worker.echo):
                application = self._application(own, attempt, log)
                manifests = run_chunk(application, self._work(attempt), attempt.job, attempt.code.loaded)
        except Exception as problem:
            log.end(f"{type(problem).__name__}: {problem}")
            return ExecutorResult(problem=cause(self.worker, heartbeat, problem))
        log.end("written and checked")  # publishing follows
        return ExecutorResult(manifests)

    # Many chunks in one pass --------------------------------------------------------------------------------------

    def _is_small_copy(self, spark: SparkSession, attempt: Attempt) -> bool:
        if attempt.code.loaded is not None or len(attempt.inputs) != 1:
            return False
        manifest = attempt.inputs[0].manifest or Manifest()
        rows = manifest.rows or manifest.extra.get("rows")  # of a shard, the row count at sharding
        if not isinstance(rows, int) or not 0 < rows <= _SMALL:
            return False
        from ...spark.batches import can_batch

        return can_batch(spark, attempt.catalogue, attempt.job, attempt.location)

    def _together(
        self, spark: SparkSession, attempts: Sequence[Attempt], heartbeat: Heartbeat, log: LogFile
    ) -> dict[int, ExecutorResult]:
        """The results by runid; missing runs are to be run one by one."""
        from ...spark.batches import run_batch
        from ...spark.problems import reason_of, whole_of

        job = attempts[0].job
        try:
            log.begin([f"{job.jobid}, {len(attempts)} chunks together"], self.worker.project.folder)
            with self._own(spark, attempts[0], heartbeat) as own, captured_output(log, is_shown=self.worker.echo):
                application = self._application(own, attempts[0], log)
                outcomes = run_batch(application, self._works(attempts), job, attempts[0].code.loaded)
        except Exception as problem:
            if not isinstance(problem, OdfError):
                log.note(whole_of(problem))
            reason = problem.message if isinstance(problem, OdfError) else reason_of(problem)
            log.end(reason)
            heartbeat.check()
            if self.worker.cancelled.is_set():
                raise
            if len(attempts) > 1:
                # One bad chunk must not fail the others: run them one by one.
                first, last = attempts[0].claim, attempts[-1].claim
                cause_text = self.worker.vault.redact(reason)[:500]
                self.worker.say(f"{first.jobid} {first.dataid}..{last.dataid} one by one, because: {cause_text}")
            return {}
        done: dict[int, ExecutorResult] = {}
        for attempt in attempts:
            outcome = outcomes.get(attempt.claim.dataid)
            if isinstance(outcome, OdfError):
                log.note(f"{attempt.claim.dataid}: {outcome.message}")
                done[attempt.claim.runid] = ExecutorResult(problem=outcome)
            elif outcome is not None:
                done[attempt.claim.runid] = ExecutorResult(outcome)
        written = sum(work.problem is None for work in done.values())
        log.end(f"{written} of {len(attempts)} chunks written")
        return done

    # Sessions and chunk facts -------------------------------------------------------------------------------------

    @contextmanager
    def _own(self, spark: SparkSession, attempt: Attempt, heartbeat: Heartbeat) -> Iterator[SparkSession]:
        """A separate session, whose Spark jobs carry the tag of the run so that they can be cancelled."""
        from ...spark.own import own_session, session_for_copies
        from ...spark.session import cancel, chunk_context

        job, tag = attempt.job, f"odf-run-{attempt.claim.runid}"
        settings: Any = job.options.get("spark", {})
        is_plain_copy = attempt.code.loaded is None and not settings
        chosen = session_for_copies(spark) if is_plain_copy else own_session(spark, settings, f"job {job.jobid}: spark")
        with chosen as own, chunk_context(own, tag, job.pool or None):
            heartbeat.stop = lambda: cancel(own, tag)
            yield own

    def _application(self, spark: SparkSession, attempt: Attempt, log: LogFile) -> Application:
        from ...spark.chunks import Application
        from ...spark.session import ui_of

        worker = self.worker
        if address := ui_of(spark):
            log.note(f"{SPARK_UI}{address}")
        return Application(
            spark,
            worker.project,
            attempt.catalogue,
            password=worker.vault.password,
            referenced=lambda name: published_chunks(worker.store, name),
            fence=worker.store.heartbeat,
            log=_logger(log, attempt.claim.runid),
        )

    def _work(self, attempt: Attempt) -> ChunkWork:
        from ...spark.chunks import ChunkWork

        claim, read = attempt.claim, {chunk.datasetid for chunk in attempt.inputs}
        empty = [item.datasetid for item in attempt.job.inputs if item.datasetid not in read]
        datasets = [attempt.catalogue.dataset(name) for name in dict.fromkeys((*attempt.job.outputs, *empty))]
        past = {dataset.datasetid: earlier_publishes(self.worker.store, dataset, claim.dataid) for dataset in datasets}
        # Without a project file a location may be anywhere: Spark then checks it.
        is_declared = self.worker.project.environment.is_declared
        return ChunkWork(
            claim,
            attempt.inputs,
            _bounds(attempt),
            past,
            self.worker.mark(claim),
            {name: attempt.location(name) for name in attempt.job.outputs if is_declared},
            are_placed=is_declared and not claim.forced,
        )

    def _works(self, attempts: Sequence[Attempt]) -> list[ChunkWork]:
        outputs = [attempts[0].catalogue.dataset(name) for name in attempts[0].job.outputs]
        first = self._work(attempts[0])
        if any("trailing" in check.params for dataset in outputs for check in dataset.checks):
            return [first, *(self._work(attempt) for attempt in attempts[1:])]
        # Without checks on preceding chunks, all attempts share the facts of earlier publishes.
        others = (
            replace(
                first,
                claim=other.claim,
                inputs=other.inputs,
                bounds=_bounds(other),
                mark=self.worker.mark(other.claim),
                locations={name: other.location(name) for name in first.locations},
            )
            for other in attempts[1:]
        )
        return [first, *others]


def _bounds(attempt: Attempt) -> tuple[str | None, str | None] | None:
    """The key bounds of a chunk with a range partition; other types derive them from the dataid."""
    if attempt.catalogue.output_partition(attempt.job).type != "range":
        return None
    same = (chunk for chunk in attempt.inputs if chunk.dataid == attempt.claim.dataid and chunk.bounds is not None)
    chunk: InputChunk | None = next(same, None)
    return chunk.bounds if chunk else None


def _logger(log: LogFile, runid: int) -> logging.Logger:
    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            log.note(self.format(record))

    logger = logging.Logger(f"opendataflow.run.{runid}", logging.INFO)
    logger.addHandler(Handler())
    return logger
