"""Rows 22 and 31: text of all kinds in every column of the store, by SQL alone: no verb obeys it, shows it raw or falls over it."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from opendataflow.cli.door import open_door
from tests.support.shell import Shell
from tests.support.stores import BOTH

pytestmark = pytest.mark.fault(22, 31)

PROJECT = """
[project]
name = "shop"
keep_log_tail = true

[environment.dev]
roots = ["./data"]

[pool.etl]
slots = 2

[notify.oncall]
command = "page.sh"

[[notify.rule]]
on = ["failed", "recovered", "late", "refused", "recalled"]
to = ["oncall"]

[job.make]
reads = ["raw"]
writes = ["made"]
pool = "etl"

[job.use]
reads = ["made"]
writes = ["used"]

[job.carry]
reads = ["here"]
writes = ["there"]
"""
DATASET = '\n[dataset.{name}]\nlocation = "{name}/{{dataid}}.csv"\npartition = "number"\n'

# What a shell, a terminal, a page, a template, SQL and pickle would each obey. OWNED is a file that nobody must make.
OBEYED = (
    "'\"><script>x</script>$(touch OWNED)`touch OWNED`;touch OWNED|\x1b]0;owned\x07\x1b[2J\u202e\x9b {0} {{7*7}} {dataid} %s :x"
    "'; drop table event; -- ../../../../etc/passwd"
)
PICKLED = "cos\nsystem\n(S'touch OWNED'\ntR."
GARBAGE = ["{", "[[1]]", '{"answers": [1], "files": 5}', "[" * 3000, "9999-12-31 23:59:59", ""]
STEERS = re.compile("\x1b\\]0;owned|\x1b\\[2J|[\x07\x9b\u202e]")

DEFINITIONS = ("dataset", "job", "jobrule", "pool")
NAMES = {"datasetid", "dataid", "jobid", "in_datasetid", "in_dataid", "poolid", "name"}
LOOKS = [
    *("status", "status --chunks", "status --json", "status --at 1h", "runs", "runs --json", "jobs", "jobs make", "datasets"),
    *("datasets made", "log 1", "log make 3", "why make", "why use", "why make 3", "why make --json", "why make 3 --at 1h"),
    *("explain made 1", "explain made 3", "explain used 2 --json", "report", "report --html -", "report --json", "timeline"),
    *("timeline --by job", "late", "notify list", "lineage made", "lineage made 2", "lineage --mermaid", "history"),
    *("history --json", "history made", "diff used 2", "check", "metrics", "metrics --totals", "where made 2", "head made 2"),
    *("schema made", "impact raw 2", "prove used", "audit", "recover", "vacuum --dry-run", "pool", "doctor", "drain --dry-run"),
    *("run make --dry-run", "apply --dry-run", "resubmit --failed --dry-run", "resubmit --stale --dry-run", "check-lease 1"),
    *("discover --all --dry-run", "export out.export"),
]  # fmt: skip
ACTS = [
    *("rescue", "discover raw --quiet-for 0", "ready here 2", "ready raw 6", "run make", "run make --dataid 3 --force"),
    *("start make", "drain", "notify send", "late --notify", "recover --yes", "resume use", "rollback used 2"),
    *("hold made 2 --yes", "release made 2 --yes", "fail used 2 --yes", "forget used 1 --yes", "cancel make"),
    *("recall raw 2 --cascade --why x --yes", "drain", "vacuum --yes", "apply --yes", "drain", "status"),
]  # fmt: skip


@pytest.fixture(params=BOTH)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    folder = tmp_path / "shop"
    folder.mkdir()
    return Shell(folder, url)


class Prompt:
    """Many commands in one folder, without a process for each of them, and what they must not do."""

    def __init__(self, shell: Shell, capture: pytest.CaptureFixture[str]) -> None:
        self.shell, self.capture = shell, capture

    def __call__(self, line: str) -> tuple[int, str]:
        self.capture.readouterr()
        code = open_door(line.split())
        said = "".join(self.capture.readouterr())
        assert code != 70, (line, said)
        assert "INTERNAL" not in said, (line, said)
        assert not STEERS.search(said), (line, said)
        assert not list(self.shell.folder.rglob("OWNED")), line
        return code, said


@contextmanager
def prompt(shell: Shell, capture: pytest.CaptureFixture[str]) -> Iterator[Prompt]:
    with pytest.MonkeyPatch.context() as here:
        here.chdir(shell.folder)
        for name in [name for name in os.environ if name.startswith(("ODF_", "PASSKEY"))]:
            here.delenv(name)
        for name, value in shell.environment.items():
            here.setenv(name, value)
        yield Prompt(shell, capture)


def prepare(odf: Prompt) -> None:
    """A store with rows in every table: of a flow that is attacked, and of its neighbour here → carry → there."""
    shell = odf.shell
    datasets = "".join(DATASET.format(name=name) for name in ("raw", "made", "here", "there"))
    shell.write("dataflow.toml", f'{PROJECT}{datasets}{DATASET.format(name="used")}layout = "versioned"\n')
    shell.script("page.sh", "cat >told.json")
    shell.script("jobs/make.sh", 'echo making; [ "$dataid" != 3 ]; cp "$raw_location" "$made_location"')
    shell.script("jobs/use.sh", 'cp "$made_location" "$used_location"')
    shell.script("jobs/carry.sh", 'cp "$here_location" "$there_location"')
    for name in ("raw", "here"):
        for number in range(1, 7):
            shell.write(f"data/{name}/{number}.csv", f"a,b\n{name},{number}\n")
    for line in (
        *("migrate", "apply --yes", "ready raw 1 2 3", "ready here 1", "drain"),
        *("hold used 1 --yes --why x", "release used 1 --yes", "recall made 1 --yes --hold --why bad", "resubmit used 2 --yes"),
        *("drain use", "pause use --why rest", "notify send"),
    ):  # fmt: skip
        odf(line)
    shell.write("data/raw/2.csv", "a,b\nraw,corrected\n")
    for line in ("ready raw 2 4 5", "late --notify", "hold raw 1 --yes --why x"):
        odf(line)


class Planted:
    """The rows of a store, as SQL reaches them and nothing else does."""

    def __init__(self, shell: Shell) -> None:
        self.connection: Any
        if shell.store_url is None:
            self.connection = sqlite3.connect(shell.folder / "dataflow.db", isolation_level=None)
            tables = "select t.name, c.name from sqlite_master t join pragma_table_info(t.name) c where t.type = 'table' and t.name not like 'sqlite_%' and lower(c.type) = 'text'"
            self.mark = "?"
        else:
            self.connection = psycopg.connect(shell.store_url, autocommit=True, options="-c search_path=dataflow")
            tables = "select table_name, column_name from information_schema.columns join information_schema.tables using (table_schema, table_name) where table_schema = 'dataflow' and table_type = 'BASE TABLE' and data_type = 'text'"
            self.mark = "%s"
        self.columns: dict[str, list[str]] = {}
        for table, column in self.connection.execute(tables):
            if table not in ("migration", "meta", "event"):  # our own; history is only added to
                self.columns.setdefault(table, []).append(column)

    def plant(self, table: str, text: str, *, names: bool = False) -> int:
        """Write a text into every column of a table where the database lets us; into those that name something only if asked."""
        columns = self.columns.get(table, [])
        where = [f"{name} in ('raw', 'made', 'used')" for name in ("datasetid",) if name in columns]
        where += [f"{name} in ('make', 'use')" for name in ("jobid",) if name in columns]
        done = 0
        for column in columns:
            if names or column not in NAMES:
                rows = " or ".join(where) or "1 = 1"
                try:
                    done += self.connection.execute(
                        f"update {table} set {column} = {self.mark} where {rows}", (text,)
                    ).rowcount
                except (sqlite3.Error, psycopg.Error):
                    continue  # refused by the database itself
        return done

    def remember(self, text: str) -> None:
        """An event of somebody else, which says this in every column."""
        names = ("kind", "datasetid", "dataid", "jobid", "before", "after", "who", "why", "receipt")
        self.connection.execute(
            f"insert into event ({', '.join(names)}) values ({', '.join([self.mark] * len(names))})",
            [text] * len(names),
        )
        self.connection.execute(
            f"insert into event (kind, datasetid, dataid, jobid, receipt) values ('refused', 'made', '3', 'make', {self.mark})",
            [text],
        )


def planted(shell: Shell, tables: tuple[str, ...], text: str, *, names: bool) -> None:
    sql = Planted(shell)
    with closing(sql.connection):
        rest = [table for table in sql.columns if table not in DEFINITIONS]
        done = sum(sql.plant(table, text, names=names) for table in tables or rest)
        if not tables:
            sql.remember(text)
            done += 1
        assert done


WHERE: dict[str, tuple[str, ...]] = {"definitions": DEFINITIONS, "facts": ()}
TEXTS = {"obeyed": OBEYED, "garbage": GARBAGE[1]}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every table and text by itself where there is time: what falls over the first does not get to the second."""
    if "where" in metafunc.fixturenames:
        where = dict(WHERE)
        texts = dict(TEXTS)
        if metafunc.config.getoption("--soak"):
            facts = [
                "candidate",
                "data_manifest",
                "datastatus",
                "incident",
                "incident_chunk",
                "log_tail",
                "message",
            ]
            facts += ["note", "noticed", "pause", "recalled", "remake", "run", "run_input", "stale"]
            where |= {table: (table,) for table in [*DEFINITIONS, *facts]}
            texts |= {"pickled": PICKLED} | {f"garbage {n}": text for n, text in enumerate(GARBAGE)}
        metafunc.parametrize("where", where.values(), ids=where.keys())
        metafunc.parametrize("text", texts.values(), ids=texts.keys())


def test_no_verb_obeys_shows_or_falls_over_what_somebody_wrote(
    shell: Shell, where: tuple[str, ...], text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with prompt(shell, capfd) as odf:
        prepare(odf)
        planted(shell, where, text, names=False)
        for line in (*LOOKS, *ACTS):
            odf(line)
        # The auditor would find what was planted; that the neighbour goes on is what counts.
        assert (shell.folder / "data/there/2.csv").read_text() == "a,b\nhere,2\n"
        assert json.loads(odf("explain there 2 --json")[1])
