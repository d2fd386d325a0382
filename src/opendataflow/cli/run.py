"""Verbs that run something: run (RunJob), start, end, rescue."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from ..errors import OdfError, UsageError
from .app import App, table
from .common import Verb, item_option, verb
from .running import RunOptions, check_items, known_job, report, run_target, worker_of, would_run
from .tell import tell_once
from .words import is_script

if TYPE_CHECKING:
    from ..run.records import RunRequest


class RunCommand(Verb):
    """Beside the name of a job our options are ours wherever they stand; after a script every word is the script's.

    Words after -- are passed on in both cases. One of our own long options after a script might be meant either way.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        parser = self.make_parser(ctx)
        parser.allow_interspersed_args = False
        values: Mapping[str, Any] = {} if ctx.resilient_parsing else parser.parse_args(list(args))[0]
        target, command = values.get("target"), values.get("command")
        following = list(command) if isinstance(command, tuple) else []
        ours = args[: len(args) - len(following)]
        passed_on: list[str] = []
        if "--" in ours:
            passed_on = following
        elif isinstance(target, str) and is_script(target):
            passed_on = following[1:] if following[:1] == ["--"] else following
            if passed_on is following:
                _refuse_ours(_long_options(self.get_params(ctx)), ours, following)
        elif following:
            end = following.index("--") if "--" in following else len(following)
            ours, passed_on = [*ours, *following[:end]], following[end + 1 :]
        rest = super().parse_args(ctx, ours)
        ctx.params["arguments"] = tuple(passed_on)
        return rest


def _long_options(params: Sequence[click.Parameter]) -> dict[str, int]:
    """Our own long options, each with the number of words that follow it."""
    return {
        name: 0 if option.is_flag or option.count or option.is_eager else option.nargs
        for option in params
        if isinstance(option, click.Option)
        for name in (*option.opts, *option.secondary_opts)
        if name.startswith("--")
    }


def _refuse_ours(options: Mapping[str, int], before: Sequence[str], after: Sequence[str]) -> None:
    """What follows a script is the script's; an option of ours there is refused with both spellings."""
    [*front, script] = before
    words = iter(after)
    ours: list[str] = []
    theirs: list[str] = []
    for word in words:
        name, equals, _ = word.partition("=")
        if word == "--":  # what comes after it is for the script
            theirs += [word, *words]
        elif name in options:
            ours += [word, *islice(words, 0 if equals else options[name])]
        else:
            theirs.append(word)
    if ours:
        raise UsageError(
            f"{ours[0]} stands after {script}, and is an option of ours: for whom is it?",
            hint=f"For OpenDataFlow: {shlex.join(['RunJob', *front, *ours, script, *theirs])}\n"
            f"  For the script: {shlex.join(['RunJob', *before, '--', *after])}",
        )


@verb("run", cls=RunCommand)
@click.option("--dataid", metavar="ID", help="This chunk, instead of the next one.")
@click.option(
    "--force", is_flag=True, help="Run --dataid without the five questions. The run is permanently marked as forced."
)
@click.option("--dry-run", is_flag=True, help="Say what would run, and change nothing.")
@click.option("--fail-if-none", is_flag=True, help="Exit with 15 instead of 0 when there is nothing to do.")
@click.option("--quiet-no", is_flag=True, help="Exit with 0 instead of 10 or 14 when no chunk can run now, for cron.")
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
    Exit codes: 0 done or NOTHING_TO_DO (15 with --fail-if-none), 1 the job failed, 2 usage, 10 DATA_NOT_READY and
    14 LOCKED (0 with --quiet-no), 11 WRONG_DATA, 12 INVALID_PATH, 13 NOT_VALIDATED, 16 LEASE_LOST, 17 BAD_KEY,
    18 UNTRUSTED_DEFINITION, 75 store unreachable. --dry-run is always 0.
    """
    return run_target(app, target, command, arguments, RunOptions(**given))


@verb("start")
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
    from ..run.records import RunRequest

    known_job(app, jobid, jobid)
    check_items(app, jobid, items)
    if dry_run:
        return would_run(worker_of(app), app, jobid, dataid)
    values = begun(app, RunRequest(jobid, dataid, lease=lease), items)
    if isinstance(values, int):
        return values
    app.show(values, lambda: [f"export {name}={shlex.quote(value)}" for name, value in values.items()], raw=True)
    return 0


def begun(app: App, asked: RunRequest, items: Sequence[str] = ()) -> dict[str, str] | int:
    """What a caller that does the work itself needs to know; an exit code where nothing was begun."""
    from ..run.attempt import begin, fail
    from ..run.context import variables
    from ..run.executors.script import output_locations
    from ..run.records import ExecutorResult, Result

    worker = worker_of(app, items=items)
    attempt = begin(worker, asked)
    if isinstance(attempt, Result):
        return report(app, attempt, fail_if_none=True)
    try:
        own = output_locations(worker, attempt)
        values = variables(app.project.environment, attempt, attempt.secrets, own)
    except OdfError as problem:  # the caller does not learn of the run, so it would never end
        return report(app, fail(worker, attempt.claim, ExecutorResult(problem=problem)), fail_if_none=True)
    return worker.with_items(os.environ, attempt.job, values)


@verb("end")
@click.option("--why", metavar="TEXT", help="The reason, for the history.")
@click.option("--dry-run", is_flag=True, help="Say what would be ended, and change nothing.")
@click.argument("run", type=int)
@click.argument("status", metavar="READY|FAILED|RESUBMIT|HOLD|PENDING")
def end_verb(app: App, run: int, status: str, why: str | None, dry_run: bool) -> int:
    """End a run that odf start began: publish its chunk, say that it failed, have it made again, or set it aside.

    RESUBMIT and HOLD are no failure and use up no try: the run ends STOPPED. A chunk on HOLD becomes RESUBMIT when it is
    released. PENDING is stored as HOLD.

    \b
      odf end 17 READY
      odf end 17 FAILED --why "the file was cut"
    """
    from ..errors import JobFailed, Stopped
    from ..model import HOLD, READY, RESUBMIT
    from ..run.attempt import finish
    from ..run.executors.script import Handshake
    from ..run.records import ExecutorResult
    from ..store.session import whoami

    word = status_at_end(status)
    claim = app.store.claim_of(run)
    if dry_run:
        app.show(
            {"run": run, "jobid": claim.jobid, "dataid": claim.dataid, "status": word},
            lambda: [f"run {run} of {claim.jobid} {claim.dataid} would end {word}"],
        )
        return 0
    worker = worker_of(app)
    if word in (RESUBMIT, HOLD):
        by_hand = f"ended {word} by {whoami()}" + (f": {why}" if why else "")
        done = ExecutorResult(problem=Stopped(by_hand), stopped_as=word)
    else:
        done = ExecutorResult() if word == READY else ExecutorResult(problem=JobFailed(why or ""))
    result = finish(worker, claim, Handshake(worker), done)
    tell_once(app)
    if not result.status:  # another run has the chunk now
        return report(app, result)
    app.show(
        {"run": run, "jobid": claim.jobid, "dataid": claim.dataid, "status": result.status},
        lambda: [f"run {run}: {claim.jobid} {claim.dataid} is {result.status}"],
    )
    return 0


def status_at_end(status: str) -> str:
    """The status with which a run may end, as it is stored; PENDING is HOLD."""
    from ..errors import UnknownStatus
    from ..model import FAILED, HOLD, PENDING, READY, RESUBMIT, canonical
    from ..model.definitions.ids import shown

    try:
        word = canonical(status)
    except UnknownStatus:
        word = ""
    if word not in (READY, FAILED, RESUBMIT, HOLD, PENDING):
        raise UnknownStatus(
            f"no run ends {word or shown(status)}", hint="A run ends READY, FAILED, RESUBMIT, HOLD or PENDING."
        )
    return HOLD if word == PENDING else word


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
            (run.runid, run.jobid, run.dataid, "lease over") for run in app.store.views.expired()
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
