"""Problems: what Spark says when something fails. The innermost cause in one line, and everything for the log."""

from __future__ import annotations

import re
import traceback
from posixpath import basename

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ..errors import OdfError
from .postgres.problems import named_error, without_marks

# A classic session lets errors of Java through that it does not know.
SPARK_ERRORS = (PySparkException, Py4JError)

LONGEST = 500  # characters: values of the data may be in it

_condition = re.compile(r"\[[A-Z][A-Z0-9_.]+\](?: .*|$)")
_cause = re.compile(r"^Caused by: ", re.MULTILINE).split
_stack = re.compile(r"^\s+(?:at [\w.$/<>]+\(|\.\.\. \d+ more)", re.MULTILINE).split
_sqlstate = re.compile(r"\s*SQLSTATE: \w{5};?.*$")
_file = re.compile(r"reading file ([^\s,;]+?)\.?(?=[\s,;]|$)").search
_record = re.compile(r"record parsing: (\[.*?\])\.?$", re.MULTILINE).search
_python_frame = re.compile(r'File "([^"]+)", line (\d+), in').findall


def named_cause(problem: BaseException) -> OdfError | None:
    """Our own error that a task raised, wherever Spark put it; None when something else went wrong."""
    return named_error(problem) or named_error(_java_stack(problem))


def reason_of(problem: BaseException) -> str:
    """The innermost cause in one line, with the file, the record or the line of code that it speaks of."""
    known = named_cause(problem)
    if known is not None:
        return _shortened(known.message)
    if not isinstance(problem, SPARK_ERRORS):
        return _shortened(f"{type(problem).__name__}: {problem}")
    causes = [_stack(part, maxsplit=1)[0] for part in _cause(_java_stack(problem))]
    said = _without_stack(str(problem))
    if len(causes) > 1:
        name, _, message = causes[-1].strip().partition(": ")
        named = _line_of(message)
        said = named if _condition.match(named) else f"{name.rpartition('.')[2]}: {named}"
        if not named:
            said = f"{_line_of(causes[-2])} ({name.rpartition('.')[2]})"
    return _shortened(f"{said or type(problem).__name__}{_about(' '.join(causes), said)}")


def whole_of(problem: BaseException) -> str:
    """Everything that is known of a problem, for the log: where in Python it came from, and where in Java."""
    stacks = [
        stack
        for each in (problem, problem.__cause__)
        if isinstance(each, PySparkException) and (stack := _java_stack(each)) not in str(each)
    ]
    return without_marks("\n".join(["".join(traceback.format_exception(problem)), *stacks]))


def _java_stack(problem: BaseException) -> str:
    """The stack of Java with its causes, which each kind of session keeps elsewhere."""
    kept = getattr(problem, "_stackTrace", None) or getattr(problem, "_stacktrace", None)  # classic, or Connect
    return str(kept or problem)


def _without_stack(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if "Traceback (most recent call last)" in text:
        return _line_of(text)
    named = next((match[0] for line in lines if (match := _condition.search(line))), None)
    first = named or next((line for line in lines if not line.startswith("An error occurred")), "")
    return _sqlstate.sub("", first)


def _line_of(message: str) -> str:
    """The line of a message that says what is wrong; of a traceback of Python, its last one and where that was."""
    before, traced, after = message.partition("Traceback (most recent call last)")
    text = after if traced else before
    stripped = (_sqlstate.sub("", line).strip() for line in _stack(text, maxsplit=1)[0].splitlines())
    lines = [line for line in stripped if line]
    if not lines:
        return ""
    if not traced:
        return lines[0]
    frames = _python_frame(after)
    return f"{lines[-1]} ({basename(frames[-1][0])}, line {frames[-1][1]})" if frames else lines[-1]


def _about(text: str, said: str) -> str:
    """The file and the record, where another cause than the innermost one names them."""
    file, record = _file(text), _record(text)
    path = re.sub(r"^file:/+", "/", file[1]) if file else ""
    told = [f"record {record[1]}"] if record and record[1] not in said else []
    told += [f"file {path}"] if path and basename(path) not in said else []
    return "".join(f"; {each}" for each in told)


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
