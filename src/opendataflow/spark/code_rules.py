"""Code rules: what the code of a job must not do, because its chunks run side by side in one Spark application."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..errors import BadJob
from ..shapes import NamedTuple

TAKE_SPARK = "Each chunk has a session of its own: take `spark` as a parameter of the function, and hand it on."

_CONTEXTS = ("SparkContext", "SQLContext", "HiveContext", "StreamingContext")
_THREADS = ("threading", "concurrent", "multiprocessing", "asyncio", "joblib")
_CACHES = ("cache", "lru_cache", "cached", "cached_property")
_GLOBAL_VIEWS = ("createGlobalTempView", "createOrReplaceGlobalTempView")
_TABLES = ("saveAsTable", "insertInto", "writeTo")
_global_view = re.compile(r"\bcreate\s+(or\s+replace\s+)?global\s+temp", re.IGNORECASE).search
_table = re.compile(
    r"^\s*(?:create\s+(?:or\s+replace\s+)?table\s+(?:if\s+not\s+exists\s+)?|insert\s+(?:into|overwrite)\s+(?:table\s+)?)"
    r"([\w.`]+)",
    re.IGNORECASE,
).match

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _File(NamedTuple):
    path: Path
    tree: ast.Module


def check_sessions(path: Path, text: str, folders: Sequence[Path]) -> frozenset[Path]:
    """Refuse code that would share a session between chunks; it is read, not run. The files that were looked at."""
    files = _files(path, text, folders)
    getters = _getters(files)
    for file in files:
        for call in _calls(_on_import(file.tree)):
            if _asks(call, getters):
                raise _refused(file, call, "asks for a Spark session when it is imported", TAKE_SPARK)
        has_threads = any(name.partition(".")[0] in _THREADS for name in _imported(file.tree))
        for function in _functions(file.tree):
            asked = next((call for call in _calls(ast.walk(function)) if _asks(call, getters)), None)
            if asked is None:
                continue
            if any(_chain(decorator)[-1:] in ([word] for word in _CACHES) for decorator in function.decorator_list):
                raise _refused(file, asked, f"keeps the Spark session of one chunk for the next ({function.name})")
            if has_threads:
                raise _refused(file, asked, "uses threads, and a thread finds the session of no chunk")
    return frozenset((path, *(file.path for file in files)))


def check_shared_names(path: Path, text: str, folders: Sequence[Path], others: Iterable[str] = ()) -> None:
    """Refuse names that all chunks share (global views, tables without a schema); functions in others are not looked at."""
    skipped = set(others)
    for file in _files(path, text, folders):
        for call in _calls(_nodes_without(file.tree, skipped if file.path == path else set())):
            shared = _shared_name(call)
            if shared:
                hint = (
                    "Use a temporary view or a name with the dataid in it. "
                    "Or let the chunks of this job run one at a time, in dataflow.toml: concurrency = 1"
                )
                raise _refused(file, call, f"{shared}, which chunks that run beside it share", hint)


def check_kept_sessions(files: frozenset[Path]) -> None:
    """Refuse modules that hold a session after they were imported or used: it is that of one chunk."""
    names = {str(file) for file in files}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file not in names:
            continue
        for name, value in list(vars(module).items()):
            for each in (value, *_held_by(value, module.__name__)):
                if type(each).__name__ == "SparkSession" and type(each).__module__.startswith("pyspark."):
                    raise BadJob(f"{file}: {name} keeps a Spark session from one chunk to the next", hint=TAKE_SPARK)


def _held_by(value: object, module: str) -> list[object]:
    """What a container, or a class of this module, holds."""
    if isinstance(value, type):
        return list(vars(value).values()) if value.__module__ == module else []
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, (list, tuple, set)) else []


def is_own(file: Path, folders: Sequence[Path]) -> bool:
    """Whether a module is of the project, and not installed in an environment that lies inside it."""
    return "site-packages" not in file.parts and any(folder in file.parents for folder in folders)


def _refused(file: _File, node: ast.AST, what: str, hint: str = TAKE_SPARK) -> BadJob:
    return BadJob(f"{file.path}: line {getattr(node, 'lineno', '?')}: the job {what}", hint=hint)


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
        for name in _imported(found[path].tree):
            waiting += [(module, module.read_text("utf-8", "replace")) for module in _modules(name, folders)]
    return list(found.values())


def _modules(name: str, folders: Sequence[Path]) -> Iterator[Path]:
    """The files of the project that a dotted name stands for: each package on the way, and the module."""
    parts = name.split(".")
    for folder in folders:
        for end in range(1, len(parts) + 1):
            stem = folder.joinpath(*parts[:end])
            yield from (each for each in (stem.with_suffix(".py"), stem / "__init__.py") if each.is_file())


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _on_import(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when the module is imported: everything but the bodies of functions and of `if __name__ == …`."""
    yield node
    if isinstance(node, ast.If) and any(name in ast.unparse(node.test) for name in ("__name__", "TYPE_CHECKING")):
        parts: list[ast.AST] = list(node.orelse)
    elif isinstance(node, _Function):
        parts = [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
    elif isinstance(node, ast.Lambda):
        parts = []
    else:
        parts = list(ast.iter_child_nodes(node))
    for part in parts:
        yield from _on_import(part)


def _nodes_without(node: ast.AST, skipped: set[str]) -> Iterator[ast.AST]:
    if isinstance(node, _Function) and node.name in skipped:
        return
    yield node
    for part in ast.iter_child_nodes(node):
        yield from _nodes_without(part, skipped)


def _functions(tree: ast.Module) -> Iterator[_Function]:
    return (node for node in ast.walk(tree) if isinstance(node, _Function))


def _calls(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    return (node for node in nodes if isinstance(node, ast.Call))


def _getters(files: Sequence[_File]) -> set[str]:
    """The functions of the project that ask for a session, themselves or by another one."""
    functions = [function for file in files for function in _functions(file.tree)]
    names: set[str] = set()
    while True:
        found = {each.name for each in functions if any(_asks(call, names) for call in _calls(ast.walk(each)))}
        if found <= names:
            return names
        names |= found


def _asks(call: ast.Call, getters: set[str]) -> bool:
    """Whether this asks Spark for the session, or for a context, of whichever thread runs it."""
    *before, last = _chain(call.func) or [""]
    if last in getters and (not before or len(before) == 1):
        return True
    if last in ("getOrCreate", "create"):
        return any(word == "builder" or word in _CONTEXTS for word in before)
    is_of_session = bool(before) and before[-1].endswith("SparkSession")
    return last in _CONTEXTS or last == "getActiveSession" or (last == "active" and is_of_session)


def _chain(node: ast.AST) -> list[str]:
    """The names of a.b(…).c in their order."""
    if isinstance(node, ast.Call):
        return _chain(node.func)
    if isinstance(node, ast.Attribute):
        return [*_chain(node.value), node.attr]
    return [node.id] if isinstance(node, ast.Name) else []


def _shared_name(call: ast.Call) -> str:
    """What a call makes under a name that all sessions of the application see; empty when it makes nothing of that kind."""
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    first = call.args[0] if call.args else next((each.value for each in call.keywords), None)
    text = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
    if method in _GLOBAL_VIEWS or (method == "sql" and _global_view(_literal_text(first))):
        return "makes a global temporary view"
    table = text if method in _TABLES else ""
    if method == "sql" and (match := _table(text)):
        table = match[1]
    return f"writes the table {table}" if table and "." not in table else ""


def _literal_text(node: ast.AST | None) -> str:
    """What is written out of a text, also of an f-string."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))
