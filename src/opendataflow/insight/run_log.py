"""The log of a run: the one place that decides which file may be read for it, and what is said where there is none.

A row of the store opens no other file than a log in the project's own folder of logs. Of a run on another machine only
the last lines are known here, if the project keeps them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import InvalidPath, OdfError, UnknownRun
from ..model import RUNNING
from ..model.listen_address import ListenAddress
from ..model.printable import visible
from ..project import Project
from ..run.process import log_reader, logs
from ..store import Run, Store
from .words import gist

LAST = 300  # lines that a look at a log begins with
MOST = 65536  # bytes of one part
MOST_FOUND = 200  # lines of one search
_LONGEST_SEARCH = 200  # characters
_LONGEST_REASON = 300  # characters
_BEFORE = 1500  # bytes that are shown before a line that was found
_HEADER = 16384  # bytes in which a log says what it is about
_SPARK_UI = re.compile(rf"# {logs.SPARK_UI}(https?://(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+)(?::[0-9]+)?/?)")


@dataclass(frozen=True, slots=True)
class RunLogPage:
    """Part of what a run printed; what could steer a terminal is shown as text.

    A position counts the bytes of the whole log: the next part begins at `end`, and the log ends now at `size`.
    """

    runid: int
    text: str = ""
    start: int = 0
    end: int = 0
    size: int = 0
    line: int | None = None  # the number of the first line; None where it was not counted so far
    is_over: bool = True  # whether nothing is added any more
    elsewhere: str = ""  # where the whole log is, if only these last lines are known here
    problem: str = ""  # why there is nothing to read, in a sentence
    hint: str = ""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line that holds what was looked for, and the position to read on from."""

    line: int
    position: int
    text: str


@dataclass(frozen=True, slots=True)
class LogSearch:
    """The lines of a log that hold a text, whatever its case; is_all says whether there are no more."""

    runid: int
    wanted: str
    lines: tuple[LogLine, ...] = ()
    is_all: bool = True
    elsewhere: str = ""
    problem: str = ""
    hint: str = ""


def last_of_log(store: Store, project: Project, run: Run, lines: int = LAST) -> RunLogPage:
    """The last lines of a run's log; a log that cannot be read is a problem in words, not an error."""
    try:
        path, kept = _where(store, project, run)
        if path is None:
            few = "".join(kept.text.splitlines(keepends=True)[-lines:])
            return replace(kept, text=few)
        return _part(run, log_reader.last_lines(path, lines, MOST))
    except (OdfError, OSError) as problem:
        return _without(run, problem)


def part_of_log(store: Store, project: Project, run: Run, position: int, most: int = MOST) -> RunLogPage:
    """A part of a run's log from a position on, which ends with a whole line where it can."""
    try:
        path, kept = _where(store, project, run)
        if path is None:
            return kept if position < kept.end else replace(kept, text="", start=kept.end)
        return _part(run, log_reader.part(path, position, min(most, MOST)))
    except (OdfError, OSError) as problem:
        return _without(run, problem)


def before_in_log(store: Store, project: Project, run: Run, position: int) -> str:
    """A few lines that stand before a position of a run's log; nothing where it cannot be read."""
    try:
        path, _ = _where(store, project, run)
        return visible(log_reader.lines_before(path, position, _BEFORE).text) if path is not None else ""
    except (OdfError, OSError):
        return ""


def search_log(store: Store, project: Project, run: Run, wanted: str, n: int = MOST_FOUND) -> LogSearch:
    """The first lines of a run's log that hold a text."""
    wanted, n = wanted[:_LONGEST_SEARCH], min(n, MOST_FOUND)
    try:
        path, kept = _where(store, project, run)
        if path is None:
            held = enumerate(kept.text.splitlines(), 1)
            lines = [LogLine(number, 0, line) for number, line in held if wanted.lower() in line.lower()]
            return LogSearch(run.runid, wanted, tuple(lines[:n]), len(lines) <= n, kept.elsewhere)
        found = log_reader.search(path, wanted, n)
    except (OdfError, OSError) as problem:
        told = _without(run, problem)
        return LogSearch(run.runid, wanted, problem=told.problem, hint=told.hint)
    matches = tuple(LogLine(each.line, each.position, visible(each.text)) for each in found.matches)
    return LogSearch(run.runid, wanted, matches, found.is_all)


def spark_ui(store: Store, project: Project, run: Run) -> str:
    """Where the pages of the Spark application of a run are, while it runs; empty where its log does not say so."""
    if run.status != RUNNING:
        return ""
    for line in part_of_log(store, project, run, 0, _HEADER).text.splitlines():
        if not line.startswith("#"):
            return ""  # from here on the job itself speaks
        found = _SPARK_UI.fullmatch(line)
        if found:
            return found[1] if _is_trusted(project, found[2].strip("[]").lower()) else ""
    return ""


def _is_trusted(project: Project, host: str) -> bool:
    """Whether Spark's pages may be at a host: a job can write anything into its log, and a button must not lead anywhere."""
    declared = {each.lower() for each in (*project.web.hosts, str(project.spark.get("spark.driver.host", "")))}
    return ListenAddress(host, 0).is_loopback or host in declared


def pieces_of_log(store: Store, project: Project, run: Run, *, follow: bool = False) -> Iterator[str]:
    """All of a run's log as it is, in pieces; follow waits for more until the run is over."""
    path, kept = _where(store, project, run)
    if path is None:
        return iter([f"# {kept.elsewhere}; its last lines:\n", store.views.log_tail(run.runid) or ""])
    return logs.follow(path, lambda: store.views.run(run.runid).status != RUNNING) if follow else logs.read(path)


def _where(store: Store, project: Project, run: Run) -> tuple[Path | None, RunLogPage]:
    """The file of a run's log; None where only its last lines are known, and then those."""
    if not run.log:
        ended = f"It ended {run.outcome or run.status}" if run.status != RUNNING else "It is still running"
        raise UnknownRun(
            f"run {run.runid} of {run.jobid} {run.dataid} has no log",
            hint=ended + (f": {gist(run.detail, _LONGEST_REASON).rstrip('.')}." if run.detail else "."),
        )
    try:
        path = logs.log_of(project.logs, run.log)
    except InvalidPath:
        return None, _kept(store, run)
    is_ours = f"@{os.uname().nodename}:" in run.owner
    if not path.exists() and (not is_ours or store.views.log_tail(run.runid) is not None):
        return None, _kept(store, run)
    return path, RunLogPage(run.runid)


def _kept(store: Store, run: Run) -> RunLogPage:
    """What is known here of a log that is not: its last lines, or else InvalidPath that says where it is."""
    where = f"the log of run {run.runid} is not here: {run.owner} wrote it to {run.log}"
    tail = store.views.log_tail(run.runid)
    if tail is None:
        raise InvalidPath(
            where,
            hint="Read it there, in the project that ran it; keep_log_tail = true in [project] keeps the last lines of later runs.",
        )
    text = visible(tail)
    return RunLogPage(run.runid, text, 0, len(text), len(text), None, run.status != RUNNING, visible(where))


def _part(run: Run, part: log_reader.LogPart) -> RunLogPage:
    text = visible(part.text)
    return RunLogPage(run.runid, text, part.start, part.end, part.size, part.line, run.status != RUNNING)


def _without(run: Run, problem: OdfError | OSError) -> RunLogPage:
    """Nothing of a log, and why."""
    if isinstance(problem, OdfError):
        message, hint = problem.message, problem.hint
    else:
        message, hint = f"the log cannot be read: {problem.strerror or type(problem).__name__}", ""
    return RunLogPage(run.runid, is_over=run.status != RUNNING, problem=visible(message), hint=visible(hint))
