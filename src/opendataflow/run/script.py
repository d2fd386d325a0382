"""A script's run, in order: claim, gate, execute, audit, commit."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import gate, probe
from ..errors import JobFailed, LeaseLost, NothingToDo, NotValidated, OdfError, TimedOut
from ..model import READY, YES, Catalogue, Job, Manifest, Receipt
from ..project import Project
from ..secrets import Key, Redactor, secret_file
from ..store import Claim, Store
from .context import child_environ, passwords, variables
from .launch import Ended, launch
from .logs import LogFile, log_path


@dataclass(frozen=True, slots=True)
class Result:
    """How one call ended: the name of its outcome, the exit code, and the run if there was one."""

    outcome: str
    exit_code: int
    detail: str = ""
    claim: Claim | None = None
    receipt: Receipt | None = None
    ended: Ended | None = None
    log: Path | None = None


def run_script(
    store: Store,
    project: Project,
    jobid: str,
    argv: Sequence[str],
    *,
    cwd: Path,
    key: Key | None,
    dataid: str | None = None,
    force: bool = False,
    echo: bool = True,
    environ: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Result:
    """Run a script on the next chunk of its job, or on one given dataid, if the five questions allow it."""
    catalogue = store.catalogue()
    job = catalogue.job(jobid)
    secrets = passwords(catalogue, job, key)
    store.check_environment(project.environment.name)
    claims = store.claim(jobid, dataid=dataid, force=force)
    if not claims:
        return refused(store, catalogue, project, jobid, dataid)
    claim = claims[0]
    if force:
        say(
            f"FORCED: {jobid} {claim.dataid} runs without the five questions; its history says so for good (run {claim.runid})"
        )
    else:
        no = admitted(store, catalogue, project, claim)
        if no is not None:
            return no
    try:
        return execute_script(
            store,
            catalogue,
            project,
            claim,
            argv,
            cwd,
            key,
            secrets,
            dict(os.environ if environ is None else environ),
            echo,
            say,
        )
    except LeaseLost as error:
        return Result(error.name, error.exit_code, error.message, claim)
    except BaseException as error:
        # Whatever it was, the chunk must not stay locked until the lease ends.
        named = error if isinstance(error, OdfError) else JobFailed(f"{type(error).__name__}: {error}")
        status = store.fail(claim, named.name, Redactor(secrets.values()).redact(named.message))
        if not isinstance(error, OdfError):
            raise
        return Result(named.name, named.exit_code, f"{named.message} ({status})", claim)


def execute_script(
    store: Store,
    catalogue: Catalogue,
    project: Project,
    claim: Claim,
    argv: Sequence[str],
    cwd: Path,
    key: Key | None,
    secrets: Mapping[str, str],
    inherited: dict[str, str],
    echo: bool,
    say: Callable[[str], None],
    cancel: threading.Event | None = None,
) -> Result:
    """Run a script for a claimed chunk that was admitted: execute, audit, commit."""
    job = catalogue.job(claim.jobid)
    hidden: list[str | Key] = [*secrets.values(), *([key] if key is not None else [])]
    with ExitStack() as stack:
        log = stack.enter_context(new_log(project, claim, hidden))
        store.log(claim.runid, str(log.path))
        environment = _environment(store, catalogue, project, claim, secrets, inherited, stack, say)
        ended = launch(
            argv,
            env=environment,
            cwd=cwd,
            log=log,
            timeout=job.timeout,
            tick=lambda: store.heartbeat(claim),
            every=claim.lease / 3,
            echo=echo,
            stdin=None if cancel or os.isatty(0) else 0,
            cancel=cancel,
        )
        return _finish(store, catalogue, project, job, claim, ended, log)


def new_log(project: Project, claim: Claim, hidden: Sequence[str | Key]) -> LogFile:
    """The log of a run, under a name that is free."""
    names: Any = {"jobid": claim.jobid, "dataid": claim.dataid, "epoch": claim.epoch}
    runid = str(claim.runid)
    if log_path(project.logs, **names, runid=runid).exists():
        runid += f"-{time.time_ns()}"  # of another store, or of one that was deleted and made anew
    return LogFile(project.logs, **names, runid=runid, attempt=claim.tries, secrets=hidden)


def _environment(
    store: Store,
    catalogue: Catalogue,
    project: Project,
    claim: Claim,
    secrets: Mapping[str, str],
    inherited: dict[str, str],
    stack: ExitStack,
    say: Callable[[str], None],
) -> dict[str, str]:
    job = catalogue.job(claim.jobid)
    manifests = {
        (item.datasetid, item.dataid): store.manifest(item.datasetid, item.dataid, item.version)
        for item in claim.inputs
    }
    by_file = job.options.get("secrets") == "file"
    found = variables(catalogue, project.environment, claim, manifests, {} if by_file else secrets)
    if by_file and secrets:
        names = {f"{name}_password": value for name, value in secrets.items()}
        found["ODF_SECRETS"] = str(stack.enter_context(secret_file(project.logs.parent, names)))
    environment, left_out = child_environ(inherited, job, found)
    for name in left_out:
        say(f"the env item {name} of job {job.jobid} was left out: it is set already, or programs obey it")
    return environment


def refused(store: Store, catalogue: Catalogue, project: Project, jobid: str, dataid: str | None) -> Result:
    """Nothing was claimed: say why, and keep the answers."""
    if dataid is None:
        store.fold_in()
        full = [str(limit) for limit in store.limits(jobid) if not limit.free]
        if full and store.next_dataids(jobid, 1):
            return Result("LOCKED", 14, "; ".join(full))
        return Result(NothingToDo.name, 0, f"no chunk of {jobid} may be processed now; see: odf why {jobid}")
    receipt = gate.refusal(store, catalogue, project.environment, jobid, dataid)
    verdict = receipt.verdict if receipt.verdict != YES else "LOCKED"
    why = next((answer.why for answer in receipt.answers if not answer.yes), "somebody else took it just now")
    store.refuse(receipt, why)
    return Result(verdict, exit_code_of(verdict), why, receipt=receipt)


def admitted(store: Store, catalogue: Catalogue, project: Project, claim: Claim) -> Result | None:
    """Ask what needs a look at the data itself; a no gives the claim back."""
    if not gate.needs_a_look(catalogue, catalogue.job(claim.jobid)):
        return None
    receipt = gate.ask(store, catalogue, project.environment, claim)
    if receipt.verdict == YES:
        store.admit(claim, receipt)
        return None
    why = next((answer.why for answer in receipt.answers if not answer.yes), "")
    store.give_back(claim, receipt, why)
    return Result(receipt.verdict, exit_code_of(receipt.verdict), why, claim, receipt)


def _finish(
    store: Store, catalogue: Catalogue, project: Project, job: Job, claim: Claim, ended: Ended, log: LogFile
) -> Result:
    if not ended.ok:
        outcome = TimedOut.name if ended.timed_out else "CANCELLED" if ended.cancelled else JobFailed.name
        code = ended.exit_code if ended.exit_code is not None else -(ended.signal or 0)
        detail = f"{ended}: {ended.tail}" if ended.tail else str(ended)
        try:
            status = store.fail(claim, outcome, detail[:4000], exit_code=code)
        except LeaseLost as error:
            return Result(error.name, error.exit_code, error.message, claim, ended=ended, log=log.path)
        return Result(outcome, 130 if ended.cancelled else 1, f"{detail} ({status})", claim, ended=ended, log=log.path)
    try:
        manifests = outputs_of(store, catalogue, project, job, claim)
        store.commit(claim, manifests, exit_code=0)
    except LeaseLost as error:
        return Result(error.name, error.exit_code, error.message, claim, ended=ended, log=log.path)
    except OdfError as error:
        store.fail(claim, error.name, error.message, exit_code=0)
        log.note(f"{error.name}: {error.message}")
        return Result(error.name, error.exit_code, error.message, claim, ended=ended, log=log.path)
    return Result(READY, 0, f"{claim.jobid} {claim.dataid} is READY", claim, ended=ended, log=log.path)


def outputs_of(store: Store, catalogue: Catalogue, project: Project, job: Job, claim: Claim) -> dict[str, Manifest]:
    """Audit what a script wrote: it is there, it is not empty, and its declared checks pass."""
    manifests = {}
    for name in job.outputs:
        dataset = catalogue.dataset(name)
        location = gate.location_of(project.environment, dataset, claim.dataid)
        if not location or dataset.kind == "table":
            continue
        manifest = probe.light_manifest(location, dataset.format, inputs=claim.inputs)
        if not manifest.bytes and not dataset.options.get("empty"):
            raise NotValidated(
                f"{name} {claim.dataid} is empty ({location})",
                hint="if an empty chunk is fine, set empty = true on the dataset",
            )
        if dataset.checks:
            from .audit import audited

            manifest = audited(store, catalogue, project, dataset, claim.dataid, manifest)
        manifests[name] = manifest
    return manifests


def exit_code_of(verdict: str) -> int:
    """The exit code of an outcome's name."""
    from .. import errors

    for each in vars(errors).values():
        if isinstance(each, type) and issubclass(each, OdfError) and each.name == verdict:
            return each.exit_code
    return 1
