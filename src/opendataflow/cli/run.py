"""Verbs that run something: run (RunJob), start, end, rescue."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ..errors import BadConfig, NothingToDo, UnknownJob, UsageError
from .common import App, plain, table, verb

PASS_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def target_of(app: App, target: str) -> tuple[str, Path | None]:
    """The job that a command line names, and the script if it is one: a path to a file, or the name of a job."""
    path = Path(target)
    if path.is_file() and ("/" in target or path.suffix or os.access(path, os.X_OK)):
        return path.name.removesuffix(path.suffix), path.absolute()
    if "/" in target:
        raise BadConfig(f"there is no script {target}", hint="check the path")
    from ..project import code_of

    code = code_of(app.project, target)
    if code is not None and (code.suffix not in (".py", ".sql") or not _is_for_spark(code)):
        return target, code
    return target, None


def _is_for_spark(code: Path) -> bool:
    return code.suffix == ".sql" or "@job" in code.read_text(encoding="utf-8", errors="replace")


def known_job(app: App, jobid: str, target: str) -> None:
    """UNKNOWN_JOB with the lines that would register it."""
    catalogue = app.store.catalogue()
    if jobid in catalogue.jobs:
        return
    if any(job.jobid == jobid for job in app.project.jobs):
        raise UnknownJob(f"job {jobid} is declared in the project, but not in the store yet", hint="odf apply")
    from ..run.declared import is_mentioned

    if is_mentioned(app.project, jobid):
        raise UnknownJob(f"job {jobid} is declared in the project's code, but not in the store yet", hint="odf apply")
    lines = [
        "register it, with the names of what it reads and writes:",
        *(f"  odf dml \"insert into dataset (datasetid) values ('{name}')\"" for name in ("INPUT", "OUTPUT")),
        f"  odf dml \"insert into job (jobid, itemtype, datasetid) values ('{jobid}', 'IN', 'INPUT')\"",
        f"  odf dml \"insert into job (jobid, itemtype, datasetid) values ('{jobid}', 'OUT', 'OUTPUT')\"",
        "or declare it in dataflow.toml (odf init makes one) and: odf apply",
    ]
    try:
        catalogue.job(jobid)
    except UnknownJob as error:
        raise UnknownJob(
            f"{error.message} (from {target})", hint="\n  ".join([*([error.hint] if error.hint else []), *lines])
        ) from None


@verb("run", context_settings=PASS_ON)
@click.option("--dataid", metavar="ID", help="This chunk, instead of the next one.")
@click.option("--force", is_flag=True, help="Run --dataid without asking the five questions. History says so for good.")
@click.option("--dry-run", is_flag=True, help="Say what would run, and change nothing.")
@click.option("--fail-if-none", is_flag=True, help="Exit 15 instead of 0 when there is nothing to do.")
@click.option("--quiet", is_flag=True, help="Do not show the script's output; it is in the log.")
@click.option("--master", metavar="URL", help="Where Spark runs, for a Spark job.")
@click.argument("target", metavar="SCRIPT|JOB")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run_verb(
    app: App,
    target: str,
    arguments: tuple[str, ...],
    dataid: str | None,
    force: bool,
    dry_run: bool,
    fail_if_none: bool,
    quiet: bool,
    master: str | None,
) -> int:
    """Run one chunk of a job, if the five questions allow it.

    SCRIPT is a path to any executable: its job is named like the file without its suffix. JOB is a registered job whose
    code is found in the project's folders. What follows goes to the script unchanged.

    \b
      RunJob ./load.sh                     the next chunk of job load
      RunJob --dataid 2025-11-12 ./load.sh this chunk
      odf run load --dry-run               say which chunk would be next
      odf run --force --dataid 7 ./load.sh without asking (RUNNING chunks are still refused)

    \b
    Exit codes: 0 done or nothing to do, 1 the job failed, 2 usage, 10 DATA_NOT_READY, 11 WRONG_DATA, 12 INVALID_PATH,
    13 NOT_VALIDATED, 14 LOCKED, 15 NOTHING_TO_DO (--fail-if-none), 16 LEASE_LOST, 17 BAD_KEY, 75 store unreachable.
    """
    if force and dataid is None:
        raise UsageError("--force needs --dataid", hint="name the chunk that is to run without asking")
    jobid, script = target_of(app, target)
    known_job(app, jobid, target)
    if dry_run:
        return _dry_run(app, jobid, dataid)
    from .. import secrets

    key = secrets.find_key(os.environ)
    if script is not None:
        from ..run.script import run_script

        result = run_script(
            app.store,
            app.project,
            jobid,
            [str(script), *arguments],
            cwd=script.parent,
            key=key,
            dataid=dataid,
            force=force,
            echo=not quiet and not app.as_json,
            say=app.say,
        )
    else:
        result = _run_by_name(app, jobid, key, dataid, force, quiet, master)
    return report(app, result, fail_if_none)


def _run_by_name(
    app: App, jobid: str, key: Any, dataid: str | None, force: bool, quiet: bool, master: str | None
) -> Any:
    from ..run.script import refused
    from ..run.worker import Worker

    store, project = app.store, app.project
    worker = Worker(store, project, key, master=master, echo=not quiet and not app.as_json, say=app.say)
    catalogue = store.catalogue()
    worker.check(catalogue, jobid)
    store.check_environment(project.environment.name)
    with terminating():
        claims = store.claim(jobid, dataid=dataid, force=force)
        if not claims:
            return refused(store, catalogue, project, jobid, dataid)
        if force:
            app.say(f"FORCED: {jobid} {dataid} runs without the five questions; its history says so for good")
        return worker.run(catalogue, claims[0])


@contextmanager
def terminating() -> Iterator[None]:
    """SIGTERM ends like Ctrl-C: what runs is recorded as FAILED, and nothing stays locked."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def report(app: App, result: Any, fail_if_none: bool) -> int:
    """Say how it ended, and return the exit code."""
    claim = result.claim
    facts = {"outcome": result.outcome, "exit_code": result.exit_code, "detail": result.detail}
    if claim is not None:
        facts |= {
            "run": claim.runid,
            "jobid": claim.jobid,
            "dataid": claim.dataid,
            "epoch": claim.epoch,
            "log": result.log,
        }
    if result.receipt is not None:
        facts["receipt"] = result.receipt
    code = NothingToDo.exit_code if result.outcome == NothingToDo.name and fail_if_none else int(result.exit_code)
    app.show(plain(facts | {"exit_code": code}))
    name = f"run {claim.runid}: " if claim is not None else ""
    app.say(f"{name}{result.outcome}: {result.detail}")
    return code


def _dry_run(app: App, jobid: str, dataid: str | None) -> int:
    from ..gate import refusal

    catalogue = app.store.catalogue()
    app.store.fold_in()
    wanted = [dataid] if dataid is not None else app.store.next_dataids(jobid, 1)
    if not wanted:
        app.show({"jobid": jobid, "next": None}, lambda: [f"nothing to do for {jobid}; see: odf why {jobid}"])
        return 0
    receipt = refusal(app.store, catalogue, app.project.environment, jobid, wanted[0])
    lines = [f"{jobid} {wanted[0]} would {'run' if receipt.verdict == 'YES' else f'be refused: {receipt.verdict}'}"]
    lines += table(
        ["question", "answer", "why"],
        [(answer.question, "yes" if answer.yes else "no", answer.why) for answer in receipt.answers],
    )
    app.show({"jobid": jobid, "next": wanted[0], "receipt": receipt}, lambda: lines)
    return 0


@verb("start")
@click.option("--dataid", metavar="ID", help="This chunk, instead of the next one.")
@click.option(
    "--lease",
    type=float,
    default=86400.0,
    show_default=True,
    help="Seconds until the chunk is taken back, unless odf end comes first.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be claimed, and change nothing.")
@click.argument("jobid", metavar="JOB")
def start_verb(app: App, jobid: str, dataid: str | None, lease: float, dry_run: bool) -> int:
    """Claim a chunk for a script that does the handshake itself.

    Prints export lines, or JSON with --json. End the run with odf end.

    \b
      eval "$(odf start load)" && ./work.sh && odf end "$ODF_RUN" READY
      odf start load --json
    """
    from .. import secrets
    from ..run.context import passwords, variables
    from ..run.script import admitted, refused

    known_job(app, jobid, jobid)
    if dry_run:
        return _dry_run(app, jobid, dataid)
    store, project = app.store, app.project
    catalogue = store.catalogue()
    decrypted = passwords(catalogue, catalogue.job(jobid), secrets.find_key(os.environ))
    store.check_environment(project.environment.name)
    claims = store.claim(jobid, dataid=dataid, lease=lease)
    if not claims:
        return report(app, refused(store, catalogue, project, jobid, dataid), fail_if_none=True)
    no = admitted(store, catalogue, project, claims[0])
    if no is not None:
        return report(app, no, fail_if_none=True)
    manifests = {
        (item.datasetid, item.dataid): store.manifest(item.datasetid, item.dataid, item.version)
        for item in claims[0].inputs
    }
    found = variables(catalogue, project.environment, claims[0], manifests, decrypted) | dict(catalogue.job(jobid).env)
    app.show(found, lambda: [f"export {name}={shlex.quote(value)}" for name, value in found.items()], raw=True)
    return 0


@verb("end")
@click.option("--why", metavar="TEXT", help="The reason, for the history.")
@click.option("--dry-run", is_flag=True, help="Say what would be ended, and change nothing.")
@click.argument("run", type=int)
@click.argument("status", metavar="READY|FAILED")
def end_verb(app: App, run: int, status: str, why: str | None, dry_run: bool) -> int:
    """End a run that odf start began: publish its chunk, or say that it failed.

    \b
      odf end 17 READY
      odf end 17 FAILED --why "the file was cut"
    """
    from ..errors import UnknownStatus
    from ..model import FAILED, READY, canonical
    from ..run.script import outputs_of

    word = canonical(status)
    if word not in (READY, FAILED):
        raise UnknownStatus(f"a run ends READY or FAILED, not {word}", hint=f"for instance: odf end {run} READY")
    claim = app.store.claim_of(run)
    if dry_run:
        app.show(
            {"run": run, "jobid": claim.jobid, "dataid": claim.dataid, "status": word},
            lambda: [f"run {run} of {claim.jobid} {claim.dataid} would end {word}"],
        )
        return 0
    if word == READY:
        catalogue = app.store.catalogue()
        app.store.commit(claim, outputs_of(app.store, catalogue, app.project, catalogue.job(claim.jobid), claim))
    else:
        word = app.store.fail(claim, "JOB_FAILED", why)
    app.show(
        {"run": run, "jobid": claim.jobid, "dataid": claim.dataid, "status": word},
        lambda: [f"run {run}: {claim.jobid} {claim.dataid} is {word}"],
    )
    return 0


@verb("rescue")
@click.option("--dry-run", is_flag=True, help="Say what would be ended, and change nothing.")
def rescue_verb(app: App, dry_run: bool) -> int:
    """End runs whose lease ran out: their chunks become FAILED or, by the job's retry rule, RESUBMIT.

    Every claim does this too; the verb is for when nobody claims.

    \b
      odf rescue
    """
    if dry_run:
        found: Sequence[tuple[int, str, str, str]] = [
            (run.runid, run.jobid, run.dataid, "lease over") for run in app.store.expired()
        ]
    else:
        from ..secrets import sweep_secret_files

        found = app.store.rescue()
        if app.project.logs.parent.is_dir():
            sweep_secret_files(app.project.logs.parent)
    data = [
        {"run": runid, "jobid": jobid, "dataid": dataid, "status": status} for runid, jobid, dataid, status in found
    ]
    app.show(data, lambda: table(["run", "job", "dataid", "status"], found) if found else ["no lease ran out"])
    return 0
