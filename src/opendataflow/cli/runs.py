"""Verbs about attempts: runs, log."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from ..errors import InvalidPath, UnknownRun
from ..model import RUNNING, check_id
from .common import App, Line, clean, one_line, table, verb

if TYPE_CHECKING:
    from ..store import Run, Store


_LONGEST_DETAIL = 200
# The exit code and the time are columns of their own; what the script said last is not.
_how_a_script_ended = re.compile(r"^exit code -?[0-9]+ after [0-9.]+ s: ")


@verb("runs")
@click.option("--failed", is_flag=True, help="Only attempts that did not end well.")
@click.option("-n", "most", type=click.IntRange(1), default=20, show_default=True, help="At most this many.")
@click.option("--before", type=int, metavar="RUN", help="Only runs older than this one: the next page.")
@click.argument("job", required=False)
def runs_verb(app: App, job: str | None, failed: bool, most: int, before: int | None) -> int:
    """Recent attempts, newest first.

    \b
      odf runs
      odf runs clean_flights --failed
      odf runs -n 100 --before 4711
    """
    store = app.store
    jobid = _known(app, job) if job else None
    read = store.failed_runs if failed else store.runs
    page = read(jobid=jobid, before=before, n=most)
    command = " ".join(filter(None, ["odf runs", job, "--failed" if failed else ""]))
    app.show(page, lambda: _lines(store, page, most, command), overview=True)
    return 0


def _lines(store: Store, page: Sequence[Run], most: int, command: str) -> Iterator[Line]:
    if not page:
        yield "no runs"
        return
    from ..insight.usual import so_far

    header = ["run", "job", "dataid", "epoch", "outcome", "started", "took", "exit", "detail"]
    rows = []
    for run in page:
        ended, started, took, detail = how_it_went(run)
        if run.status == RUNNING:
            took = so_far(store, run)
        rows.append((run.runid, run.jobid, run.dataid, run.epoch, ended, started, took, run.exit_code, detail))
    yield from table(header, rows)
    if len(page) == most:
        yield [("older: ", "faint"), (f"{command} --before {page[-1].runid}", "command")]


def how_it_went(run: Run) -> tuple[str, str, str, str]:
    """How a run ended, when it started, how long it took, and the beginning of its detail."""
    from ..insight.words import when

    detail = _how_a_script_ended.sub("", one_line(run.detail or ""), 1)
    detail = detail if len(detail) <= _LONGEST_DETAIL else detail[: _LONGEST_DETAIL - 1] + "…"
    return outcome(run), when(run.started, ""), _took(run), detail


def outcome(run: Run) -> str:
    """How a run ended, or that it still runs."""
    return run.outcome or run.status


def _took(run: Run) -> str:
    if run.started is None or run.ended is None:
        return ""
    seconds = (run.ended - run.started).total_seconds()
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


@verb("log")
@click.option("--follow", "-f", is_flag=True, help="Go on until the run is over.")
@click.argument("run_or_job", metavar="RUN|JOB")
@click.argument("dataid", required=False)
def log_verb(app: App, run_or_job: str, dataid: str | None, follow: bool) -> int:
    """What a run printed. Secrets were removed before it was written.

    A job means its last run, or the last one of a dataid. Only logs in the project's own folder of logs are shown. Where
    the run was on another machine, the last lines are shown if the project keeps them (keep_log_tail), or else where the
    file is.

    \b
      odf log 17
      odf log 17 --follow
      odf log clean_flights 2013-01-05
    """
    attempt = _run(app, run_or_job, dataid)
    if not attempt.log:
        raise UnknownRun(
            f"run {attempt.runid} of {attempt.jobid} {attempt.dataid} has no log",
            hint=f"It ended {outcome(attempt)}" + (f": {attempt.detail.rstrip('.')}." if attempt.detail else "."),
        )

    pieces = _pieces(app, attempt, attempt.log, follow)
    if app.as_json:
        app.show({"run": attempt.runid, "path": attempt.log, "owner": attempt.owner, "text": "".join(pieces)})
        return 0
    for piece in pieces:
        click.echo(clean(piece), nl=False)
    return 0


def _pieces(app: App, attempt: Run, path: str, follow: bool) -> Iterator[str]:
    from ..run.process import logs

    try:
        log = logs.log_of(app.project.logs, path)
    except InvalidPath:
        return iter([_elsewhere(app, attempt)])
    is_ours = f"@{os.uname().nodename}:" in attempt.owner
    if not log.exists() and (not is_ours or app.store.log_tail(attempt.runid) is not None):
        return iter([_elsewhere(app, attempt)])
    return logs.follow(log, lambda: app.store.run(attempt.runid).status != RUNNING) if follow else logs.read(log)


def _run(app: App, word: str, dataid: str | None) -> Run:
    """The run that is meant: by its number, or the last one of a job that wrote a log."""
    store = app.store
    if dataid is None and word.isascii() and word.isdigit():
        return store.run(int(word))
    jobid = _known(app, word)
    runs = store.runs(jobid=jobid, dataid=check_id("dataid", dataid) if dataid else None, n=100)
    if not runs:
        what = f"{jobid} {dataid}" if dataid else jobid
        raise UnknownRun(f"nothing of {what} ran yet", hint=f"See: odf why {what}")
    return next((run for run in runs if run.log), runs[0])


def _known(app: App, word: str) -> str:
    """The id of a job that is registered, is broken, or was there once: its history stays."""
    jobid = check_id("job", word)
    catalogue = app.store.catalogue()
    if ("job", jobid) not in catalogue.broken and not app.store.runs(jobid=jobid, n=1):
        catalogue.job(jobid)
    return jobid


def _elsewhere(app: App, attempt: Run) -> str:
    """What is known here of a log that is not: its last lines, or where it is."""
    where = f"the log of run {attempt.runid} is not here: {attempt.owner} wrote it to {attempt.log}"
    tail = app.store.log_tail(attempt.runid)
    if tail is None:
        raise InvalidPath(
            where,
            hint="Read it there, in the project that ran it; keep_log_tail = true in [project] keeps the last lines of later runs.",
        )
    return f"# {where}; its last lines:\n{tail}"
