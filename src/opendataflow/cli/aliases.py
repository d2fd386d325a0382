"""The Java original's verbs, where their arguments differ from ours."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from ..errors import Locked, UsageError
from ..model import FAILED, HOLD, OUT, PENDING, READY, RESUBMIT, RUNNING, canonical, check_id
from ..model.definitions.dataid import TYPES
from ..tokens import shown_texts
from .app import App, plain, up_to_date
from .common import item_option, verb

_VERBS_OF_STATUS = {READY: "ready", FAILED: "fail", RESUBMIT: "resubmit", HOLD: "hold", PENDING: "hold"}


def _show(app: App, data: Any) -> None:
    click.echo(json.dumps(shown_texts(plain(data), app.redact_all), indent=2))


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
    """A job, the dataid of its next chunk, and its datasets, as JSON. Passwords are never shown. Our name: odf jobs.

    \b
      odf getjob loadbob
    """
    from ..insight.definitions import dataset_facts, job_facts

    catalogue = app.store.catalogue()
    job = catalogue.job(check_id("job", jobid))
    names = [*(item.datasetid for item in job.inputs), *job.outputs]
    with up_to_date(app):
        following = next(iter(app.store.views.next_dataids(jobid, 1)), None)
    datasets = {name: dataset_facts(catalogue.datasets[name]) for name in names}
    _show(app, job_facts(job) | {"dataid": following, "datasets": datasets})
    return 0


@verb("startjob")
@item_option
@click.argument("jobid")
def startjob_verb(app: App, jobid: str, items: tuple[str, ...]) -> Any:
    """Claim the next chunk of a job and print what it needs, as JSON. Our name: odf start --json.

    \b
      odf startjob loadbob
    """
    from .run import start_verb

    check_id("job", jobid)
    return click.Context(start_verb, obj=app.taken).invoke(
        start_verb, **(_with_options_of(app) | {"as_json": True}), jobid=jobid, items=items
    )


@verb("forcejob")
@item_option
@click.option("--dry-run", is_flag=True, help="Say what would be claimed, and change nothing.")
@click.argument("jobid")
@click.argument("dataid", required=False)
def forcejob_verb(app: App, jobid: str, dataid: str | None, dry_run: bool, items: tuple[str, ...]) -> int:
    """Claim a chunk of a job without asking the five questions, and print what it needs, as JSON.

    Without DATAID it is a new one, named after the moment: 2025-11-12T030000. Our name: odf run --force.

    \b
      odf forcejob loadbob
      odf forcejob loadbob 1.0
    """
    from ..run.records import RunRequest
    from .run import begun
    from .running import check_items

    app.store.catalogue().job(check_id("job", jobid))
    check_items(app, jobid, items)
    dataid = check_id("dataid", dataid) if dataid is not None else _moment(app, jobid, f"odf forcejob {jobid}")
    if dry_run:
        return _would_force(app, jobid, dataid)
    values = begun(app, RunRequest(jobid, dataid, force=True, lease=86400.0), items)
    if isinstance(values, int):
        return values
    click.echo(json.dumps(values, indent=2))  # with its passwords: the caller does the work
    return 0


def _would_force(app: App, jobid: str, dataid: str) -> int:
    facts = {"jobid": jobid, "dataid": dataid, "dry_run": True}
    app.show(facts, lambda: [f"{jobid} {dataid} would be claimed by force"])
    return 0


def _moment(app: App, jobid: str, command: str) -> str:
    """A dataid for a run that only tries a job out: the moment, without the colons that an id may not have."""
    catalogue = app.store.catalogue()
    job = catalogue.job(jobid)
    kind = TYPES[catalogue.output_partition(job).type]
    if kind.name != "text":
        raise UsageError(
            f"the dataids of {job.outputs[0]} are of type {kind.name}, and no timestamp is one of them",
            hint=f"Name a chunk, written like {kind.form.partition(',')[0]}: {command} DATAID",
        )
    now = datetime.now()
    moment = now.strftime("%Y-%m-%dT%H%M%S")
    return moment if app.store.views.chunk(job.outputs[0], moment) is None else f"{moment}.{now.microsecond:06d}"


@verb("ForceJob", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--dry-run", is_flag=True, help="Say what would run, and change nothing.")
@click.argument("jobid", metavar="JOB|SCRIPT")
@click.argument("command", metavar="[COMMAND|DATAID]...", nargs=-1, type=click.UNPROCESSED)
def force_verb(app: App, jobid: str, command: tuple[str, ...], dry_run: bool) -> int:
    """Run a command for a job without the five questions, under a dataid that is named after the moment.

    It is for trying a job out: COMMAND finds in its environment what a script of the job would find. Without COMMAND the
    job's own code runs. After the path of a script comes the DATAID, if one is meant, and then the script's own words.
    Remove what it leaves with odf deleterun. Our name: odf run --force --dataid ID.

    \b
      ForceJob loadbob env
      ForceJob loadbob
      ForceJob ./loadbob.sh 1.0
    """
    from .running import RunOptions, known_job, run_one
    from .words import executable, is_script, refuse_key, target_of

    is_path = is_script(jobid)
    if is_path:
        app.script_folder = Path(jobid).absolute().parent
    refuse_key(app, "ForceJob", jobid, command)
    target, (jobid, script) = jobid, target_of(app, jobid)
    known_job(app, jobid, target)
    named = check_id("dataid", command[0]) if is_path and command else None
    if is_path:
        argv = [str(script), *command[1:]]
    else:
        argv = executable(jobid, command) if command else [str(script)] if script is not None else []
    dataid = named or _moment(app, jobid, f"odf run {jobid} --force --dataid")
    if dry_run:
        return _would_force(app, jobid, dataid)
    return run_one(app, jobid, argv, Path.cwd(), RunOptions(dataid, force=True))


@verb("Cryptor")
@click.option("-e", "encrypts", nargs=2, metavar="KEY TEXT", help="Encrypt TEXT under KEY.")
@click.option("-d", "decrypts", nargs=2, metavar="KEY TOKEN", help="Decrypt TOKEN, which the original encrypted.")
def cryptor_verb(app: App, encrypts: tuple[str, str] | None, decrypts: tuple[str, str] | None) -> int:
    """Encrypt or decrypt as the original's Cryptor does, in its form. Our name: odf crypt.

    Other users see the key and the text with ps, and the history of the shell keeps them. Its form is bound to no dataset
    and quick to guess: odf crypt encrypt --for DATASET makes a better one, with the key from PASSKEY.

    \b
      odf Cryptor -e KEY TEXT
      odf Cryptor -d KEY TOKEN
    """
    from ..secrets import STORE_CONTEXT, Key, decrypt, encrypt_as_java

    if (encrypts is None) == (decrypts is None):
        raise UsageError("Cryptor takes -e KEY TEXT or -d KEY TOKEN", hint="Better: odf crypt encrypt --for DATASET")
    passphrase, text = encrypts or decrypts or ("", "")
    key = Key(passphrase)
    printed = encrypt_as_java(text, key) if encrypts else decrypt(text, key, STORE_CONTEXT)
    app.show({"token" if encrypts else "plaintext": printed}, lambda: [printed], raw=True)
    app.say("note: ps and the history of the shell show this key; without it in the arguments: odf crypt --help")
    return 0


@verb("SetDataStatus", context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def setdatastatus_verb(app: App, words: tuple[str, ...]) -> int:
    """Say which command sets a status: each status has a verb of its own.

    \b
      odf SetDataStatus READY 1.0 bobin fakejob OUT
    """
    if len(words) != 5:
        raise UsageError(
            "SetDataStatus takes STATUS DATAID DATASET JOB IN|OUT", hint="Or use the verb of the status: odf --help"
        )
    status, dataid, datasetid, jobid, locktype = words
    told = _VERBS_OF_STATUS.get(canonical(status)) if locktype.upper() == OUT else None
    command = f"odf {told} {datasetid} {dataid}" if told else f"odf explain {datasetid} {dataid}"
    raise UsageError(
        f"SetDataStatus has no use here: each status has a verb of its own, and {status} too"
        if told
        else f"{status} of an {locktype} row is not set from outside: it belongs to a run of {jobid}",
        hint=f"{'Write' if told else 'See what is there'}: {command}",
    )


@verb("endjob")
@click.option("--dry-run", is_flag=True, help="Say what would be ended, and change nothing.")
@click.argument("jobid")
@click.argument("dataid")
@click.argument("status", metavar="READY|FAILED|RESUBMIT|HOLD|PENDING")
def endjob_verb(app: App, jobid: str, dataid: str, status: str, dry_run: bool) -> Any:
    """End the run of a job that startjob began, or set the status of its chunk. Our names: odf end RUN STATUS, odf resubmit.

    A chunk that does not run can become RESUBMIT, HOLD or FAILED; only a run makes it READY.

    \b
      odf endjob loadbob 1.0 READY
      odf endjob loadbob 1.0 RESUBMIT
    """
    from .run import end_verb, status_at_end

    job = app.store.catalogue().job(check_id("job", jobid))
    word = status_at_end(status)
    found = next(
        (run for run in app.store.views.runs(jobid=jobid, dataid=check_id("dataid", dataid)) if run.status == RUNNING),
        None,
    )
    if found is None and word != READY:  # as the original does it, whether or not the chunk runs
        verbs: dict[str, Any] = {RESUBMIT: app.store.resubmit, HOLD: app.store.hold, FAILED: app.store.fail_chunks}
        changed = verbs[word](job.outputs[0], [dataid], why="endjob", dry_run=dry_run)
        would = "would be" if dry_run else "is"
        app.show({"changed": changed, "dry_run": dry_run}, lambda: [f"{jobid} {dataid} {would} {word}"])
        return 0
    if found is None:
        raise Locked(f"{jobid} {dataid} is not running", hint=f"See its runs: odf runs {jobid}")
    return click.Context(end_verb, obj=app.taken).invoke(
        end_verb, **_with_options_of(app), run=found.runid, status=status, dry_run=dry_run
    )
