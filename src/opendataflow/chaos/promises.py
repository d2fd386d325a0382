"""Promises: which were kept, which were broken and by what, and which nothing tested, with how to test them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..errors import BadDefinition, LeaseLost, StoreUnreachable
from ..model import READY
from ..project import Project
from ..store import Run, Store
from ..store.views import soundness as rows
from . import auditor
from .plan import CUT, DAMAGE_FILE, FREEZE_WORKER, LOSE_ANSWER, TAKE_CHUNK, Fault, options_of
from .report import PromiseFact
from .struck import Struck

FENCED = "a worker that lost its chunk publishes nothing"
ENDED = "the script of a run that lost its chunk is ended"
NOT_EARLY = "no lease ends before its time"
ANSWERED = "what a worker says of a run is what the store says, also after a lost answer"
NAMED = "a damaged file is refused by its name"
TIDY = "every error that ends a worker has a name"
PROMISES = (*auditor.PROMISES, FENCED, ENDED, NOT_EARLY, ANSWERED, NAMED, TIDY)
_SHOWN = 20  # pieces of evidence for one promise
_OUR_ROW = f"{BadDefinition.name}: a row of the store"
_RESULT = re.compile(r"^run (\d+): \S+ \S+: ([A-Z_]+)\b.*\n", re.MULTILINE)
_GIVEN = b"login with "  # what a script of the scratch says that was given a password


class StormResult(NamedTuple):
    """What a storm left: its runs, its faults, the output of its workers by log, and leases that ended early."""

    project: Project
    runs: Sequence[Run]
    struck: Sequence[Struck]
    said: Mapping[str, str]
    early: Sequence[str]
    has_server: bool


def promises(
    store: Store, after: StormResult, golden: Mapping[tuple[str, str], bytes], secrets: Iterable[str]
) -> tuple[PromiseFact, ...]:
    """Each promise, with what breaks it or why nothing tested it."""
    reasons = untested(after, bool(golden))  # before the auditor's vacuum
    evidence = storm_evidence(after)
    for breach in auditor.breaches(store, after.project, golden=golden, secrets=[text.encode() for text in secrets]):
        evidence[breach.promise].append(breach.what)
    return tuple(fact(name, those, reasons.get(name)) for name, those in evidence.items())


def fact(name: str, evidence: Sequence[str], reason: str | None) -> PromiseFact:
    """Broken by its evidence; else not tested where there is a reason, else kept."""
    if evidence or reason is None:
        return PromiseFact(name, not evidence, tuple(evidence[:_SHOWN]))
    return PromiseFact(name, None, (reason,))


def storm_evidence(after: StormResult) -> dict[str, list[str]]:
    """The evidence of the storm itself against each promise; the auditor looks at the store and the files."""
    evidence: dict[str, list[str]] = {promise: [] for promise in PROMISES}
    for each in after.struck:
        chunks = ", ".join(f"{hit.jobid} {hit.dataid}" for hit in each.hits)
        if each.is_refused is False:
            evidence[NAMED if each.fault.kind == DAMAGE_FILE else FENCED].append(f"{chunks}: {each.note}")
        if each.is_ended is False:
            evidence[ENDED].append(f"{chunks}: its script went on after {each.fault.kind} {each.fault.where}")
    evidence[NOT_EARLY] += after.early
    evidence[ANSWERED] += contradictions("\n".join(after.said.values()), after.runs)
    evidence[TIDY] += [f"{name}: {line}" for name, text in after.said.items() for line in unnamed(text)]
    return evidence


def contradictions(said: str, runs: Iterable[Run]) -> Iterator[str]:
    """What workers said of runs that ended otherwise; a run that lost its chunk ended as its successor wanted."""
    outcomes = {run.runid: run.outcome for run in runs}
    for runid, outcome in ((int(number), outcome) for number, outcome in _RESULT.findall(said)):
        is_known = outcome != StoreUnreachable.name  # a worker that gave up says nothing of its run
        if is_known and (outcomes.get(runid) == READY) != (outcome == READY):
            yield f"run {runid}: its worker said {outcome}, the store says {outcomes.get(runid)}"


def unnamed(said: str) -> list[str]:
    """The lines of a worker's output with an unnamed error, or with a broken row: nothing but the program writes the rows of a
    scratch."""
    return [line for line in said.splitlines() if line.startswith(("Traceback ", "INTERNAL:")) or _OUR_ROW in line]


# What could not be broken -------------------------------------------------------------------------------------------


def untested(after: StormResult, is_made: bool) -> dict[str, str]:
    """The promises whose condition never occurred, and the command that produces it: they are neither kept nor broken."""
    runs, struck = after.runs, after.struck
    is_published = any(run.outcome == READY for run in runs)
    conditions = {
        auditor.UNDAMAGED: (not after.has_server, "PostgreSQL does not check its own files. Test it: pg_amcheck"),
        rows.PUBLISHED_ONCE: (is_published, "no run was published"),
        rows.WHOLE: (is_published, "no run was published"),
        rows.STAYS: (is_published, "no run was published"),
        rows.GROWING: (any(run.epoch > 1 for run in runs), "no chunk had a second attempt"),
        rows.ONLY_PUBLISHED: (any(item.version for run in runs for item in run.inputs), "no run read a version"),
        rows.SWEPT: (_ran_out(runs), "no lease ran out"),
        auditor.AS_PUBLISHED: (is_made, "no chunk was made in time"),
        auditor.GOLDEN: (is_made, "no chunk was made in time"),
        auditor.NOTHING_STRAY: (any(run.outcome != READY for run in runs), "no attempt failed"),
        auditor.NO_SECRET: (_is_given(after.project), "no script was given a password"),
        FENCED: (_any(struck, (FREEZE_WORKER, TAKE_CHUNK)), "no worker lost its chunk and was heard again"),
        ENDED: (any(each.is_ended is not None for each in struck), "no script hung whose run lost its chunk"),
        NOT_EARLY: (_ran_out(runs), "no lease ran out"),
        ANSWERED: (
            _is_lost(struck, runs) and _is_cut(struck),
            "no COMMIT of a run was lost, or no answer to one",
        ),
        NAMED: (_any(struck, (DAMAGE_FILE,)), "no damaged file was read"),
    }
    found = {promise: f"{why}{_HOW.get(promise, '')}" for promise, (is_met, why) in conditions.items() if not is_met}
    return found if runs else {promise: "no run began" for promise in PROMISES if promise != auditor.UNDAMAGED} | found


def _with(*kinds: str) -> str:
    return f". Test it: odf chaos --faults {options_of(kinds)}"


_HOW = {
    rows.SWEPT: _with(FREEZE_WORKER),
    auditor.NOTHING_STRAY: _with(FREEZE_WORKER),
    FENCED: _with(FREEZE_WORKER, TAKE_CHUNK),
    ENDED: _with(FREEZE_WORKER, TAKE_CHUNK),
    NOT_EARLY: _with(FREEZE_WORKER),
    ANSWERED: f"{_with(LOSE_ANSWER, CUT)} (on PostgreSQL)",
    NAMED: _with(DAMAGE_FILE),
}


def _any(struck: Sequence[Struck], kinds: Sequence[str]) -> bool:
    return any(each.is_refused is not None and each.fault.kind in kinds for each in struck)


def _ran_out(runs: Iterable[Run]) -> bool:
    return any(run.outcome == LeaseLost.name for run in runs)


def _is_lost(struck: Sequence[Struck], runs: Iterable[Run]) -> bool:
    """Whether the COMMIT of a run was executed and its answer lost."""
    published = {run.runid for run in runs if run.outcome == READY}
    return any(hit.runid in published for each in struck if each.fault.kind == LOSE_ANSWER for hit in each.hits)


def _is_cut(struck: Sequence[Struck]) -> bool:
    """Whether the COMMIT of a run was lost before it reached the store."""
    return any(each.hits for each in struck if each.fault == Fault(CUT, "in commit"))


def _is_given(project: Project) -> bool:
    """Whether a script said that it was given a password: its log has what is left of the line."""
    return any(path.is_file() and _GIVEN in path.read_bytes() for path in project.logs.rglob("*"))
