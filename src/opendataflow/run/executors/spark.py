"""The executor of Spark jobs: one application for all of them, one chunk at a time or many in one pass."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import OdfError
from ...model import InputChunk, Manifest
from ...shapes import replace
from ..attempt import cause
from ..audit import past_of, published_chunks
from ..heartbeat import Heartbeat
from ..parts import Attempt, Done
from ..process.logs import SPARK_UI
from ..spoken import spoken

if TYPE_CHECKING:
    from ...spark.chunks import Application, ChunkWork
    from ...spark.types import SparkSession
    from ..process.logs import LogFile
    from ..worker import Worker

_SMALL = 100_000  # rows: up to so many, tasks write a copied chunk faster than Spark's own writer does


class Spark:
    """Runs the chunks of one job, whose code is loaded already; None is a copy."""

    on_spark = True

    def __init__(self, worker: Worker, code: Any, path: Path | None) -> None:
        self.worker, self.code, self.path = worker, code, path

    def execute(self, attempts: Sequence[Attempt], heartbeat: Heartbeat, log: LogFile) -> Mapping[int, Done]:
        """Many chunks together where that can be, and each that is left alone, which also tells best what is wrong."""
        spark = self.worker.spark()
        done: dict[int, Done] = {}
        if len(attempts) > 1 or self._is_small_copy(spark, attempts[0]):
            done = self._together(spark, attempts, heartbeat, log)
        left = [attempt for attempt in attempts if attempt.claim.runid not in done]
        for attempt in left:
            heartbeat.check()
            if self.worker.cancelled.is_set():
                done[attempt.claim.runid] = Done(problem=self.worker.stopped("before it began"))
            elif len(attempts) == 1:
                done[attempt.claim.runid] = self._alone(spark, attempt, heartbeat, log)
            else:
                with self.worker.new_log(attempt.claim) as own:
                    self.worker.store.log(attempt.claim.runid, str(own.path))
                    done[attempt.claim.runid] = self._alone(spark, attempt, heartbeat, own)
        return done

    def audit(self, attempt: Attempt, done: Done) -> Mapping[str, Manifest]:
        """Spark judges in the pass that writes: what it handed over has passed."""
        return done.manifests

    def settle(self, attempt: Attempt, manifests: Mapping[str, Manifest]) -> None:
        """Nothing: what is at a fixed location was put there under the fence, and no earlier attempt can replace it."""

    # One chunk ----------------------------------------------------------------------------------------------------

    def _alone(self, spark: SparkSession, attempt: Attempt, heartbeat: Heartbeat, log: LogFile) -> Done:
        from ...spark.chunks import run_chunk

        words = [str(self.path) if self.path else f"copy {attempt.job.options.get('copy')}"]
        try:
            log.begin(words, self.worker.project.folder)
            with self._own(spark, attempt, heartbeat) as own, spoken(log, is_shown=self.worker.echo):
                application = self._application(own, attempt, log)
                manifests = run_chunk(application, self._work(attempt), attempt.job, self.code)
        except Exception as problem:
            log.end(f"{type(problem).__name__}: {problem}")
            return Done(problem=cause(self.worker, heartbeat, problem))
        log.end("written and checked")  # whether it is published is not known yet
        return Done(manifests)

    # Many chunks in one pass --------------------------------------------------------------------------------------

    def _is_small_copy(self, spark: SparkSession, attempt: Attempt) -> bool:
        if self.code is not None or len(attempt.inputs) != 1:
            return False
        manifest = attempt.inputs[0].manifest or Manifest()
        rows = manifest.rows or manifest.extra.get("rows")  # of what was sharded, what its bounds held then
        if not isinstance(rows, int) or not 0 < rows <= _SMALL:
            return False
        from ...spark.batches import can_batch

        return can_batch(spark, self.worker.project, attempt.catalogue, attempt.job, attempt.claim)

    def _together(
        self, spark: SparkSession, attempts: Sequence[Attempt], heartbeat: Heartbeat, log: LogFile
    ) -> dict[int, Done]:
        """What was done, by run; a run that is missing is left for its own way."""
        from ...spark.batches import run_batch
        from ...spark.problems import reason_of, whole_of

        job = attempts[0].job
        try:
            log.begin([f"{job.jobid}, {len(attempts)} chunks together"], self.worker.project.folder)
            with self._own(spark, attempts[0], heartbeat) as own, spoken(log, is_shown=self.worker.echo):
                application = self._application(own, attempts[0], log)
                outcomes = run_batch(application, self._works(attempts), job, self.code)
        except Exception as problem:
            if not isinstance(problem, OdfError):
                log.note(whole_of(problem))
            reason = problem.message if isinstance(problem, OdfError) else reason_of(problem)
            log.end(reason)
            heartbeat.check()
            if self.worker.cancelled.is_set():
                raise
            if len(attempts) > 1:
                # One bad chunk must not fail the others: each on its own tells which it is.
                first, last = attempts[0].claim, attempts[-1].claim
                told = self.worker.vault.redact(reason)[:500]
                self.worker.say(f"{first.jobid} {first.dataid}..{last.dataid} one by one, because: {told}")
            return {}
        done: dict[int, Done] = {}
        for attempt in attempts:
            outcome = outcomes.get(attempt.claim.dataid)
            if isinstance(outcome, OdfError):
                log.note(f"{attempt.claim.dataid}: {outcome.message}")
                done[attempt.claim.runid] = Done(problem=outcome)
            elif outcome is not None:
                done[attempt.claim.runid] = Done(outcome)
        written = sum(work.problem is None for work in done.values())
        log.end(f"{written} of {len(attempts)} chunks written")
        return done

    # What Spark needs to know -------------------------------------------------------------------------------------

    @contextmanager
    def _own(self, spark: SparkSession, attempt: Attempt, heartbeat: Heartbeat) -> Iterator[SparkSession]:
        """A session that no other code has touched; what Spark does in it carries the tag of the run, to be stopped by."""
        from ...spark.own import own_session, session_for_copies
        from ...spark.session import cancel, chunk_context

        job, tag = attempt.job, f"odf-run-{attempt.claim.runid}"
        settings: Any = job.options.get("spark", {})
        is_plain_copy = self.code is None and not settings
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
        past = {dataset.datasetid: past_of(self.worker.store, dataset, claim.dataid) for dataset in datasets}
        return ChunkWork(claim, attempt.inputs, _bounds(attempt), past)

    def _works(self, attempts: Sequence[Attempt]) -> list[ChunkWork]:
        outputs = [attempts[0].catalogue.dataset(name) for name in attempts[0].job.outputs]
        first = self._work(attempts[0])
        if any("trailing" in check.params for dataset in outputs for check in dataset.checks):
            return [first, *(self._work(attempt) for attempt in attempts[1:])]
        # As long as no check compares with the chunks right before, what was published earlier is the same for all.
        others = (
            replace(first, claim=other.claim, inputs=other.inputs, bounds=_bounds(other)) for other in attempts[1:]
        )
        return [first, *others]


def _bounds(attempt: Attempt) -> tuple[str | None, str | None] | None:
    """The keys of a chunk, where it is one of ranges of keys; what a day holds, its dataid says, whatever a row says."""
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
