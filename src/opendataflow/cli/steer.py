"""Verbs that steer: resubmit, hold, release, fail, forget, pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from ..errors import UsageError
from ..model import FAILED, HOLD, PENDING, READY, RESUBMIT, check_id
from .common import App, Line, confirm, table, verb

_LISTED = 20
_Changes = list[tuple[str, str, str | None, str | None]]


def _chunk_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.argument("dataids", metavar="[DATAID…|FROM..TO]", nargs=-1),
        click.argument("dataset", required=False),
        click.option("--yes", "-y", is_flag=True, help="Do not ask."),
        click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing."),
        click.option(
            "--force", is_flag=True, help="Take RUNNING chunks away from their runs, which then cannot publish."
        ),
        click.option("--why", metavar="TEXT", help="The reason, for the history."),
        click.option("--all", "everything", is_flag=True, help="Every chunk of the dataset that this can be done to."),
        click.option("--job", metavar="JOB", help="What this job produces, instead of a dataset."),
        click.option(
            "--failed", is_flag=True, help="Only FAILED chunks; without a dataset, of everything that jobs produce."
        ),
    ):
        function = option(function)
    return function


def _steer(
    app: App,
    name: str,
    statuses: Sequence[str],
    dataset: str | None,
    dataids: tuple[str, ...],
    failed: bool,
    job: str | None,
    everything: bool,
    why: str | None,
    force: bool,
    dry_run: bool,
    yes: bool,
    new_ones: bool = False,
) -> int:
    from ..insight.selection import select

    if job is not None and dataset is not None:
        dataids, dataset = (dataset, *dataids), None  # with --job, all words are dataids
    selection = select(
        app.store,
        dataset=dataset,
        words=dataids,
        jobid=job,
        failed=failed,
        everything=everything,
        statuses=statuses,
        new_ones=new_ones,
    )
    steer = getattr(app.store, {"fail": "fail_chunks"}.get(name, name))
    planned: _Changes = [
        change for datasetid, ids in selection for change in steer(datasetid, ids, why=why, force=force, dry_run=True)
    ]
    if dry_run or not planned:
        app.show(
            _data(name, planned, dry_run),
            lambda: _shown(planned, f"{name}: would change") if planned else ["nothing to change"],
        )
        return 0
    if len(planned) > 1 and not yes:
        for line in _shown(planned, f"{name}: would change"):
            app.say(str(line))
        confirm(app, f"{name} {len(planned):,} chunks?", yes)
    done: _Changes = [change for datasetid, ids in selection for change in steer(datasetid, ids, why=why, force=force)]
    app.show(_data(name, done, dry_run), lambda: _shown(done, f"{name}: changed"))
    return 0


def _data(name: str, changes: _Changes, dry_run: bool) -> dict[str, Any]:
    rows = [
        {"datasetid": datasetid, "dataid": dataid, "before": before, "after": after}
        for datasetid, dataid, before, after in changes
    ]
    return {"verb": name, "dry_run": dry_run, "changed": rows}


def _shown(changes: _Changes, what: str) -> list[Line]:
    rows = [
        (datasetid, dataid, before or "–", "→", after or "–") for datasetid, dataid, before, after in changes[:_LISTED]
    ]
    lines: list[Line] = [*table(["dataset", "dataid", "before", "", "after"], rows)]
    if len(changes) > _LISTED:
        lines.append(f"… and {len(changes) - _LISTED:,} more")
    return [*lines, f"{what} {len(changes):,} chunk{'s' * (len(changes) != 1)}"]


@verb("resubmit")
@_chunk_options
def resubmit_verb(app: App, **how: Any) -> int:
    """Have chunks produced again, before anything new. The next ordinary run takes them, in order.

    \b
      odf resubmit flights_clean 2013-01-05
      odf resubmit flights_clean 2013-01-01..2013-01-31 --why "late data"
      odf resubmit --failed                    everything that failed
      odf resubmit --job clean_flights --failed
      odf resubmit flights_clean --all --dry-run
    """
    return _steer(app, "resubmit", (READY, FAILED, HOLD, PENDING), **how)


@verb("hold")
@_chunk_options
def hold_verb(app: App, **how: Any) -> int:
    """Set chunks aside: nobody reads or produces them until they are released. Also for dataids that are not there yet.

    \b
      odf hold flights_raw 2013-01-05 --why "the vendor is asked"
      odf hold flights_clean 2013-02-01..2013-02-28 --yes
    """
    return _steer(app, "hold", (READY, FAILED, RESUBMIT, PENDING), **how, new_ones=True)


@verb("release")
@_chunk_options
def release_verb(app: App, **how: Any) -> int:
    """Give held chunks back what they were before.

    \b
      odf release flights_raw 2013-01-05
      odf release flights_raw --all
    """
    return _steer(app, "release", (HOLD, PENDING), **how)


@verb("fail")
@_chunk_options
def fail_verb(app: App, **how: Any) -> int:
    """Say that chunks are bad: nobody reads them until they are produced again.

    \b
      odf fail flights_clean 2013-01-05 --why "half the airports are missing"
    """
    return _steer(app, "fail", (READY, RESUBMIT, HOLD, PENDING), **how, new_ones=True)


@verb("forget")
@_chunk_options
def forget_verb(app: App, **how: Any) -> int:
    """Make chunks never produced: their rows go, history and versions stay. The job may then produce them anew.

    \b
      odf forget flights_clean 2013-01-05
      odf forget flights_clean --all --yes
    """
    return _steer(app, "forget", (READY, FAILED, RESUBMIT, HOLD, PENDING), **how)


@verb("pool")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.argument("action", type=click.Choice(["list", "set", "drop"]), default="list")
@click.argument("name", required=False)
@click.argument("places", metavar="[N|unlimited]", required=False)
def pool_verb(app: App, action: str, name: str | None, places: str | None, dry_run: bool) -> int:
    """How many chunks may run at once, across all machines. A change holds for the next claim; nothing is killed.

    \b
      odf pool                     places, taken, waiting
      odf pool set etl 8
      odf pool set etl 0           pause
      odf pool set etl unlimited
      odf pool drop etl
    """
    from ..insight import pools
    from ..model import Pool

    if action == "list":
        if name is not None:
            raise UsageError(f"odf pool list takes no name, but was given {name[:40]!r}")
        found = pools.pools(app.store)
        rows = [
            (
                each.poolid,
                "unlimited" if each.places is None else each.places,
                each.taken,
                each.waiting_text,
                ", ".join(each.jobs),
            )
            for each in found
        ]
        app.show(
            found,
            lambda: (
                table(["pool", "places", "taken", "waiting", "jobs"], rows)
                if rows
                else ["no pools; for instance: odf pool set etl 8"]
            ),
        )
        return 0
    if name is None or (action == "set") != (places is not None):
        raise UsageError(
            f"odf pool {action} needs {'a name and a number' if action == 'set' else 'one name'}",
            hint="for instance: odf pool set etl 8",
        )
    poolid = check_id("pool", name)
    would = "would be" if dry_run else "is"
    if action == "drop":
        app.store.catalogue().pool(poolid)
        if not dry_run:
            app.store.drop_pool(poolid)
        app.show(
            {"pool": poolid, "dropped": not dry_run, "dry_run": dry_run}, lambda: [f"pool {poolid} {would} dropped"]
        )
        return 0
    number = _places(places or "")
    before = app.store.catalogue().pools.get(poolid)
    changes = app.store.register(pools=[Pool(poolid, number, before.options if before else {})], dry_run=dry_run)
    shown = "unlimited" if number is None else "paused (0 places)" if number == 0 else f"{number} places"
    was = "" if before is None else f"; it was {'unlimited' if before.places is None else before.places}"
    app.show(
        {"pool": poolid, "places": number, "changed": bool(changes), "dry_run": dry_run},
        lambda: [f"pool {poolid} {would} {shown}{was}"],
    )
    return 0


def _places(word: str) -> int | None:
    if word.lower() == "unlimited":
        return None
    if not word.isascii() or not word.isdigit() or len(word) > 9:
        raise UsageError(f"{word[:40]!r} is not a number of places", hint="a number from 0, or unlimited")
    return int(word)
