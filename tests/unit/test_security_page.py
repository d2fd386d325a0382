"""The threat model is a promise: every row of its table names a test that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
WHO = ("row writer", "file dropper", "local user", "network neighbour", "job author", "reader of a stolen store")


def rows() -> list[list[str]]:
    table = PAGE.partition("| who | can | cannot | shown by |")[2].partition("\n\n")[0]
    lines = [line for line in table.splitlines()[2:] if line.startswith("|")]
    return [[cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")] for line in lines]


def functions(file: Path) -> set[str]:
    return {
        node.name for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef)
    }


def test_every_row_names_tests_that_exist() -> None:
    assert len(rows()) >= 16
    for who, can, cannot, shown in rows():
        assert who in WHO, who
        assert can or cannot
        tests = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", shown)
        assert tests, f"no test shows: {who} cannot {cannot}"
        for file, name in tests:
            assert (ROOT / file).is_file(), file
            assert name in functions(ROOT / file), f"{file} has no {name}"


def test_everybody_of_the_threat_model_is_there() -> None:
    assert {row[0] for row in rows()} == set(WHO)
