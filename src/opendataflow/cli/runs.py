"""Verbs about attempts: runs, log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from ..errors import UnknownRun, UsageError
from ..model import RUNNING, check_dataid, check_id
from .app import App, Line, clean, one_line, table
from .common import Whole, job_named, verb

if TYPE_CHECKING:
    from ..insight.run_log import LogSearch, RunLogPage
    from ..store import Run, Store


_LONGEST_DETAIL = 200
# The exit code and the time are columns of their own; what the script said last is not.
_how_a_script_ended = re.compile(r"^exit code -?[0-9]+ after [0-9.]+ s: ")


@verb("runs")
@click.option("--failed", is_flag=True, help="Only attempts that did not end well.")
@click.option("-n", "most", type=Whole(1), default=20, show_default=True, help="At most this many.")
@click.option("--before", type=int, metavar="RUN", help="Only runs older than this one: the next page.")
@click.argument("job", metavar="[JOB|DATASET]", required=False)
def runs_verb(app: App, job: str | None, failed: bool, most: int, before: int | None) -> int:
    """Recent attempts, newest first.

    \b
      odf runs
      odf runs clean_flights --failed
      odf runs -n 100 --before 4711
    """
    store = app.store
    jobid = _known(app, job) if job else None
    read = store.views.failed_runs if failed else store.views.runs
    page = read(jobid=jobid, before=before, n=most)
    command = " ".join(filter(None, ["odf runs", job, "--failed" if failed else ""]))
    app.show(page, lambda: _lines(store, page, most, command), overview=True)
    return 0


def _lines(store: Store, page: Sequence[Run], most: int, command: str) -> Iterator[Line]:
    if not page:
        yield "no runs"
        return
    from ..insight.usual import so_far
    from ..insight.words import exit_text

    header = ["run", "job", "dataid", "epoch", "outcome", "started", "took", "exit", "detail"]
    rows = []
    for run in page:
        ended, started, took, detail = how_it_went(run)
        if run.status == RUNNING:
            took = so_far(store, run)
        code = exit_text(run.exit_code)
        rows.append((run.runid, run.jobid, run.dataid, run.epoch, ended, started, took, code, detail))
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
@click.option("-n", "last", type=Whole(1), metavar="LINES", help="Only the last lines, at most 64 KiB of them.")
@click.option("--search", "wanted", metavar="TEXT", help="Only the lines that hold this text, with their numbers.")
@click.argument("run_or_job", metavar="RUN|JOB|DATASET")
@click.argument("dataid", required=False)
def log_verb(app: App, run_or_job: str, dataid: str | None, follow: bool, last: int | None, wanted: str | None) -> int:
    """What a run printed. Secrets were removed before it was written.

    A job means its last run, or the last one of a dataid. Only logs in the project's own folder of logs are shown. Where
    the run was on another machine, the last lines are shown if the project keeps them (keep_log_tail), or else where the
    file is.

    \b
      odf log 17
      odf log 17 --follow
      odf log 17 --search error
      odf log clean_flights 2013-01-05 -n 50
    """
    from ..insight.run_log import last_of_log, pieces_of_log, search_log

    if sum((follow, last is not None, wanted is not None)) > 1:
        raise UsageError("--follow, -n and --search do not go together", hint="Give one of them.")
    attempt = _run(app, run_or_job, dataid)
    pieces = pieces_of_log(app.store, app.project, attempt, follow=follow)
    if wanted is not None:
        found = search_log(app.store, app.project, attempt, wanted)
        _refuse(found)
        app.show(found, lambda: _found(found))
        return 0
    if last is not None:
        part = last_of_log(app.store, app.project, attempt, last)
        _refuse(part)
        pieces = iter([part.text])
    if app.as_json:
        app.show({"run": attempt.runid, "path": attempt.log, "owner": attempt.owner, "text": "".join(pieces)})
        return 0
    for piece in pieces:
        click.echo(clean(piece), nl=False)
    return 0


def _refuse(found: LogSearch | RunLogPage) -> None:
    if found.problem:
        raise UnknownRun(found.problem, hint=found.hint)


def _found(found: LogSearch) -> Iterator[Line]:
    for each in found.lines:
        yield [(f"{each.line:>6}  ", "faint"), (each.text, "")]
    if not found.lines:
        yield [(f"no line holds {one_line(found.wanted)}", "faint")]
    if not found.is_all:
        yield [("and there may be more", "faint")]


def _run(app: App, word: str, dataid: str | None) -> Run:
    """The run that is meant: by its number, or the last one of a job that wrote a log."""
    store = app.store
    if dataid is None and word.isascii() and word.isdigit():
        return store.views.run(int(word))
    jobid = _known(app, word)
    runs = store.views.runs(jobid=jobid, dataid=check_id("dataid", dataid) if dataid else None, n=100)
    if not runs:
        catalogue = store.catalogue()
        if dataid and (job := catalogue.jobs.get(jobid)):
            check_dataid(catalogue.output_partition(job), dataid, job.outputs[0])
        what = f"{jobid} {dataid}" if dataid else jobid
        raise UnknownRun(f"nothing of {what} ran yet", hint=f"See: odf why {what}")
    return next((run for run in runs if run.log), runs[0])


def _known(app: App, word: str) -> str:
    """The id of a job that is registered, is broken, or was there once: its history stays."""
    jobid = job_named(app, word)
    catalogue = app.store.catalogue()
    if ("job", jobid) not in catalogue.broken and not app.store.views.runs(jobid=jobid, n=1):
        catalogue.job(jobid)
    return jobid
