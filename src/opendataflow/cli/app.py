"""The app: one command line, the project and store that it leads to, and how facts are shown. Without click, which takes long."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadConfig, BadDefinition, OdfError, StoreMissing
from ..model.data import plain as plain
from ..model.definitions.broken import BrokenDefinition
from ..model.moment import print_in
from ..model.printable import clean as clean
from ..model.printable import one_line as one_line
from ..model.timezone import time_zone
from ..secrets import ProcessKey, take
from ..tokens import redacted_reason, shown_address, shown_texts, without_secrets

if TYPE_CHECKING:
    from ..model import Catalogue, Job
    from ..model.roots import Roots
    from ..project import Project
    from ..run.context import Vault
    from ..secrets import Key
    from ..store import Change, Store

Segment = tuple[str, str]  # a text and the name of its style, "" for none
Line = str | Sequence[Segment]

_STYLES: dict[str, dict[str, Any]] = {
    "READY": {"fg": "green"},
    "RUNNING": {"fg": "cyan"},
    "FAILED": {"fg": "red", "bold": True},
    "RESUBMIT": {"fg": "yellow"},
    "HOLD": {"fg": "magenta"},
    "PENDING": {"fg": "magenta"},
    "REFUSED": {"fg": "red"},
    "MISSING": {"fg": "yellow"},
    "STALE": {"fg": "yellow"},
    "LATE": {"fg": "red"},
    "WARNED": {"fg": "yellow"},
    "strong": {"bold": True},
    "faint": {"dim": True},
    "yes": {"fg": "green"},
    "no": {"fg": "red"},
    "command": {"fg": "cyan"},
}


@dataclass
class App:
    """One command line: where it works, and how it answers."""

    store_url: str | None = None
    env: str | None = None
    as_json: bool = False
    debug: bool = False
    creates: bool = False  # whether a store that is missing is made: by verbs that write, never by a look
    taken: ProcessKey = field(default_factory=lambda: take(os.environ), repr=False)
    closing: list[Callable[[], None]] = field(default_factory=list, repr=False)  # before the store is closed
    with_code: bool = True  # whether jobs that only code declares are looked for, too; RunJob must start quickly
    says_unapplied: bool = True  # whether a project that was not applied is mentioned when the store is opened
    pending: tuple[str, ...] = ()  # what the next claim will fold in, as the last look found it
    with_placeholders: bool = False  # whether encrypted values of the project file may be no tokens yet
    script_folder: Path | None = None  # its project counts where the current folder has none
    _project: Project | None = field(default=None, repr=False)
    _store: Store | None = field(default=None, repr=False)
    _vault: Vault | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.taken.hidden.add_address(self.store_url or "")

    @property
    def project(self) -> Project:
        """The project of the current folder, or one without a file."""
        if self._project is None:
            from ..project import find, load, without_file

            env = self.env or os.environ.get("ODF_ENV") or None
            named = self.store_url or self.taken.store_url or None
            folder = self._folder(named)
            file = find(folder)
            if file is not None:
                project = load(file, env, with_placeholders=self.with_placeholders)
            else:
                if self.env is not None:
                    raise BadConfig(f"--env {self.env} needs a project file", hint="Make one: odf init")
                project = without_file(folder, named)
            print_in(time_zone(project.timezone))
            self._project = project
        return self._project

    def _folder(self, named: str | None) -> Path:
        """Where the project is looked for: the current folder, or else beside the script, as cron's / needs it."""
        from ..project import find

        here = Path.cwd()
        has_store = bool(named) or (here / "dataflow.db").exists()
        if self.script_folder is None or has_store or find(here) is not None:
            return here
        return self.script_folder

    @property
    def url(self) -> str:
        """The address of the store: --store, ODF_STORE, the project's, or dataflow.db in this folder."""
        return self.store_url or self.taken.store_url or self.project.environment.store_url

    @property
    def store(self) -> Store:
        """The open store."""
        return self._store or self.open_store()

    def open_store(self, *, create: bool | None = None, check: bool = True) -> Store:
        """Open the store that this command line works on; a verb that writes makes a missing embedded one."""
        url = self.url
        if create is None:
            create = self.creates and self.is_missing and not self.store_url
            if self.is_missing and not create:
                raise StoreMissing(f"there is no store at {shown_address(url)}", hint=self._how_to_get_one())
        self._store = self._opened(create=create, check=check)
        if check and self.says_unapplied and not self.as_json and (line := self.unapplied_line()):
            self.say(f"note: {line}")
        return self._store

    def unapplied_line(self) -> str:
        """How the project file and the store differ, in one line; empty where they do not."""
        if not self.project.is_toml:
            return ""
        from ..insight.definitions import unapplied_line

        return unapplied_line(self.project, self.store, with_code=self.with_code)

    def unapplied(self) -> list[Change]:
        """What odf apply would change, as far as no code of the project has to be loaded."""
        if not self.project.is_toml:
            return []
        from ..run.decorated_jobs import unapplied

        return unapplied(self.project, self.store, with_code=self.with_code)

    def another_store(self, patience: float) -> Store:
        """One more connection to the same store, which waits only so many seconds for it."""
        return self._opened(create=False, check=False, patience=patience, say=lambda message: None)

    def _opened(self, **how: Any) -> Store:
        from ..store import open_store

        url, password = self.url, self.password
        how = {"say": lambda message: echo(self.redact_all(message), err=True)} | how
        store = open_store(url, password=password, environment=self._declared_environment, **how)
        store.roots, store.redact, store.is_trusted = self._roots, self._redact_reason, self._is_trusted
        return store

    @property
    def password(self) -> str | None:
        """The password of the store: the project's own for this address, or else PGPASSWORD."""
        encrypted = self.project.environment.store_encrypted if not self.store_url else ""
        if encrypted and self.url == self.project.environment.store_url:
            return self.store_password(encrypted)
        return self.taken.store_password

    @property
    def is_missing(self) -> bool:
        """Whether the store is a file that is not there."""
        return self.url.startswith("sqlite:///") and not Path(self.url.removeprefix("sqlite:///")).exists()

    def _how_to_get_one(self) -> str:
        if self.store_url:
            return f"Check --store, or create it: odf migrate --store {shown_address(self.store_url)}"
        if self.project.is_toml:
            return "Make it of what the project declares: odf apply"
        return "Is this the right folder? A project begins with: odf init"

    @property
    def shown_url(self) -> str:
        """The address of the store, without a password."""
        return shown_address(self.url)

    def about(self) -> dict[str, str]:
        """Where an overview looks: project, environment and store."""
        project = self.project
        facts = {"project": project.name, "environment": project.environment.name}
        return facts | ({"store": self._store.url} if self._store is not None else {})

    def _declared_environment(self) -> str | None:
        """The environment that the project declares; without a project file there is none to compare a store with."""
        environment = self.project.environment
        return environment.name if environment.is_declared else None

    def _roots(self) -> Roots:
        from ..project import roots_of

        return roots_of(self.project, self.url)

    def _is_trusted(self, catalogue: Catalogue, job: Job) -> bool:
        from ..run.decorated_jobs import is_trusted

        return is_trusted(self.project, catalogue, job)

    def close(self) -> None:
        """Close the store, if it was opened, and before it whatever needs it until then."""
        while self.closing:
            self.closing.pop()()
        if self._store is not None:
            self._store.close()

    @property
    def key(self) -> Key | None:
        """The key, if one is given; it is nowhere else in this process."""
        return self.taken.key

    def store_password(self, encrypted: str) -> str:
        """The store's own password, decrypted."""
        from .. import secrets

        password = secrets.decrypt(encrypted, self.taken.require_key("the store's password"), secrets.STORE_CONTEXT)
        self.taken.hidden.add(password)
        return password

    def show(
        self,
        data: Any,
        text: Callable[[], Iterable[Line] | None] | None = None,
        *,
        raw: bool = False,
        exact: bool = False,
        overview: bool = False,
    ) -> None:
        """Print facts without secrets: as JSON when asked for, else in words.

        exact is for data and secrets that were asked for, which are printed as they are. raw is for a program that reads
        such words: into a pipe they go with their control characters.
        An overview says where it looks: to a person, and in an object of JSON.
        """
        redact = str if exact or raw else self.redact_all
        if self.as_json:
            facts = shown_texts(plain(data), redact)
            if overview and isinstance(facts, dict):
                facts = self.about() | facts
            echo(json.dumps(facts, indent=2 if sys.stdout.isatty() else None))
        elif text is not None:
            if overview and sys.stdout.isatty():
                put([(" · ".join(f"{name} {value}" for name, value in self.about().items()), "faint")])
            for line in text() or ():
                if raw and isinstance(line, str) and not sys.stdout.isatty():
                    echo(line)
                else:
                    put(redact(line) if isinstance(line, str) else [(redact(part), style) for part, style in line])

    def say(self, line: str) -> None:
        """A remark that is not a fact: to the terminal's other stream, so that output can be piped."""
        if not self.as_json:
            echo(clean(self.redact_all(line)), err=True)

    def hide(self, words: Iterable[str] = (), *, run: str = "", store: Store | None = None) -> None:
        """Learn the secrets that a reason could repeat: the keys, and the passwords of what these words or this run name.

        Whatever is wrong with one of them, the verb itself refuses, or does without.
        """
        self.taken.find_keys()
        with suppress(OdfError):
            if self.key is None or self.is_missing:
                return
            from ..run.context import Vault

            store = store or self.store
            if run.isascii() and run.isdigit():
                words = [*words, store.claim_of(int(run)).jobid]
            self._vault = self._vault or Vault(self.project, self.key, self.taken.hidden)
            self._vault.hide(store.catalogue(), words)

    def redact(self, text: str) -> str:
        """The text without any secret that this process knows."""
        return self.taken.hidden.redact(text)

    def redact_all(self, text: str) -> str:
        """The text without any secret that this process knows, or that has the form of one."""
        return without_secrets(self.redact(text))

    def _redact_reason(self, text: str) -> str:
        return redacted_reason(self.redact(text))


def put(line: Line) -> None:
    """Print one line, cleaned, with colours where a terminal shows them."""
    if isinstance(line, str):
        echo(clean(line))
    elif has_colour():
        import click

        echo("".join(click.style(clean(text), **_STYLES[style]) if style else clean(text) for text, style in line))
    else:
        echo("".join(clean(text) for text, _ in line).rstrip())


def echo(text: str, *, err: bool = False) -> None:
    """Print one line at once; what needs more than that to be printed, click prints."""
    stream = sys.stderr if err else sys.stdout
    if "\033" in text or str(stream.encoding).lower() != "utf-8":
        import click

        click.echo(text, err=err)
    else:
        stream.write(text + "\n")
        stream.flush()


def has_colour() -> bool:
    """Whether colours are wanted: only on a terminal, and not with NO_COLOR."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Columns in plain text, as wide as they need to be."""
    cells = [[("" if cell is None else one_line(cell)) for cell in row] for row in rows]
    widths = [max([len(header), *(len(row[column]) for row in cells)]) for column, header in enumerate(headers)]
    lines = ["  ".join(header.ljust(width) for header, width in zip(headers, widths, strict=True)).rstrip()]
    rule = "  ".join("-" * width for width in widths)
    if sys.stdout.isatty():
        from shutil import get_terminal_size

        rule = rule[: get_terminal_size().columns]
    lines.append(rule)
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return lines


def named_facts(facts: Iterable[tuple[str, object]]) -> list[str]:
    """A line for each fact that there is, the names in a column of their own."""
    known = [(name, value) for name, value in facts if value not in ("", None)]
    width = max((len(name) for name, _ in known), default=0)
    return [f"{name.ljust(width)}  {one_line(value)}" for name, value in known]


def answer(app: App, work: Callable[[], Any]) -> Any:
    """Do what a verb does and close the app; a broken definition is told with the way out of it."""
    try:
        return work()
    except BrokenDefinition as problem:
        from ..insight.definitions import declared_by

        broken = problem.broken
        raise BadDefinition(broken.message, hint=broken.way_out(declared_by(app.project))) from None
    finally:
        app.close()


@contextmanager
def up_to_date(app: App) -> Iterator[None]:
    """What is looked at inside is as the next claim will find it; says what is pending."""
    with app.store.looking() as pending:
        yield
    for line in pending.words if pending.words != app.pending else ():
        app.say(line)
    app.pending = pending.words
