"""Code rules: names that all chunks of a Spark application share, found by reading the code of a job."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import BadJob

_GLOBAL_VIEWS = ("createGlobalTempView", "createOrReplaceGlobalTempView")
_TABLES = ("saveAsTable", "insertInto", "writeTo", "createTable")
_global_view = re.compile(r"\bcreate\s+(or\s+replace\s+)?global\s+temp", re.IGNORECASE).search
_name_of_view = re.compile(r"\bview\s+(?:if\s+not\s+exists\s+)?([\w.`]+)", re.IGNORECASE).search
_in_catalogue = re.compile(
    r"(?<!\bshow\s)\b(?:(?:create|replace)\s+(?:external\s+)?(table|view|function)\s+(?:if\s+not\s+exists\s+)?"
    r"|insert\s+(?:into\s+|overwrite\s+(?!(?:local\s+)?directory\b))(?:table\s+)?|merge\s+into\s+)([\w.`{}]+)",
    re.IGNORECASE,
).search
_comment_or_literal = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'", re.DOTALL)
WAY_OUT = (
    "Use a temporary view or function, or a name with the dataid in it. "
    "Or let the chunks of this job run one at a time, in dataflow.toml: concurrency = 1"
)
_UNKNOWN = "{}"  # what is filled into a text when the code runs

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _File(NamedTuple):
    path: Path
    tree: ast.Module


def check_shared_names(path: Path, text: str, folders: Sequence[Path], others: Iterable[str] = ()) -> None:
    """Refuse names that all chunks share (global views, tables of the catalogue); functions in others are not looked at."""
    skipped = set(others)
    for file in _files(path, text, folders):
        constants = _constants(file.tree)
        for node in _nodes_without(file.tree, skipped if file.path == path else set()):
            if isinstance(node, ast.Call) and (shared := _shared_name(node, constants)):
                what = f"the job {shared}, which chunks that run beside it share"
                raise BadJob(f"{file.path}: line {node.lineno}: {what}", hint=WAY_OUT)


def shared_name(method: str, text: str) -> str:
    """The global view, or what of the catalogue, this method writes when it gets this text; empty for others."""
    sql = _comment_or_literal.sub(" ", text) if method == "sql" else ""
    if method in _GLOBAL_VIEWS:
        return f"the global temporary view {_bare(text)}"
    if _global_view(sql):
        match = _name_of_view(sql)
        return f"the global temporary view {_bare(match[1]) if match else ''}"
    if method in _TABLES:
        return f"the table {_bare(text)}"
    written = _in_catalogue(sql)
    return f"the {(written[1] or 'table').lower()} {_bare(written[2])}" if written else ""


def _bare(name: str) -> str:
    """One name for each view and table: a session begins in spark_catalog.default."""
    bare = name.strip().replace("`", "").lower().removeprefix("global_temp.")
    return bare.removeprefix("spark_catalog.").removeprefix("default.")


def files_of(path: Path, text: str, folders: Sequence[Path]) -> list[Path]:
    """The file of a job, and those of the modules of the project that it imports."""
    return [file.path for file in _files(path, text, folders)]


def is_own(file: Path, folders: Sequence[Path]) -> bool:
    """Whether a module is of the project, and not installed in an environment that lies inside it."""
    return "site-packages" not in file.parts and any(folder in file.parents for folder in folders)


def _files(path: Path, text: str, folders: Sequence[Path]) -> list[_File]:
    """The file of a job, and the modules of the project that it imports, at any distance."""
    found: dict[Path, _File] = {}
    waiting = [(path, text)]
    while waiting:
        path, text = waiting.pop()
        if path in found:
            continue
        try:
            found[path] = _File(path, ast.parse(text))
        except (SyntaxError, ValueError):
            continue
        for name, level in _imported(found[path].tree):
            within = [path.parents[level - 1]] if level else folders
            waiting += [(module, module.read_text("utf-8", "replace")) for module in _modules(name, within)]
    return list(found.values())


def _modules(name: str, folders: Sequence[Path]) -> Iterator[Path]:
    """The files of the project that a dotted name stands for: each package on the way, and the module."""
    parts = name.split(".")
    for folder in folders:
        for end in range(1, len(parts) + 1):
            stem = folder.joinpath(*parts[:end])
            yield from (each for each in (stem.with_suffix(".py"), stem / "__init__.py") if each.is_file())


def _imported(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The names that a module imports, each with its number of leading dots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            before = f"{node.module}." if node.module else ""
            yield from ((f"{before}{alias.name}", node.level) for alias in node.names)


def _nodes_without(node: ast.AST, skipped: set[str]) -> Iterator[ast.AST]:
    if isinstance(node, _Function) and node.name in skipped:
        return
    yield node
    for part in ast.iter_child_nodes(node):
        yield from _nodes_without(part, skipped)


def _shared_name(call: ast.Call, constants: Mapping[str, str]) -> str:
    """What a call makes under a name that all sessions of the application see; empty when it makes nothing of that kind."""
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    first = call.args[0] if call.args else next((each.value for each in call.keywords), None)
    text = _text(first, constants)
    shared = shared_name(method, text)
    if shared.startswith("the global"):
        return "makes a global temporary view"
    return f"writes {shared}" if shared and _UNKNOWN not in shared else ""


def _constants(tree: ast.Module) -> dict[str, str]:
    """The texts that a module gives a name to, once."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
    return {name: _text(values[0], {}) for name, values in found.items() if len(values) == 1}


def _text(node: ast.AST | None, constants: Mapping[str, str]) -> str:
    """What is known of a text, also of an f-string or a sum, without running the code."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, constants) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _text(node.value, constants)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left, constants) + _text(node.right, constants)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return constants.get(node.id, _UNKNOWN) if isinstance(node, ast.Name) else _UNKNOWN
