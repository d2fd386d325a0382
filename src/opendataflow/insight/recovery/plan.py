"""The plan: the smallest set of RESUBMITs that lets everything run that can, in order, and what people have to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ...errors import UsageError
from ...model import FAILED, HOLD, PENDING, RESUBMIT, RUNNING
from ...model.decision.cause import cause_key
from ...store import Store
from ..words import are, count
from .by_hand import ByHand, by_hand
from .causes import Grouped, RootCause, grouped
from .estimate import Estimate, estimate
from .graph import graph
from .nodes import DEFERRED, NEW, OUTSIDE, REFUSED, Graph, RecoveryNode, following
from .ways import ChunkId


@dataclass(frozen=True, slots=True)
class RecoveryStep:
    """The chunks of one job that are to be made again, and how many chunks can run because of them."""

    level: int
    jobid: str
    datasetid: str
    dataids: tuple[str, ...]
    causes: tuple[int, ...]
    behind: int
    fetches: int = 0  # chunks whose data was wrong, and can be right only if it changed outside


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What is not READY, by what it waits for: a RESUBMIT, the clock, its inputs, its end, or people."""

    failed: int
    deferred: int
    resubmit: int
    running: int
    waiting: int
    set_aside: int
    refused: int
    expired: int  # runs among them whose lease ran out


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """What is wrong, what to say RESUBMIT to, what follows from that, and what is left for people."""

    causes: tuple[RootCause, ...]
    only: tuple[int, ...] | None  # the causes that it is for; None is all of them
    found: Unfinished
    steps: tuple[RecoveryStep, ...]
    resubmit: tuple[ChunkId, ...]
    runs: int  # that will happen, those behind included
    estimate: Estimate
    by_hand: tuple[ByHand, ...]
    again: int  # chunks that stay FAILED until people have done that
    follows: tuple[ChunkId, ...]  # one chunk of each run that will happen

    def to_data(self) -> dict[str, object]:
        """The plan as plain data; what follows is only counted."""
        return {
            "causes": self.causes,
            "cause": self.only[0] if self.only and len(self.only) == 1 else None,
            "chosen": self.only,
            "found": self.found,
            "steps": self.steps,
            "resubmit": self.resubmit,
            "runs": self.runs,
            "estimate": self.estimate,
            "by_hand": self.by_hand,
            "again": self.again,
        }


def headline(plan: RecoveryPlan) -> str:
    """How many chunks need a RESUBMIT, and how many run without one."""
    comes = plan.runs - len(plan.resubmit)
    if plan.resubmit or comes <= 0:
        also = f"; {count(comes, 'downstream chunk')} will run automatically" if comes > 0 else ""
        return f"{count(len(plan.resubmit), 'chunk')} to RESUBMIT{also}"
    will_run = "will run with the next odf drain"
    if comes == plan.found.resubmit:
        return f"{count(comes, 'chunk')} {are(comes)} RESUBMIT already and {will_run}"
    return f"{count(comes, 'chunk')} {will_run}, without a RESUBMIT"


def plan(
    store: Store,
    only: int | str | Sequence[int | str] | None = None,
    *,
    resubmits: bool = True,
    lenient: bool = False,
) -> RecoveryPlan:
    """The plan for everything, or for some causes, by number, id or what they say; without resubmits, what happens by itself.

    A cause that there is not is an error; with lenient it is left out, since it may be healed by now.
    """
    found = graph(store, missing=True)
    groups = grouped(store, found)
    chosen = _chosen(groups.causes, only, lenient=lenient) if only is not None else None
    mask = sum(1 << number for number in chosen) if chosen is not None else None
    healed = heal(found, _allowed(groups, mask) if resubmits else lambda node: False)
    again = [node for node in healed if node.state == FAILED]
    mine = [node for node in healed if mask is None or groups.behind[node] & mask]
    is_healed = set(healed)
    stuck = [node for node in found.nodes.values() if node.state == FAILED and node not in is_healed]
    return RecoveryPlan(
        groups.causes,
        chosen,
        _found(found),
        tuple(_steps(groups, healed)),
        tuple(node.failed for node in again),
        sum(node.state != RUNNING for node in mine),
        estimate(store, found, mine),
        tuple(by_hand(store, found, healed)),
        len(stuck) if mask is None else 0,
        tuple(node.chunks[0] for node in mine),
    )


def _chosen(causes: Sequence[RootCause], only: int | str | Sequence[int | str], *, lenient: bool) -> tuple[int, ...]:
    """The numbers of the causes that are meant, in their order."""
    words = [only] if isinstance(only, (int, str)) else only
    found = set()
    for word in words:
        try:
            found.add(_number(causes, word))
        except UsageError:
            if not lenient:
                raise
    return tuple(sorted(found))


def _number(causes: Sequence[RootCause], only: int | str) -> int:
    """The one cause that is meant. Numbers change with every look; its id and what it says do not."""
    word = str(only).strip()
    if word.isdecimal():
        meant = [cause for cause in causes if cause.number == int(word)]
    else:
        key = cause_key(word).casefold()
        meant = [cause for cause in causes if cause.id == word] or [
            cause for cause in causes if word == cause.outcome or key in cause_key(cause.text).casefold()
        ]
    if len(meant) == 1:
        return meant[0].number
    several = f"{len(meant)} causes say {word!r}" if meant else f"there is no cause {word}"
    raise UsageError(several, hint="They are listed in: odf recover")


def _allowed(groups: Grouped, mask: int | None) -> Callable[[RecoveryNode], bool]:
    if mask is None:
        return lambda node: True
    return lambda node: bool(groups.behind.get(node, 0) & mask)


def heal(found: Graph, allowed: Callable[[RecoveryNode], bool]) -> list[RecoveryNode]:
    """Everything that becomes READY, in order, once those FAILED nodes that are allowed are resubmitted.

    Each FAILED node among them needs its own RESUBMIT, since FAILED stays FAILED; and no other does anything. So they
    are the smallest set.
    """
    # What runs has what it needs, whatever becomes of that.
    left = {node: 0 if node.state == RUNNING else len(node.needs) + len(node.any_of) for node in found.nodes.values()}
    healed: list[RecoveryNode] = []
    given: set[tuple[RecoveryNode, int]] = set()
    ready = [node for node, n in left.items() if not n]
    for node in ready:
        if node.blocked or (node.state == FAILED and not allowed(node)):
            continue
        healed.append(node)
        fed = node.feeds
        if node.may_feed:
            new = [which for which in node.may_feed if which not in given]
            given.update(new)
            fed = [*fed, *(each for each, _ in new)]
        for each in fed:
            left[each] -= 1
            if not left[each]:
                ready.append(each)
    return healed


def _found(found: Graph) -> Unfinished:
    states = Counter(node.state for node in found.nodes.values() if node.is_behind)
    return Unfinished(
        states[FAILED],
        states[DEFERRED],
        states[RESUBMIT],
        states[RUNNING],
        states[NEW],
        states[HOLD] + states[PENDING],
        states[REFUSED] + states[OUTSIDE],
        sum(node.is_expired for node in found.nodes.values()),
    )


def _steps(groups: Grouped, healed: list[RecoveryNode]) -> Iterator[RecoveryStep]:
    """What to say RESUBMIT to, job by job along the flow, each with what can run because of it."""
    levels = _levels(healed)
    inside = set(healed)
    by_job: dict[tuple[int, str], list[RecoveryNode]] = {}
    for node in healed:
        if node.state == FAILED:
            by_job.setdefault((levels[node], node.jobid), []).append(node)
    for (level, jobid), nodes in sorted(by_job.items()):
        mask = 0
        for node in nodes:
            mask |= groups.behind[node]
        nodes.sort(key=lambda node: node.rows[0].sort_key)
        yield RecoveryStep(
            level,
            jobid,
            nodes[0].failed[0],
            tuple(node.dataid for node in nodes),
            tuple(cause.number for cause in groups.causes if mask & 1 << cause.number),
            following(nodes, inside.__contains__),
            sum(node.fetches for node in nodes),
        )


def _levels(healed: list[RecoveryNode]) -> dict[RecoveryNode, int]:
    """How many runs have to end before each, itself included: what is at one level can run at the same time."""
    levels: dict[RecoveryNode, int] = {}
    for node in healed:
        level = 0
        for need in node.all_needs:
            level = max(level, levels.get(need, 0))
        levels[node] = level + (node.job is not None)
    return levels
