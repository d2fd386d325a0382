"""Verbs that run something: run (RunJob), start, end, rescue."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import OdfError, UnknownJob, UsageError, exit_code_of
from ..shapes import NamedTuple
from .common import App, item_option, plain, table, up_to_date, verb
from .tell import tell_once
from .words import RunCommand, command_of, is_script, refuse_key, target_of

if TYPE_CHECKING:
    from ..run.parts import Asked, Executor, Result
    from ..run.worker import Worker


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
    if Path(target).suffix in (".sh", ".py", ".sql") and not Path(target).exists():
        raise UnknownJob(
            f"there is neither a file nor a job {target} here", hint="Check the path, and the folder that you are in."
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


def check_items(app: App, jobid: str, items: Sequence[str]) -> None:
    """Refuse an item that the job does not have."""
    known = app.store.known.job(jobid).env if items else {}
    for name in items:
        if name not in known:
            names = ", ".join(known) or "none"
            raise UsageError(f"job {jobid} has no item {name}", hint=f"Its items are: {names}.")


class RunOptions(NamedTuple):
    """What the options of `odf run` say."""

    dataid: str | None = None
    items: tuple[str, ...] = ()
    force: bool = False
    dry_run: bool = False
    fail_if_none: bool = False
    quiet: bool = False
    master: str | None = None


@verb("run", creates=True, cls=RunCommand)
@click.option("--dataid", metavar="ID", help="This chunk, instead of the next one.")
@click.option(
    "--force", is_flag=True, help="Run --dataid without the five questions. The run is permanently marked as forced."
)
@click.option("--dry-run", is_flag=True, help="Say what would run, and change nothing.")
@click.option(
    "--fail-if-none",
    is_flag=True,
    help="Exit with the code of the no instead of 0 when no chunk can run now: 15 when there is nothing to do.",
)
@item_option
@click.option("--quiet", is_flag=True, help="Do not show the script's output; it is in the log.")
@click.option("--master", metavar="URL", help="Where Spark runs, for a Spark job.")
@click.argument("target", metavar="SCRIPT|JOB")
@click.argument("command", metavar="[-- WORD...]", nargs=-1, type=click.UNPROCESSED)
def run_verb(app: App, target: str, command: tuple[str, ...], arguments: tuple[str, ...], **given: Any) -> int:
    """Run one chunk of a job, if the five questions allow it.

    SCRIPT is the path of any executable; its job has the name of the file without the suffix. Every word after it is the
    script's, so options for RunJob stand before it. JOB is a registered job whose code is found in the project's folders;
    options stand on either side of it, and words for its script come after --. A job without code takes a command. What is
    named by its path or as a command starts in the current folder, the code of a JOB in the project's folder, unless
    dataflow.toml names a folder.

    \b
      RunJob ./load.sh                     the next chunk of job load
      RunJob --dataid 2025-11-12 ./load.sh this chunk
      RunJob ./load.sh -- --dry-run        an option of ours that is meant for the script
      odf run load --dry-run               say which chunk would be next
      odf run load -- fast                 with a word for the script
      odf run load 'cp a b'                by this command, where job load has no code
      odf run --force --dataid 7 ./load.sh without the five questions (a RUNNING chunk is still refused)

    \b
    Exit codes: 0 done, or no chunk can run now; 1 the job failed, 2 usage, 10 DATA_NOT_READY, 11 WRONG_DATA,
    12 INVALID_PATH, 13 NOT_VALIDATED, 14 LOCKED, 15 NOTHING_TO_DO, 16 LEASE_LOST, 17 BAD_KEY, 18 UNTRUSTED_DEFINITION,
    75 store unreachable. With --fail-if-none no chunk to run is 10, 14 or 15 instead of 0.
    """
    wish = RunOptions(**given)
    if wish.force and wish.dataid is None:
        raise UsageError("--force needs --dataid", hint="Name the chunk that is to run without the five questions.")
    refuse_key(app, "RunJob", target, command)
    jobid, script = target_of(app, target)
    known_job(app, jobid, target)
    argv = [str(script)] if script is not None else []
    # A path starts where its caller is, as it would without us, and so does a command; a name in the project's folder.
    folder = Path.cwd() if command or is_script(target) else None
    if command:
        argv = command_of(app, jobid, command)
    if arguments and not argv:
        raise UsageError(f"job {jobid} has no script that words could be for", hint="Leave out what follows --.")
    return run_one(app, jobid, [*argv, *arguments] if argv else [], folder, wish)


def run_one(app: App, jobid: str, argv: Sequence[str], folder: Path | None, wish: RunOptions) -> int:
    """Run one chunk of a job, by a process of this command or by the job's own code, and say how it ended."""
    check_items(app, jobid, wish.items)
    worker = worker_of(app, echo=not wish.quiet, master=wish.master, items=wish.items)
    if wish.dry_run:
        return _dry_run(worker, app, jobid, wish.dataid)
    from ..run.attempt import run_next
    from ..run.parts import Asked

    executor: Executor | None = None
    if argv:
        from ..run.executors.script import Script

        executor = Script(worker, argv, worker.folder(jobid, folder))
    else:
        worker.check(app.store.catalogue(), jobid)
    with terminating():
        result = run_next(worker, Asked(jobid, wish.dataid, wish.force), executor)
    code = report(app, result, wish.fail_if_none)
    if result.claim is not None:
        tell_once(app)
    return code


def worker_of(app: App, *, echo: bool = False, master: str | None = None, items: Sequence[str] = ()) -> Worker:
    """The worker of this command: its store, its project, and the key if one is given."""
    from ..run.worker import Worker
    from ..secrets import sweep_secret_files

    sweep_secret_files(app.project.logs.parent)  # of a worker that was killed
    told: Any = {"echo": echo and not app.as_json, "say": app.say, "hidden": app.taken.hidden}
    worker = Worker(app.store, app.project, app.key, master=master, items=items, **told)
    app.closing.append(worker.close)
    return worker


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
    is_none = (
        claim is None and result.exit_code == 0
    )  # nothing was taken, which is an error only where that is asked for
    code = exit_code_of(result.outcome) if is_none and fail_if_none else int(result.exit_code)
    app.show(plain(facts | {"exit_code": code}))
    name = f"run {claim.runid}: " if claim is not None else ""
    app.say(f"{name}{result.outcome}: {result.detail}")
    return code


def _dry_run(worker: Worker, app: App, jobid: str, dataid: str | None) -> int:
    with up_to_date(app):
        receipt = worker.forecast(jobid, dataid, "a dry run does not look at the data")
    if receipt is None:
        app.show({"jobid": jobid, "next": None}, lambda: [f"nothing to do for {jobid}; see: odf why {jobid}"])
        return 0
    following = f"{jobid} {receipt.dataid} would"
    lines = [f"{following} {f'be refused: {receipt.verdict}' if receipt.no else 'run, as far as the store knows'}"]
    lines += table(
        ["question", "answer", "why"],
        [(answer.question, answer.word, answer.why) for answer in receipt.answers],
    )
    app.show({"jobid": jobid, "next": receipt.dataid, "receipt": receipt}, lambda: lines)
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
@item_option
@click.option("--dry-run", is_flag=True, help="Say what would be claimed, and change nothing.")
@click.argument("jobid", metavar="JOB")
def start_verb(
    app: App, jobid: str, dataid: str | None, lease: float, dry_run: bool, items: tuple[str, ...] = ()
) -> int:
    """Claim a chunk for a script that does the handshake itself.

    Prints export lines, or JSON with --json. End the run with odf end. Where no chunk can be claimed it prints nothing and
    exits with the code of the no, 15 when there is nothing to do; so take what it prints first, and act on it then.

    \b
      context=$(odf start load) && eval "$context" && ./work.sh && odf end "$ODF_RUN" READY
      odf start load --json
    """
    from ..run.parts import Asked

    known_job(app, jobid, jobid)
    check_items(app, jobid, items)
    if dry_run:
        return _dry_run(worker_of(app), app, jobid, dataid)
    values = begun(app, Asked(jobid, dataid, lease=lease), items)
    if isinstance(values, int):
        return values
    app.show(values, lambda: [f"export {name}={shlex.quote(value)}" for name, value in values.items()], raw=True)
    return 0


def begun(app: App, asked: Asked, items: Sequence[str] = ()) -> dict[str, str] | int:
    """What somebody needs to know who does the work alone; an exit code where nothing was begun."""
    from ..run.attempt import begin, fail
    from ..run.context import variables
    from ..run.executors.script import own_locations
    from ..run.parts import Done, Result

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
    from ..run.attempt import finish
    from ..run.executors.script import Handshake
    from ..run.parts import Done

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
    tell_once(app)
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
