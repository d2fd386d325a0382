"""Verbs about attempts: runs, log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from ..model import RUNNING, check_id
from .common import App, Line, clean, table, verb

if TYPE_CHECKING:
    from ..store import Run


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
    jobid = store.catalogue().job(check_id("job", job)).jobid if job else None
    read = store.failed_runs if failed else store.runs
    page = read(jobid=jobid, before=before, n=most)
    command = " ".join(filter(None, ["odf runs", job, "--failed" if failed else ""]))
    app.show(page, lambda: _lines(page, most, command))
    return 0


def _lines(page: Sequence[Run], most: int, command: str) -> Iterator[Line]:
    if not page:
        yield "no runs"
        return
    header = ["run", "job", "dataid", "epoch", "outcome", "started", "took", "exit", "detail"]
    rows = []
    for run in page:
        ended, started, took, detail = how_it_went(run)
        rows.append((run.runid, run.jobid, run.dataid, run.epoch, ended, started, took, run.exit_code, detail))
    yield from table(header, rows)
    if len(page) == most:
        yield [("older: ", "faint"), (f"{command} --before {page[-1].runid}", "command")]


def how_it_went(run: Run) -> tuple[str, str, str, str]:
    """How a run ended, when it started, how long it took, and the beginning of its detail."""
    from ..insight.words import when

    detail = _how_a_script_ended.sub("", run.detail or "", 1)
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
@click.argument("run", type=int)
def log_verb(app: App, run: int, follow: bool) -> int:
    """What a run printed. Secrets were removed before it was written.

    Only logs in the project's own folder of logs are shown: on the machine and in the project that ran it.

    \b
      odf log 17
      odf log 17 --follow
    """
    from ..errors import UnknownRun
    from ..run.process import logs

    attempt = app.store.run(run)
    if not attempt.log:
        raise UnknownRun(
            f"run {run} of {attempt.jobid} {attempt.dataid} has no log",
            hint=f"It ended {outcome(attempt)}" + (f": {attempt.detail.rstrip('.')}." if attempt.detail else "."),
        )

    def is_over() -> bool:
        return app.store.run(run).status != RUNNING

    log = logs.log_of(app.project.logs, attempt.log)
    pieces = logs.follow(log, is_over) if follow else logs.read(log)
    if app.as_json:
        app.show({"run": run, "path": attempt.log, "text": "".join(pieces)})
        return 0
    for piece in pieces:
        click.echo(clean(piece), nl=False)
    return 0
