"""The page of guarantees is a promise: every fault on it has a test that plays it, and the auditor asks what it says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from opendataflow.chaos.auditor import PROMISES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/guarantees.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def table(title: str) -> list[list[str]]:
    lines = [line for line in section(title).splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def played() -> set[int]:
    """The faults that tests are marked with: @pytest.mark.fault(3)."""
    found = set()
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.fault":
                found |= {ast.literal_eval(argument) for argument in node.args}
    return found


def test_every_fault_is_played_by_a_test_and_every_test_plays_one_of_them() -> None:
    assert played() == {int(row[0]) for row in table("Faults")}


def test_every_promise_names_faults_that_try_to_break_it() -> None:
    named = [{int(number) for number in row[2].split(",")} for row in table("Promises")]
    assert set().union(*named) == {int(row[0]) for row in table("Faults")}


def test_the_auditor_asks_what_the_page_says() -> None:
    assert tuple(re.findall(r"^- (.+)$", section("The auditor"), re.MULTILINE)) == PROMISES
