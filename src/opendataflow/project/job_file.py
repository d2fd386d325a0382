"""Parses the jobs that the functions of a Python file declare, without importing the file.

A job is a function with the decorator `job` of this package, under any name by which the file imports it. Only an import
shows declarations that are not literals, and jobs that are made by calls of `job` other than decorators.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import BadConfig, OdfError
from ..model import Job

_PACKAGE = __package__.partition(".")[0]
_MODULES = (_PACKAGE, f"{_PACKAGE}.api")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class JobFunction:
    """A function with the decorator; if `declares` is set and `job` is None, only an import shows what it declares."""

    name: str
    jobid: str
    declares: bool = False  # whether the decorator has reads or writes
    job: Job | None = None


@dataclass(frozen=True, slots=True)
class JobFile:
    """A parsed Python file: its text, the digest of the text, and its jobs."""

    path: Path
    text: str = ""
    digest: str = ""
    functions: tuple[JobFunction, ...] = ()
    others: frozenset[str] = frozenset()  # the names of its functions without the decorator
    is_open: bool = False  # it may have jobs whose names only an import shows
    problem: BadConfig | None = None  # why it cannot be parsed; its jobs are then unknown
    is_script: bool = False  # its first line names its interpreter

    @property
    def has_jobs(self) -> bool:
        """Whether it may have jobs."""
        return bool(self.functions) or self.is_open

    @property
    def declares(self) -> bool:
        """Whether its decorators may have reads or writes."""
        return self.is_open or any(each.declares for each in self.functions)

    def function(self, jobid: str) -> JobFunction | None:
        """The function that has the decorator and the name of this job."""
        return next((each for each in self.functions if each.jobid == jobid), None)

    def may_have(self, jobid: str) -> bool:
        """Whether one of its jobs has, or may have, this name."""
        return self.is_open or self.function(jobid) is not None

    def declared(self, jobid: str) -> JobFunction | None:
        """The function that is the code of this job: by name, otherwise the only one; None if only an import shows it."""
        found = self.function(jobid)
        if found is None and jobid in self.others:
            return JobFunction(jobid, jobid)
        if found is None and len(self.functions) == 1 and not self.is_open and jobid.isidentifier():
            return self.functions[0]
        return found


def job_file(path: Path) -> JobFile:
    """The parsed file, cached until it changes."""
    try:
        facts = path.stat()
    except OSError as problem:
        return JobFile(path, problem=BadConfig(f"{path}: cannot be read: {problem.strerror}"))
    return _read(path, facts.st_mtime_ns, facts.st_size)


def job_files(folders: Iterable[Path]) -> Iterator[JobFile]:
    """The files in these folders that may have jobs, also those that cannot be parsed."""
    for folder in dict.fromkeys(folders):
        for path in sorted(folder.glob("*.py")) if folder.is_dir() else ():
            file = job_file(path)
            if file.has_jobs or (file.problem is not None and not file.is_script):
                yield file


@lru_cache(maxsize=1024)
def _read(path: Path, mtime_ns: int, size: int) -> JobFile:
    try:
        content = path.read_bytes()
    except OSError as problem:
        return JobFile(path, problem=BadConfig(f"{path}: cannot be read: {problem.strerror}"))
    if _PACKAGE.encode() not in content:  # it cannot import the decorator: skip the parser
        return JobFile(path)
    from hashlib import sha256  # lazy: takes milliseconds

    facts = JobFile(path, digest=sha256(content).hexdigest(), is_script=content.startswith(b"#!"))
    try:
        facts = replace(facts, text=content.decode("utf-8-sig"))
        with warnings.catch_warnings(action="ignore"):  # Python warns again at import
            tree = ast.parse(facts.text)
    except UnicodeDecodeError:
        return replace(facts, problem=BadConfig(f"{path}: this is not UTF-8", hint="Save the file as UTF-8."))
    except SyntaxError as problem:
        hint = (problem.text or "").strip()
        return replace(facts, problem=BadConfig(f"{path}: line {problem.lineno}: {problem.msg}", hint=hint))
    except ValueError as problem:  # a NUL character
        return replace(facts, problem=BadConfig(f"{path}: {problem}"))
    functions, others, is_open = _Reader(tree).found()
    return replace(facts, functions=functions, others=others, is_open=is_open)


class _Reader:
    """Finds the decorator in a parsed file, by the names under which the file imports it."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree, self._statements = tree, list(_on_top(tree.body))
        self._names: set[str] = set()  # of the decorator
        self._packages: set[str] = set()  # of the modules that have it
        self._used: set[int] = set()  # the nodes that are decorators, or give the decorator another name
        for statement in self._statements:
            self._bind(statement)

    def found(self) -> tuple[tuple[JobFunction, ...], frozenset[str], bool]:
        """The jobs, the names of the other functions, and whether there may be more jobs."""
        if not (self._names or self._packages):
            return (), frozenset(), False
        functions: dict[str, JobFunction] = {}
        others, is_open = set(), False
        for statement in self._statements:
            if isinstance(statement, _FUNCTIONS):
                functions.pop(statement.name, None)  # the last one of a name counts
                decorator = next((each for each in statement.decorator_list if self._is_job(_called(each))), None)
                if decorator is None:
                    others.add(statement.name)
                    continue
                self._used.add(id(_called(decorator)))
                function = _function(statement.name, decorator)
                is_open |= function is None
                if function is not None:
                    functions[statement.name] = function
        is_open |= any(self._is_job(node) and id(node) not in self._used for node in ast.walk(self._tree))
        return tuple(functions.values()), frozenset(others), is_open

    def _bind(self, statement: Any) -> None:
        if isinstance(statement, ast.ImportFrom) and not statement.level and statement.module in _MODULES:
            for alias in statement.names:
                if alias.name in ("job", "*"):
                    self._names.add(alias.asname or "job")
                elif alias.name == "api":
                    self._packages.add(alias.asname or "api")
        elif isinstance(statement, ast.Import):
            self._packages |= {alias.asname or _PACKAGE for alias in statement.names if alias.name in _MODULES}
        elif isinstance(statement, ast.Assign) and self._is_job(statement.value):
            self._used.add(id(statement.value))
            self._names |= {target.id for target in statement.targets if isinstance(target, ast.Name)}

    def _is_job(self, node: Any) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr == "job" and self._is_package(node.value)
        is_read = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        return is_read and node.id in self._names

    def _is_package(self, node: Any) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr == "api" and self._is_package(node.value)
        return isinstance(node, ast.Name) and node.id in self._packages


def _on_top(body: Iterable[Any]) -> Iterator[Any]:
    """The statements that run at import, except those inside functions and classes."""
    for statement in body:
        yield statement
        if not isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            for part in ("body", "orelse", "finalbody"):
                yield from _on_top(getattr(statement, part, ()))
            for handler in getattr(statement, "handlers", ()):
                yield from _on_top(handler.body)


def _function(name: str, decorator: Any) -> JobFunction | None:
    """A decorated function; None if only an import shows the name of its job."""
    if not isinstance(decorator, ast.Call):
        return JobFunction(name, name)
    words: dict[str, Any] = {}
    unknown = {""} if decorator.args else set()
    for keyword in decorator.keywords:
        try:
            words[keyword.arg or ""] = ast.literal_eval(keyword.value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            unknown.add(keyword.arg or "")
    if unknown & {"", "name"} or not isinstance(words.get("name") or name, str):
        return None
    jobid = words.get("name") or name
    declares = bool({*words, *unknown} & {"reads", "writes"})
    return JobFunction(name, jobid, declares, None if unknown else _declared(name, words))


def _called(decorator: Any) -> Any:
    """The decorator without its arguments."""
    return getattr(decorator, "func", decorator)


def _declared(name: str, words: dict[str, Any]) -> Job | None:
    """The job that the decorator makes of these arguments; None if it refuses them, which an import reports."""
    from ..api import declared, job

    def function() -> None: ...

    function.__name__ = name
    try:
        return declared(job(**words)(function))
    except (OdfError, TypeError, ValueError, AttributeError):
        return None
