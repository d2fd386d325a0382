"""Plan: which faults strike which worker, in which order; the same seed makes the same plan."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..errors import UsageError

LEASE = 3.0  # seconds, of the scratch flow: what died is taken over that soon

KILL_WORKER = "kill worker"
KILL_SCRIPT = "kill script"
FREEZE_WORKER = "freeze worker"
TAKE_CHUNK = "take chunk"
DAMAGE_FILE = "damage file"
CUT = "cut connection"
STALL = "stall connection"
LOSE_ANSWER = "lose answer"
KILL_SPARK = "kill Spark"

# What each of them is, for people.
MEANING = {
    KILL_WORKER: "kill -9 of a worker, at a step of a run or at any moment",
    KILL_SCRIPT: "kill -9 of a script, in the middle of its output",
    FREEZE_WORKER: "a worker is stopped until its lease ran out, and wakes up again",
    TAKE_CHUNK: "a run is cancelled while its script hangs, or just before its commit",
    DAMAGE_FILE: "a byte of a published file is changed, and its size and time are kept",
    CUT: "the connection to the store breaks",
    STALL: "the connection to the store stands still for longer than a lease",
    LOSE_ANSWER: "a COMMIT reaches the store, and its answer is lost",
    KILL_SPARK: "kill -9 of the Java process of Spark",
}
ON_A_SERVER = (CUT, STALL, LOSE_ANSWER)

ANY_MOMENT = "at any moment"
STEPS = (
    "before claim",
    "in claim",
    "after claim",
    "in admit",
    "after admit",
    "spawned",
    "exited",
    "audited",
    "before commit",
    "settled",
    "in commit",
    "after commit",
)
SETTLING = "settling"
_WHERE = {
    KILL_SCRIPT: ("spawned",),
    FREEZE_WORKER: ("spawned", "audited", "before commit"),  # outside of a transaction, which others would wait for
    TAKE_CHUNK: ("spawned", "before commit"),
    DAMAGE_FILE: ("after publish",),
    CUT: ("in claim", "spawned", "in commit"),
    STALL: ("spawned", "before commit"),
    LOSE_ANSWER: ("in commit",),
    KILL_SPARK: ("at work",),
}
_KILLS = 3  # workers that are killed for each other fault


class Settings(NamedTuple):
    """How much is broken, for how long at most, and by which dice."""

    chunks: int = 40
    minutes: float = 3.0
    workers: int = 3
    seed: int = 0
    spark: bool = False
    faults: tuple[str, ...] = ()  # only these kinds; all of them where it is empty

    @property
    def seconds(self) -> float:
        """The longest that breaking and draining may take together."""
        return self.minutes * 60

    @property
    def striking(self) -> float:
        """So long faults begin; the rest of the time is for the flow to come to its end."""
        return self.seconds * 0.6


class Fault(NamedTuple):
    """Something that is going to happen to a worker."""

    kind: str
    where: str

    @property
    def leaves_it_alive(self) -> bool:
        """Whether the worker goes on afterwards: only a new one can be armed for the next fault."""
        return self.kind != KILL_WORKER


def kinds_of(settings: Settings, has_server: bool) -> tuple[str, ...]:
    """What can be broken: connections only where there is a server, Spark and a choice of kinds only where asked for."""
    left_out = {*(() if has_server else ON_A_SERVER), *(() if settings.spark else (KILL_SPARK,))}
    return tuple(kind for kind in MEANING if kind not in left_out and kind in (settings.faults or MEANING))


def options_of(kinds: Iterable[str]) -> str:
    """Kinds of faults as --faults takes them."""
    return ",".join(kind.replace(" ", "-") for kind in kinds)


def chosen(text: str, *, spark: bool, has_server: bool) -> tuple[str, ...]:
    """The kinds that a list of their names selects; UsageError for a name that is unknown, or that cannot strike here."""
    found = tuple(dict.fromkeys(name.strip().replace("-", " ") for name in text.split(",") if name.strip()))
    known = {kind.lower(): kind for kind in MEANING}
    for name in found:
        if name.lower() not in known:
            names = options_of(MEANING).replace(",", ", ")
            raise UsageError(f"--faults: there is no fault {name!r}", hint=f"Choose from: {names}")
    kinds = tuple(known[name.lower()] for name in found)
    if not has_server and (only := [kind for kind in kinds if kind in ON_A_SERVER]):
        raise UsageError(f"--faults: {only[0]!r} requires a store on PostgreSQL", hint="Name one with --store.")
    if not spark and KILL_SPARK in kinds:
        raise UsageError(f"--faults: {KILL_SPARK!r} requires --spark")
    return kinds


def plan(settings: Settings, has_server: bool) -> tuple[tuple[Fault, ...], ...]:
    """The faults of each worker, and behind them, where there is Spark, those of the worker that runs it."""
    dice = random.Random(settings.seed)
    kinds = [kind for kind in kinds_of(settings, has_server) if kind != KILL_SPARK]
    wanted = max(len(kinds), settings.chunks // 2)
    weights = [_KILLS if kind == KILL_WORKER else 1 for kind in kinds]
    drawn = [*kinds, *dice.choices(kinds, weights, k=wanted - len(kinds))] if kinds else []
    dice.shuffle(drawn)
    places = {kind: _again_and_again(dice, _places(kind, has_server)) for kind in kinds}
    lanes: list[list[Fault]] = [[] for _ in range(settings.workers)]
    for number, kind in enumerate(drawn):
        lane = lanes[number % len(lanes)]
        where = next(places[kind])
        if kind == KILL_WORKER:
            where = _step(dice, where)
        if KILL_WORKER in kinds and lane and lane[-1].leaves_it_alive and kind != DAMAGE_FILE:
            lane.append(Fault(KILL_WORKER, ANY_MOMENT))
        lane.append(Fault(kind, where))
    of_spark = [fault for fault in _of_spark(dice) if fault.kind in kinds_of(settings, has_server)]
    return tuple(map(tuple, [*lanes, *([of_spark] if settings.spark else [])]))


def _places(kind: str, has_server: bool) -> Sequence[str]:
    """Where a kind strikes; in the middle of a commit only a server undoes what a frozen worker has begun."""
    if kind == KILL_WORKER:
        return [*STEPS, ANY_MOMENT]
    return [*_WHERE[kind], *([SETTLING] if kind == FREEZE_WORKER and has_server else [])]


def _of_spark(dice: random.Random) -> list[Fault]:
    """Few, since every new worker starts a new Spark."""
    step = dice.choice(("audited", "before commit", "in commit"))
    return [Fault(KILL_WORKER, step), Fault(KILL_SPARK, _WHERE[KILL_SPARK][0])]


def _step(dice: random.Random, step: str) -> str:
    """Now and then not the first time that a step is reached, nor a named step."""
    chance = dice.random()
    if step == ANY_MOMENT or chance < 0.5:
        return step
    return f"{step}:{dice.randint(2, 3)}" if chance < 0.8 else f"*:{dice.randint(5, 40)}"


def _again_and_again(dice: random.Random, steps: Sequence[str]) -> Iterator[str]:
    """Each of them once, in any order, before any comes again."""
    while True:
        yield from dice.sample(steps, len(steps))
