"""Words: what a chaos is going to do, does and found, as both doors say it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from ..insight.words import count, took
from .plan import MEANING, Fault, Settings, kinds_of
from .report import SURVIVED, ChaosReport, KindFact
from .scratch import Where
from .struck import Struck


def intent(settings: Settings, at: Where, faults: int, report: Path) -> list[str]:
    """What is going to happen, and where; nothing else is touched."""
    told = [
        f"odf chaos is going to strike {count(faults, 'time')} while {_workers(settings)} "
        f"{'makes' if settings.workers == 1 and not settings.spark else 'make'} "
        f"{count(settings.chunks, 'chunk')}, for {settings.minutes:g} min at most (seed {settings.seed}):",
        *(f"  {kind}: {MEANING[kind]}" for kind in kinds_of(settings, at.store.has_server)),
        "A worker that is in the way of the plan is killed besides: one that stands in for a frozen one, or still waits.",
        "It works here, and touches nothing else:",
        f"  store   {at.store.shown}",
        f"  data    {at.folder}",
        f"  report  {report}",
    ]
    return told + ([f"  note    {at.note}"] if at.note else [])


def _workers(settings: Settings) -> str:
    workers = count(settings.workers, "worker")
    return f"{workers} and one more, with Spark (number {settings.workers + 1})," if settings.spark else workers


def planned(lanes: tuple[tuple[Fault, ...], ...]) -> list[tuple[int, str, str]]:
    """The plan as rows: worker, fault, where."""
    return [(number, fault.kind, fault.where) for number, faults in enumerate(lanes, 1) for fault in faults]


def happened(struck: Struck) -> str:
    """One fault when it strikes, and when it has healed."""
    chunks = ", ".join(f"{hit.jobid} {hit.dataid}" for hit in struck.hits)
    what = f"{struck.fault.kind} {struck.fault.where}"
    if struck.woke is not None:
        return f"{struck.woke:6.1f} s  worker {struck.lane}: {struck.fault.kind}: {struck.note}"
    if struck.is_open:
        return f"{struck.at:6.1f} s  worker {struck.lane}: {what}; hit {chunks}"
    if not struck.hits:
        return f"{struck.at:6.1f} s  worker {struck.lane}: {what}; it had nothing in its hands"
    healed = struck.at + (struck.recovered or 0)
    note = f"; {struck.note}" if struck.note else ""
    return f"{healed:6.1f} s  healed after {took(struck.recovered)}: {what} ({chunks}){note}"


def verdict(report: ChaosReport) -> str:
    """The end of it in one sentence."""
    open_yet = report.struck - report.survived
    faults = f"{report.survived:,} of {count(report.struck, 'fault')} survived"
    if open_yet and not report.broken:
        faults = f"{report.survived:,} of {count(report.struck, 'fault')} healed, {open_yet:,} not healed yet"
    if report.missed:
        names = ", ".join(dict.fromkeys(each.kind for each in report.missed))
        faults += f", {len(report.missed):,} of {report.planned:,} planned did not strike ({names})"
    chunks = f"{report.done:,} of {count(report.chunks, 'chunk')} done"
    if report.verdict == SURVIVED:
        return f"{faults}, {chunks}, nothing lost, {_kept(report)}"
    if report.broken:
        untested = f", {len(report.untested):,} not tested" if report.untested else ""
        return f"{count(len(report.broken), 'promise')} broken{untested}; {faults}, {chunks}"
    more = "Spark needs longer: give it" if report.machine.spark else "give it"
    return f"it did not end in {took(report.seconds)}: {faults}, {chunks}, {_kept(report)}; {more} more --minutes"


def _kept(report: ChaosReport) -> str:
    """How many promises were kept; a promise that nothing tested is not one of them."""
    untested = len(report.untested)
    if not untested:
        return "every promise kept"
    kept = len(report.promises) - untested
    return f"{kept:,} of {count(len(report.promises), 'promise')} kept, {untested:,} not tested"


def facts(report: ChaosReport) -> list[tuple[str, str]]:
    """What was tried, where and how, by name."""
    machine = report.machine
    return [
        ("began", report.began),
        ("took", took(report.seconds)),
        ("machine", machine.host),
        ("store", f"{machine.database}, {machine.store}"),
        ("disk", f"{machine.disk}, {machine.folder}"),
        ("Spark", machine.spark),
        ("version", machine.version),
        ("faults", _faults(report)),
        ("attempts", attempts(report)),
        ("again", report.command),
        *kept(report.kept, report.kept_store, report.removal),
    ]


def _faults(report: ChaosReport) -> str:
    struck = report.struck - report.besides
    missed = f", {len(report.missed):,} did not" if report.missed else ""
    besides = f"; {report.besides:,} besides" if report.besides else ""
    return f"{report.planned:,} planned: {struck:,} struck{missed}{besides}"


def kept(folder: str, store: str, removal: str) -> list[tuple[str, str]]:
    """A scratch that was kept: where it is, how to look at it, and how to remove it."""
    if not folder:
        return []
    look = f"cd {shlex.quote(folder)} && odf status --store {shlex.quote(store)}"
    return [("scratch", folder), ("its store", store), ("look at it", look), ("remove it", removal)]


def attempts(report: ChaosReport) -> str:
    """How much was done twice."""
    extra = f"{report.extra:,} more than without faults" if report.extra else "none more than without faults"
    return (
        f"{report.attempts:,} for {count(report.needed, 'run')}: {extra}, after {count(report.struck, 'fault')} "
        "(chunks are made again and again while faults strike)"
    )


KIND_HEADERS = ("fault", "struck", "survived", "hit a run", "healed in 2 leases", "median", "worst")


def kind_row(kind: KindFact) -> tuple[str, int, int, int, str, str, str]:
    """All faults of one kind in a row."""
    within = f"{kind.within_two_leases:,} of {kind.timed:,}" if kind.timed else ""
    return kind.kind, kind.count, kind.survived, kind.hit, within, took(kind.median), took(kind.worst)


KEPT, BROKEN, NOT_TESTED = "kept", "BROKEN", "not tested"


def promises(report: ChaosReport, most: int = 5) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Each promise: whether it was kept, which it is, and what breaks it, or why nothing tested it."""
    for each in report.promises:
        more = (f"and {len(each.evidence) - most:,} more",) if len(each.evidence) > most else ()
        kept = NOT_TESTED if each.kept is None else KEPT if each.kept else BROKEN
        yield kept, each.promise, (*each.evidence[:most], *more)
