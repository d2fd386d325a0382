"""The worker: what all attempts of one process share, so that it is made once: session, code, passwords."""

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
from ..lineage import teller_of
from ..model import Catalogue, Job, Receipt, check_dataid, decide
from ..project import Project, code_of, is_for_spark
from ..project.jobs import is_one_at_a_time
from ..project.trust import Distrust, distrust, looks, refused
from ..secrets import Hidden, Key
from ..shapes import NamedTuple
from ..store import Claim, Store
from .attempt import abandon, admit_all, end_all, give_back, run, work
from .audit import check_engine
from .context import Vault, with_items, without_overriding
from .heartbeat import Pulse
from .parts import Batch, Executor, Result
from .process.logs import LogFile, tail

if TYPE_CHECKING:
    from ..spark.types import SparkSession


class JobCode(NamedTuple):
    """The code of a job: its file, and what Spark runs of it; neither for a copy."""

    path: Path | None
    is_for_spark: bool
    loaded: Any = None


class Worker:
    """Runs claimed chunks for one project on one store; one Spark application serves all of them."""

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
        self.stopped_by = "its worker"  # or the name of the signal
        self.pulse = Pulse(self)
        store.patience = math.inf  # what a job has done is not thrown away since the store restarts
        self._master, self._items = master, items
        self._lock = threading.RLock()
        self._spark: SparkSession | None = None
        self._code: dict[str, tuple[Job, JobCode]] = {}
        self._distrusted: tuple[Catalogue | None, dict[tuple[str, bool], list[Distrust]]] = None, {}
        self.teller = teller_of(project, store, key, self.vault.hidden, say)

    def close(self) -> None:
        """Give what is still to be told a moment to leave."""
        if self.teller is not None:
            self.teller.close()

    def stopped(self, what: str) -> Stopped:
        """Why a run ends that did nothing wrong: its chunk goes to the next worker."""
        return Stopped(f"stopped by {self.stopped_by}: {what}")

    def beside(self) -> Worker:
        """The same worker over a connection of its own, for a thread that publishes while others claim."""
        other = copy(self)
        other.store = self.store.beside()
        return other

    def run(self, catalogue: Catalogue, claims: Sequence[Claim]) -> list[Result]:
        """Take claimed chunks of one job the whole way, together where the job says so."""
        return run(self, catalogue, claims)

    def admit(self, catalogue: Catalogue, groups: Sequence[Sequence[Claim]]) -> list[Batch]:
        """The first step of it for several groups of claims, each of which is made together."""
        return admit_all(self, catalogue, groups)

    def work(self, batch: Batch) -> None:
        """The second step: the work itself."""
        work(self, batch)

    def end(self, batches: Sequence[Batch]) -> None:
        """The last step, for whatever has ended by now: publish it."""
        end_all(self, batches)

    def give_back(self, batch: Batch, why: str) -> None:
        """Instead of the work: leave it to others."""
        give_back(self, batch, why)

    def abandon(self, batch: Batch, where: str) -> None:
        """Instead of the end: the code of it hangs there, and its run ends without it."""
        abandon(self, batch, where)

    def executor(self, job: Job) -> Executor:
        """How the chunks of a job are made, by the code that was found for it."""
        code = self.code(job)
        if code.path is None or code.is_for_spark:
            from .executors.spark import Spark

            return Spark(self, code.loaded, code.path)
        from .executors.script import Script

        return Script(self, [str(code.path)], self.folder(job.jobid), in_drain=True)

    def folder(self, jobid: str, otherwise: Path | None = None) -> Path:
        """Where a script starts: as the project file says of its job, or else here, or else in the project's folder."""
        in_file = self.project.job(jobid)  # not as the store says
        declared = in_file.options.get("folder") if in_file else None
        return self.project.folder / str(declared) if declared else otherwise or self.project.folder

    def distrust(self, catalogue: Catalogue, job: Job, *, on_spark: bool) -> list[Distrust]:
        """What a run of this job would act on and may not, by this project's own files; compared once."""
        with self._lock:
            if self._distrusted[0] is not catalogue:
                self._distrusted = catalogue, {}
            known = self._distrusted[1]
            if (job.jobid, on_spark) not in known:
                known[job.jobid, on_spark] = distrust(
                    self.project, catalogue, job, self._declared(job, on_spark), on_spark=on_spark
                )
            return known[job.jobid, on_spark]

    def _declared(self, job: Job, on_spark: bool) -> Job | None:
        """The job as the project file declares it, or else its decorator."""
        in_file = self.project.job(job.jobid)
        if in_file is not None or not on_spark or "copy" in job.options:
            return in_file
        from ..api import declared

        return declared(self.code(job).loaded)

    def refused(self, untrusted: Sequence[Distrust]) -> UntrustedDefinition:
        """The refusal of definitions that are not trusted, with what to do about them."""
        return refused(self.project, untrusted, self.store.applied)

    def check(self, catalogue: Catalogue, jobid: str) -> None:
        """Refuse before anything is claimed: an untrusted definition, no code, code that does not load, passwords that
        do not decrypt, checks that cannot run here."""
        job = catalogue.job(jobid)
        code = self.code(job)
        problems = self.distrust(catalogue, job, on_spark=code.is_for_spark)
        if problems:
            raise self.refused(problems)
        self.vault.passwords(catalogue, job)
        if code.path is not None and not code.is_for_spark:
            check_engine(catalogue.dataset(name) for name in job.outputs)
        if job.batch < 2:
            return
        if code.path is not None and not code.is_for_spark:
            raise BadConfig(
                f"job {jobid} cannot take its chunks in batches: {code.path.name} is a script", hint="Leave batch out."
            )
        from ..spark.batches import check_batch

        check_batch(catalogue, job, code.loaded)

    def code(self, job: Job) -> JobCode:
        """The code of a job, found and loaded once."""
        with self._lock:
            known = self._code.get(job.jobid)
            if known is None or known[0] != job:
                known = self._code[job.jobid] = job, self._find(job)
            return known[1]

    def _find(self, job: Job) -> JobCode:
        if "copy" in job.options:
            return JobCode(None, True)
        from .declared import file_of

        # A file that is named after the job, or one with several functions.
        path = code_of(self.project, job.jobid) or file_of(self.project, job.jobid)
        if path is None:
            folders = ", ".join(map(str, self.project.job_folders))
            raise BadConfig(
                f"no code for job {job.jobid} was found in {folders}",
                hint=f"Write {job.jobid}.py, {job.jobid}.sql or {job.jobid}.sh there, or an @job function {job.jobid}.",
            )
        if not is_for_spark(path):
            return JobCode(path, False)
        try:
            from ..spark.code import check_beside_others, load_job
        except ImportError as error:
            raise MissingDependency(
                f"job {job.jobid} runs on Spark, and {error.name} is not installed",
                hint=f"Install it: {install_command('spark')}",
            ) from None
        code = load_job(path, job.jobid, job)
        if not is_one_at_a_time(self.project, job):
            check_beside_others(path, job.jobid)
        return JobCode(path, True, code)

    def spark(self) -> SparkSession:
        """The one Spark session, started when the first chunk needs it."""
        with self._lock:
            if self._spark is None:
                from ..spark.session import session

                self.say("starting Spark")
                name, redact = f"odf {self.project.name}", self.vault.redact
                self._spark = session(self.project.spark, app_name=name, master=self._master, redact=redact)
            return self._spark

    def needs_spark(self, job: Job) -> bool:
        """Whether a job's chunks run on Spark rather than as processes."""
        return self.code(job).is_for_spark

    def lost_spark(self) -> bool:
        """Whether Spark was started and does not answer any more: every further chunk would fail with it."""
        if self._spark is None:
            return False
        from ..spark.session import is_alive

        return not is_alive(self._spark)

    def new_log(self, claim: Claim) -> LogFile:
        """The log of a run, under a name that is free; no secret that we know gets into it."""
        names: Any = {"jobid": claim.jobid, "dataid": claim.dataid, "epoch": claim.epoch, "attempt": claim.tries}
        new = partial(LogFile, self.project.logs, **names, secrets=self.vault.secrets)
        try:
            return new(runid=str(claim.runid))
        except UsageError:  # there is one of another store, or of one that was deleted and made again
            return new(runid=f"{claim.runid}-{time.time_ns()}")

    def keep_log_tails(self, batches: Sequence[Batch]) -> None:
        """The last lines of logs go to the store where the project says so; that may fail, since the runs are over."""
        if not self.project.keep_log_tail:
            return
        try:
            tails = [(batch, tail(batch.log.path)) for batch in batches if batch.log is not None]
            self.store.keep_log_tails({runid: text for batch, text in tails for runid in batch.runids})
        except (OSError, OdfError) as problem:
            self.say(f"the last lines of the log were not kept: {problem}")

    def with_items(self, inherited: Mapping[str, str], job: Job, values: Mapping[str, str]) -> dict[str, str]:
        """The values for whoever does the work, with the env items of the job; what is left out is said."""
        in_file = self.project.job(job.jobid)
        plain = {*(in_file.env if in_file else ()), *self.project.trust.items, *self._items}
        declared = {dataset.datasetid for dataset in self.project.datasets}
        undeclared = {*(item.datasetid for item in job.inputs), *job.outputs} - declared
        values, moved = without_overriding(inherited, values, undeclared, plain)
        for name in moved:
            if name in inherited:
                self.say(f"{name}, which only the store says, is odf_{name}: {name} is set already")
        environment, left_out = with_items(inherited, job, plain, values)
        for name in left_out:
            self.say(f"the item {name} of job {job.jobid} is only item_{name}: {name} is set already")
        return environment

    def forecast(self, jobid: str, dataid: str | None, why_not_looked: str) -> Receipt | None:
        """The answers about a chunk, as far as the store knows them; nobody looks at the data.

        Without a dataid it is the next chunk, or else the one that is first in the way; None where all is done. A chunk
        that is deferred waits for its turn, but whoever names it need not.
        """
        catalogue = self.store.known
        job = catalogue.job(jobid)
        first = dataid or next(iter(self.store.next_dataids(jobid, 1)), None) or self.store.first_in_line(jobid)
        if first is None:
            return None
        facts = self.store.facts(jobid, first)._replace(place=why_not_looked, validated=why_not_looked)
        if dataid is not None:
            check_dataid(catalogue.output_partition(job), dataid, job.outputs[0])
            facts = facts._replace(deferred=0.0)
        from .declared import foreseen_distrust

        untrusted: Any = looks(foreseen_distrust(self.project, catalogue, job))
        return decide(facts._replace(**untrusted))
