"""Every hint is in one style: CONTRIBUTING.md, under Style, says which."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from opendataflow.errors import install_command

PACKAGE = Path(__file__).parents[2] / "src/opendataflow"

# A placeholder is written as {…}. What is to be typed comes last, after a colon, and has no full stop.
BEGINS = re.compile(r"[A-Z0-9\"'`{]")
ENDS = re.compile(r"[.?]$|:\s+\S(.*[^.?])?$", re.DOTALL)


def texts(node: ast.expr) -> Iterator[str]:
    """The texts that an expression may be, with {…} for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{…}" for part in node.values)
    elif isinstance(node, ast.IfExp):
        yield from texts(node.body)
        yield from texts(node.orelse)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = (list(texts(side)) or ["{…}"] for side in (node.left, node.right))
        yield from (begin + end for begin in left for end in right)


def hint_of(node: ast.AST) -> ast.expr | None:
    """The hint that a node gives: hint=…, hint = …, or the third argument of Section.wrong."""
    if isinstance(node, ast.keyword) and node.arg == "hint":
        return node.value
    if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["hint"]:
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "wrong":
        return node.args[2] if len(node.args) > 2 else None
    return None


def hints() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (hint := hint_of(node)) is not None:
                where = f"{path.relative_to(PACKAGE)}:{hint.lineno}"
                yield from ((where, text) for text in texts(hint) if text)


def in_style(hint: str) -> bool:
    return bool(BEGINS.match(hint) and ENDS.search(hint))


def test_every_hint_is_a_sentence_or_ends_with_what_to_type() -> None:
    assert [f"{where}: {hint}" for where, hint in hints() if not in_style(hint)] == []


@pytest.mark.parametrize(
    "hint",
    [
        "Check its permissions.",
        "Is the server up?",
        "Run: odf migrate",
        "{…} needs the same type.",
        "See: odf explain {…} {…}",
        "`odf crypt` encrypts it.",
        "Was its memory enough? Then run: odf drain",
    ],
)
def test_hints_in_the_style_of_the_house(hint: str) -> None:
    assert in_style(hint)


@pytest.mark.parametrize(
    "hint", ["check its permissions", "odf apply", "Check its permissions", "see: odf runs", "See:"]
)
def test_hints_in_another_style(hint: str) -> None:
    assert not in_style(hint)


@pytest.mark.parametrize("extra", ["postgres", "spark", "connect", "remote", "demo"])
def test_what_an_extra_needs_can_be_installed_as_printed(extra: str) -> None:
    """By the packages' own names: this package need not be published anywhere."""
    command = install_command(extra)
    assert command.startswith("pip install '")
    assert "opendataflow" not in command
    wanted = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert all(f"'{each}'" in command for each in wanted[extra] if not each.startswith("opendataflow["))


def test_nobody_is_told_to_install_what_is_not_published() -> None:
    root = PACKAGE.parents[1]
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("examples/**/*.md"), *PACKAGE.rglob("*.*")]
    texts = {path: path.read_text(encoding="utf-8") for path in pages if path.suffix in {".md", ".py", ".toml"}}
    assert [str(path) for path, text in texts.items() if re.search(r"pip install '?opendataflow", text)] == []
