"""Two revisions of the program play the same random histories; afterwards their stores must hold the same.

python -m tests.histories.differential [OLD [NEW]] [--histories N] [--first SEED] [--store sqlite|postgres|both]

OLD and NEW are git revisions or folders with a checkout; NEW is this checkout unless given. The model alone draws the actions, before a
store sees any of them, so neither side has an influence on what is played. Each side plays in a process of its own, with the hands and
the replay.py of its own tree. A tree without replay.py is played with the one of this tree, which must fit its tests/histories.

Compared are every answer, and every table and view that both schemas have. Left out is what LEFT_OUT in difference.py lists, and what
only one schema has, which the output names. Clocks differ between the sides: a time is compared as its distance from now in thousands
of seconds. Runs and events are numbered by their order.

A difference has a name, such as datastatus:OUT.status, event:kept.missing or answer.claim. One that is intended gets a line in ALLOWED,
with its reason. The exit code is 1 if any other is found; the first histories with one are made as short as possible and shown.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.histories import flows
from tests.histories.actions import Action, called
from tests.histories.difference import Difference, compared, only_in_one
from tests.histories.drawing import Mood, Scene
from tests.histories.history import EXPECT
from tests.histories.model import Take
from tests.histories.playing import PROCESSES, STEPS, Step, Told, shortest
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
ALLOWED: dict[str, str] = {
    "candidate:WAITING.missing": "a verb derives no candidates below chunks that it leaves as they were",
    "candidate_facts.missing": "the same candidates, seen with their facts",
    "*:rolled back.epoch": "the event of a rollback names the version that became current; it named the last epoch",
    "*:resubmitted.epoch": "the event of an output that follows another one of its run names its epoch; it named none",
}

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
        self.only_in_one |= only_in_one(old["columns"], new["columns"])
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
