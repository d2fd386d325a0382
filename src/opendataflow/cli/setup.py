"""Verbs that set things up: init, apply, migrate, doctor."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import BadConfig, UsageError
from ..insight.definitions import SIGNS
from ..insight.words import count
from ..tokens import shown_facts
from .app import App, put, table
from .common import confirm, verb

if TYPE_CHECKING:
    from ..model import Job
    from ..project import Project
    from ..store import Change, Store


@verb("migrate")
@click.option("--dry-run", is_flag=True, help="Show what would be applied, and change nothing.")
def migrate_verb(app: App, dry_run: bool) -> int:
    """Create the store's tables, or bring them up to date.

    A store of the version before is brought over in one transaction. An older one is refused: export it with the version
    that made it, and import the file into a new store.

    Locations of versions that an older OpenDataFlow kept as absolute paths become relative to the roots that they lie in, so
    that the project can be moved.

    \b
      odf migrate
      odf migrate --store postgresql://etl@db/dataflow
    """
    store = app.open_store(create=not dry_run and app.is_missing, check=False)
    steps = store.migrate(dry_run=dry_run)
    verb_ = "would apply" if dry_run else "applied"
    lines = [f"{verb_} {step.number:04d} {step.name}" for step in steps] or [f"{store.url} is up to date"]
    app.show([{"number": step.number, "name": step.name} for step in steps], lambda: lines)
    relative = store.keep_relative(dry_run=dry_run) if not (steps and dry_run) else 0
    if relative:
        would = "would be" if dry_run else "are now"
        app.say(f"the locations of {relative:,} version{'s' * (relative != 1)} {would} kept relative to the roots")
    if not dry_run:
        for datasetid in store.views.not_encrypted():
            app.say(
                f"the password of dataset {datasetid} is not encrypted, and its row cannot be changed before it is: "
                f"odf crypt encrypt --for {datasetid}"
            )
    return 0


@verb("apply", creates=True)
@click.option("--dry-run", is_flag=True, help="Show the difference, and change nothing.")
@click.option("--prune", is_flag=True, help="Also remove what is registered but not declared.")
@click.option(
    "--no-code", is_flag=True, help="Import no code of the project: jobs that only a decorator declares are left out."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
def apply_verb(app: App, dry_run: bool, prune: bool, no_code: bool, yes: bool) -> int:
    """Bring the store in line with dataflow.toml: show the difference, ask, then apply it in one transaction.

    Without a terminal it applies only with --yes. A job that the project applied before and no longer declares is
    retired: it does not run any more, and its history stays. Jobs that were registered by SQL are left alone.

    Jobs that only a decorator declares, @job(reads=…, writes=…) in the project's code, are registered as well. To find
    them this code is imported, that is, run, also with --dry-run. Whoever looks at a change that is not trusted yet says
    --no-code.

    \b
      odf apply --dry-run
      odf apply --dry-run --no-code        nothing of the project is run
      odf apply
      odf apply --env prod --yes
    """
    project, jobs, register = _registering(app, prune, no_code)
    from ..model.definitions.dataset import unfenced

    with _compared(app) as store:
        changes = register(store, dry_run=True)
        misplaced = _without_place(project, store, changes)
    lines = [line for change in changes for line in described(change)] or ["the store is in line with the project"]
    facts = [change._replace(before=shown_facts(change.before), after=shown_facts(change.after)) for change in changes]
    for line in (*_without_beginning(project, jobs), *unfenced(project.datasets, jobs), *misplaced):
        app.say(f"note: {line}")
    if dry_run:
        app.show({"changes": facts, "applied": False}, lambda: lines)
        return 0
    if changes:
        if not app.as_json:
            for line in lines:
                put(line)
        _ask(app, f"apply {count(len(changes), 'change')} to {app.shown_url}?", yes)
        lines = []
    app.store.stamp(project.environment.name)
    register(app.store, dry_run=False)
    if changes:
        app.say(f"applied {count(len(changes), 'change')} to {app.store.url} ({project.environment.name})")
    app.show({"changes": facts, "applied": True}, lambda: lines)
    return 0


def apply_now(app: App) -> None:
    """Store what the project declares, without asking, and say what changed."""
    project, _, register = _registering(app)
    app.creates = True
    app.store.stamp(project.environment.name)
    changes = register(app.store, dry_run=False)
    for line in [line for change in changes for line in described(change)]:
        app.say(line)


def _registering(
    app: App, prune: bool = False, no_code: bool = False
) -> tuple[Project, tuple[Job, ...], Callable[..., list[Change]]]:
    """The project, its jobs, and what registers its definitions in a store."""
    app.says_unapplied = False
    project = app.project
    if not project.is_toml:
        raise BadConfig("there is no dataflow.toml here or in a folder above", hint="Create one: odf init")
    from ..project.trust import digest
    from ..store import AppliedProject

    jobs = _without_code(app, project, prune) if no_code else _with_code(app, project)
    applied = AppliedProject(digest(project), project.name, is_whole=not no_code)

    def register(store: Store, dry_run: bool) -> list[Change]:
        definitions: Any = project.datasets, jobs, project.pools
        return store.register(*definitions, prune=prune, applied=applied, dry_run=dry_run)

    return project, jobs, register


@contextmanager
def _compared(app: App) -> Iterator[Store]:
    """The store to compare with; an empty one where there is none yet, since a look makes nothing."""
    if not app.is_missing or app.store_url:
        yield app.store
        return
    from tempfile import TemporaryDirectory

    from ..store import open_store

    with TemporaryDirectory() as folder, open_store(f"sqlite:///{folder}/none.db", create=True) as empty:
        yield empty


def _ask(app: App, question: str, yes: bool) -> None:
    if not yes and not sys.stdin.isatty():
        raise UsageError(
            "nothing was applied: there is nobody to ask", hint="If these changes are right: odf apply --yes"
        )
    confirm(app, question, yes)


def _with_code(app: App, project: Project) -> tuple[Job, ...]:
    from ..run.decorated_jobs import jobs_of

    def start() -> None:
        from ..spark.session import session

        app.say("starting Spark, which code of this project needs when it is imported")
        session(project.spark, app_name=f"odf {project.name}", redact=app.redact)

    return jobs_of(project, start)


def _without_beginning(project: Project, jobs: tuple[Job, ...]) -> list[str]:
    from ..model import no_beginning, without_beginning

    datasets = {dataset.datasetid: dataset for dataset in project.datasets}
    return [no_beginning(job.jobid, name) for job in jobs for name in without_beginning(job, datasets)]


def _without_place(project: Project, store: Store, changes: Sequence[Change]) -> list[str]:
    """For each changed dataset with versions, why a new version of its first chunk could not be written."""
    from ..files.versions import VERSIONED
    from ..gate import place_of_output

    changed = {each.name for each in changes if each.what == "dataset" and each.action == "change"}
    return [
        look.problem
        for dataset in project.datasets
        if dataset.datasetid in changed and dataset.options.get("layout") == VERSIONED
        for chunk in store.views.chunks(dataset.datasetid, n=1)
        if (look := place_of_output(project.environment, dataset, chunk.dataid)).problem
    ]


def _without_code(app: App, project: Project, prune: bool) -> tuple[Job, ...]:
    from ..run.decorated_jobs import files_with_jobs

    files = ", ".join(str(path) for path in files_with_jobs(project))
    if files and prune:
        raise UsageError(
            f"--prune would remove the jobs that only {files} declares", hint="Leave out --prune or --no-code."
        )
    if files:
        app.say(f"not imported: {files}; jobs that only a decorator declares there are left out")
    return project.jobs


def described(change: Change) -> list[str]:
    """One difference, as a plan shows it."""
    head = f"{SIGNS[change.action]} {change.what} {change.name}"
    if change.action == "remove":
        kept = ": no longer declared; it will not run any more, and its history stays" if change.what == "job" else ""
        return [head + kept]
    lines = [head]
    before, after = change.before or {}, change.after or {}
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if old == new or (change.action == "add" and _goes_without_saying(name, new)):
            continue
        old, new = shown_facts(old, name), shown_facts(new, name)
        if name == "encryptedpass":
            lines.append(f"    {name}: {'(encrypted)' if new else 'none'}")
        elif change.action == "add":
            lines.append(f"    {name} = {_in_words(name, new)}")
        else:
            lines.append(f"    {name}: {_in_words(name, old)} -> {_in_words(name, new)}")
    return lines


_USUAL = {"backoff": 10.0, "backoff_max": 3600.0, "lease": 30.0, "partition": {"type": "text"}}


def _goes_without_saying(name: str, value: object) -> bool:
    return name == "datasetid" or value in ("", None, {}, [], 0, 0.0) or _USUAL.get(name) == value


def _in_words(name: str, value: Any) -> str:
    """A value of a definition as people say it."""
    if value in ("", None, {}, []):
        return "unlimited" if name == "slots" and value is None else "none"
    if name == "reads" and isinstance(value, dict):
        return ", ".join(each if how == "identity" else f"{each} ({how})" for each, how in value.items())
    if name == "partition" and isinstance(value, dict) and "type" in value:
        more = ", ".join(f"{key} {_in_words('', part)}" for key, part in value.items() if key != "type")
        return str(value["type"]) + (f" ({more})" if more else "")
    if isinstance(value, dict):
        return ", ".join(f"{key} = {_in_words('', part)}" for key, part in value.items())
    if isinstance(value, list):
        return ", ".join(_in_words("", part) for part in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


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

    app.says_unapplied = False
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
        overview=True,
    )
    return 0 if all(finding.ok is not False for finding in findings) else 1
