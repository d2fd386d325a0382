"""The shape of the house: rooms, and the size of what is in them."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/opendataflow"
LINES = 400
PARAMETERS = 8

MODULES = {
    path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))
}
TREES = {name: ast.parse(text) for name, text in MODULES.items()}


def layers() -> list[str]:
    with open(ROOT / "pyproject.toml", "rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return next(contract["layers"] for contract in contracts if contract["type"] == "layers")


def rooms() -> dict[str, bool]:
    """The rooms that exist, and whether each is a package."""
    modules = {path.stem: False for path in PACKAGE.glob("*.py") if path.stem != "__init__"}
    return modules | {path.parent.name: True for path in PACKAGE.glob("*/__init__.py")}


def test_the_layer_rules_name_every_room_that_exists_and_no_other() -> None:
    assert sorted(layers()) == sorted(rooms())


def test_the_table_of_rooms_has_the_order_of_the_layers_and_marks_packages_with_a_slash() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    _, _, section = page.partition("\n## Rooms\n")
    table = re.findall(r"^\| `(\w+/?)` \| \S.* \|$", section.partition("\n## ")[0], re.MULTILINE)
    kinds = rooms()
    assert table == [name + "/" * kinds[name] for name in layers()]


def test_no_module_is_too_long() -> None:
    lengths = {name: text.count("\n") for name, text in MODULES.items()}
    assert {name: length for name, length in lengths.items() if length > LINES} == {}


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    return [argument.arg for argument in named if argument.arg not in ("self", "cls")]


def test_no_function_has_too_many_parameters() -> None:
    counts = {
        f"{name}:{function.lineno} {function.name}": len(parameters(function))
        for name, tree in TREES.items()
        for function in functions(tree)
    }
    assert {function: count for function, count in counts.items() if count > PARAMETERS} == {}


def test_no_class_name_is_defined_twice() -> None:
    homes: dict[str, list[str]] = {}
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not is_private(node.name):
                homes.setdefault(node.name, []).append(name)
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_uses(tree: ast.AST) -> Iterator[str]:
    """Private names that a module takes from another module of ours, by import or by attribute."""
    ours: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "opendataflow"):
            ours |= {alias.asname or alias.name for alias in node.names if alias.name.islower()}
            yield from (alias.name for alias in node.names if is_private(alias.name))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and getattr(node.value, "id", "") in ours:
            yield ast.unparse(node)


def test_no_module_uses_a_private_name_of_another() -> None:
    assert [f"{name}: {used}" for name, tree in TREES.items() for used in private_uses(tree)] == []


def test_unit_tests_neither_sleep_nor_wait_for_a_timer() -> None:
    slow = re.compile(r"\btime\.sleep\(|\bTimer\(|\[\"sleep\"")
    unit = ROOT / "tests/unit"
    names = [path.relative_to(unit).as_posix() for path in sorted(unit.rglob("*.py")) if path != Path(__file__)]
    assert [name for name in names if slow.search((unit / name).read_text(encoding="utf-8"))] == []


CHANGES = {"append", "extend", "add", "update", "setdefault", "pop", "insert", "remove", "discard", "clear"}


def root(node: ast.expr) -> str:
    """The name of what an expression is a part of."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def changed_outside(function: ast.FunctionDef | ast.Lambda) -> Iterator[str]:
    """What a function changes that it did not make itself."""
    own = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own |= {argument.arg for argument in function.args.args} | {""}
    for node in ast.walk(function):
        match node:
            case ast.Nonlocal():
                yield ast.unparse(node)
            case ast.Call(func=ast.Attribute(value=part, attr=verb)) if verb in CHANGES and root(part) not in own:
                yield ast.unparse(node)
            case ast.Subscript(ctx=ast.Store()) if root(node) not in own:
                yield ast.unparse(node)


def test_the_work_of_a_transaction_changes_nothing_outside_of_it() -> None:
    """It may be run again, when its connection was lost: what it collected the first time must be forgotten."""
    works = [
        (name, node)
        for name, tree in TREES.items()
        if name.startswith("store/")
        for outer in functions(tree)
        for node in ast.walk(outer)
        if isinstance(node, ast.FunctionDef | ast.Lambda) and node is not outer
        if "tx" in {argument.arg for argument in node.args.args}
    ]
    assert len(works) > 50
    assert {name: found for name, node in works if (found := list(changed_outside(node)))} == {}
