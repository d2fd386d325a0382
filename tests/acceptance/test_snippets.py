"""Every page is played in an empty folder, with the real odf and RunJob: docs/about-these-pages.md says how."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.support.pages import Step, play, steps

__all__ = ["play", "steps"]

ROOT = Path(__file__).parents[2]
NEED_SPARK = ("README.md", "tutorial/your-spark-pipeline.md")
BY_OTHERS = (
    "tutorial/five-minutes.md",
    "tutorial/your-migration.md",
)  # the demo and the example have tests of their own

_is_played = re.compile(r"^```(?:console|bash)$", re.MULTILINE).search


def test_every_part_of_a_page_is_understood() -> None:
    page = (
        "```toml\n# dataflow.toml\n[project]\n```\n"
        "```console\n$ odf status\na  b\n$ odf run x  # exit 1\n```\n"
        "```bash\ncat > x <<'END'\none\nEND\necho a \\\n  b\n```\n"
        "```sh\napt-get install x\n```\n"
    )
    assert list(steps(page)) == [
        Step("mkdir -p . && cat > dataflow.toml <<'END_OF_FILE'\n# dataflow.toml\n[project]\nEND_OF_FILE"),
        Step("odf status", 0, ("a  b",)),
        Step("odf run x  # exit 1", 1),
        Step("cat > x <<'END'\none\nEND"),
        Step("echo a \\\n  b"),
    ]


def test_a_page_that_promises_what_does_not_happen_fails(tmp_path: Path) -> None:
    play([Step("echo one   two", 0, ("one  two", "one …"))], tmp_path)
    for wrong in (Step("false"), Step("true", 1), Step("echo one", 0, ("two",))):
        with pytest.raises(AssertionError):
            play([wrong], tmp_path)


def _pages() -> list[object]:
    found: list[object] = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        name = path.relative_to(ROOT).as_posix()
        if name.endswith(BY_OTHERS) or not _is_played(path.read_text(encoding="utf-8")):
            continue
        marks: list[pytest.MarkDecorator] = []
        if name.endswith(NEED_SPARK):
            marks = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]
            if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
                marks.append(pytest.mark.skip(reason="needs Java"))
        found.append(pytest.param(path, id=name, marks=marks))
    return found


@pytest.mark.parametrize("path", _pages())
def test_what_the_page_says_happens(path: Path, tmp_path: Path) -> None:
    play(list(steps(path.read_text(encoding="utf-8"))), tmp_path)
