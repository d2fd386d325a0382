"""The examples as a person follows them: a copy of each folder, and every command of its README."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.acceptance.test_templates import NEEDS_SPARK
from tests.support.pages import play, steps

EXAMPLES = Path(__file__).parents[2] / "examples"
BY_OTHERS = ("migration", "spark-pipeline")  # tests/spark/test_migration.py and tests/acceptance/test_demo.py
ON_SPARK = ("quality-gates",)
NAMES = [
    pytest.param(path.name, marks=NEEDS_SPARK if path.name in ON_SPARK else [])
    for path in sorted(EXAMPLES.iterdir())
    if path.name not in BY_OTHERS
]


@pytest.mark.parametrize("name", NAMES)
def test_the_example_goes_as_its_readme_says(name: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(EXAMPLES / name, tmp_path / name))
    wanted = list(steps((folder / "README.md").read_text(encoding="utf-8")))
    assert wanted
    play(wanted, folder)
