"""Verbs for whoever is on call: cancel, pause, resume, check, where, head, schema."""

from __future__ import annotations

import click

from ..errors import OdfError, UsageError
from ..model import check_id
from .app import App, plain, table
from .common import Whole, verb

_LEVELS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
_UNKNOWN = 3


@verb("cancel")
@click.option("--why", metavar="TEXT", help="The reason, for the history.")
@click.option("--dry-run", is_flag=True, help="Say what would be ended, and change nothing.")
@click.argument("run_or_job", metavar="RUN|JOB")
@click.argument("dataid", required=False)
def cancel_verb(app: App, run_or_job: str, dataid: str | None, why: str | None, dry_run: bool) -> int:
    """End a run, on whichever machine it is.

    Its chunk is FAILED at once, and whatever the run still writes is not published. The worker that runs it finds out at
    its next heartbeat, within a third of the job's lease, and ends its processes. A chunk that somebody claimed with
    odf start is taken away from them; nobody but them can end what they started.

    \b
      odf cancel 4711
      odf cancel clean_flights 2013-01-05 --why "hangs since the disk was replaced"
    """
    from ..steer import cancel

    found = cancel(app.store, run_or_job, dataid, why=why, dry_run=dry_run)
    run = found.run
    did = "would be cancelled" if dry_run else "is cancelled"
    app.show(
        {"run": run.runid, "jobid": run.jobid, "dataid": run.dataid, "owner": run.owner, "dry_run": dry_run},
        lambda: [f"run {run.runid} of {run.jobid} {run.dataid} {did}; {found.following}"],
    )
    return 0


@verb("pause")
@click.option("--why", metavar="TEXT", help="The reason, for everybody who asks why it does not run.")
@click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
@click.argument("job")
def pause_verb(app: App, job: str, why: str | None, dry_run: bool) -> int:
    """Start nothing more of a job, on any machine, until odf resume. What runs now goes on.

    Meanwhile its chunks are LOCKED, and odf why says who paused it and why. A drain leaves a paused job out and does not
    wait for it.

    \b
      odf pause clean_flights --why "the source is being repaired"
      odf resume clean_flights
    """
    from ..steer import pause

    jobid = pause(app.store, job, why=why, dry_run=dry_run)
    told = f"job {jobid} would be paused" if dry_run else f"job {jobid} is paused; to go on: odf resume {jobid}"
    app.show({"jobid": jobid, "paused": not dry_run, "why": why, "dry_run": dry_run}, lambda: [told])
    return 0


@verb("resume")
@click.option("--why", metavar="TEXT", help="The reason, for the history.")
@click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
@click.argument("job")
def resume_verb(app: App, job: str, why: str | None, dry_run: bool) -> int:
    """Let a job go on that odf pause stopped.

    \b
      odf resume clean_flights
    """
    from ..steer import resume

    was_paused = resume(app.store, job, why=why, dry_run=dry_run)
    goes = "would go on" if dry_run else "goes on"
    told = f"job {job} {goes}" if was_paused else f"job {job} was not paused"
    app.show({"jobid": job, "paused": False, "was_paused": was_paused, "dry_run": dry_run}, lambda: [told])
    return 0


@verb("check")
@click.option("--from", "since", metavar="DATAID", help="Only from this dataid or period on: 2013, 2013-01, 7.")
@click.option("--to", "until", metavar="DATAID", help="Only up to and including this dataid or period.")
@click.argument("datasets", metavar="[DATASET]…", nargs=-1)
def check_verb(app: App, datasets: tuple[str, ...], since: str | None, until: str | None) -> int:
    """One line for monitoring, with the exit codes of Nagios: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.

    CRITICAL: a chunk is FAILED, a definition is broken, or a lease ran out and nobody took the chunk over. WARNING: a
    chunk missed its deadline or is set aside, a job is paused, or a run takes more than three times as long as usual.
    UNKNOWN: the question cannot be answered, for instance because the store cannot be reached.

    \b
      odf check
      odf check flights_clean --from 2013-03
    """
    from ..insight.health import health

    try:
        found = health(app.store, [check_id("dataset", name) for name in datasets], since=since, until=until)
        level, text = found.level, found.text
        figures = dict(found.figures)
    except OdfError as error:
        level, text, figures = _UNKNOWN, f"{error.name}: {error.message}", {}
    measured = " | " + " ".join(f"{name}={n}" for name, n in figures.items()) if figures else ""
    app.show(
        {"level": _LEVELS[level], "exit_code": level, "text": text, "figures": figures},
        lambda: [f"ODF {_LEVELS[level]} - {text}{measured}"],
    )
    return level


@verb("where")
@click.argument("dataset")
@click.argument("dataid")
def where_verb(app: App, dataset: str, dataid: str) -> int:
    """Where a chunk lies that is READY: the location of the version that jobs read now.

    \b
      odf where flights_clean 2013-01-05
      ls "$(odf where flights_clean 2013-01-05)"
    """
    from ..insight.rows import published

    found = published(app.store, app.project, dataset, dataid)
    app.show(found, lambda: [found.location])
    return 0


@verb("head")
@click.option("-n", "most", type=Whole(1, 10_000), default=10, show_default=True, help="At most this many rows.")
@click.argument("dataset")
@click.argument("dataid")
def head_verb(app: App, dataset: str, dataid: str, most: int) -> int:
    """The first rows of a chunk that is READY, without starting Spark.

    Parquet and ORC files are shown as a table, other formats line by line. Rows that were rejected are in the dataset
    NAME__rejected.

    \b
      odf head flights_clean 2013-01-05
      odf head flights_clean__rejected 2013-01-05 -n 50
    """
    from ..insight.rows import head

    found = head(app.store, app.project, dataset, dataid, most)
    facts = [dict(zip(found.columns, row, strict=True)) for row in found.rows] if found.columns else found.lines
    rows = [["" if value is None else str(value) for value in row] for row in found.rows]
    app.show(plain(facts), lambda: table(found.columns, rows) if found.columns else found.lines, exact=True)
    return 0


@verb("schema")
@click.option("--accept", is_flag=True, help="Let the next chunk that is published say which columns there are.")
@click.option("--why", metavar="TEXT", help="The reason, for the history.")
@click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
@click.argument("dataset")
def schema_verb(app: App, dataset: str, accept: bool, why: str | None, dry_run: bool) -> int:
    """Which columns a dataset must have, and who said so: its declaration, or its first publish.

    A chunk with other columns is NOT_VALIDATED (drift). Where the first publish pinned them, --accept lets the next one
    pin its own; where dataflow.toml declares them, change that line and run odf apply.

    \b
      odf schema flights_clean
      odf schema flights_clean --accept --why "the airport sends the gate too"
      odf resubmit flights_clean --failed
    """
    known = app.store.catalogue().dataset(check_id("dataset", dataset))
    declared = known.options.get("schema")
    pinned = app.store.pinned_schema(known.datasetid)
    if accept and declared:
        raise UsageError(
            f"the columns of {dataset} are declared", hint=f"Change schema under [dataset.{dataset}], then: odf apply"
        )
    was_accepted = app.store.accept_schema(known.datasetid, why=why) if accept and not dry_run else False
    if declared:
        lines = [f"declared: {declared}", f"to accept others, change schema under [dataset.{dataset}], then: odf apply"]
    elif was_accepted:
        lines = [f"before: {pinned}", f"the next chunk of {dataset} that is published says which columns it has"]
    elif pinned:
        lines = [f"pinned by the first publish: {pinned}", f"to accept others: odf schema {dataset} --accept"]
    else:
        lines = [
            f"{dataset} has no schema yet: the first chunk that Spark publishes or checks says which columns it has"
        ]
    app.show({"dataset": dataset, "declared": declared, "pinned": pinned, "accepted": was_accepted}, lambda: lines)
    return 0
