"""Verbs that set things up: init, apply, migrate, doctor."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import BadConfig, UsageError
from .common import App, confirm, plain, table, verb

if TYPE_CHECKING:
    from ..model import Job
    from ..project import Project


@verb("migrate")
@click.option("--dry-run", is_flag=True, help="Show what would be applied, and change nothing.")
def migrate_verb(app: App, dry_run: bool) -> int:
    """Create the store's tables, or bring them up to date.

    Locations of versions that an older OpenDataFlow kept as absolute paths become relative to the roots that they lie in, so
    that the project can be moved.

    \b
      odf migrate
      odf migrate --store postgresql://etl@db/dataflow
    """
    store = app.open_store(create=not dry_run and app.url.startswith("sqlite:"), check=False)
    steps = store.migrate(dry_run=dry_run)
    verb_ = "would apply" if dry_run else "applied"
    lines = [f"{verb_} {step.number:04d} {step.name}" for step in steps] or [f"{store.url} is up to date"]
    app.show([{"number": step.number, "name": step.name} for step in steps], lambda: lines)
    relative = store.keep_relative(dry_run=dry_run) if not (steps and dry_run) else 0
    if relative:
        would = "would be" if dry_run else "are now"
        app.say(f"the locations of {relative:,} version{'s' * (relative != 1)} {would} kept relative to the roots")
    if not dry_run:
        for datasetid in store.not_encrypted():
            app.say(
                f"the password of dataset {datasetid} is not encrypted, and its row cannot be changed before it is: "
                f"odf crypt encrypt --for {datasetid}"
            )
    return 0


@verb("apply")
@click.option("--dry-run", is_flag=True, help="Show the difference, and change nothing.")
@click.option("--prune", is_flag=True, help="Also remove what is registered but not declared.")
@click.option(
    "--no-code", is_flag=True, help="Import no code of the project: jobs that only a decorator declares are left out."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
def apply_verb(app: App, dry_run: bool, prune: bool, no_code: bool, yes: bool) -> int:
    """Bring the store in line with dataflow.toml: show the difference, then apply it in one transaction.

    Jobs that only a decorator declares, @job(reads=…, writes=…) in the project's code, are registered as well. To find
    them this code is imported, that is, run, also with --dry-run. Whoever looks at a change that is not trusted yet says
    --no-code.

    \b
      odf apply --dry-run
      odf apply --dry-run --no-code        nothing of the project is run
      odf apply
      odf apply --env prod --yes
    """
    project = app.project
    if not project.is_toml:
        raise BadConfig("there is no dataflow.toml here or in a folder above", hint="Create one: odf init")
    from ..project.trust import digest

    jobs = _without_code(app, project, prune) if no_code else _with_code(project)
    store = app.store
    changes = store.register(project.datasets, jobs, project.pools, prune=prune, dry_run=True)
    removed = [change for change in changes if change.action == "remove"]
    lines = [line for change in changes for line in described(change)] or ["the store is in line with the project"]
    if changes and not dry_run:
        if not app.as_json:
            for line in lines:
                click.echo(line)
        if removed or (sys.stdin.isatty() and not yes):
            confirm(app, f"apply {len(changes)} changes to {store.url}?", yes)
    for line in _without_beginning(project, jobs):
        app.say(f"note: {line}")
    if not dry_run:
        store.stamp(project.environment.name)
        store.register(project.datasets, jobs, project.pools, prune=prune, applied=digest(project))
    if changes and not dry_run:
        app.say(f"applied {len(changes)} changes to {store.url} ({project.environment.name})")
        lines = []
    app.show({"changes": [plain(change) for change in changes], "applied": not dry_run}, lambda: lines)
    return 0


def _with_code(project: Project) -> tuple[Job, ...]:
    from ..run.declared import jobs_of

    return jobs_of(project)


def _without_beginning(project: Project, jobs: tuple[Job, ...]) -> list[str]:
    from ..model import no_beginning, without_beginning

    datasets = {dataset.datasetid: dataset for dataset in project.datasets}
    return [no_beginning(job.jobid, name) for job in jobs for name in without_beginning(job, datasets)]


def _without_code(app: App, project: Project, prune: bool) -> tuple[Job, ...]:
    from ..run.declared import files_with_jobs

    files = ", ".join(str(path) for path in files_with_jobs(project))
    if files and prune:
        raise UsageError(
            f"--prune would remove the jobs that only {files} declares", hint="Leave out --prune or --no-code."
        )
    if files:
        app.say(f"not imported: {files}; jobs that only a decorator declares there are left out")
    return project.jobs


def described(change: object) -> list[str]:
    """One difference, as a plan shows it."""
    from ..store import Change

    assert isinstance(change, Change)
    sign = {"add": "+", "change": "~", "remove": "-"}[change.action]
    lines = [f"{sign} {change.what} {change.name}"]
    before, after = change.before or {}, change.after or {}
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if old != new and (change.action != "add" or new not in ("", None, {}, [], 0, 0.0)):
            shown = (
                ["(encrypted)" if value else value for value in (old, new)] if name == "encryptedpass" else [old, new]
            )
            lines.append(
                f"    {name} = {shown[1]}" if change.action == "add" else f"    {name}: {shown[0]} -> {shown[1]}"
            )
    return lines if change.action != "remove" else lines[:1]


TEMPLATES = Path(__file__).parent.parent / "templates"
# template → what to type next
NEXT = {
    "scripts": ("odf apply --yes", "odf discover names_raw", "RunJob jobs/greet.sh", "odf status"),
    "spark": ("odf apply --yes", "odf discover orders_raw", "odf drain", "odf status"),
    "migration": (
        "psql -q -f orders.sql",
        "odf apply --yes",
        "odf shard orders_pg --count 10",
        "odf drain",
        "odf prove orders_lake",
    ),
}


@verb("init")
@click.option("--dry-run", is_flag=True, help="Show which files would be created, and create none.")
@click.option(
    "--template",
    type=click.Choice(list(NEXT)),
    default="scripts",
    show_default=True,
    help="What the project shows: shell scripts, Spark jobs, or a table moved out of PostgreSQL.",
)
@click.argument("folder", default=".", type=click.Path(path_type=Path))
def init_verb(app: App, folder: Path, template: str, dry_run: bool) -> int:
    """Create a small project that runs right away, with comments that teach.

    \b
      odf init flights && cd flights
      odf apply --yes && odf discover names_raw && RunJob jobs/greet.sh
      odf init --template spark shop
    """
    source = TEMPLATES / template
    files = sorted(path for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc")
    made = [folder / path.relative_to(source) for path in files]
    there = [path for path in made if path.exists()]
    if there:
        raise BadConfig(f"{there[0]} exists already", hint="Choose an empty folder: odf init NAME")
    if not dry_run:
        for path, target in zip(files, made, strict=True):
            target.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_text(encoding="utf-8").replace("PROJECT_NAME", folder.resolve().name)
            target.write_text(text, encoding="utf-8")
            if target.suffix == ".sh":
                target.chmod(0o755)
    verb_ = "would create" if dry_run else "created"
    commands = NEXT[template] if str(folder) == "." else (f"cd {folder}", *NEXT[template])
    after = ["", "next:", *(f"  {command}" for command in commands)]
    app.show(
        [str(path) for path in made], lambda: [*(f"{verb_} {path}" for path in made), *(after if not dry_run else [])]
    )
    return 0


@verb("doctor")
def doctor_verb(app: App) -> int:
    """Check Python, Java, Spark, store, key, roots and clock, and say how to fix each.

    \b
      odf doctor
    """
    from ..insight.doctor import examine

    findings = examine(app, os.environ)
    marks = {True: "ok", False: "PROBLEM", None: "note"}
    rows = [(marks[finding.ok], finding.what, finding.found) for finding in findings]
    lines = table(["", "what", "found"], rows)
    lines += [f"  {finding.what}: {finding.mend}" for finding in findings if finding.ok is not True and finding.mend]
    app.show(
        [
            {"what": finding.what, "ok": finding.ok, "found": finding.found, "mend": finding.mend}
            for finding in findings
        ],
        lambda: lines,
    )
    return 0 if all(finding.ok is not False for finding in findings) else 1
