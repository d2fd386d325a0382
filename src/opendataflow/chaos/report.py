"""Report: what a chaos did and what came of it, as data that is kept for the console and can be read again."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median
from typing import Any, get_args, get_origin, get_type_hints

from ..errors import BadConfig, PromiseBroken, TimedOut
from ..model.data import plain
from ..project import Project
from .places import without_password
from .plan import MEANING, Settings, options_of
from .scratch import state_of
from .struck import Struck

SURVIVED = "SURVIVED"
FORMAT = 3
_LARGEST = 5_000_000  # bytes of a report that is read


@dataclass(frozen=True, slots=True)
class FaultFact:
    """One fault that struck; recovered is null where it hit nothing, or where that did not heal in time.

    It is not planned where it was done so that the plan could go on: a worker was in the way.
    """

    kind: str
    where: str
    worker: int
    at: float
    chunks: tuple[str, ...]
    recovered: float | None
    within_two_leases: bool | None
    survived: bool
    planned: bool
    note: str


@dataclass(frozen=True, slots=True)
class MissedFact:
    """One fault that was planned and did not strike: there was no time for it, or nothing that it could hit."""

    kind: str
    where: str
    worker: int


@dataclass(frozen=True, slots=True)
class KindFact:
    """All faults of one kind together; timed are those that hit something which no other fault hit again before it had healed."""

    kind: str
    meaning: str
    count: int
    survived: int
    hit: int
    timed: int
    within_two_leases: int
    median: float | None
    worst: float | None


@dataclass(frozen=True, slots=True)
class PromiseFact:
    """One promise, and what breaks it, or why nothing tested it: kept is null then, which is not a yes."""

    promise: str
    kept: bool | None
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Machine:
    """On what it was tried."""

    host: str
    store: str
    database: str
    folder: str
    disk: str
    spark: str
    version: str


@dataclass(frozen=True, slots=True)
class ChaosReport:
    """One chaos from its seed to its verdict: SURVIVED, PROMISE_BROKEN or TIMED_OUT.

    kept is the folder of a scratch that was kept, kept_store the address of its store, removal what removes both.
    """

    format: int
    verdict: str
    began: str
    seconds: float
    seed: int
    command: str
    machine: Machine
    lease: float
    workers: int
    chunks: int
    done: int
    attempts: int
    needed: int
    planned: int
    kinds: tuple[KindFact, ...]
    promises: tuple[PromiseFact, ...]
    faults: tuple[FaultFact, ...]
    missed: tuple[MissedFact, ...]
    kept: str
    kept_store: str
    removal: str

    @property
    def exit_code(self) -> int:
        """As the verb ends."""
        return {SURVIVED: 0, TimedOut.name: TimedOut.exit_code}.get(self.verdict, PromiseBroken.exit_code)

    @property
    def broken(self) -> list[PromiseFact]:
        """The promises that were not kept."""
        return [each for each in self.promises if each.kept is False]

    @property
    def untested(self) -> list[PromiseFact]:
        """The promises whose condition never occurred."""
        return [each for each in self.promises if each.kept is None]

    @property
    def survived(self) -> int:
        """Faults that left nothing broken."""
        return sum(each.survived for each in self.kinds)

    @property
    def struck(self) -> int:
        """Faults that happened."""
        return sum(each.count for each in self.kinds)

    @property
    def besides(self) -> int:
        """Those of them that were not in the plan."""
        return sum(not each.planned for each in self.faults)

    @property
    def extra(self) -> int:
        """Attempts beyond what would have been needed without a fault."""
        return max(self.attempts - self.needed, 0)


def fault_facts(struck: list[Struck]) -> tuple[FaultFact, ...]:
    """What struck, as facts."""
    return tuple(
        FaultFact(
            each.fault.kind,
            each.fault.where,
            each.lane,
            round(each.at, 2),
            tuple(f"{hit.jobid} {hit.dataid}" for hit in each.hits),
            round(each.recovered, 2) if each.is_timed and each.recovered is not None else None,
            each.is_within,
            not each.is_open and each.is_refused is not False and each.is_ended is not False,
            each.is_planned,
            each.note,
        )
        for each in struck
    )


def kind_facts(faults: tuple[FaultFact, ...], kinds: Iterable[str]) -> tuple[KindFact, ...]:
    """The same by kind, of all that were meant to strike, and of those that only struck besides."""
    found = []
    for kind in dict.fromkeys((*kinds, *(each.kind for each in faults))):
        of_it = [each for each in faults if each.kind == kind]
        seconds = [each.recovered for each in of_it if each.recovered is not None]
        found.append(
            KindFact(
                kind,
                MEANING[kind],
                len(of_it),
                sum(each.survived for each in of_it),
                sum(bool(each.chunks) for each in of_it),
                sum(each.within_two_leases is not None for each in of_it),
                sum(each.within_two_leases is True for each in of_it),
                round(median(seconds), 2) if seconds else None,
                max(seconds, default=None),
            )
        )
    return tuple(found)


def command_of(settings: Settings, store: str = "", environment: str = "") -> str:
    """The command that strikes in the same way again, at the same store; passwords are no part of it."""
    place = f" --env {shlex.quote(environment)}" if environment else ""
    place += f" --store {shlex.quote(without_password(store))}" if store else ""
    spark = " --spark" if settings.spark else ""
    if settings.faults:
        spark += f" --faults {options_of(settings.faults)}"
    return (
        f"odf chaos --seed {settings.seed} --chunks {settings.chunks} --minutes {settings.minutes:g}"
        f" --workers {settings.workers}{spark}{place}"
    )


# Kept and read again ------------------------------------------------------------------------------------------------


def path_of(project: Project) -> Path:
    """Where the last report of a project is kept."""
    return state_of(project) / "chaos.json"


def check(project: Project) -> None:
    """Refuse before anything is broken where a report cannot be kept afterwards."""
    path = path_of(project)
    if path.is_dir() and not path.is_symlink():
        raise BadConfig(f"{path} is a folder, and the report is kept there", hint="Move it away.")


def save(project: Project, report: ChaosReport) -> None:
    """Keep it as the last one: all of it or nothing."""
    path = path_of(project)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    new.write_text(json.dumps(plain(report)), encoding="utf-8")
    new.replace(path)


def last(project: Project) -> ChaosReport | None:
    """The last report of a project, None where there is none; BadConfig where the file is not one of ours."""
    path = path_of(project)
    hint = "Make another one: odf chaos"
    try:
        if path.stat().st_size > _LARGEST:
            raise BadConfig(f"{path} is too large for a report of odf chaos", hint=hint)
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as problem:
        raise BadConfig(f"{path} cannot be read: {type(problem).__name__}", hint=hint) from None
    try:
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ValueError
        found: ChaosReport = _read(ChaosReport, data)
    except (ValueError, TypeError, KeyError):
        raise BadConfig(f"{path} is not a report of this version of odf chaos", hint=hint) from None
    return found


def _read(kind: Any, data: Any) -> Any:
    """Data as what it says that it is; ValueError, KeyError or TypeError where it is not."""
    if get_origin(kind) is tuple:
        if not isinstance(data, list):
            raise ValueError
        return tuple(_read(get_args(kind)[0], each) for each in data)
    if options := [each for each in get_args(kind) if each is not type(None)]:  # of something or None
        return None if data is None else _read(options[0], data)
    if hasattr(kind, "__dataclass_fields__"):
        hints = get_type_hints(kind)
        return kind(*(_read(hints[each.name], data[each.name]) for each in fields(kind)))
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if type(data) is not kind:
        raise ValueError
    return data
