"""The worker: takes one claimed chunk the whole way, whatever form its job has."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadConfig, JobFailed, LeaseLost, MissingDependency, OdfError
from ..model import READY, Catalogue, InputChunk, Job, Manifest
from ..project import Project, code_of
from ..secrets import Key, Redactor
from ..store import Claim, Store
from .audit import past_of, published_chunks
from .context import passwords
from .declared import file_of
from .logs import LogFile
from .script import Result, admitted, execute_script, new_log

if TYPE_CHECKING:
    from ..spark.auditing import Past
    from ..spark.types import SparkSession


def is_for_spark(path: Path) -> bool:
    """Whether a file of job code is run by Spark rather than as a process: SQL, or Python with an @job function."""
    return path.suffix == ".sql" or (
        path.suffix == ".py" and "@job" in path.read_text(encoding="utf-8", errors="replace")
    )


_SMALL = 100_000  # rows


class Worker:
    """Runs claimed chunks for one project on one store; one Spark application serves all of them."""

    def __init__(
        self,
        store: Store,
        project: Project,
        key: Key | None,
        *,
        master: str | None = None,
        echo: bool = True,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.store, self.project, self.key = store, project, key
        self._master, self._echo, self._say = master, echo, say
        self._lock = threading.Lock()
        self._spark: SparkSession | None = None
        self._code: dict[str, Any] = {}
        self._homes: dict[str, Path | None] = {}
        self.cancelled = threading.Event()

    def path_of(self, job: Job) -> Path | None:
        """The file that holds a job's code; None for a copy, which has none."""
        if "copy" in job.options:
            return None
        path = code_of(self.project, job.jobid) or self._homes.get(job.jobid)
        if path is None:
            # No file is named after it: it may be one of several functions of a file.
            path = self._homes[job.jobid] = file_of(self.project, job.jobid)
        if path is None:
            folders = ", ".join(map(str, self.project.job_folders))
            raise BadConfig(
                f"no code for job {job.jobid} was found in {folders}",
                hint=f"write {job.jobid}.py, {job.jobid}.sql or {job.jobid}.sh there, or an @job function {job.jobid}",
            )
        return path

    def check(self, catalogue: Catalogue, jobid: str) -> None:
        """Refuse before anything is claimed: no code, code that does not load, passwords that do not decrypt."""
        job = catalogue.job(jobid)
        passwords(catalogue, job, self.key)
        path = self.path_of(job)
        if path is None or is_for_spark(path):
            code = self._load(job, path)
            if job.batch > 1:
                from ..spark.batches import check_batch

                check_batch(catalogue, job, code)
        elif job.batch > 1:
            raise BadConfig(
                f"job {jobid} cannot take its chunks in batches: {path.name} is a script", hint="Leave batch out."
            )

    def run(self, catalogue: Catalogue, claim: Claim) -> Result:
        """One claimed chunk: gate, execute, audit, commit. What goes wrong is a result, and leaves nothing locked."""
        try:
            no = self._refused(catalogue, claim)
        except Exception as error:
            return self._failed(claim, error)
        return no or self._run_admitted(catalogue, claim)

    def _refused(self, catalogue: Catalogue, claim: Claim) -> Result | None:
        """What the gate says when it says no; a forced chunk is not asked about."""
        return None if claim.forced else admitted(self.store, catalogue, self.project, claim)

    def _run_admitted(self, catalogue: Catalogue, claim: Claim) -> Result:
        try:
            job = catalogue.job(claim.jobid)
            secrets = passwords(catalogue, job, self.key)
            path = self.path_of(job)
            if path is not None and not is_for_spark(path):
                return execute_script(
                    self.store,
                    catalogue,
                    self.project,
                    claim,
                    [str(path)],
                    path.parent,
                    self.key,
                    secrets,
                    dict(os.environ),
                    self._echo,
                    self._say,
                    cancel=self.cancelled,
                )
            with self._beating(claim) as lost:
                if path is None and self._is_small(catalogue, job, claim):
                    done = self._together(catalogue, [claim], lost)
                    if claim.runid in done:
                        return done[claim.runid]
                return self._run_spark(catalogue, job, claim, path, secrets, lost)
        except Exception as error:
            return self._failed(claim, error)
        except BaseException as error:
            self._failed(claim, JobFailed(f"{type(error).__name__}: {error}"))
            raise

    def run_batch(self, catalogue: Catalogue, claims: Sequence[Claim]) -> list[Result]:
        """Claimed chunks of a job that takes several together: one Spark job, but each has its own result."""
        answers = [(claim, self._refused(catalogue, claim)) for claim in claims]
        results = [no for _, no in answers if no is not None]
        ours = [claim for claim, no in answers if no is None]
        if not ours:
            return results
        with self._beating(*ours) as lost:
            done = self._together(catalogue, ours, lost) if len(ours) > 1 else {}
            alone = (claim for claim in ours if claim.runid not in done)
            return [*results, *done.values(), *(self._run_admitted(catalogue, claim) for claim in alone)]

    def _together(self, catalogue: Catalogue, claims: Sequence[Claim], lost: threading.Event) -> dict[int, Result]:
        """The results by run; what is missing is left for its own way, which also tells best what went wrong."""
        try:
            return self._run_batch(catalogue, claims)
        except Exception as error:
            if lost.is_set() or self.cancelled.is_set():
                problem = LeaseLost("lost while it was at work") if lost.is_set() else error
                return {claim.runid: self._failed(claim, problem) for claim in claims}
            # One bad chunk must not fail the others: each on its own tells which it is.
            if len(claims) > 1:
                reason = error.message if isinstance(error, OdfError) else f"{type(error).__name__}: {error}"
                first, last = claims[0], claims[-1]
                self._say(f"{first.jobid} {first.dataid}..{last.dataid} one by one, since: {reason[:500]}")
            return {}

    def _is_small(self, catalogue: Catalogue, job: Job, claim: Claim) -> bool:
        """Whether a chunk that is only copied has so few rows that tasks write it faster than Spark's own writer."""
        if len(claim.inputs) != 1:
            return False
        [item] = claim.inputs
        published = self.store.manifest(item.datasetid, item.dataid, item.version)
        known = published.manifest if published else Manifest()
        rows = known.rows or known.extra.get("rows")  # of what was sharded, what its bounds held then
        if not isinstance(rows, int) or not 0 < rows <= _SMALL:
            return False
        from ..spark.batches import can_batch

        return can_batch(self.spark(), self.project, catalogue, job, claim)

    def _run_batch(self, catalogue: Catalogue, claims: Sequence[Claim]) -> dict[int, Result]:
        """The results by run; a run that is missing has no rows, and is left for its own way."""
        from ..spark.batches import Member, run_batch
        from ..spark.session import cancel, chunk_context

        job = catalogue.job(claims[0].jobid)
        secrets = passwords(catalogue, job, self.key)
        code, spark, tag = self._load(job, self.path_of(job)), self.spark(), _tag(claims[0])
        outputs = [catalogue.dataset(name) for name in job.outputs]
        compares = any("trailing" in check.params for dataset in outputs for check in dataset.checks)

        def pasts(claim: Claim) -> dict[str, Past]:
            return {dataset.datasetid: past_of(self.store, dataset, claim.dataid) for dataset in outputs}

        same = pasts(claims[0])  # as long as no check compares with the chunks right before
        past = pasts if compares else lambda claim: same
        members = [
            Member(claim, _inputs(self.store, claim), _bounds(self.store, claim), past(claim)) for claim in claims
        ]
        hidden: list[str | Key] = [*secrets.values(), *([self.key] if self.key is not None else [])]
        with new_log(self.project, claims[0], hidden) as log:
            log.begin([f"{job.jobid}, {len(claims)} chunks together"], self.project.folder)
            try:
                with chunk_context(spark, tag, job.pool or None):
                    done = run_batch(
                        spark,
                        self.project,
                        catalogue,
                        members,
                        job,
                        code,
                        log=_logger(log, claims[0]),
                        password=lambda dataset: secrets.get(dataset.datasetid, ""),
                        referenced=lambda name: published_chunks(self.store, name),
                        fence=self.store.heartbeat,
                    )
            except BaseException as error:
                cancel(spark, tag)
                log.end(f"{type(error).__name__}: {Redactor(hidden).redact(str(error))}")
                raise
            whole = [(claim, found) for claim in claims if isinstance(found := done.get(claim.dataid), dict)]
            wrong = [(claim, found) for claim in claims if isinstance(found := done.get(claim.dataid), OdfError)]
            for claim, problem in wrong:
                log.note(f"{claim.dataid}: {Redactor(hidden).redact(problem.message)}")
            log.end(f"{len(whole)} of {len(claims)} chunks written")
        for claim, _ in (*whole, *wrong):
            self.store.log(claim.runid, str(log.path))
        try:
            self._commit(catalogue, *whole)
            results = {claim.runid: _ready(claim) for claim, _ in whole}
        except OdfError:  # one of them: each on its own tells which
            results = {claim.runid: self._settled(catalogue, claim, found) for claim, found in whole}
        return results | {claim.runid: self._failed(claim, found) for claim, found in wrong}

    def _settled(self, catalogue: Catalogue, claim: Claim, manifests: Mapping[str, Manifest]) -> Result:
        try:
            self._commit(catalogue, (claim, manifests))
            return _ready(claim)
        except OdfError as error:
            return self._failed(claim, error)

    def _failed(self, claim: Claim, error: Exception) -> Result:
        """What went wrong, recorded: the chunk must not stay locked until its lease ends."""
        if isinstance(error, LeaseLost):
            return Result(error.name, error.exit_code, error.message, claim)
        named = error if isinstance(error, OdfError) else JobFailed(f"{type(error).__name__}: {error}")
        status = "LEASE_LOST"
        with suppress(LeaseLost):
            status = self.store.fail(claim, named.name, named.message[:4000])
        return Result(named.name, named.exit_code, f"{named.message} ({status})", claim)

    def _load(self, job: Job, path: Path | None) -> Any:
        if path is None:
            return None
        with self._lock:
            if job.jobid not in self._code:
                try:
                    from ..spark.code import load_job
                except ImportError as error:
                    raise _no_spark(job, error) from None
                self._code[job.jobid] = load_job(path, job.jobid, job)
            return self._code[job.jobid]

    def spark(self) -> SparkSession:
        """The one Spark session, started when the first chunk needs it."""
        with self._lock:
            if self._spark is None:
                from ..spark.session import session

                self._say("starting Spark")
                self._spark = session(self.project.spark, app_name=f"odf {self.project.name}", master=self._master)
            return self._spark

    def needs_spark(self, job: Job) -> bool:
        """Whether a job's chunks run on Spark rather than as processes."""
        path = self.path_of(job)
        return path is None or is_for_spark(path)

    def lost_spark(self) -> bool:
        """Whether Spark was started and does not answer any more: every further chunk would fail with it."""
        if self._spark is None:
            return False
        from ..spark.session import is_alive

        return not is_alive(self._spark)

    def _run_spark(
        self,
        catalogue: Catalogue,
        job: Job,
        claim: Claim,
        path: Path | None,
        secrets: Mapping[str, str],
        lost: threading.Event,
    ) -> Result:
        try:
            from ..spark.chunks import run_chunk
            from ..spark.session import cancel, chunk_context
        except ImportError as error:
            raise _no_spark(job, error) from None
        code = self._load(job, path)
        tag = _tag(claim)
        hidden: list[str | Key] = [*secrets.values(), *([self.key] if self.key is not None else [])]
        with new_log(self.project, claim, hidden) as log:
            spark = self.spark()
            self.store.log(claim.runid, str(log.path))
            log.begin([str(path) if path else f"copy {job.options.get('copy')}"], self.project.folder)
            try:
                with chunk_context(spark, tag, job.pool or None):
                    manifests = run_chunk(
                        spark,
                        self.project,
                        catalogue,
                        claim,
                        _inputs(self.store, claim),
                        job,
                        code,
                        log=_logger(log, claim),
                        past={name: past_of(self.store, catalogue.dataset(name), claim.dataid) for name in job.outputs},
                        password=lambda dataset: secrets.get(dataset.datasetid, ""),
                        referenced=lambda name: published_chunks(self.store, name),
                        fence=lambda: self.store.heartbeat(claim),
                        bounds=_bounds(self.store, claim),
                    )
                self._commit(catalogue, (claim, manifests))
            except BaseException as error:
                cancel(spark, tag)
                if lost.is_set():
                    raise LeaseLost(f"run {claim.runid} lost its chunk while it was at work") from None
                log.end(f"{type(error).__name__}: {Redactor(hidden).redact(str(error))}")
                raise
            log.end("READY")
        return replace(_ready(claim), log=log.path)

    def _commit(self, catalogue: Catalogue, *done: tuple[Claim, Mapping[str, Manifest]]) -> None:
        """Publish the outputs, and with them the rows that were kept aside."""
        outputs = [
            (claim, {name: each for name, each in found.items() if name in claim.outputs}) for claim, found in done
        ]
        aside = {name: each for claim, found in done for name, each in found.items() if name not in claim.outputs}
        if aside:
            from ..files.quarantine import rejected_dataset, rejected_id

            sources = [catalogue.dataset(name) for name in outputs[0][1] if rejected_id(name) in aside]
            self.store.register([rejected_dataset(source) for source in sources])
        self.store.commit_many([(claim, found, None) for claim, found in outputs], beside=aside)

    @contextmanager
    def _beating(self, *claims: Claim) -> Iterator[threading.Event]:
        """A heartbeat beside the work, from before Spark is even loaded; a lost lease, or a cancel, stops the work."""
        over, lost = threading.Event(), threading.Event()
        held = list(claims)

        def stop() -> None:
            if self._spark is not None:
                from ..spark.session import cancel

                cancel(self._spark, _tag(claims[0]))

        def beat() -> None:
            lease = min(claim.lease for claim in claims)
            pause = min(lease / 3, 1.0)
            waited = 0.0
            while not over.wait(pause):
                waited += pause
                if self.cancelled.is_set():
                    stop()
                if waited >= lease / 3:
                    waited = 0.0
                    for claim in list(held):
                        try:
                            self.store.heartbeat(claim)
                        except LeaseLost:
                            held.remove(claim)
                        except OdfError as error:
                            self._say(f"heartbeat of run {claim.runid}: {error.message}")
                            break
                    if not held:
                        lost.set()
                        stop()
                        return

        thread = threading.Thread(target=beat, name=f"heartbeat-{claims[0].runid}", daemon=True)
        thread.start()
        try:
            yield lost
        finally:
            over.set()
            thread.join()


def _ready(claim: Claim) -> Result:
    return Result(READY, 0, f"{claim.jobid} {claim.dataid} is READY", claim)


def _tag(claim: Claim) -> str:
    return f"odf-run-{claim.runid}"


def _no_spark(job: Job, error: ImportError) -> MissingDependency:
    return MissingDependency(
        f"job {job.jobid} runs on Spark, and {error.name} is not installed", hint="pip install 'opendataflow[spark]'"
    )


def _inputs(store: Store, claim: Claim) -> dict[str, Sequence[InputChunk]]:
    found: dict[str, list[InputChunk]] = {}
    for item in claim.inputs:
        published = store.manifest(item.datasetid, item.dataid, item.version)
        chunk = store.chunk(item.datasetid, item.dataid)
        bounds = (chunk.lower, chunk.upper) if chunk and (chunk.lower is not None or chunk.upper is not None) else None
        found.setdefault(item.datasetid, []).append(
            InputChunk(item.datasetid, item.dataid, item.version, published.manifest if published else None, bounds)
        )
    return {name: tuple(chunks) for name, chunks in found.items()}


def _bounds(store: Store, claim: Claim) -> Any:
    for item in claim.inputs:
        chunk = store.chunk(item.datasetid, item.dataid)
        if chunk is not None and item.dataid == claim.dataid and (chunk.lower is not None or chunk.upper is not None):
            return chunk.lower, chunk.upper
    return None


def _logger(log: LogFile, claim: Claim) -> logging.Logger:
    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            log.note(self.format(record))

    logger = logging.Logger(f"opendataflow.run.{claim.runid}", logging.INFO)
    logger.addHandler(Handler())
    return logger
