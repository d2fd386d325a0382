"""The verb chaos: break it on purpose, on a scratch of the user's own store, and show what became of it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from .app import App, Line, named_facts, table
from .common import Whole, Within, confirm, verb
from .running import terminating

if TYPE_CHECKING:
    from ..chaos.report import ChaosReport

_SEEDS = 1_000_000


@verb("chaos")
@click.option("--chunks", type=Whole(2, 1000), default=40, show_default=True, help="How many chunks flow.")
@click.option(
    "--minutes",
    type=Within(0.2, 60),
    default=3.0,
    show_default=True,
    help="The longest that it breaks and drains.",
)
@click.option("--workers", type=Whole(1, 16), default=3, show_default=True, help="How many drains at once.")
@click.option("--seed", type=Whole(0, _SEEDS), metavar="N", help="Plan the faults of the report with this seed.")
@click.option("--spark", is_flag=True, help="Also run and break a Spark job, with the project's own [spark].")
@click.option(
    "--faults", metavar="LIST", default="", help="Only these kinds of faults, for instance kill-worker,freeze-worker."
)
@click.option("--keep", is_flag=True, help="Leave the scratch store and data there, to look at.")
@click.option("--dry-run", is_flag=True, help="Say what would be broken and where, and do nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def chaos_verb(
    app: App,
    chunks: int,
    minutes: float,
    workers: int,
    seed: int | None,
    faults: str,
    **wish: bool,
) -> int:
    """Break it on purpose, on a scratch of your own store and disk, and report what became of it.

    A small flow of real scripts runs in a scratch store beside yours and a scratch folder on the disk of your data. Its
    workers are killed, frozen and cut off, its scripts are killed, its runs are cancelled, its files are damaged. Then an
    auditor compares every chunk with what it must hold. The report says of each promise whether it was kept, broken or not
    tested. Your own store, data and server are not touched, and nothing is left behind. The last report is kept in
    .odf/chaos.json, and the console shows it.

    \b
      odf chaos --dry-run
      odf chaos
      odf chaos --chunks 200 --minutes 15 --workers 6
      odf chaos --spark --yes --json
      odf chaos --faults freeze-worker,take-chunk

    \b
    Exit codes: 0 everything that struck was survived, 1 PROMISE_BROKEN, TIMED_OUT or NO_SPACE, 2 refused before it began,
    75 STORE_UNREACHABLE, 130 interrupted.
    """
    from ..chaos import words
    from ..chaos.leftovers import sweep
    from ..chaos.plan import Settings, chosen, plan
    from ..chaos.report import command_of, path_of
    from ..chaos.scratch import is_recorded, where
    from ..chaos.unleash import ChaosRequest, check_machine, removal_of, unleash

    dice = secrets.randbelow(_SEEDS) if seed is None else seed
    at = where(app.project, app.url)
    kinds = chosen(faults, spark=wish["spark"], has_server=at.store.has_server)
    settings = Settings(chunks, minutes, workers, dice, wish["spark"], kinds)
    asked = ChaosRequest(
        app.project, app.url, app.password, settings, wish["keep"], app.store_url or app.taken.store_url or ""
    )
    check_machine(asked, at)
    planned = plan(settings, at.store.has_server)
    intent = words.intent(settings, at, sum(map(len, planned)), path_of(asked.project))
    if wish["dry_run"]:
        rows = words.planned(planned)
        facts = [{"worker": worker, "kind": kind, "where": step} for worker, kind, step in rows]
        again = command_of(settings, asked.named_store)
        about = {"store": at.store.shown, "folder": at.folder, "seed": dice, "command": again}
        about |= {"plan": facts, "dry_run": True}
        app.show(about, lambda: [*intent, "", *table(("worker", "fault", "where"), rows)])
        return 0
    for line in intent:
        click.echo(app.redact(line), err=True) if app.as_json and not wish["yes"] else app.say(line)
    confirm(app, "Begin?", wish["yes"])
    try:
        with terminating():
            sweep(asked.project, asked.store_url, asked.password, app.say)
            report = unleash(asked, at, lambda struck: app.say(words.happened(struck)), app.say)
    except BaseException:
        if wish["keep"] and at.folder.is_dir():  # no report says it
            for name, value in words.kept(str(at.folder), at.store.address, removal_of(at)):
                app.say(f"{name}: {value}")
        elif is_recorded(asked.project, at):
            app.say(f"{at.store.shown} could not be removed: the next odf chaos on this store does it")
        raise
    app.show(report, lambda: _lines(report), overview=True)
    return report.exit_code


def _lines(report: ChaosReport) -> Iterator[Line]:
    from ..chaos import words

    yield ""
    yield from table(words.KIND_HEADERS, [words.kind_row(kind) for kind in report.kinds])
    yield ""
    for kept, promise, evidence in words.promises(report):
        style = {words.KEPT: "yes", words.BROKEN: "no"}.get(kept, "")
        yield [(f"{kept:<11}", style), (promise, "")]
        yield from (f"{'':<13}{each}" for each in evidence)
    yield ""
    yield from named_facts(words.facts(report))
    yield ""
    yield [(report.verdict, "yes" if report.exit_code == 0 else "no"), (f": {words.verdict(report)}", "")]
