"""The usual RunJob is read without click, and click would have read the same."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from opendataflow.cli.plain import FLAGS, VALUES, parse
from opendataflow.cli.run import run_verb

LINES = [
    "./load.sh",
    "--store sqlite:///a.db ./load.sh",
    "--store a --store b --env dev --dataid 7 --json --debug --quiet --force --dry-run --fail-if-none load",
    "--item a --item b --master local ./load.sh one two",
    "./load.sh -- --dry-run x",
    "./load.sh -x --own=1 -- y",
    "load",
]
FOR_CLICK = [
    "",
    "--help",
    "--dataid",
    "--dataid=7 ./load.sh",
    "--dataid -7 ./load.sh",
    "-h ./load.sh",
    "--colour ./load.sh",
    "./load.sh --dry-run",
    "./load.sh one -- --dry-run x",
    "./load.sh --help",
    "./load.sh --dataid=7",
    "load --dry-run",
    "load -- x",
    "load 'cp a b'",
    "-- load",
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "load.sh").write_text("")
    monkeypatch.chdir(tmp_path)


def test_it_knows_every_option_of_odf_run():
    options = [option for option in run_verb.params if isinstance(option, click.Option)]
    assert {name: option.name for option in options if option.is_flag for name in option.opts} == FLAGS
    assert {name: option.name for option in options if not option.is_flag for name in option.opts} == VALUES


@pytest.mark.parametrize("line", LINES)
def test_it_reads_what_click_reads(line):
    by_click = run_verb.make_context("run", line.split()).params
    assert by_click.pop("command") == ()
    assert parse(line.split()) == by_click


@pytest.mark.parametrize("line", FOR_CLICK)
def test_it_leaves_what_is_in_doubt_to_click(line):
    assert parse(line.split()) is None
