"""The verb recover: what an outage left, by cause, the smallest set of RESUBMITs, and how it goes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import dropwhile
from typing import TYPE_CHECKING, Any

import click

from ..errors import JobFailed
from .app import App, Line, one_line, plain, put, table, up_to_date
from .common import Within, verb

if TYPE_CHECKING:
    from ..insight.recovery import RecoveryPlan, RecoveryProgress, RootCause
    from ..insight.recovery.plan import RecoveryStep
    from ..model import Catalogue
    from ..store import Recovered

_LISTED = 20


@verb("recover")
@click.option("--plan", "only_plan", is_flag=True, help="Only show the plan. This is the default.")
@click.option("--yes", "-y", is_flag=True, help="Do it, in one transaction.")
@click.option("--dry-run", is_flag=True, help="Only show the plan, also with --yes.")
@click.option(
    "--cause",
    "only",
    multiple=True,
    metavar="N|TEXT",
    help="Only what this cause broke: its number in the plan, or what it says. May be given several times.",
)
@click.option("--watch", is_flag=True, help="Follow it to the end; Ctrl-C ends only the watching.")
@click.option(
    "--every",
    type=Within(0.1, 3600),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How often --watch looks.",
)
@click.option("--why", metavar="TEXT", help="The reason, for the history.")
def recover_verb(
    app: App,
    only_plan: bool,
    yes: bool,
    dry_run: bool,
    only: tuple[str, ...],
    watch: bool,
    every: float,
    why: str | None,
) -> int:
    """What an outage left, and the smallest set of RESUBMITs that lets all of it run.

    Shows what broke, by root cause: the earliest chunk of each chain, failures that say the same together. Then what to
    say RESUBMIT to, in order, what can run because of that, how long it takes as far as past runs tell, and what is
    left for people, with who has to do what. Nothing is changed without --yes. What only waits needs no RESUBMIT.

    \b
      odf recover
      odf recover --yes --why "the network is back" --watch
      odf recover --cause 2
      odf recover --cause "network is unreachable" --yes
      odf recover --json
    """
    from ..insight.recovery import plan
    from ..steer import apply_plan

    does = yes and not dry_run and not only_plan
    with up_to_date(app):
        causes = only or None
        made = plan(app.store, causes)
        left = made if does or not watch else plan(app.store, causes, resubmits=False)
    done = apply_plan(app.store, made, why=why) if does else None
    app.show(
        made.to_data() | {"done": done},
        lambda: dropwhile(lambda line: not line, _lines(made, done, app.store.catalogue())),
        overview=True,
    )
    return _watch(app, left, every) if watch else 0


# In words -----------------------------------------------------------------------------------------------------------


def _lines(plan: RecoveryPlan, done: Recovered | None, catalogue: Catalogue) -> Iterator[Line]:
    if not plan.causes and not plan.by_hand and not plan.runs:
        yield "nothing to recover: no chunk is FAILED, deferred, set aside or refused"
        return
    for cause in plan.causes:
        if plan.only is None or cause.number in plan.only:
            yield from _cause_lines(cause)
    yield from _step_lines(plan, catalogue)
    if plan.by_hand:
        yield ""
        yield [("Left for people:", "strong")]
    for each in plan.by_hand:
        behind = f"; {_chunks(each.behind)} {'waits' if each.behind == 1 else 'wait'} behind" if each.behind else ""
        yield [("  ", ""), (each.name, _style(each.name)), (f"  {one_line(each.text)}{behind}", "")]
        if each.because:
            yield f"      {one_line(each.because)}"
        yield f"      {one_line(each.who)}:"
        yield from ([(f"        {command}", "command")] for command in each.commands)
    if plan.again:
        yield f"  {_chunks(plan.again)} {'stays' if plan.again == 1 else 'stay'} FAILED until that is done; then: odf recover"
    yield from _end_lines(plan, done)


def _cause_lines(cause: RootCause) -> Iterator[Line]:
    from ..insight.words import said, when

    n = len(cause.chunks)
    jobs = ", ".join(cause.jobs[:3]) + (f", … ({len(cause.jobs):,} jobs)" if len(cause.jobs) > 3 else "")
    first = " ".join(cause.chunks[0])
    told = " ".join(filter(None, (cause.outcome, said(cause.text, 200))))
    yield [(f"Cause {cause.number}: ", "strong"), (told or cause.status, _style(cause.status))]
    where = f" of {jobs}" if jobs else ""
    yield f"  began at {_chunks(n)}{where}, first {first}" + (f", {when(cause.since)}" if cause.since else "")
    behind = [f"{cause.failed_behind:,} more FAILED"] * bool(cause.failed_behind)
    behind += [f"{_chunks(cause.waiting_behind)} waiting"] * bool(cause.waiting_behind)
    if behind:
        yield f"  behind it: {', '.join(behind)}"


def _step_lines(plan: RecoveryPlan, catalogue: Catalogue) -> Iterator[Line]:
    from ..insight.axis import ranges
    from ..insight.words import ranges_text

    def chunks(step: RecoveryStep) -> str:
        spans = ranges(catalogue.datasets[step.datasetid].partition, step.dataids)
        return ranges_text(spans, 3) + (f" ({n:,})" if (n := len(step.dataids)) > min(len(spans), 3) else "")

    if not plan.steps:
        return
    yield ""
    yield [("RESUBMIT, in this order:", "strong")]
    rows = [
        (
            step.level,
            step.jobid,
            step.datasetid,
            chunks(step),
            f"{step.behind:,}",
            ", ".join(map(str, step.causes)),
        )
        for step in plan.steps[:_LISTED]
    ]
    yield from table(["level", "job", "dataset", "dataids", "can run behind", "cause"], rows)
    for step in plan.steps[:_LISTED]:
        if step.fetches:
            wrong = f"{_chunks(step.fetches)} had WRONG_DATA"
            yield f"  {step.jobid}: {wrong}, and can be right only if what {step.jobid} reads from outside changed"
    if len(plan.steps) > _LISTED:
        rest = plan.steps[_LISTED:]
        yield f"… and {_chunks(sum(len(step.dataids) for step in rest))} of {len(rest):,} more steps; all: --json"


def _end_lines(plan: RecoveryPlan, done: Recovered | None) -> Iterator[Line]:
    from ..insight.recovery import headline
    from ..insight.words import count, duration

    yield ""
    estimate = plan.estimate
    yield headline(plan)
    if plan.runs and estimate.seconds is None:
        yield "no estimate: no successful runs yet"
    elif plan.runs and estimate.seconds is not None and estimate.seconds >= 1:
        limits = ", ".join(f"{use.poolid} {use.slots}" for use in estimate.pools if use.slots is not None)
        within = f" in the slots of today's pools ({limits})" if limits else ""
        unknown = f"; {count(len(estimate.unknown), 'job')} never ran before" if estimate.unknown else ""
        yield f"at least {duration(estimate.seconds)}{within}, by the durations of past runs{unknown}"
    if done is not None:
        yield f"done: {_chunks(len(done.changed))} {'is' if len(done.changed) == 1 else 'are'} RESUBMIT now"
        if done.skipped:
            yield f"{_chunks(len(done.skipped))} {'was' if len(done.skipped) == 1 else 'were'} not FAILED any more: left alone"
        yield "the scheduler's next ordinary calls run them, or: odf drain --all"
    elif plan.resubmit:
        only = "".join(f" --cause {number}" for number in plan.only or ())
        yield [("nothing was changed; to do it: ", ""), (f"odf recover{only} --yes", "command")]


def _chunks(n: int) -> str:
    return f"{n:,} chunk{'s' * (n != 1)}"


def _style(status: str) -> str:
    return status if status in ("FAILED", "HOLD", "PENDING", "REFUSED", "MISSING") else "no"


# Watching -----------------------------------------------------------------------------------------------------------


def _watch(app: App, plan: RecoveryPlan, every: float) -> int:
    """Looks until nothing more happens by itself; on a terminal in one line, else a line for each change."""
    from ..insight.recovery import progress
    from ..pause import pause

    before: RecoveryProgress | None = None
    is_terminal = sys.stdout.isatty() and not app.as_json
    try:
        while True:
            with up_to_date(app):
                now = progress(app.store, plan)
            if now != before:
                _show(app, now, is_terminal)
            before = now
            if now.is_over:
                break
            pause(every)
    except KeyboardInterrupt:
        app.say("\nwatching ends, the recovery goes on; to watch again: odf recover --watch")
        return 0
    if is_terminal:
        click.echo()
    if now.stuck:
        app.say(f"{_chunks(now.stuck)} did not become READY; see: odf recover")
    return JobFailed.exit_code if now.stuck else 0


def _show(app: App, now: RecoveryProgress, is_terminal: bool) -> None:
    if app.as_json:
        facts: dict[str, Any] = plain(now)
        app.show({"progress": facts | {"is_over": now.is_over}})
    elif is_terminal:
        click.echo(f"\r\x1b[K{now.line}", nl=False)
    else:
        put(now.line)
