"""Words that all answers share: when, how long, how many, which dataids, and evidence in sentences."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from ..model import QUESTIONS
from ..model.moment import written
from ..model.printable import clean, one_line
from .axis import DataidRange

_SHOWN = 5
_HOW_A_SCRIPT_ENDED = re.compile(r"^exit code -?[0-9]+ after [0-9.]+ s: ")
_MOST_RANGES = 20  # that a command line names


def when(moment: datetime | None, unknown: str = "an unknown time") -> str:
    """A moment in the project's time zone, with its offset; --at and --since read it back."""
    return written(moment) if moment else unknown


def duration(seconds: float) -> str:
    """A length of time: 12 s, 5 min, 1.5 h, 107 days."""
    if seconds < 90:
        return f"{max(seconds, 0):.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds <= 48 * 3600 else f"{seconds / 86400:,.0f} days"


def took(seconds: float | None) -> str:
    """How long something took; what is short is told more exactly."""
    if seconds is None:
        return ""
    return f"{max(seconds, 0):.1f} s" if seconds < 10 else duration(seconds)


def length(seconds: float) -> str:
    """The length of a period: 7 days, 8.0 h."""
    days = round(seconds / 86400)
    return count(days, "day") if days and abs(seconds - days * 86400) < 3700 else duration(seconds)


def gist(detail: str | None, most: int = 200) -> str:
    """What a failure says in one line: of a script that was cut off in the middle of its words, the last one."""
    lines = [line.strip() for line in clean(detail or "").splitlines() if line.strip()]
    if not lines:
        return ""
    is_script = len(lines) > 1 and _HOW_A_SCRIPT_ENDED.match(lines[0])
    line = lines[-1] if is_script else _HOW_A_SCRIPT_ENDED.sub("", lines[0], 1)
    return line if len(line) <= most else line[: most - 1] + "…"


def exit_text(code: int | None) -> str:
    """The exit code of a process, or the name of the signal that a negative one stands for."""
    names = {-each.value: each.name for each in signal.Signals}
    return "" if code is None else names.get(code, str(code))


def said(text: str | None, most: int = 300) -> str:
    """What is shown as a cause, in one line: of a script its last line, of anything else all of it."""
    if _HOW_A_SCRIPT_ENDED.match(text or ""):
        return gist(text, most)
    line = one_line(text or "")
    return line if len(line) <= most else line[: most - 1] + "…"


def many(n: int, most: int | None = None) -> str:
    """So many chunks; at least so many where counting stopped at `most`."""
    return f"{'at least ' if most is not None and n >= most else ''}{count(n, 'chunk')}"


def count(n: int, noun: str) -> str:
    """A number and its noun: 1 chunk, 1,200 rows."""
    return f"{n:,} {noun}{'s' * (n != 1)}"


def change(part: float | None) -> str:
    """By how much something differs: +25 %, -50 %, or how many times as much."""
    if part is None:
        return ""
    return f"{part:+.0%}".replace("%", " %") if part < 9 else f"{part + 1:,.0f} ×"


def are(n: int) -> str:
    """The verb for so many."""
    return "is" if n == 1 else "are"


def have(n: int) -> str:
    """The verb for so many."""
    return "has" if n == 1 else "have"


def state(status: str | None) -> str:
    """What a chunk is: "is READY", or "was never produced"."""
    return f"is {status}" if status else "was never produced"


def ranges_text(ranges: Sequence[DataidRange], most: int = _SHOWN, *, more: bool = False) -> str:
    """Ranges for people: 1..5, 7, …; more says that there are others."""
    return ", ".join(map(str, ranges[:most])) + (", …" if more or len(ranges) > most else "")


def ranges_as_arguments(ranges: Sequence[DataidRange]) -> str:
    """Ranges as a command line takes them; very many are cut, and the rest is for the next look."""
    return " ".join(map(str, ranges[:_MOST_RANGES]))


def question_text(name: str) -> str:
    """The question as it is asked."""
    return next(question.text for question in QUESTIONS if question.name == name)


# Evidence -----------------------------------------------------------------------------------------------------------


def evidence(facts: Mapping[str, Any]) -> list[str]:
    """What an answer rests on, in phrases: {"inputs": [["bobin", "1", "READY"]]} is "bobin 1 is READY"."""
    phrases: list[str] = []
    for name, value in facts.items():
        if value is None or (name in _DETAILS and not _DETAILS[name].isdisjoint(facts)):
            continue
        try:
            phrases += list(_phrases(name, value, facts))
        except (TypeError, ValueError, AttributeError, LookupError):  # a shape that this program does not know
            phrases.append(f"{name.replace('_', ' ')}: {_plain(value)}")
    return phrases


def _phrases(name: str, value: Any, facts: Mapping[str, Any]) -> Iterable[str]:
    if name in _PHRASES:
        return _PHRASES[name](value, facts)
    if " " in name:  # a chunk: where it is, or what was validated
        return [_about_chunk(name, value)]
    return [f"{name.replace('_', ' ')}: {_plain(value)}"]


def _inputs(rows: Sequence[Sequence[Any]], facts: Mapping[str, Any]) -> Iterator[str]:
    groups: dict[tuple[str, str | None], list[str]] = {}
    for datasetid, dataid, status in rows:
        groups.setdefault((datasetid, status), []).append(str(dataid))
    if not groups:
        yield "there are no inputs"
    for (datasetid, status), dataids in groups.items():
        these = ", ".join(dataids[:_SHOWN])
        if len(dataids) > _SHOWN:
            these += f", … ({len(dataids):,} chunks)"
        plural = f"are {status}" if status else "were never produced"
        yield f"{datasetid} {these} {state(status) if len(dataids) == 1 else plural}"


def _versions(versions: Sequence[int | None], facts: Mapping[str, Any]) -> Iterator[str]:
    known = sorted({version for version in versions if version})  # 0 is a chunk that was never published
    if len(known) == 1:
        yield f"version {known[0]}"
    elif len(known) > _SHOWN:
        yield f"versions {known[0]} to {known[-1]}"
    elif known:
        yield f"versions {', '.join(map(str, known))}"


def _checks(n: int, facts: Mapping[str, Any]) -> Iterator[str]:
    failed = facts.get("failed") or ()
    yield count(n, "check") + (f", of which {', '.join(map(str, failed))} failed" if failed else " passed")


def _outputs(outputs: Mapping[str, str | None], facts: Mapping[str, Any]) -> Iterator[str]:
    return (f"{datasetid} {state(status)}" for datasetid, status in outputs.items())


def _limit(what: str) -> Callable[[Any, Mapping[str, Any]], Iterator[str]]:
    def phrases(name: Any, facts: Mapping[str, Any]) -> Iterator[str]:
        yield _use(what, name, facts["slots"], facts["taken"]) if {"slots", "taken"} <= {*facts} else f"{what} {name}"

    return phrases


def _use(what: str, name: str, slots: int, taken: int) -> str:
    return f"{what} {name}: {taken} of {slots} {'slots are taken' if what == 'pool' else 'readers are running'}"


def _about_chunk(chunk: str, value: Any) -> str:
    if isinstance(value, Mapping):
        facts = {name: fact for name, fact in value.items() if fact is not None}
        version = f" version {facts.pop('version')}" if "version" in facts else ""
        return f"{chunk}{version}: " + ", ".join(
            count(fact, name.removesuffix("s")) if isinstance(fact, int) else f"{name} {_plain(fact)}"
            for name, fact in facts.items()
        )
    return f"{chunk}: {value}" if " " in str(value) else f"{chunk} is at {value}"


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_plain(part)}" for name, part in value.items() if part is not None)
    if isinstance(value, (list, tuple)):
        is_deep = any(isinstance(part, (list, tuple, Mapping)) for part in value)
        return ("; " if is_deep else " ").join(map(_plain, value))
    return str(value)


# Facts that are said together with another one.
_DETAILS = {
    "slots": {"pool", "dataset", "job"},
    "taken": {"pool", "dataset", "job"},
    "failed": {"checks"},
    "table": {"host"},
}

_PHRASES: dict[str, Callable[[Any, Mapping[str, Any]], Iterable[str]]] = {
    "inputs": _inputs,
    "input": lambda row, facts: _inputs([row], facts),
    "type": lambda name, facts: [f"its dataid is {'an' if name[0] in 'aeiouh' else 'a'} {name}"],
    "version": lambda version, facts: _versions([version], facts),
    "versions": _versions,
    "spans": lambda rows, facts: (f"{name} {dataid} holds {low} to {high}" for name, dataid, low, high in rows),
    "newer": lambda rows, facts: (
        f"{name} {dataid} is version {now} now, and version {read} was read" for name, dataid, read, now in rows
    ),
    "same_as": lambda dataid, facts: [f"the same content as {dataid}"],
    "environment": lambda name, facts: [f"environment {name}"],
    "location": lambda location, facts: [f"it is at {location}"],
    "host": lambda host, facts: [f"table {facts['table']} on {host}" if facts.get("table") else f"on {host}"],
    "checks": _checks,
    "outputs": _outputs,
    "output": lambda status, facts: [f"its output {state(status)}"],
    "epoch": lambda epoch, facts: [f"epoch {epoch}"],
    "limits": lambda rows, facts: (_use(*row) for row in rows),
    "job": lambda jobid, facts: [f"job {jobid} is paused"],
    "pool": _limit("pool"),
    "dataset": _limit("dataset"),
    "deferred": lambda left, facts: ["it is deferred" if isinstance(left, bool) else f"deferred for {duration(left)}"],
}
