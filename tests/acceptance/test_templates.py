"""What odf init gives: projects that apply, and whose next commands work as they are printed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from opendataflow.cli.setup import NEXT, TEMPLATES
from tests.support.pages import Step, play
from tests.support.shell import Shell

NEEDS_SPARK = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not (shutil.which("java") or os.environ.get("JAVA_HOME")), reason="needs Java"),
]


def printed_next(home: Shell, template: str) -> list[str]:
    """Make the project in folder shop, and read off what to type next."""
    _, _, after = home.odf("init", "--template", template, "shop").out.partition("\nnext:\n")
    return [line.strip() for line in after.splitlines()]


@pytest.mark.parametrize("template", NEXT)
def test_every_template_applies_and_says_what_to_type_next(home: Shell, template: str) -> None:
    assert printed_next(home, template) == ["cd shop", *NEXT[template]]
    shop = Shell(home.folder / "shop")
    assert "PROJECT_NAME" not in (shop.folder / "dataflow.toml").read_text(encoding="utf-8")
    assert shop.odf("apply", "--yes", "--json").data["changes"]
    assert shop.odf("apply", "--dry-run", "--json").data == {"changes": [], "applied": False}


def test_scripts_are_the_default_and_another_template_is_named(home: Shell) -> None:
    assert "jobs/greet.sh" in home.odf("init", "--dry-run").out
    assert "scripts" in home.odf("init", "--template", "sparks", code=2).err
    assert not list(home.folder.iterdir())


@pytest.mark.parametrize("template", ["scripts", pytest.param("spark", marks=NEEDS_SPARK)])
def test_what_it_says_next_works(home: Shell, tmp_path: Path, template: str) -> None:
    *commands, last = printed_next(home, template)
    published = {"scripts": "greetings  ● READY …", "spark": "sales  ● READY  ● READY"}
    play([*map(Step, commands), Step(last, 0, (published[template],))], tmp_path)


def test_the_templates_hold_nothing_that_somebody_left_there() -> None:
    made = {"dataflow.db", ".odf", "spark-warehouse", "lake"}
    assert not [path for path in TEMPLATES.rglob("*") if path.name in made]
