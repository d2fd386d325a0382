"""Verbs that run something: run (RunJob), start, end, rescue."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..errors import BadConfig, NothingToDo, OdfError, UnknownJob, UsageError
from .common import App, plain, table, up_to_date, verb

if TYPE_CHECKING:
    from ..run.attempt import Asked, Executor, Result
    from ..run.worker import Worker

PASS_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def target_of(app: App, target: str) -> tuple[str, Path | None]:
    """The job that a command line names, and the script if it is one: a path to a file, or the name of a job."""
    path = Path(target)
    if path.is_file() and ("/" in target or path.suffix or os.access(path, os.X_OK)):
        return path.name.removesuffix(path.suffix), path.absolute()
    if "/" in target:
        raise BadConfig(f"there is no script {target}", hint="Check the path.")
    from ..project import code_of, is_for_spark

    code = code_of(app.project, target)
    return target, code if code is not None and not is_for_spark(code) else None


def known_job(app: App, jobid: str, target: str) -> None:
    """UNKNOWN_JOB with the lines that would register it."""
    catalogue = app.store.catalogue()
    if jobid in catalogue.jobs or ("job", jobid) in catalogue.broken:
        catalogue.job(jobid)
        return
    if any(job.jobid == jobid for job in app.project.jobs):
        raise UnknownJob(
            f"job {jobid} is declared in the project, but not in the store yet", hint="Store it: odf apply"
        )
    from ..run.declared import is_mentioned

    if is_mentioned(app.project, jobid):
        raise UnknownJob(
            f"job {jobid} is declared in the project's code, but not in the store yet", hint="Store it: odf apply"
        )
    lines = [
        "Register it, with the names of what it reads and writes:",
        *(f"  odf dml \"insert into dataset (datasetid) values ('{name}')\"" for name in ("INPUT", "OUTPUT")),
        f"  odf dml \"insert into job (jobid, itemtype, datasetid) values ('{jobid}', 'IN', 'INPUT')\"",
        f"  odf dml \"insert into job (jobid, itemtype, datasetid) values ('{jobid}', 'OUT', 'OUTPUT')\"",
        "Or declare it in dataflow.toml (odf init makes one), then: odf apply",
    ]
    try:
        catalogue.job(jobid)
    except UnknownJob as error:
        raise UnknownJob(
            f"{error.message} (from {target})", hint="\n  ".join([*([error.hint] if error.hint else []), *lines])
        ) from None


_item_option = click.option(
    "--item",
    "items",
    metavar="NAME",
    multiple=True,
    help="Give this item of the job under its own name too, beside item_NAME. May be repeated.",
)


def _check_items(app: App, jobid: str, items: Sequence[str]) -> None:
    known = app.store.known.job(jobid).env if items else {}
    for name in items:
        if name not in known:
            names = ", ".join(known) or "none"
            raise UsageError(f"job {jobid} has no item {name}", hint=f"Its items are: {names}.")


class RunOptions(NamedTuple):
    """What the options of `odf run` say."""

    dataid: str | None
    items: tuple[str, ...]
    force: bool
    dry_run: bool
    fail_if_none: bool
    quiet: bool
    master: str | None


@verb("run", creates=True, context_settings=PASS_ON)
@click.option("--dataid", metavar="ID", help="This chunk, instead of the next one.")
@click.option(
    "--force", is_flag=True, help="Run --dataid without the five questions. The run is permanently marked as forced."
)
@click.option("--dry-run", is_flag=True, help="Say what would run, and change nothing.")
@click.option("--fail-if-none", is_flag=True, help="Exit 15 instead of 0 when there is nothing to do.")
@_item_option
@click.option("--quiet", is_flag=True, help="Do not show the script's output; it is in the log.")
@click.option("--master", metavar="URL", help="Where Spark runs, for a Spark job.")
@click.argument("target", metavar="SCRIPT|JOB")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run_verb(app: App, target: str, arguments: tuple[str, ...], **given: Any) -> int:
    """Run one chunk of a job, if the five questions allow it.

    SCRIPT is the path of any executable; its job has the name of the file without the suffix. JOB is a registered job whose
    code is found in the project's folders. Everything after it is passed to the script unchanged. A SCRIPT starts in the
    current folder, the code of a JOB in the project's folder, unless dataflow.toml names a folder.

    \b
      RunJob ./load.sh                     the next chunk of job load
      RunJob --dataid 2025-11-12 ./load.sh this chunk
      odf run load --dry-run               say which chunk would be next
      odf run --force --dataid 7 ./load.sh without the five questions (a RUNNING chunk is still refused)

    \b
    Exit codes: 0 done or nothing to do, 1 the job failed, 2 usage, 10 DATA_NOT_READY, 11 WRONG_DATA, 12 INVALID_PATH,
    13 NOT_VALIDATED, 14 LOCKED, 15 NOTHING_TO_DO (--fail-if-none), 16 LEASE_LOST, 17 BAD_KEY, 18 UNTRUSTED_DEFINITION,
    75 store unreachable.
    """
    wish = RunOptions(**given)
    if wish.force and wish.dataid is None:
        raise UsageError("--force needs --dataid", hint="Name the chunk that is to run without the five questions.")
    jobid, script = target_of(app, target)
    known_job(app, jobid, target)
    _check_items(app, jobid, wish.items)
    worker = worker_of(app, echo=not wish.quiet, master=wish.master, items=wish.items)
    if wish.dry_run:
        return _dry_run(worker, app, jobid, wish.dataid)
    from ..run.attempt import Asked, run_next

    executor: Executor | None = None
    if script is not None:
        from ..run.executors.script import Script

        # A path starts where its caller is, as it would without us; a name starts in the project's folder.
        here = Path.cwd() if Path(target).absolute() == script else None
        executor = Script(worker, [str(script), *arguments], worker.folder(jobid, here))
    else:
        worker.check(app.store.catalogue(), jobid)
    with terminating():
        result = run_next(worker, Asked(jobid, wish.dataid, wish.force), executor)
    return report(app, result, wish.fail_if_none)


def worker_of(app: App, *, echo: bool = False, master: str | None = None, items: Sequence[str] = ()) -> Worker:
    """The worker of this command: its store, its project, and the key if one is given."""
    from ..run.worker import Worker
    from ..secrets import sweep_secret_files

    sweep_secret_files(app.project.logs.parent)  # of a worker that was killed
    told: Any = {"echo": echo and not app.as_json, "say": app.say, "hidden": app.taken.hidden}
    return Worker(app.store, app.project, app.key, master=master, items=items, **told)


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


def report(app: App, result: Result, fail_if_none: bool) -> int:
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


def _dry_run(worker: Worker, app: App, jobid: str, dataid: str | None) -> int:
    with up_to_date(app):
        wanted = [dataid] if dataid is not None else app.store.next_dataids(jobid, 1)
        receipt = worker.forecast(jobid, wanted[0], "a dry run does not look at the data") if wanted else None
    if receipt is None:
        app.show({"jobid": jobid, "next": None}, lambda: [f"nothing to do for {jobid}; see: odf why {jobid}"])
        return 0
    lines = [
        f"{jobid} {wanted[0]} would {f'be refused: {receipt.verdict}' if receipt.no else 'run, as far as the store knows'}"
    ]
    lines += table(
        ["question", "answer", "why"],
        [(answer.question, answer.word, answer.why) for answer in receipt.answers],
    )
    app.show({"jobid": jobid, "next": wanted[0], "receipt": receipt}, lambda: lines)
    return 0


@verb("start", creates=True)
@click.option("--dataid", metavar="ID", help="This chunk, instead of the next one.")
@click.option(
    "--lease",
    type=float,
    default=86400.0,
    show_default=True,
    help="Seconds until the chunk is taken back unless odf end comes first.",
)
@_item_option
@click.option("--dry-run", is_flag=True, help="Say what would be claimed, and change nothing.")
@click.argument("jobid", metavar="JOB")
def start_verb(
    app: App, jobid: str, dataid: str | None, lease: float, dry_run: bool, items: tuple[str, ...] = ()
) -> int:
    """Claim a chunk for a script that does the handshake itself.

    Prints export lines, or JSON with --json. End the run with odf end.

    \b
      eval "$(odf start load)" && ./work.sh && odf end "$ODF_RUN" READY
      odf start load --json
    """
    from ..run.attempt import Asked

    known_job(app, jobid, jobid)
    _check_items(app, jobid, items)
    if dry_run:
        return _dry_run(worker_of(app), app, jobid, dataid)
    values = begun(app, Asked(jobid, dataid, lease=lease), items)
    if isinstance(values, int):
        return values
    app.show(values, lambda: [f"export {name}={shlex.quote(value)}" for name, value in values.items()], raw=True)
    return 0


def begun(app: App, asked: Asked, items: Sequence[str] = ()) -> dict[str, str] | int:
    """What somebody needs to know who does the work alone; an exit code where nothing was begun."""
    from ..run.attempt import Done, Result, begin, fail
    from ..run.context import variables
    from ..run.executors.script import own_locations

    worker = worker_of(app, items=items)
    attempt = begin(worker, asked)
    if isinstance(attempt, Result):
        return report(app, attempt, fail_if_none=True)
    try:
        own = own_locations(app.project, attempt)
        given = attempt.catalogue, app.project.environment, attempt.claim, attempt.inputs, attempt.secrets
        values = variables(*given, own)
    except OdfError as problem:  # nobody learns of the run, so nobody would end it
        return report(app, fail(worker, attempt.claim, Done(problem=problem)), fail_if_none=True)
    return worker.with_items(os.environ, attempt.job, values)


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
    from ..errors import JobFailed, UnknownStatus
    from ..model import FAILED, READY, canonical
    from ..run.attempt import Done, finish
    from ..run.executors.script import Handshake

    word = canonical(status)
    if word not in (READY, FAILED):
        raise UnknownStatus(f"a run ends READY or FAILED, not {word}", hint=f"Write it like this: odf end {run} READY")
    claim = app.store.claim_of(run)
    if dry_run:
        app.show(
            {"run": run, "jobid": claim.jobid, "dataid": claim.dataid, "status": word},
            lambda: [f"run {run} of {claim.jobid} {claim.dataid} would end {word}"],
        )
        return 0
    worker = worker_of(app)
    if why and app.key is not None:
        with suppress(OdfError):  # what was opened is not in the history, whoever writes it there
            worker.vault.passwords(app.store.known, app.store.known.job(claim.jobid))
    done = Done() if word == READY else Done(problem=JobFailed(why or ""))
    result = finish(worker, claim, Handshake(worker), done)
    if not result.status:  # somebody else has the chunk now
        return report(app, result, fail_if_none=False)
    app.show(
        {"run": run, "jobid": claim.jobid, "dataid": claim.dataid, "status": result.status},
        lambda: [f"run {run}: {claim.jobid} {claim.dataid} is {result.status}"],
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
