"""Every verb, exit code and variable is documented, and every documented verb exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from opendataflow import errors
from opendataflow.cli.door import ALIASES, VERBS, odf
from opendataflow.run.context import FIELDS
from opendataflow.secrets import KEY_VARIABLES

PAGE = (Path(__file__).parents[2] / "docs/reference/command-line.md").read_text(encoding="utf-8")
COMMANDS = {name: odf.get_command(odf.make_context("odf", ["--help"], resilient_parsing=True), name) for name in VERBS}


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_is_documented_and_its_help_has_an_example(name: str) -> None:
    assert f"`odf {name}" in PAGE
    command = COMMANDS[name]
    assert command is not None
    assert f"odf {name}" in (command.help or "") or "RunJob" in (command.help or "")


def test_every_documented_verb_exists() -> None:
    for name in re.findall(r"`odf (\w+)", PAGE):
        assert name in VERBS or name == "VERB"


@pytest.mark.parametrize("name", ALIASES)
def test_every_alias_is_documented(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_every_error_is_documented_with_its_exit_code() -> None:
    table = dict(re.findall(r"^\| (\d+) \| (.*) \|$", PAGE, re.MULTILINE))
    for error in vars(errors).values():
        if isinstance(error, type) and issubclass(error, errors.OdfError) and error.name != "ERROR":
            assert error.name in table[str(error.exit_code)], error.name


@pytest.mark.parametrize("name", [*FIELDS, "password", "location", "dataid", "itemtype", "datasetid"])
def test_every_variable_of_a_script_is_documented(name: str) -> None:
    assert f"_{name}`" in PAGE


@pytest.mark.parametrize("name", [*KEY_VARIABLES, "ODF_STORE", "ODF_ENV", "ODF_RUN", "ODF_ATTEMPT", "ODF_SECRETS"])
def test_every_variable_that_odf_reads_or_sets_is_documented(name: str) -> None:
    assert f"`{name}`" in PAGE
