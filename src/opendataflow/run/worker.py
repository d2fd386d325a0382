"""Holds what all attempts of one process share: the store, the Spark session, loaded job code and passwords."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadConfig, MissingDependency, OdfError, Stopped, UntrustedDefinition, UsageError, install_command
from ..files.versions import mark_name
from ..lineage import teller_of
from ..model import Catalogue, Job, Receipt, check_dataid, decide
from ..project import Project, code_of, is_for_spark
from ..project.jobs import is_one_at_a_time
from ..project.trust import Distrust, distrust, looks, refused
from ..secrets import Hidden, Key
from ..store import Claim, Store
from .attempt import abandon, admit_all, end_all, give_back, run, work
from .audit import check_engine
from .context import Vault, with_items, without_overriding
from .heartbeat import Heartbeat, Pulse
from .process.logs import LogFile, tail
from .records import Batch, Executor, JobCode, Result
from .slots import HangingThread

if TYPE_CHECKING:
    from ..spark.types import SparkSession


class Worker:
    """Runs claimed chunks of one project and one store, with at most one Spark application."""

    def __init__(
        self,
        store: Store,
        project: Project,
        key: Key | None,
        *,
        master: str | None = None,
        items: Sequence[str] = (),
        echo: bool = True,
        say: Callable[[str], None] = lambda line: None,
        hidden: Hidden | None = None,
    ) -> None:
        self.store, self.project = store, project
        self.vault = Vault(project, key, hidden)
        self.echo, self.say = echo, say
        self.cancelled = threading.Event()
        self.stopped_by = ""  # the name of the signal
        self.has_hanging = False  # whether a thread with hanging job code was abandoned
        self.pulse = Pulse(self)
        store.patience = math.inf  # a restart of the store must not discard finished work
        self._master, self._items = master, items
        self._lock, self._loading = threading.RLock(), threading.RLock()
        self._spark: SparkSession | None = None
        self._code: dict[str, tuple[Job, JobCode]] = {}
        self._distrusted: tuple[Catalogue | None, dict[tuple[str, bool, bool], list[Distrust]]] = None, {}
        self.teller = teller_of(project, store, key, self.vault.hidden, say)

    def close(self) -> None:
        """Wait briefly for lineage events that are not sent yet."""
        if self.teller is not None:
            self.teller.close()

    def stopped(self, detail: str) -> Stopped:
        """The error of a run that a signal stopped: its chunk goes to the next worker."""
        return Stopped(f"stopped by {self.stopped_by or 'its worker'}: {detail}")

    def mark(self, claim: Claim) -> str:
        """The name of the marker folder of an attempt."""
        return mark_name(self.store.identity(), claim.runid)

    def with_new_connection(self) -> Worker:
        """The same worker with its own store connection, for a thread that publishes while others claim."""
        other = copy(self)
        other.store = self.store.new_connection()
        return other

    def run(self, catalogue: Catalogue, claims: Sequence[Claim]) -> list[Result]:
        """Run claimed chunks of one job, together if the job declares batches."""
        return run(self, catalogue, claims)

    def admit(self, catalogue: Catalogue, groups: Sequence[Sequence[Claim]]) -> list[Batch]:
        """Admit groups of claims, one batch per group."""
        return admit_all(self, catalogue, groups)

    def work(self, batch: Batch) -> None:
        """Execute and audit an admitted batch."""
        work(self, batch)

    def end(self, batches: Sequence[Batch]) -> None:
        """Publish batches that were executed."""
        end_all(self, batches)

    def give_back(self, batch: Batch, why: str) -> None:
        """Return a batch that was not started to the queue."""
        give_back(self, batch, why)

    def abandon(self, hanging: HangingThread) -> None:
        """End the run of a thread whose code hangs."""
        self.say(f"{hanging}; the run ends without waiting for its code")
        self.has_hanging = True
        abandon(self, hanging.batch, hanging.where)

    def executor(self, job: Job) -> Executor:
        """The executor for the code of a job."""
        code = self.code(job)
        if code.path is None or code.is_for_spark:
            from .executors.spark import Spark

            return Spark(self)
        from .executors.script import Script

        return Script(self, [str(code.path)], self.folder(job.jobid), in_drain=True)

    def folder(self, jobid: str, otherwise: Path | None = None) -> Path:
        """The working directory of a script: as the project file declares, or `otherwise`, or the project folder."""
        in_file = self.project.job(jobid)  # the store's value is not trusted
        declared = in_file.options.get("folder") if in_file else None
        return self.project.folder / str(declared) if declared else otherwise or self.project.folder

    def distrust(self, catalogue: Catalogue, job: Job, *, on_spark: bool) -> list[Distrust]:
        """The untrusted definitions that a run of this job would use; cached per catalogue."""
        with self._lock:
            if self._distrusted[0] is not catalogue:
                self._distrusted = catalogue, {}
            known, declared, is_all = self._distrusted[1], self.project.job(job.jobid), True
            if declared is None and on_spark:
                code = self.code(job)
                declared, is_all = code.declared, code.is_loaded or code.declared is not None
            key = job.jobid, on_spark, is_all
            if key not in known:
                known[key] = distrust(self.project, catalogue, job, declared, on_spark=on_spark)
            return known[key]

    def refused(self, untrusted: Sequence[Distrust]) -> UntrustedDefinition:
        """The error for untrusted definitions, with its remedy."""
        return refused(self.project, untrusted, self.store.applied)

    def check(self, catalogue: Catalogue, jobid: str) -> None:
        """Refuse, before anything is claimed, a job with untrusted definitions, missing or malformed code, passwords that
        do not decrypt, or a Spark that cannot start."""
        job = catalogue.job(jobid)
        code = self.code(job)
        problems = self.distrust(catalogue, job, on_spark=code.is_for_spark)
        if problems:
            raise self.refused(problems)
        self.vault.passwords(catalogue, job)
        self.check_engine(catalogue, job, on_spark=code.is_for_spark)
        if job.batch < 2:
            return
        if code.path is not None and not code.is_for_spark:
            raise BadConfig(
                f"job {jobid} cannot take its chunks in batches: {code.path.name} is a script", hint="Leave batch out."
            )
        from ..spark.batches import check_batch

        check_batch(catalogue, job, code.loaded)

    def check_engine(self, catalogue: Catalogue, job: Job, *, on_spark: bool) -> None:
        """Refuse a job that needs Spark if Spark cannot start here."""
        if self._spark is None:
            check_engine(self.project, catalogue, job, on_spark=on_spark, master=self._master)

    def code(self, job: Job) -> JobCode:
        """The code of a job, found on first use; Python for Spark is not imported yet."""
        with self._lock:
            known = self._code.get(job.jobid)
            if known is None or known[0] != job:
                known = self._code[job.jobid] = job, self._find_code(job)
            return known[1]

    def _find_code(self, job: Job) -> JobCode:
        if "copy" in job.options:
            return JobCode(None, True)
        from ..project.job_file import job_file
        from .decorated_jobs import decorated, file_of, open_files

        # A file with the name of the job, or a file that declares several jobs.
        path = code_of(self.project, job.jobid) or file_of(self.project, job.jobid)
        candidates = () if path is not None else open_files(self.project)
        if path is None and not candidates:
            raise self._no_code(job)
        if path is not None and not is_for_spark(path):
            return JobCode(path, False)
        try:
            from ..spark.code import load_sql
        except ImportError as error:
            raise MissingDependency(
                f"job {job.jobid} runs on Spark, and {error.name} is not installed",
                hint=f"Install it: {install_command('spark')}",
            ) from None
        if path is not None and path.suffix == ".sql":
            return JobCode(path, True, load_sql(path))
        if path is not None:
            if (problem := job_file(path).problem) is not None:
                raise problem
            self._check_names(job, path)
        return JobCode(path, True, is_loaded=False, declared=decorated(job.jobid, path), candidates=candidates)

    def prepare(self, catalogue: Catalogue, batch: Batch) -> Executor | None:
        """The executor for claimed chunks, whose code is imported here; None if that fails: the chunks are given back."""
        job = catalogue.job(batch.claims[0].jobid)
        executor = self.executor(job)
        if not executor.on_spark:
            return executor
        if not self.code(job).is_loaded:
            heartbeat = Heartbeat(batch.claims)  # an import may take long
            self.pulse.add([heartbeat])
            try:
                with self._loading:
                    self._load(catalogue, job)
            except OdfError as problem:
                batch.problem = problem
                self.give_back(batch, self.vault.redact(problem.message))
                return None
            finally:
                self.pulse.remove([heartbeat])
        batch.code = self.code(job)
        return executor

    def _load(self, catalogue: Catalogue, job: Job) -> None:
        code = self.code(job)
        if code.is_loaded:
            return
        from ..api import declared
        from ..project.job_file import job_file
        from ..spark.batches import check_batch
        from ..spark.code import load_job
        from .decorated_jobs import imported_file_of

        path = code.path or imported_file_of(code.candidates, job.jobid, self.spark)
        if path is None:
            raise self._no_code(job)
        if code.path is None:
            self._check_names(job, path)
        loaded = load_job(path, job.jobid, job, self.spark)
        if job.batch > 1:
            check_batch(catalogue, job, loaded)
        by_decorator = declared(loaded) if callable(loaded) else None
        code = JobCode(path, True, loaded, declared=by_decorator, digest=job_file(path).digest)
        with self._lock:
            self._code[job.jobid] = job, code

    def _check_names(self, job: Job, path: Path) -> None:
        from ..spark.code import check_beside_others

        if not is_one_at_a_time(self.project, job):
            check_beside_others(path, job.jobid)

    def _no_code(self, job: Job) -> BadConfig:
        folders = ", ".join(map(str, self.project.job_folders))
        return BadConfig(
            f"no code for job {job.jobid} was found in {folders}",
            hint=f"Write {job.jobid}.py, {job.jobid}.sql or {job.jobid}.sh there, or an @job function {job.jobid}.",
        )

    def spark(self) -> SparkSession:
        """The Spark session, started on first use."""
        with self._lock:
            if self._spark is None:
                from ..spark.session import session

                self.say("starting Spark")
                name, redact = f"odf {self.project.name}", self.vault.redact
                self._spark = session(self.project.spark, app_name=name, master=self._master, redact=redact)
            return self._spark

    def needs_spark(self, job: Job) -> bool:
        """Whether a job's code runs on Spark."""
        return self.code(job).is_for_spark

    def lost_spark(self) -> bool:
        """Whether Spark was started and no longer responds."""
        if self._spark is None:
            return False
        from ..spark.session import is_alive

        return not is_alive(self._spark)

    def new_log(self, claim: Claim) -> LogFile:
        """A new log of a run, under an unused name, with known secrets redacted."""
        names: Any = {"jobid": claim.jobid, "dataid": claim.dataid, "epoch": claim.epoch, "attempt": claim.tries}
        new = partial(LogFile, self.project.logs, **names, secrets=self.vault.secrets)
        try:
            return new(runid=str(claim.runid))
        except UsageError:  # a log of another store, or of a deleted store at the same address
            return new(runid=f"{claim.runid}-{time.time_ns()}")

    def keep_log_tails(self, batches: Sequence[Batch]) -> None:
        """Store the last lines of logs if the project enables it; errors are only reported, since the runs are over."""
        if not self.project.keep_log_tail:
            return
        try:
            tails = [(batch, tail(batch.log.path)) for batch in batches if batch.log is not None]
            self.store.keep_log_tails({runid: text for batch, text in tails for runid in batch.runids})
        except (OSError, OdfError) as problem:
            self.say(f"the last lines of the log were not kept: {problem}")

    def with_items(self, inherited: Mapping[str, str], job: Job, values: Mapping[str, str]) -> dict[str, str]:
        """The variables of a script, including the env items of the job; reports items that are left out."""
        in_file = self.project.job(job.jobid)
        allowed = {*(in_file.env if in_file else ()), *self.project.trust.items, *self._items}
        declared = {dataset.datasetid for dataset in self.project.datasets}
        undeclared = {*(item.datasetid for item in job.inputs), *job.outputs} - declared
        values, moved = without_overriding(inherited, values, undeclared, allowed)
        for name in moved:
            if name in inherited:
                self.say(f"{name} is declared only in the store and set already: the script gets it as odf_{name}")
        environment, left_out = with_items(inherited, job, allowed, values)
        for name in left_out:
            self.say(f"item {name} of job {job.jobid} is set already: the script gets it as item_{name} only")
        return environment

    def forecast(self, jobid: str, dataid: str | None, not_asked: str) -> Receipt | None:
        """The answers about a chunk from stored facts, without an inspection of the data.

        Without a dataid, the next chunk or the first blocked chunk; None if all are done. Deferral does not apply to a
        chunk that is given by its dataid.
        """
        catalogue = self.store.known
        job = catalogue.job(jobid)
        first = (
            dataid or next(iter(self.store.views.next_dataids(jobid, 1)), None) or self.store.views.first_in_line(jobid)
        )
        if first is None:
            return None
        facts = self.store.views.facts(jobid, first)._replace(place=not_asked, validated=not_asked)
        if dataid is not None:
            check_dataid(catalogue.output_partition(job), dataid, job.outputs[0])
            facts = facts._replace(deferred=0.0)
        from .decorated_jobs import expected_distrust

        untrusted: Any = looks(expected_distrust(self.project, catalogue, job))
        return decide(facts._replace(**untrusted))
