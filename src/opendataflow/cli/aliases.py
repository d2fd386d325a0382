"""The Java original's verbs, where their arguments differ from ours."""

from __future__ import annotations

from typing import Any

import click

from ..errors import Locked, NothingToDo
from ..model import RESUBMIT, RUNNING, canonical, check_id
from .common import App, plain, verb


def _show(app: App, data: Any) -> None:
    import json

    click.echo(json.dumps(plain(data), indent=2))


def _with_options_of(app: App) -> dict[str, Any]:
    return {"store_url": app.store_url, "env": app.env, "as_json": app.as_json, "debug": app.debug}


@verb("deleterun")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.argument("jobid")
@click.argument("dataid")
def deleterun_verb(app: App, jobid: str, dataid: str, dry_run: bool) -> int:
    """Forget what a job produced for a dataid, so that it may run again. Our name: odf forget.

    \b
      odf deleterun loadbob 1.0
    """
    job = app.store.catalogue().job(check_id("job", jobid))
    changed = app.store.forget(job.outputs[0], [check_id("dataid", dataid)], why="deleterun", dry_run=dry_run)
    rows = [
        {"datasetid": name, "dataid": each, "before": before, "after": after} for name, each, before, after in changed
    ]
    would = "would be " if dry_run else ""
    app.show(
        {"changed": rows, "dry_run": dry_run},
        lambda: [f"{row['datasetid']} {row['dataid']} {would}forgotten" for row in rows],
    )
    return 0


@verb("getjob")
@click.argument("jobid")
def getjob_verb(app: App, jobid: str) -> int:
    """A job and the datasets that it reads and writes, as JSON. Passwords are never shown. Our name: odf jobs.

    \b
      odf getjob loadbob
    """
    from ..insight.definitions import dataset_facts, job_facts

    catalogue = app.store.catalogue()
    job = catalogue.job(check_id("job", jobid))
    names = [*(item.datasetid for item in job.inputs), *job.outputs]
    _show(app, job_facts(job) | {"datasets": {name: dataset_facts(catalogue.datasets[name]) for name in names}})
    return 0


@verb("startjob")
@click.argument("jobid")
def startjob_verb(app: App, jobid: str) -> Any:
    """Claim the next chunk of a job and print what it needs, as JSON. Our name: odf start --json.

    \b
      odf startjob loadbob
    """
    from .run import start_verb

    check_id("job", jobid)
    return click.Context(start_verb, obj=app.taken).invoke(
        start_verb, **(_with_options_of(app) | {"as_json": True}), jobid=jobid
    )


@verb("forcejob")
@click.option("--dry-run", is_flag=True, help="Say what would be claimed, and change nothing.")
@click.argument("jobid")
@click.argument("dataid", required=False)
def forcejob_verb(app: App, jobid: str, dataid: str | None, dry_run: bool) -> int:
    """Claim a chunk of a job without asking the five questions, and print what it needs, as JSON.

    Without DATAID it is the next one, or else the last one that the job produced. Our name: odf run --force.

    \b
      odf forcejob loadbob
      odf forcejob loadbob 1.0
    """
    from ..run.attempt import Asked
    from .run import begun

    store = app.store
    job = store.catalogue().job(check_id("job", jobid))
    if dataid is None:
        store.fold_in()
        ends = store.ends(job.outputs[0])
        following = store.next_dataids(jobid, 1)
        if not following and ends is None:
            raise NothingToDo(f"{jobid} has no chunk to force", hint=f"Name a dataid: odf forcejob {jobid} DATAID")
        dataid = following[0] if following else str(ends[1] if ends else "")
    check_id("dataid", dataid)
    if dry_run:
        app.show(
            {"jobid": jobid, "dataid": dataid, "dry_run": True}, lambda: [f"{jobid} {dataid} would be claimed by force"]
        )
        return 0
    values = begun(app, Asked(jobid, dataid, force=True, lease=86400.0))
    if isinstance(values, int):
        return values
    _show(app, values)
    return 0


@verb("endjob")
@click.option("--dry-run", is_flag=True, help="Say what would be ended, and change nothing.")
@click.argument("jobid")
@click.argument("dataid")
@click.argument("status", metavar="READY|FAILED|RESUBMIT")
def endjob_verb(app: App, jobid: str, dataid: str, status: str, dry_run: bool) -> Any:
    """End the run of a job that startjob began, or have its chunk made again. Our names: odf end RUN STATUS, odf resubmit.

    \b
      odf endjob loadbob 1.0 READY
      odf endjob loadbob 1.0 RESUBMIT
    """
    from .run import end_verb

    job = app.store.catalogue().job(check_id("job", jobid))
    if canonical(status) == RESUBMIT:  # whether or not it runs, as the original does it
        wanted = [check_id("dataid", dataid)]
        changed = app.store.resubmit(job.outputs[0], wanted, why="endjob", force=True, dry_run=dry_run)
        would = "would be" if dry_run else "is"
        app.show({"changed": changed, "dry_run": dry_run}, lambda: [f"{jobid} {dataid} {would} RESUBMIT"])
        return 0
    found = next(
        (run for run in app.store.runs(jobid=jobid, dataid=check_id("dataid", dataid)) if run.status == RUNNING), None
    )
    if found is None:
        raise Locked(f"{jobid} {dataid} is not running", hint=f"See its runs: odf runs {jobid}")
    return click.Context(end_verb, obj=app.taken).invoke(
        end_verb, **_with_options_of(app), run=found.runid, status=status, dry_run=dry_run
    )
