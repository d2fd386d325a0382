"""In what two stores differ after the same history: what both answered and hold, as plain values from replay.py."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from tests.histories.playing import Told
from tests.histories.replay import END

LEFT_OUT = {
    "meta": "counters and notes of the store itself",
    "migration": "how the schema came to be",
    "noticed": "how far the history was searched",
    "incident_chunk": "histories have no incidents",
    "event.session": "a number that the connection chose",
    "datastatus.seal": "counts the writes of a row: one more or less means nothing",
    "note.noteid": "a number that is given anew",
    "run.inputs": "compared as inputs",
    "data_manifest.body.inputs": "compared as inputs",
    "run.owner": "names the process",
    "claim.owner": "names the process",
    "claim.facts": "the stored facts before the decision, which the receipt shows",
}

# What both schemas must have, and have compared.
NEEDED = (
    "datastatus",
    "job_status",
    "candidate",
    "receipt",
    "event",
    "status_change",
    "run",
    "data_manifest",
    "made_from",
)

# By what a row of one side is found in the other; rows of all other tables and views are compared as a whole.
KEYS = {
    "datastatus": ("datasetid", "dataid", "jobid", "locktype"),
    "job_status": ("datasetid", "dataid"),
    "run": ("jobid", "dataid", "epoch"),
    "candidate": ("jobid", "dataid"),
    "candidate_facts": ("jobid", "dataid"),
    "data_manifest": ("datasetid", "dataid", "version"),
    "recalled": ("datasetid", "dataid", "version"),
    "remake": ("datasetid", "dataid"),
    "dataset": ("datasetid",),
    "job": ("jobid", "itemtype", "datasetid"),
    "jobrule": ("jobid",),
    "pool": ("poolid",),
    "pause": ("jobid",),
}

# Which version of which input went into which version.
LINEAGE = ("datasetid", "dataid", "version", "in_datasetid", "in_dataid", "in_version")

# What is part of the name of a difference of a row.
VARIANTS = {
    "datastatus": "locktype",
    "candidate": "state",
    "event": "kind",
    "status_change": "kind",
    "receipt": "verdict",
}

EVENT_IDS = ("eventid", "receiptid")
TIMES = (
    *("at", "modified", "started", "ended", "published", "since", "opened", "closed", "written"),
    *("not_before", "lease_until"),
)

Rows = dict[Any, dict[str, Any]]


class Difference(NamedTuple):
    """One thing in which two stores differ."""

    step: int  # after which action
    name: str
    where: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"  after action {self.step}: {self.name} {self.where}\n      old: {_line(self.old)}\n      new: {_line(self.new)}"


def _line(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)[:600]


def compared(told: Told, old: dict[str, Any], new: dict[str, Any]) -> list[Difference]:
    """The differences between what two sides answered and hold."""
    found = [
        Difference(0, f"schema.{name}", "", name in old["columns"], name in new["columns"])
        for name in NEEDED
        if name not in old["columns"] or name not in new["columns"]
    ]
    kinds = ["register", *(action.kind for _, action in [*told.steps, *((0, action) for action in END)]), "breaches"]
    for step, kind in enumerate(kinds):
        found += _answers_compared(step, kind, *(_normal_answer(kind, side, step) for side in (old, new)))
    for step in sorted(old["tables"].keys() & new["tables"].keys()):
        for name, (before, after) in _tables_of_both(old, new, step).items():
            found += _tables_compared(step, name, before, after)
    return sorted(found, key=lambda each: each.step)


def _tables_of_both(old: dict[str, Any], new: dict[str, Any], step: int) -> dict[str, tuple[Rows, Rows]]:
    found = {"lineage": (_lineage(old, step), _lineage(new, step)), "inputs": (_inputs(old, step), _inputs(new, step))}
    for name in (old["columns"].keys() & new["columns"].keys()) - LEFT_OUT.keys() - {"made_from"}:
        columns = [
            column
            for column in old["columns"][name]
            if column in new["columns"][name] and f"{name}.{column}" not in LEFT_OUT
        ]
        found[name] = _table(name, columns, old, step), _table(name, columns, new, step)
    return found


def _answers_compared(step: int, kind: str, old: Any, new: Any) -> Iterator[Difference]:
    if old != new:
        is_order = _canonical(old, in_order=False) == _canonical(new, in_order=False)
        yield Difference(step, f"answer.{kind}{'.order' if is_order else ''}", "", old, new)


def _tables_compared(step: int, table: str, old: Rows, new: Rows) -> Iterator[Difference]:
    for key in sorted(old.keys() | new.keys(), key=repr):
        before, after = old.get(key), new.get(key)
        row = before or after or {}
        kind = f"{table}:{row[VARIANTS[table]]}" if table in VARIANTS else table
        at = row.get("action", step)
        if before is None or after is None:
            yield Difference(at, f"{kind}.{'extra' if before is None else 'missing'}", repr(key), before, after)
            continue
        for column, values in _apart(before, after):
            if f"{table}.{column}" not in LEFT_OUT:
                yield Difference(at, f"{kind}.{column}", repr(key), *values)


def _apart(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """In which columns two rows differ, or in which keys of a column that holds an object."""
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from ((f"{name}.{within}", values) for within, values in _apart(before, after))
        elif before != after:
            yield name, (before, after)


def _normal_answer(kind: str, side: dict[str, Any], step: int) -> Any:
    answer = side["answers"][step]
    if answer is None or answer[1]:
        return answer
    value, number = answer[0], _numbers(side, max(side["tables"]))
    if kind == "claim":
        kept = [{name: each for name, each in claim.items() if f"claim.{name}" not in LEFT_OUT} for claim in value]
        return [claim | {"runid": number(claim["runid"])} for claim in kept]
    if kind == "rescue":
        return [[number(runid), status] for runid, status in value]
    if kind == "shake" and isinstance(value, float):
        return _moment(value, side["now"])
    if kind == "recall":
        return [value[0], [number(runid) for runid in value[1]]]
    return value


def _numbers(side: dict[str, Any], step: int) -> Callable[[int | None], Any]:
    """Runs are numbered by their order: a sequence may have gaps."""
    runids = sorted(row["runid"] for row in side["tables"][step]["run"])
    order = {runid: number for number, runid in enumerate(runids, 1)}
    return lambda runid: None if runid is None else order.get(runid, "no such run")


def _lineage(side: dict[str, Any], step: int) -> Rows:
    """Which version was made from which: the table of one schema, a view of another."""
    return {tuple(row[column] for column in LINEAGE): {} for row in side["tables"][step].get("made_from", ())}


def _inputs(side: dict[str, Any], step: int) -> Rows:
    """What each run read: a column of one schema, a table of another."""
    tables = side["tables"][step]
    read: dict[int, list[Any]] = {}
    for row in tables.get("run_input", ()):
        read.setdefault(row["runid"], []).append([row["datasetid"], row["dataid"], row["version"]])
    return {
        (run["jobid"], run["dataid"], run["epoch"]): {
            "read": _canonical(_parsed(run.get("inputs", read.get(run["runid"], []))), in_order=False)
        }
        for run in tables["run"]
    }


def _table(table: str, columns: Sequence[str], side: dict[str, Any], step: int) -> Rows:
    """The rows by what they are found by: an event by its chunk, its kind, and how many of the kind came before."""
    found: Rows = {}
    seen: Counter[Any] = Counter()
    number = _numbers(side, step)
    for row in sorted(side["tables"][step][table], key=_eventid):
        normal = {
            column: _normal(column, row[column], side["now"], number) for column in columns if column not in EVENT_IDS
        }
        if table in KEYS:
            key: Any = tuple(row[column] for column in KEYS[table])
        else:
            if any(column in row for column in EVENT_IDS):
                key = (row["datasetid"] or "", row["dataid"] or "", row["jobid"] or "", row.get("kind", ""))
                normal["action"] = bisect_left(side["events"], _eventid(row))
            else:
                key = (json.dumps(normal, sort_keys=True, default=str),)
            seen[key] += 1
            key = (*key, seen[key])
        found[key] = normal
    return found


def _eventid(row: dict[str, Any]) -> int:
    return next((int(row[column]) for column in EVENT_IDS if column in row), 0)


def _normal(column: str, value: Any, now: float, number: Any) -> Any:
    if column in TIMES:
        return _moment(value, now)
    if column == "runid":
        return number(value)
    value = _parsed(value)
    if isinstance(value, str):
        return re.sub(r"\brun (\d+)", lambda found: f"run {number(int(found[1]))}", value)
    return _canonical(value, in_order=False)


def _parsed(value: Any) -> Any:
    """JSON, where a column holds it as text."""
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except ValueError:
            pass
    return value


def _canonical(value: Any, *, in_order: bool) -> Any:
    """JSON with its lists sorted."""
    if isinstance(value, dict):
        return {name: _canonical(each, in_order=in_order) for name, each in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        items = [_canonical(each, in_order=in_order) for each in value]
        return items if in_order else sorted(items, key=lambda item: json.dumps(item, sort_keys=True, default=str))
    return value


def _moment(value: Any, now: float) -> Any:
    """A time, so far as it is the same on both sides: thousands of seconds from now."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value + "+00:00").timestamp()
    elif isinstance(value, datetime):
        value = value.timestamp()
    return value if not value else max(round((value - now) / 1000), -1)


def only_in_one(old: dict[str, list[str]], new: dict[str, list[str]]) -> set[str]:
    """Tables and columns that only one schema has."""
    found = set()
    for table in old.keys() ^ new.keys():
        found.add(f"{table} ({'old' if table in old else 'new'} only)")
    for table in old.keys() & new.keys():
        for column in set(old[table]) ^ set(new[table]):
            found.add(f"{table}.{column} ({'old' if column in old[table] else 'new'} only)")
    return found
