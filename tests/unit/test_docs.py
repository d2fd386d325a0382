"""The reference is complete: every verb, option, key, exit code, variable, table and column is there."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from opendataflow import errors
from opendataflow.cli.door import ALIASES, VERBS
from opendataflow.cli.group import odf
from opendataflow.model import Partition
from opendataflow.model.definitions.check_kinds import KINDS
from opendataflow.model.definitions.dataid import TYPES
from opendataflow.model.definitions.expression import FUNCTIONS
from opendataflow.project import datasets, jobs, load
from opendataflow.run.context import FIELDS
from opendataflow.secrets import KEY_VARIABLES, NEW
from opendataflow.spark.settings import SHORT
from opendataflow.store import open_store

ROOT = Path(__file__).parents[2]
REFERENCE = {page.stem: page.read_text(encoding="utf-8") for page in (ROOT / "docs/reference").glob("*.md")}
CONTEXT = odf.make_context("odf", ["--help"], resilient_parsing=True)
SOURCES = [file for file in (ROOT / "src").rglob("*.py") if "templates" not in file.parts]
SOURCE = "\n".join(file.read_text(encoding="utf-8") for file in SOURCES)


def command(name: str) -> click.Command:
    found = odf.get_command(CONTEXT, name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_is_documented_and_its_help_has_an_example(name: str) -> None:
    assert f"`odf {name}" in REFERENCE["command-line"]
    text = command(name).help or ""
    assert f"odf {name}" in text or "RunJob" in text


def test_every_documented_verb_exists() -> None:
    for name in re.findall(r"`odf (\w[\w-]*)", REFERENCE["command-line"]):
        assert name in VERBS or name == "VERB"


@pytest.mark.parametrize("name", ALIASES)
def test_every_alias_is_documented(name: str) -> None:
    assert f"`{name}`" in REFERENCE["command-line"]


@pytest.mark.parametrize("name", [*VERBS, *ALIASES])
def test_every_option_says_what_it_is_for(name: str) -> None:
    """The site's page of options is what the program says about itself."""
    for option in command(name).params:
        assert not isinstance(option, click.Option) or option.help, f"odf {name} {option.opts}"


def test_every_error_is_documented_with_its_exit_code() -> None:
    table = re.findall(r"^\| (\d+) \| (.*) \|$", REFERENCE["command-line"], re.MULTILINE)
    documented = {(name, int(code)) for code, names in table for name in re.findall(r"\b[A-Z]+(?:_[A-Z]+)*\b", names)}
    defined = {(name, error.exit_code) for name, error in errors.BY_NAME.items()}
    also_zero = (errors.NothingToDo, errors.DataNotReady, errors.Locked)  # the last two with --quiet-no
    assert documented == defined | {(error.name, 0) for error in also_zero}


def test_every_variable_is_documented() -> None:
    read = re.findall(r'environ(?:\.get)?[\[(]\s*"([A-Z_]+)"(?!\] = )', SOURCE)
    ours = re.findall(r'"(ODF_[A-Z_]+)"', SOURCE)
    for name in {*read, *ours, *KEY_VARIABLES, *(NEW + each for each in KEY_VARIABLES)}:
        assert f"`{name}`" in REFERENCE["environment"], name
    for name in [*FIELDS, "password", "location", "dataid", "itemtype", "datasetid"]:
        assert f"_{name}`" in REFERENCE["environment"], name


def keys_under(*headings: str) -> set[str]:
    """The keys in the first column of the tables under these headings of the page about dataflow.toml."""
    found: set[str] = set()
    for heading in headings:
        _, _, rest = REFERENCE["dataflow-toml"].partition(f"\n{heading}\n")
        assert rest, heading
        section = re.split(r"^#+ ", rest, flags=re.MULTILINE)[0]
        for cell in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE):
            found |= set(re.findall(r"`([a-z_]+)`", cell))
    return found


@pytest.mark.parametrize(
    ("headings", "keys"),
    [
        (["### What and where it is", "### How it is treated"], datasets.KEYS),
        (["### partition"], Partition.__dataclass_fields__),
        (["### checks"], KINDS),
        (["## [job.NAME]"], jobs.KEYS),
        (["## [spark]"], [*SHORT, "conf"]),
    ],
)
def test_every_key_of_the_project_file_is_documented_and_every_documented_key_is_known(
    headings: list[str], keys: list[str]
) -> None:
    assert keys_under(*headings) == set(keys)


@pytest.mark.parametrize(
    ("heading", "table"),
    [
        ("## [project]", "project"),
        ("## [store]", "store"),
        ("## [lineage]", "lineage"),
        ("## [web]", "web"),
        ("### [web.token.NAME]", "web.token.x"),
        ("### [web.proxy]", "web.proxy"),
        ("## [environment.NAME]", "environment.x"),
        ("## [pool.NAME] and [pools]", "pool.x"),
    ],
)
def test_a_key_that_is_not_documented_is_refused_with_those_that_are(tmp_path: Path, heading: str, table: str) -> None:
    file = tmp_path / "dataflow.toml"
    file.write_text(f"[{table}]\nqzqzqzqz = 1\n")
    with pytest.raises(errors.BadConfig) as problem:
        load(file)
    assert set(problem.value.hint.removeprefix("Known here: ").rstrip(".").split(", ")) == keys_under(heading)


def test_every_function_that_an_expression_may_call_is_documented_and_no_other() -> None:
    _, _, rest = REFERENCE["dataflow-toml"].partition("| | functions |")
    rows = re.findall(r"^\| [A-Za-z, ]+ \| (.*) \|$", re.split(r"\n\n", rest)[0], re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == FUNCTIONS


def test_every_type_of_dataid_and_every_part_of_a_copy_is_documented() -> None:
    for name in [*TYPES, *jobs.COPY]:
        assert re.search(rf"\b{name}\b", REFERENCE["dataflow-toml"]), name


def test_every_table_and_column_of_the_store_is_documented(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/store.db", create=True)
    _, rows = store.sql(
        "select m.name, p.name from sqlite_master m, pragma_table_info(m.name) p"
        " where m.type in ('table', 'view') and m.name not like 'sqlite%'"
    )
    store.close()
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^#|\Z)", REFERENCE["tables"], re.MULTILINE | re.DOTALL))
    documented = {
        (table, column)
        for table, text in sections.items()
        for cell in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
        for column in re.findall(r"`(\w+)`", cell)
    }
    assert documented == {(table, column) for table, column in rows}


def test_every_address_of_the_api_is_documented_and_no_other() -> None:
    from opendataflow.web.api.description import PREFIX, description

    page = REFERENCE["console-api"]
    known = {path.removeprefix(PREFIX) for path in description()["paths"]}
    tables = "".join(page.partition(heading)[2].partition("\n## ")[0] for heading in ("\n## Facts\n", "\n## Verbs\n"))
    first = re.findall(r"^\| (`.*?) \|", tables, re.MULTILINE)
    assert {path for cell in first for path in re.findall(r"`(/[^`]*)`", cell)} == known
    roles = {
        path: operations["post"]["x-role"]
        for path, operations in description()["paths"].items()
        if "post" in operations
    }
    for cell, role in re.findall(r"^\| (`/verbs.*?) \| (\w+) \|", page, re.MULTILINE):
        assert {roles[PREFIX + path] for path in re.findall(r"`(/[^`]*)`", cell)} == {role}


def test_every_page_has_its_place_in_the_contents() -> None:
    contents = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix("").as_posix()
        is_listed = f"\n{name}\n" in contents or f"<{name}>\n" in contents
        assert is_listed or name in ("index", "decisions/000-template"), f"{name} is not in docs/index.md"
