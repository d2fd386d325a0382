"""Two revisions of the program play the same random histories; afterwards their stores must hold the same.

python -m tests.histories.differential [OLD [NEW]] [--histories N] [--first SEED] [--store sqlite|postgres|both]

OLD and NEW are git revisions or folders with a checkout; NEW is this checkout unless given. The model alone draws the actions, before a
store sees any of them, so neither side has an influence on what is played. Each side plays in a process of its own (replay.py) with the
hands of its own tree. If OLD has no replay.py, or one that fails, this tree's must fit its tests/histories: give a later OLD if it does
not.

Compared are every answer, and every table and view that both schemas have. Left out is what LEFT_OUT lists, and what only one schema
has, which the output names. Clocks differ between the sides: a time is compared as its distance from now in thousands of seconds. Runs
and events are numbered by their order.

A difference has a name, such as datastatus:OUT.status, event:kept.missing or answer.claim. One that is intended gets a line in ALLOWED,
with its reason. The exit code is 1 if any other is found; the first histories with one are made as short as possible and shown.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import random
import re
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from tests.histories import flows
from tests.histories.actions import Action, called
from tests.histories.drawing import Mood, Scene
from tests.histories.history import EXPECT
from tests.histories.model import Take
from tests.histories.playing import PROCESSES, STEPS, Step, Told, shortest
from tests.histories.replay import END
from tests.histories.typed import Typed
from tests.histories.world import Note, Refused
from tests.support.folders import quick_folder
from tests.support.postgres import start_postgres

ROOT = Path(__file__).parents[2]
OLD = "bb709ff"
MOST_SHOWN = 3
MOST_LINES = 12
MOST_DRAWN = 100

# Differences that are intended: pattern of names → reason.
ALLOWED: dict[str, str] = {}

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


# Histories -------------------------------------------------------------------------------------------------------------


def history(seed: str, *, often: Sequence[str] = (), fold_before_look: bool = False) -> Told:
    """The history of a seed as the model alone imagines it: by itself, the one of `pytest tests/histories --history SEED`.

    About half of its actions are of the kinds `often`. A look may fold in what was typed, or only show it as if: a fold before each look
    makes both the same.
    """
    rng = random.Random(seed)
    flow, mood = flows.drawn(rng), Mood(rng)
    n = rng.choice([1, 1, PROCESSES])
    model, claims = Typed(flow), list[Any]()
    model.notes += [Note("job", jobid=work.name) for work in flow.works]
    steps: list[Step] = []
    for _ in range(STEPS):
        number, scene = rng.randrange(n), Scene(rng, flow, model, claims)
        action = mood.drawn(scene)
        if often and rng.random() < 0.5:
            again = (mood.drawn(scene) for _ in range(MOST_DRAWN))
            action = next((each for each in again if each.kind in often), action)
        if action.kind == "look" and fold_before_look:
            steps.append((number, Action("fold")))
        steps.append((number, action))
        model = _imagine(model, action, flow, claims)
    return Told(flow, steps)


def _imagine(model: Typed, action: Action, flow: flows.Flow, claims: list[Any]) -> Typed:
    """The model after an action; what is claimed is added to the claims."""
    if called(action, flow, claims) is None:
        return model
    trial: Any = model.copy()
    teller: Any = SimpleNamespace(flow=flow, claims=claims)
    try:
        value = EXPECT[action.kind](trial, teller, *action.of)
    except Refused:
        return model
    if action.kind == "claim":
        jobid = action.of[0]
        for take in value:
            runid = len(claims) + 1
            outputs = trial.jobs[jobid].writes
            trial.took(jobid, take, runid)
            claims.append(_claimed(runid, take, outputs))
    is_dry = action.kind in ("steer", "rollback", "recall") and action.of[-1]
    return model if is_dry else trial


def _claimed(runid: int, take: Take, outputs: tuple[str, ...]) -> Any:
    return SimpleNamespace(runid=runid, outputs=outputs, **take._asdict())


# Sides -----------------------------------------------------------------------------------------------------------------


class Side:
    """A process that plays histories with the program of one checkout."""

    def __init__(self, root: Path, store: str) -> None:
        self._root = root
        own = root / "tests/histories/replay.py"
        script = own if own.exists() else ROOT / "tests/histories/replay.py"
        path = os.pathsep.join([str(root / "src"), str(root)])
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(script), store],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"},
        )

    def ask(self, told: Told, every: bool) -> None:
        """Begin to play a history."""
        n = 1 + max((number for number, _ in told.steps), default=0)
        assert self._process.stdin is not None
        pickle.dump(((told.flow, n, list(told.steps)), every), self._process.stdin)
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """What came of it."""
        assert self._process.stdout is not None
        try:
            answer: dict[str, Any] = pickle.load(self._process.stdout)
        except EOFError:
            raise SystemExit(f"the side in {self._root} ended; what it wrote is above") from None
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=60)


class Pair:
    """An old and a new side with stores of the same kind."""

    def __init__(self, old: Side, new: Side, allowed: Iterable[str], every: bool) -> None:
        self.sides, self.allowed, self._every = (old, new), tuple(allowed), every
        self.only_in_one: set[str] = set()

    def differences(self, told: Told, every: bool | None = None) -> list[Difference]:
        """In what they differ after a history, first differences first."""
        for side in self.sides:
            side.ask(told, self._every if every is None else every)
        old, new = (side.answer() for side in self.sides)
        self.only_in_one |= _only_in_one(old["columns"], new["columns"])
        return compared(told, old, new)

    def forbidden(self, differences: Iterable[Difference]) -> list[Difference]:
        """Without those that are allowed."""
        return [each for each in differences if not self.is_allowed(each.name)]

    def is_allowed(self, name: str) -> bool:
        """Whether differences of this name are intended."""
        return any(fnmatchcase(name, pattern) for pattern in self.allowed)

    def shortest(self, told: Told, name: str) -> Told:
        """A history, as short as can be, with a difference of this name."""

        def again(shorter: Told) -> Told:
            names = {each.name for each in self.forbidden(self.differences(shorter, every=False))}
            return shorter._replace(problem=name if name in names else "")

        return shortest(told._replace(problem=name), again)


# What is compared ------------------------------------------------------------------------------------------------------


def compared(told: Told, old: dict[str, Any], new: dict[str, Any]) -> list[Difference]:
    """The differences between what two sides answered and hold."""
    found: list[Difference] = []
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
    return {tuple(row[column] for column in LINEAGE): {} for row in side["tables"][step]["made_from"]}


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


def _only_in_one(old: dict[str, list[str]], new: dict[str, list[str]]) -> set[str]:
    found = set()
    for table in old.keys() ^ new.keys():
        found.add(f"{table} ({'old' if table in old else 'new'} only)")
    for table in old.keys() & new.keys():
        for column in set(old[table]) ^ set(new[table]):
            found.add(f"{table}.{column} ({'old' if column in old[table] else 'new'} only)")
    return found


# Command line ----------------------------------------------------------------------------------------------------------


@contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """A folder with a revision; a folder is taken as it is."""
    if Path(revision).is_dir():
        yield Path(revision).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="odf-checkout-", dir=quick_folder()) as name:
        archive = subprocess.run(
            ["git", "-C", str(ROOT), "archive", revision, "src", "tests"], check=True, stdout=subprocess.PIPE
        )
        subprocess.run(["tar", "-x", "-C", name], input=archive.stdout, check=True)
        yield Path(name)


@contextmanager
def paired(old: Path, new: Path, store: str, allowed: Iterable[str] = (), every: bool = False) -> Iterator[Pair]:
    """Both sides, each with a store of its own."""
    with ExitStack() as stack:
        stores = ["sqlite", "sqlite"]
        if store == "postgres":
            settings = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
            server = stack.enter_context(start_postgres(*settings))
            stores = [server.create_database() for _ in stores]
        sides = Side(old, stores[0]), Side(new, stores[1])
        for side in sides:
            stack.callback(side.close)
        yield Pair(*sides, allowed, every)


def run(pair: Pair, store: str, histories: Mapping[str, Told]) -> int:
    """Play histories, and say in what they differ; how many do."""
    names: Counter[str] = Counter()
    differ: list[str] = []
    began = time.monotonic()
    for seed, told in histories.items():
        found = pair.differences(told)
        names.update({each.name for each in found})
        forbidden = pair.forbidden(found)
        if forbidden:
            differ.append(seed)
            if len(differ) <= MOST_SHOWN:
                _show(pair, store, seed, told, forbidden)
            else:
                print(f"history {seed} of {store} differs: {forbidden[0].name}", flush=True)
    rate = len(histories) / (time.monotonic() - began)
    for each in sorted(pair.only_in_one):
        print(f"left out: {each}")
    for name, count in names.most_common():
        print(f"{name}: {count} histories{' (allowed)' if pair.is_allowed(name) else ''}")
    print(f"{store}: {len(histories)} histories, {len(differ)} differ ({rate:.1f} histories/s)", flush=True)
    return len(differ)


def _show(pair: Pair, store: str, seed: str, told: Told, found: Sequence[Difference]) -> None:
    print(f"history {seed} of {store} differs in {', '.join(sorted({each.name for each in found}))}; the first:")
    print(found[0])
    short = pair.shortest(told, found[0].name)
    print("as short as it can be, numbered as hand: action; action 0 registers the flow, which is")
    print(str(short._replace(problem="")).rstrip())
    shown: dict[tuple[str, str], Difference] = {}
    for each in pair.forbidden(pair.differences(short, every=True)):
        shown.setdefault((each.name, each.where), each)
    for each in list(shown.values())[:MOST_LINES]:
        print(each)
    print(flush=True)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.histories.differential")
    parser.add_argument("old", nargs="?", default=OLD, help=f"a revision or a folder ({OLD})")
    parser.add_argument("new", nargs="?", default=str(ROOT), help="a revision or a folder (this checkout)")
    parser.add_argument("--histories", type=int, default=1000, metavar="N", help="of each store (1000)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed (0)")
    parser.add_argument("--store", choices=["sqlite", "postgres", "both"], default="both")
    parser.add_argument("--every-action", action="store_true", help="compare the tables after each action")
    parser.add_argument("--often", nargs="+", default=[], metavar="KIND", help="half of the actions are of these kinds")
    parser.add_argument(
        "--fold-before-look", action="store_true", help="for two revisions of which one folds when it looks"
    )
    parser.add_argument("--except", action="append", default=[], metavar="NAME", dest="allowed")
    chosen = parser.parse_args()
    histories = {
        f"{seed}": history(f"{seed}", often=chosen.often, fold_before_look=chosen.fold_before_look)
        for seed in range(chosen.first, chosen.first + chosen.histories)
    }
    allowed = {*ALLOWED, *chosen.allowed}
    differ = 0
    with checkout(chosen.old) as old, checkout(chosen.new) as new:
        for store in ["sqlite", "postgres"] if chosen.store == "both" else [chosen.store]:
            with paired(old, new, store, allowed, chosen.every_action) as pair:
                differ += run(pair, store, histories)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
