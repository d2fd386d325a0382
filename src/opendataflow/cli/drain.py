"""The verb drain: chunk after chunk, several at once, with something to look at meanwhile and a report in the end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from ..errors import (
    Aborted,
    BadDefinition,
    OdfError,
    ProjectChanged,
    StoreUnreachable,
    UnknownJob,
    UntrustedDefinition,
    UsageError,
    exit_code_of,
)
from ..model import READY, BrokenDefinition
from .app import App, Line, clean, one_line, table, up_to_date
from .common import Whole, Within, job_named, verb
from .running import checked, exit_without_threads, known_job, terminating, worker_of
from .tell import telling

if TYPE_CHECKING:
    from ..insight.progress import DrainProgress, DrainReport, Left, Watch
    from ..model import Catalogue
    from ..run.drain_summary import DrainSummary
    from ..run.records import Result
    from ..run.worker import Worker

_NEXT, _MOST_COUNTED = 5, 1_000_000
_SUMMARY = 60.0  # a line in the log at least this often
_REFUSALS = 10.0  # seconds between two looks for chunks of jobs that are left out


@verb("drain")
@click.option("--all", "everything", is_flag=True, help="Every job whose code is here: the same as naming none.")
@click.option("--workers", type=Whole(min=1), default=4, show_default=True, help="How many chunks at once.")
@click.option("--follow", is_flag=True, help="Wait for more when nothing is left, instead of ending.")
@click.option(
    "--grace",
    type=Within(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long running chunks may go on after the first SIGTERM, SIGHUP or Ctrl-C.",
)
@click.option(
    "--apply", "apply_first", is_flag=True, help="Apply dataflow.toml first, without asking: odf apply --yes."
)
@click.option("--master", metavar="URL", help="Where Spark runs.")
@click.option("--dry-run", is_flag=True, help="Say what would be claimed first, and change nothing.")
@click.argument("jobids", metavar="JOB…", nargs=-1)
def drain_verb(
    app: App,
    jobids: tuple[str, ...],
    everything: bool,
    apply_first: bool,
    master: str | None,
    dry_run: bool,
    **how: Any,
) -> int:
    """Run chunk after chunk, several at a time, until nothing is left. Default: all jobs whose code is here.

    One Spark application runs all Spark jobs; each script runs as a process. Start as many drains on as many machines
    as you like: no two of them get the same chunk. A drain waits for chunks that a full or paused pool holds back, and
    before it ends it makes sure that no other worker died with a chunk of these jobs. In the end it says what it did and
    what is left. Exit code 1 when a chunk of these jobs is FAILED, now or from before (`odf hold` sets it aside); when a
    chunk was refused, or a job that had work could not run here at all, the code of that refusal.

    The first SIGTERM, SIGHUP or Ctrl-C stops the drain from taking chunks; running ones may finish within --grace. After
    that time, or at a second signal, they are ended and become RESUBMIT, which uses up no try. Exit code 130. With
    --follow, a drain whose dataflow.toml or Spark code changed takes no more chunks either, and ends with exit code 19 when
    the running ones are done: start it again.

    \b
      odf drain
      odf drain clean_flights --workers 8
      odf drain --follow
      odf drain --apply                    what dataflow.toml declares now
    """
    from ..insight.progress import Watch, report
    from ..run.drain import Drain

    if jobids and everything:
        raise UsageError("--all means every job, so no job is named", hint="Leave out one of them.")
    if apply_first and dry_run:
        raise UsageError("--apply changes the store, and --dry-run nothing", hint="See first: odf apply --dry-run")
    if apply_first:
        from .setup import apply_now

        apply_now(app)
    store, project = app.store, app.project
    store.check_environment(project.environment.name)
    worker = worker_of(app, master=master)
    jobids = tuple(dict.fromkeys(job_named(app, each) for each in jobids))
    for jobid in jobids:
        known_job(app, jobid, jobid)
        if dry_run:
            worker.check(store.catalogue(), jobid)
        else:
            checked(worker, jobid)
    refused: dict[str, OdfError] = {}
    choose = (lambda catalogue: jobids) if jobids else _with_code(app, worker, refused)
    wanted = list(choose(store.catalogue()))
    if not store.catalogue().jobs and app.unapplied():
        raise UnknownJob(
            f"the store has no job: {app.unapplied_line()}",
            hint="Store them: odf apply, or in one step: odf drain --apply",
        )
    if dry_run:
        with up_to_date(app):
            first = {jobid: store.views.next_dataids(jobid, _NEXT) for jobid in wanted}
            more = {jobid: store.views.claimable(jobid, _MOST_COUNTED) - len(found) for jobid, found in first.items()}
        app.show(first, lambda: table(["job", "next"], [(jobid, _next(first[jobid], more[jobid])) for jobid in first]))
        return 0
    with (
        terminating(),
        telling(app, with_late=how["follow"]) as stir,
        _display(app, Watch(store, wanted)) as (tell, look),
    ):

        def ended(result: Result) -> None:
            tell(result)
            if result.outcome != READY:
                stir()

        refusals_due = 0.0

        def looked(drained: DrainSummary) -> None:
            nonlocal refusals_due
            look(drained)
            if time.monotonic() >= refusals_due:
                refusals_due = time.monotonic() + _REFUSALS
                _store_refusals(worker, refused)

        drain = Drain(store, worker, choose, on_result=ended, on_look=looked, **how)
        is_stopped, changed = False, None
        try:
            drain.run()
        except KeyboardInterrupt:
            is_stopped = True
        except ProjectChanged as problem:
            changed = problem
    try:
        _store_refusals(worker, refused)
        chosen = wanted if changed else list(choose(store.catalogue()))  # not by the files of before
        found = report(store, drain.drained, chosen, refused | drain.drained.left_out)
    except StoreUnreachable as away:
        if is_stopped:
            raise KeyboardInterrupt from away
        raise
    app.show(found, lambda: _shown(found), overview=True)
    code = (
        Aborted.exit_code
        if is_stopped
        else ProjectChanged.exit_code
        if changed
        else 0
        if found.outcome == READY
        else exit_code_of(found.outcome)
    )
    if worker.has_hanging:
        exit_without_threads(app, code)
    if is_stopped:
        raise KeyboardInterrupt
    if changed:
        raise changed
    return code


def _next(dataids: Sequence[str], more: int) -> str:
    """The chunks that a job would take first, and how many more there are."""
    if more <= 0:
        return " ".join(dataids)
    at_least = "at least " if more + len(dataids) == _MOST_COUNTED else ""
    return f"{' '.join(dataids)} … and {at_least}{more:,} more"


def _store_refusals(worker: Worker, refused: Mapping[str, OdfError]) -> None:
    """The no to the next chunk of each job that is left out as untrusted, as RunJob stores it: for odf check and recover."""
    from ..run.claim import refuse_untrusted

    for jobid, problem in list(refused.items()):
        if isinstance(problem, UntrustedDefinition):
            with suppress(UnknownJob, BadDefinition):  # it was removed or broken just now
                refuse_untrusted(worker, jobid)


def _with_code(app: App, worker: Worker, refused: dict[str, OdfError]) -> Callable[[Catalogue], list[str]]:
    """Which jobs can run here by these definitions; those that cannot are named once, and kept with the reason."""
    from ..insight.definitions import declared_by

    def can_run(catalogue: Catalogue, jobid: str) -> bool:
        before = refused.pop(jobid, None)
        try:
            worker.check(catalogue, jobid)
            return True
        except BrokenDefinition as error:
            way_out = error.broken.way_out(declared_by(app.project))
            problem: OdfError = BadDefinition(error.message, hint=way_out)
        except OdfError as error:
            problem = error
        refused[jobid] = problem
        if before is None or before.message != problem.message:
            app.say(f"leaving out {jobid}: {problem.name}: {problem.message}")
        return False

    def choose(catalogue: Catalogue) -> list[str]:
        for what, name in catalogue.broken:
            if what == "job":
                can_run(catalogue, name)
        return [jobid for jobid in catalogue.order() if can_run(catalogue, jobid)]

    return choose


# While it runs ------------------------------------------------------------------------------------------------------

_Display = tuple[Callable[["Result"], None], Callable[["DrainSummary"], None]]


@contextmanager
def _display(app: App, watch: Watch) -> Iterator[_Display]:
    """What to call after every chunk, and what several times a second."""
    if not app.as_json and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        with _live(watch) as found:
            yield found
    else:
        yield _plain(app, watch)


def _plain(app: App, watch: Watch) -> _Display:
    """One line for every chunk, and a summary every minute."""
    due = time.monotonic() + _SUMMARY

    def look(drained: DrainSummary) -> None:
        nonlocal due
        if time.monotonic() >= due and not app.as_json:
            due = time.monotonic() + _SUMMARY
            app.say(f"so far: {watch.look(drained).line}")

    return lambda result: app.say(_line(result)), look


@contextmanager
def _live(watch: Watch) -> Iterator[_Display]:
    """A table that stays where it is, with the chunks that did not end well above it."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True, no_color=bool(os.environ.get("NO_COLOR")) or None, highlight=False)
    due = 0.0
    with Live(console=console, auto_refresh=False, transient=True) as live:

        def tell(result: Result) -> None:
            if result.outcome != READY or result.remarks:
                style = "red" if result.outcome != READY else "yellow"
                live.console.print(Text(clean(_line(result)), style=style))

        def look(drained: DrainSummary) -> None:
            nonlocal due
            if time.monotonic() >= due:
                due = time.monotonic() + 0.5
                live.update(_rendered(watch.look(drained)), refresh=True)

        yield tell, look


def _line(result: Result) -> str:
    claim = result.claim
    assert claim is not None
    detail = f" {result.detail}" if result.outcome != READY else f"; {result.remarks}" if result.remarks else ""
    return f"run {claim.runid}: {claim.jobid} {claim.dataid}: {result.outcome}{detail}"


def _rendered(progress: DrainProgress) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("job")
    styles = {"done": "green", "running": "cyan", "failed": "red", "waiting": "yellow"}
    for what, style in styles.items():
        shown.add_column(what, justify="right", style=style)
    for each in progress.jobs:
        if any(getattr(each, what) for what in styles):
            shown.add_row(each.jobid, *(f"{getattr(each, what):,}" for what in styles))
    limits = "  ".join(f"{each.what} {each.name} {each.taken}/{each.slots}" for each in progress.limits)
    return Group(shown, Text(f"{progress.line}" + (f"\n{limits}" if limits else "")))


# In the end ---------------------------------------------------------------------------------------------------------


def _shown(found: DrainReport) -> Iterator[Line]:
    from ..insight.progress import MOST_LINES
    from ..insight.words import count, duration

    counts = ", ".join(f"{n:,} {name}" for name, n in found.outcomes.items())
    yield f"{counts or 'nothing to do'} in {duration(found.seconds)}"
    if found.causes:
        yield ""
        for cause in found.causes[:MOST_LINES]:
            named = cause.jobs[0] if len(cause.jobs) == 1 else f"{count(len(cause.jobs), 'job')}"
            yield [
                (f"{cause.chunks:,} × {named} {cause.outcome}", "no"),
                (f": {one_line(cause.example.detail)[:200]}", ""),
            ]
            first = cause.example
            see = f"odf log {first.runid}" if first.has_log else f"odf why {first.jobid} {first.dataid}"
            chunks = cause.spans if len(cause.jobs) == 1 else cause.jobs
            more = ", …" if len(chunks) > 5 else ""
            yield f"    {', '.join(chunks[:5])}{more}; see: {see}"
        if len(found.causes) > MOST_LINES:
            yield f"and {count(len(found.causes) - MOST_LINES, 'more cause')}; see: odf recover"
    if found.left:
        yield ""
        few = len(found.left) <= MOST_LINES
        yield from (map(_left_line, found.left) if few else [_left_in_all(found.left)])
    for job in found.left_out[:MOST_LINES]:
        yield ""
        yield [(f"{job.chunks:,} × {job.jobid} left out: {job.outcome}", "no"), (f": {one_line(job.why)}", "")]
        if job.hint:
            yield f"    {one_line(job.hint)}"
    if len(found.left_out) > MOST_LINES:
        yield ""
        yield f"{count(len(found.left_out) - MOST_LINES, 'more job')} left out; see: odf doctor"
    if len(found.slowest) > 1:
        yield ""
        yield "the slowest:"
        yield from (f"  {each.seconds:6.1f} s  {each.jobid} {each.dataid}" for each in found.slowest)
    if found.commands:
        yield ""
        yield "when the cause is fixed:"
        last = [] if found.commands == ("odf recover",) else ["odf drain"]  # the plan of recover says what comes then
        yield from ([(f"  {command}", "command")] for command in (*found.commands, *last))


def _left_in_all(left: Sequence[Left]) -> Line:
    """What is left of many jobs, in one line."""
    from ..insight.progress import Left

    failed, claimable, deferred, waiting = (
        sum(getattr(each, name) for each in left) for name in ("failed", "claimable", "deferred", "waiting")
    )
    together = Left("", failed, claimable, deferred, waiting, any(each.at_least for each in left))
    return [("left of ", ""), *_left_counts(f"{len(left):,} jobs", together, "odf recover")]


def _left_line(left: Left) -> Line:
    return [("left of ", ""), *_left_counts(left.jobid, left, f"odf why {left.jobid}")]


def _left_counts(name: str, left: Left, see: str) -> list[tuple[str, str]]:
    from ..insight.words import count

    counts = {
        "FAILED": left.failed,
        "that can still run": left.claimable,
        "deferred": left.deferred,
        "waiting for inputs": left.waiting,
    }
    said = [f"{count(n, 'chunk')} {what}" for what, n in counts.items() if n]
    said[-1] = "at least " * left.at_least + said[-1]
    return [(name, "no" if left.failed else ""), (f": {', '.join(said)}; see: {see}", "")]
