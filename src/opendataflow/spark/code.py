"""Code: the function or the SELECT that a job's file holds. Found by name; never in the store."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import re
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ..api import is_job, name_of
from ..errors import BadConfig, BadJob
from ..model import Job
from ..project import find
from ..project.config import refuse_foreign
from ..project.job_file import job_file
from .code_rules import check_shared_names, files_of, is_own
from .guards import IN_FUNCTION, JOB_MODULE, ON_IMPORT, check_threads, forget_threads, importing

# What a function may ask for besides its datasets.
EXTRAS = ("chunk", "spark", "extra")

_sql_token = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)*`|;|[^-/'\"`;]+|.", re.DOTALL
)
_lock = threading.RLock()


@dataclass(frozen=True)
class SqlJob:
    """One SELECT over views that are named after the inputs."""

    path: Path
    text: str


Code = Callable[..., Any] | SqlJob


def load_job(path: Path, jobid: str, job: Job | None = None, start: Callable[[], object] | None = None) -> Code:
    """The code of a job; BadConfig, naming the file, when it is not what it should be.

    start starts Spark, for code that makes columns, or functions whose type is a text, when it is imported.
    """
    if path.suffix == ".sql":
        return load_sql(path)
    if path.suffix != ".py":
        raise BadConfig(f"{path}: this is a script, not a job for Spark", hint="Spark runs .py and .sql files.")
    function = _find(_with_spark(path, start), path, jobid)
    if job is not None:
        check_arguments(function, [item.datasetid for item in job.inputs], str(path))
    return function


def argument_of(datasetid: str) -> str:
    """The name of the argument, or of the view, that stands for a dataset: what no name may hold becomes _."""
    name = re.sub(r"\W", "_", datasetid, flags=re.ASCII)
    return f"_{name}" if name[0].isdigit() else name


def check_arguments(function: Callable[..., Any], datasetids: list[str], where: str) -> None:
    """Refuse a function with a parameter that is not known."""
    known = [*map(argument_of, datasetids), *EXTRAS]
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD or parameter.default is not parameter.empty:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY) or parameter.name not in known:
            raise BadConfig(
                f"{where}: {name_of(function)} asks for {parameter.name!r}, which is none of its inputs",
                hint=f"Its arguments may be {', '.join(known)}.",
            )


def load_sql(path: Path) -> SqlJob:
    """The SELECT of a job."""
    text = _read(path)
    statement = without_comments(text).strip()
    while statement.endswith(";"):
        statement = statement[:-1].rstrip()
    if not statement:
        raise BadConfig(f"{path}: it holds no SELECT")
    if ";" in _without_texts(statement):
        raise BadConfig(f"{path}: it holds more than one statement", hint="A .sql job is one SELECT.")
    first = re.match(r"[(\s]*([A-Za-z]+)", statement)
    word = first[1].upper() if first else statement[:20]
    if word not in ("SELECT", "WITH", "VALUES", "FROM", "TABLE"):
        raise BadConfig(f"{path}: it begins with {word}", hint="A .sql job is one SELECT; its rows are published.")
    return SqlJob(path, statement)


def without_comments(text: str) -> str:
    """The same SQL without its comments."""
    tokens = (token[0] for token in _sql_token.finditer(text))
    # A hint (/*+ BROADCAST(x) */) is no comment.
    return "".join(" " if _is_comment(token) else token for token in tokens)


def _is_comment(token: str) -> bool:
    return token.startswith("--") or (token.startswith("/*") and not token.startswith("/*+"))


def _without_texts(text: str) -> str:
    return "".join(token[0] for token in _sql_token.finditer(text) if token[0][0] not in "'\"`")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise BadConfig(f"{path}: cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise BadConfig(f"{path}: this is not UTF-8", hint="Save the file as UTF-8.") from None


def jobs_in(path: Path, start: Callable[[], object] | None = None) -> dict[str, Callable[..., Any]]:
    """The @job functions of a file, by the names of their jobs; BadConfig when the file cannot be loaded."""
    return _jobs_of(_with_spark(path, start))


def _own(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """What a file itself defines, without what it imports."""
    return {
        name: thing
        for name, thing in vars(module).items()
        if callable(thing) and getattr(thing, "__module__", None) == module.__name__
    }


def _find(module: ModuleType, path: Path, jobid: str) -> Callable[..., Any]:
    own = _own(module)
    marked = _jobs_of(module)
    if jobid in marked:
        return marked[jobid]
    plain = own.get(jobid) or own.get(argument_of(jobid))
    if plain is not None and inspect.isfunction(plain):
        return plain
    if len(marked) == 1:
        return next(iter(marked.values()))
    if marked:
        raise BadConfig(f"{path}: no @job function is called {jobid}", hint=f"There are {', '.join(marked)}.")
    raise BadConfig(
        f"{path}: there is no @job function",
        hint=f"Write one: from opendataflow import job\n\n@job\ndef {argument_of(jobid)}(…):",
    )


def _module(path: Path) -> ModuleType:
    """The file as a module of its own name, so that no job shadows a real module, nor another job."""
    path = path.resolve()
    file = job_file(path)
    text = file.text or _read(path)
    digest = hashlib.sha256(f"{path}\n{file.digest or text}".encode()).hexdigest()[:16]
    name = f"{JOB_MODULE}{argument_of(path.stem)}_{digest}"
    with _lock:
        if name in sys.modules:
            return sys.modules[name]
        folders = _folders(path)
        _check_owners(path, text, folders)
        # Last: helpers beside the job and beside dataflow.toml are found, and shadow nothing.
        sys.path += [str(folder) for folder in folders if str(folder) not in sys.path]
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise BadConfig(f"{path}: cannot be loaded")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        forget_threads([path])
        try:
            with importing():
                exec(compile(text, str(path), "exec"), module.__dict__)
        except BaseException as problem:
            del sys.modules[name]
            if isinstance(problem, Exception) and not isinstance(problem, BadJob):
                raise _broken(path, problem) from problem
            raise
        _send_by_value(folders)
        return module


def _check_owners(path: Path, text: str, folders: list[Path]) -> None:
    """Refuse code that another user owns or can change: the file, its imports from the project, and what is compiled of them."""
    for file in files_of(path, text, folders):
        compiled = file.parent / "__pycache__"
        for each in (file, compiled) if compiled.is_dir() else (file,):
            refuse_foreign(each, folders[-1])


def _with_spark(path: Path, start: Callable[[], object] | None) -> ModuleType:
    try:
        return _module(path)
    except BadJob as problem:
        if start is None or not isinstance(problem.__cause__, Exception) or not _needs_spark(problem.__cause__):
            raise
    start()
    return _module(path)


def check_after_call(function: Callable[..., Any]) -> None:
    """Refuse a job that lost a refusal together with the thread that got it."""
    file = getattr(sys.modules.get(function.__module__), "__file__", None)
    if file:
        path = Path(file)
        check_threads(lambda: files_of(path, _read(path), _folders(path)))


def check_beside_others(path: Path, jobid: str) -> None:
    """Refuse a job, whose chunks run side by side, that writes under names which all of them share."""
    if path.suffix == ".py":
        path = path.resolve()
        file = job_file(path)
        if file.problem is not None:
            raise file.problem
        others = [each.name for each in file.functions if each.jobid != jobid]
        check_shared_names(path, file.text, _folders(path), others)


def _jobs_of(module: ModuleType) -> dict[str, Callable[..., Any]]:
    return {name_of(thing): thing for thing in _own(module).values() if is_job(thing)}


def _folders(path: Path) -> list[Path]:
    """Where a job finds modules of its own: beside its file, and beside the project file."""
    project = find(path.parent)
    return list(dict.fromkeys([path.parent, *([project.parent.resolve()] if project else [])]))


def _broken(path: Path, problem: Exception) -> BadConfig | BadJob:
    if isinstance(problem, SyntaxError) and problem.filename == str(path):
        return BadConfig(f"{path}: line {problem.lineno}: {problem.msg}", hint=(problem.text or "").strip())
    lines = [frame.lineno for frame in traceback.extract_tb(problem.__traceback__) if frame.filename == str(path)]
    where = f"line {lines[-1]}: " if lines else ""
    if _needs_spark(problem):
        return BadJob(f"{path}: {where}the job {ON_IMPORT}", hint=IN_FUNCTION)
    return BadConfig(f"{path}: {where}{type(problem).__name__}: {problem}")


def _needs_spark(problem: Exception) -> bool:
    """Whether PySpark says that no Spark was started yet."""
    from pyspark.errors import PySparkException

    if isinstance(problem, AssertionError):  # columns assert that there is a context
        return "_active_spark_context" in (traceback.extract_tb(problem.__traceback__)[-1].line or "")
    return isinstance(problem, PySparkException) and problem.getCondition() == "SESSION_OR_CONTEXT_NOT_EXISTS"


def _send_by_value(folders: list[Path]) -> None:
    """Spark's workers cannot import the user's project: what functions need of it travels along with them."""
    from pyspark.cloudpickle import register_pickle_by_value

    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and name.partition(".")[0] != __package__.partition(".")[0] and is_own(Path(file), folders):
            register_pickle_by_value(module)  # type: ignore[no-untyped-call]
