"""How one chunk is run from a command line, and how its end is told. Without click, which takes long."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import Aborted, DataNotReady, Locked, NothingToDo, UnknownJob, UntrustedDefinition, UsageError
from ..model.definitions.catalogue import Catalogue
from .app import App, plain, table, up_to_date
from .tell import tell_once
from .words import command_of, is_script, refuse_key, target_of

if TYPE_CHECKING:
    from ..run.records import Executor, Result
    from ..run.worker import Worker

_PASSING = (DataNotReady.name, Locked.name)  # the nos that a later call may find gone, without a repair


def refuse_unapplied(app: App, jobid: str) -> None:
    """UNKNOWN_JOB for a job that the project declares, and that the store does not know yet."""
    if any(job.jobid == jobid for job in app.project.jobs):
        raise UnknownJob(
            f"job {jobid} is declared in the project, but not in the store yet", hint="Store it: odf apply"
        )
    from ..run.decorated_jobs import is_declared

    if is_declared(app.project, jobid):
        raise UnknownJob(
            f"job {jobid} is declared in the project's code, but not in the store yet", hint="Store it: odf apply"
        )


def known_job(app: App, jobid: str, target: str) -> None:
    """UNKNOWN_JOB with the lines that would register it; a store that is missing stays so."""
    catalogue = Catalogue.build((), ()) if app.is_missing and not app.store_url else app.store.catalogue()
    if jobid in catalogue.jobs or ("job", jobid) in catalogue.broken:
        catalogue.job(jobid)
        return
    if jobid in catalogue.datasets:
        producer = catalogue.producer_id(jobid)
        raise UnknownJob(
            f"{jobid} is a dataset, and no job" + ("" if producer else "; no job produces it"),
            hint=f"Name the job that produces it: {producer}"
            if producer
            else f"It comes from outside: odf ready {jobid} DATAID",
        )
    refuse_unapplied(app, jobid)
    if Path(target).suffix in (".sh", ".py", ".sql") and not Path(target).exists():
        raise UnknownJob(
            f"there is neither a file nor a job {target} here", hint="Check the path, and the folder that you are in."
        )
    from ..model.definitions.ids import check_id

    check_id("job", jobid)  # a line for the shell must not hold the name of any file
    lines = [
        "Register it, with the names of what it reads and writes:",
        *(f"  odf dml \"insert into dataset (datasetid) values ('{name}')\"" for name in ("INPUT", "OUTPUT")),
        f"  odf dml \"insert into job (jobid, itemtype, datasetid) values ('{jobid}', 'IN', 'INPUT')\"",
        f"  odf dml \"insert into job (jobid, itemtype, datasetid) values ('{jobid}', 'OUT', 'OUTPUT')\"",
        "Or declare it in dataflow.toml (odf init makes one), then: odf apply",
        f"The store that was asked: {app.shown_url}",
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
    quiet_no: bool = False
    quiet: bool = False
    master: str | None = None


def run_target(app: App, target: str, command: Sequence[str], arguments: Sequence[str], wish: RunOptions) -> int:
    """Run one chunk of the job that a script or a name stands for, by this command if there is one, with these words for it."""
    if wish.force and wish.dataid is None:
        raise UsageError("--force needs --dataid", hint="Name the chunk that is to run without the five questions.")
    if is_script(target):
        app.script_folder = Path(target).absolute().parent
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
        return would_run(worker, app, jobid, wish.dataid)
    from ..run.attempt import run_next
    from ..run.records import RunRequest

    executor: Executor | None = None
    if argv:
        from ..run.executors.script import Script

        executor = Script(worker, argv, worker.folder(jobid, folder))
    else:
        checked(worker, jobid)
    try:
        with terminating():
            result = run_next(worker, RunRequest(jobid, wish.dataid, wish.force), executor)
    except KeyboardInterrupt:
        if worker.has_hanging:
            exit_without_threads(app, Aborted.exit_code)
        raise
    code = report(app, result, fail_if_none=wish.fail_if_none, quiet_no=wish.quiet_no)
    if worker.has_hanging:
        exit_without_threads(app, code)
    if result.claim is not None:
        tell_once(app)
    return code


def checked(worker: Worker, jobid: str) -> None:
    """Refuse a job that cannot run here; the no of a definition that is not trusted is stored, for odf check and recover."""
    try:
        worker.check(worker.store.catalogue(), jobid)
    except UntrustedDefinition:
        from ..run.claim import refuse_untrusted

        refuse_untrusted(worker, jobid)
        raise


def exit_without_threads(app: App, code: int) -> None:
    """Exit with this code when the app is closed, although job code hangs in a thread; end the processes that it started."""

    def exit_now() -> None:
        from ..run.process.process_tree import end_below

        end_below(spared="java")  # without us, Spark's Java ends by itself and removes its temporary files
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)

    app.closing.insert(0, exit_now)


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
    """SIGTERM and SIGHUP end like Ctrl-C: what runs goes to the next worker, and nothing stays locked."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    # A signal that nohup ignores stays ignored.
    ends = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) != signal.SIG_IGN]
    before = {each: signal.signal(each, stop) for each in ends}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def report(app: App, result: Result, *, fail_if_none: bool = False, quiet_no: bool = False) -> int:
    """Say how it ended, and return the exit code: that of the printed name, but for what the options say."""
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
    code = int(result.exit_code)
    if result.outcome == NothingToDo.name:
        code = NothingToDo.exit_code if fail_if_none else 0
    elif quiet_no and claim is None and result.outcome in _PASSING:
        code = 0
    app.show(plain(facts | {"exit_code": code}))
    name = f"run {claim.runid}: " if claim is not None else ""
    app.say(f"{name}{result.outcome}: {result.detail}")
    return code


def would_run(worker: Worker, app: App, jobid: str, dataid: str | None) -> int:
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
