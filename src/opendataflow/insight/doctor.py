"""The doctor: what this machine and project need, whether it is there, and how to fix what is not."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from .. import files, secrets
from ..errors import BadDefinition, OdfError, install_command
from ..model.definitions.dataset import unfenced
from ..project.datasets import ADDRESS
from ..project.section import quoted
from ..project.trust import reasons_text, remedy
from ..run.context import Vault
from ..run.decorated_jobs import expected_distrust
from ..spark.java import INSTALL_JAVA, find_java
from ..tokens import secret_in
from .definitions import broken_facts
from .words import count


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; ok is None for what is optional and absent."""

    what: str
    ok: bool | None
    found: str
    mend: str = ""


def examine(app: Any, environ: Mapping[str, str]) -> list[Finding]:
    """Look at everything, one thing after the other; a problem with one hides none of the others."""
    return [
        finding
        for look in (_python, _java, _spark, _project, _key, _roots, _notify, _web, _store)
        for finding in _safely(look, app, environ)
    ]


def _safely(
    look: Callable[[Any, Mapping[str, str]], Iterator[Finding]], app: Any, environ: Mapping[str, str]
) -> Iterator[Finding]:
    try:
        yield from look(app, environ)
    except OdfError as error:
        found = app.redact(f"{error.name}: {error.message}")
        yield Finding(look.__name__.strip("_"), False, found, app.redact(error.hint))
    except (OSError, subprocess.SubprocessError) as error:
        yield Finding(
            look.__name__.strip("_"), False, str(error), "Check that it is installed, and that you may read and run it."
        )


def _python(app: Any, environ: Mapping[str, str]) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", sys.version_info >= (3, 11), version, "Install Python 3.11 or newer.")


def _java(app: Any, environ: Mapping[str, str]) -> Iterator[Finding]:
    java = find_java(environ)
    # Only Spark jobs need one: that there is none is no fault.
    ok = None if not java.path else not java.problem
    yield Finding("java", ok, java.problem or f"version {java.version} ({java.path})", INSTALL_JAVA)


def _spark(app: Any, environ: Mapping[str, str]) -> Iterator[Finding]:
    if find_spec("pyspark") is None:
        yield Finding(
            "spark",
            None,
            "pyspark is not installed",
            f"Only Spark jobs and checks need it: {install_command('spark')}",
        )
        return
    from importlib.metadata import version

    number = version("pyspark")
    yield Finding(
        "spark", int(number.split(".")[0]) >= 4, f"pyspark {number}", "Install a newer one: pip install 'pyspark>=4'"
    )


def _project(app: Any, environ: Mapping[str, str]) -> Iterator[Finding]:
    project = app.project
    if project.file is None:
        yield Finding(
            "project",
            None,
            "no dataflow.toml here or above",
            "You need none if you register jobs by SQL. Otherwise: odf init",
        )
    else:
        yield Finding("project", True, f"{project.file} ({project.environment.name})")


def _key(app: Any, environ: Mapping[str, str]) -> Iterator[Finding]:
    try:
        known = [] if app.is_missing else app.store.catalogue().datasets.values()
    except OdfError:  # the line of the store says so
        known = []
    encrypted = [each for each in known if each.encryptedpass]
    if app.key is None:
        need = (
            f", and {count(len(encrypted), 'password')} in the store cannot be opened without it" if encrypted else ""
        )
        mend = "Only encrypted passwords need it. Set PASSKEY, PASSKEY_FILE or PASSKEY_COMMAND."
        yield Finding("key", False if encrypted else None, f"not given{need}", mend)
        return
    vault = Vault(app.project, app.key, app.taken.hidden)
    shut = 0
    for dataset in encrypted:
        try:
            vault.password(dataset)
        except OdfError as error:
            shut += 1
            found = f"it does not open the password of dataset {dataset.datasetid}: {error.name}: {error.message}"
            yield Finding("key", False, app.redact(found), app.redact(error.hint))
    if not shut:
        opened = f"given; it opens {count(len(encrypted), 'password')}" if encrypted else "given; no password needs it"
        yield Finding("key", True, opened)


def _roots(app: Any, environ: Mapping[str, str]) -> Iterator[Finding]:
    for root in app.project.environment.roots:
        remote = "://" in root
        there = remote or os.path.isdir(root)
        usable = there and files.is_writable(root)
        state = "exists and is writable" if usable else "cannot be written" if there else "does not exist"
        yield Finding(
            "root", usable, f"{root} {state}", "Check its permissions." if there else f"Make it: mkdir -p {root}"
        )


def _notify(app: Any, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether notifications can be sent from here."""
    notify = app.project.notify
    for target in notify.targets.values() if notify is not None else ():
        path = app.project.folder / target.command
        try_it = f"Try it out: odf notify test {target.name}"
        if target.command and not os.access(path, os.X_OK):
            mend = f"Make it a program: chmod +x {shlex.quote(str(path))}"
            yield Finding("notify", False, f"{target.name}: {target.command} cannot be run", mend)
        elif not target.command and find_spec("apprise") is None:
            yield Finding("notify", False, f"{target.name}: apprise is not installed", install_command("notify"))
        elif target.needs_key and app.key is None:
            yield Finding("notify", None, f"{target.name}: its address is encrypted, and no key is given", try_it)
        elif target.needs_key:
            secrets.decrypt(target.encrypted, app.key, secrets.notify_context(target.name))
            yield Finding("notify", True, f"{target.name}: the key opens its address", try_it)
        else:
            yield Finding("notify", True, f"{target.name}: declared", try_it)


def _web(app: Any, environ: Mapping[str, str]) -> Iterator[Finding]:
    """What the console's tokens do not protect."""
    if app.project.web.proxy_risk:
        yield Finding("web", None, app.project.web.proxy_risk, "See docs/how-to/console.md.")


def _readable_by_others(url: str) -> str:
    """How to mend the mode of a store's file that is not private; a group that may use it was let in on purpose."""
    path = url.removeprefix("sqlite:///")
    if path == url or not os.stat(path).st_mode & 0o007:
        return ""
    return f"Take it from them: chmod o-rwx {shlex.quote(path)}*"


def _store(app: Any, environ: Mapping[str, str]) -> Iterator[Finding]:
    store = app.store
    readable = _readable_by_others(store.url)
    yield Finding(
        "store", not readable, f"{store.url}{readable and ' can be read by every user of this machine'}", readable
    )
    if gone := store.missing():
        mend = "Put it back, or go back to a backup: docs/how-to/backup-and-restore.md"
        yield Finding("tables", False, f"the store lacks {', '.join(gone)}", mend)
        return
    for problem in store.damage():
        yield Finding(
            "store", False, f"STORE_DAMAGED: {problem}", "Restore a backup: docs/how-to/backup-and-restore.md"
        )
    if store.journal_reason:
        mend = "It works, but writers and readers wait for each other. Use a local disk, a newer apsw, or PostgreSQL."
        yield Finding("journal", None, f"no write-ahead log: {store.journal_reason}", mend)
    stamped = store.environment()
    name = app.project.environment.name
    yield Finding(
        "environment",
        stamped in (None, name),
        f"{name}; the store is {'not stamped yet' if stamped is None else stamped}",
        "Choose the right --env or --store.",
    )
    for schema in store.open_schemas():
        yield Finding(
            "schema",
            None if schema == "public" else False,
            f"every role of the server may create functions in schema {schema}, which others could call by mistake",
            f'Take it from them: REVOKE CREATE ON SCHEMA "{schema}" FROM PUBLIC',
        )
    drift = abs(store.views.clock() - time.time())
    yield Finding(
        "clock",
        drift < 60,
        f"{drift:.1f} s between this machine and the store",
        "Set the clock. Leases do not depend on it, but people read times.",
    )
    for note in store.views.unfit_notes(1):
        yield Finding(
            "notes",
            False,
            f"a note by {note.who} tells of a change of {note.datasetid} {note.dataid} that never was: {note.why}",
            "Only workers need the right to write to table note. See: odf sql \"select * from event where kind = 'unfit note'\"",
        )
    over = store.views.expired()
    yield Finding(
        "leases",
        not over,
        f"{count(len(over), 'run')} lost the lease and {'waits' if len(over) == 1 else 'wait'} for the next claim or rescue"
        if over
        else "none ran out",
        "End them: odf rescue",
    )
    yield from _applied(app)
    yield from _definitions(app)
    yield from _passwords(app)
    yield from _plain_secrets(app)


def _applied(app: Any) -> Iterator[Finding]:
    """Whether odf apply was forgotten."""
    if app.project.is_toml:
        line = app.unapplied_line()
        found = line or "the store holds what dataflow.toml declares"
        yield Finding("applied", not line, found, "Look first: odf apply --dry-run. Then store it: odf apply")


def _definitions(app: Any) -> Iterator[Finding]:
    """What does not load, and jobs that would be refused, since the store says what the project's own files do not."""
    catalogue = app.store.catalogue()
    for broken in broken_facts(catalogue, app.project):
        stopped = f"; it stops {', '.join(broken.jobs)}" if broken.jobs else ""
        yield Finding("definition", False, f"{BadDefinition.name}: {broken.problem}{stopped}", broken.mend)
    for line in unfenced(catalogue.datasets.values(), catalogue.jobs.values()):
        yield Finding("fence", None, line, "See docs/explanation/guarantees.md.")
    for job in catalogue.jobs.values():
        problems = expected_distrust(app.project, catalogue, job)
        if problems:
            mend = remedy(app.project, problems, app.store.applied)
            yield Finding("definition", False, f"job {job.jobid} is not trusted: {reasons_text(problems)}", mend)


def _plain_secrets(app: Any) -> Iterator[Finding]:
    """Secrets in plain text in the rows of the store or under [spark]."""
    catalogue = app.store.catalogue()
    mend = "Change it where it counts, encrypt the new one with odf crypt encrypt, and remove it here."
    owners: list[tuple[str, Mapping[str, Any]]] = [("[spark]", app.project.spark)]
    owners += [
        (f"dataset {each.datasetid}", {**{name: getattr(each, name) for name in ADDRESS}, "options": each.options})
        for each in catalogue.datasets.values()
    ]
    owners += [(f"job {each.jobid}", {"env": each.env, "options": each.options}) for each in catalogue.jobs.values()]
    for owner, facts in owners:
        if path := secret_in(facts):
            yield Finding("password", False, f"{owner}: {'.'.join(map(quoted, path))} is a secret in plain text", mend)


def _passwords(app: Any) -> Iterator[Finding]:
    """Passwords that are weakly encrypted, or not at all."""
    tokens = {
        f"dataset {dataset.datasetid}": (dataset.encryptedpass, f"--for {dataset.datasetid}")
        for dataset in app.store.catalogue().datasets.values()
    }
    tokens["the store"] = app.project.environment.store_encrypted, "--for-store"
    for owner, (token, option) in tokens.items():
        form = secrets.form_of(token) if token else secrets.TODAY
        if form == secrets.NO_TOKEN:
            yield Finding("password", False, f"{owner}: not encrypted", f"Encrypt it: odf crypt encrypt {option}")
        elif form != secrets.TODAY and not (option == "--for-store" and form == secrets.NO_ADDRESS):
            ok = False if secrets.is_java(token) else None
            mend = f"Renew it: odf crypt rekey {option} --same-key"
            yield Finding("password", ok, f"{owner}: weak, since {form}", mend)
