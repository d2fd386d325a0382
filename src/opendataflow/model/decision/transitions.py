"""Define the verbs that change the status of a chunk: the statuses that each applies to, the new status, and the event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .status import DONE, FAILED, HOLD, PENDING, READY, RESUBMIT, RUNNING

LOST = "LOST"  # of a run
REFUSED = "REFUSED"  # of a run
BACK = "BACK"  # the status that the chunk had before its claim, or before it was set aside
GONE = "GONE"  # no row

_SET_ASIDE = (HOLD, PENDING)
_NOT_RUNNING = (READY, FAILED, RESUBMIT, *_SET_ASIDE)


class RunEnd(NamedTuple):
    """The statuses that the end of a run writes: of the run, and of its IN rows."""

    run: str
    inputs: str


class TransitionRule(NamedTuple):
    """What a verb does to the OUT row of a chunk; None is no row."""

    event: str  # the kind of the event that records it
    becomes: Mapping[str | None, str]  # status → new status; every other status is refused
    by_force: str | None = None  # the new status of a RUNNING chunk that --force takes away from its run
    by_retry: str | None = None  # the new status by the job's retry rule
    run_end: RunEnd | None = None  # for verbs that end a run


def _to(statuses: tuple[str, ...], after: str) -> dict[str | None, str]:
    return dict.fromkeys(statuses, after)


VERBS: dict[str, TransitionRule] = {
    # Runs.
    "claim": TransitionRule("claimed", {None: RUNNING, RESUBMIT: RUNNING}),
    "claim by force": TransitionRule("claimed", {None: RUNNING, **_to(_NOT_RUNNING, RUNNING)}),
    "publish": TransitionRule("published", {RUNNING: READY}, run_end=RunEnd(READY, DONE)),
    "end as failed": TransitionRule("failed", {RUNNING: FAILED}, by_retry=RESUBMIT, run_end=RunEnd(FAILED, FAILED)),
    "stop": TransitionRule("stopped", {RUNNING: FAILED}, by_retry=RESUBMIT, run_end=RunEnd(LOST, FAILED)),
    "rescue": TransitionRule("rescued", {RUNNING: FAILED}, by_retry=RESUBMIT, run_end=RunEnd(LOST, FAILED)),
    "lose": TransitionRule("lost", {RUNNING: FAILED}, run_end=RunEnd(LOST, FAILED)),
    "cancel": TransitionRule("cancelled", {RUNNING: FAILED}, run_end=RunEnd(FAILED, FAILED)),
    "give back": TransitionRule("given back", {RUNNING: BACK}, run_end=RunEnd(REFUSED, FAILED)),
    "refuse": TransitionRule("refused", {RUNNING: BACK}, run_end=RunEnd(REFUSED, FAILED)),
    # Outside producers.
    "announce": TransitionRule("announced", {None: READY, **_to((READY, FAILED, RESUBMIT), READY)}),
    # Operators.
    "resubmit": TransitionRule("resubmitted", _to(_NOT_RUNNING, RESUBMIT), by_force=RESUBMIT),
    "hold": TransitionRule("held", {None: HOLD, **_to(_NOT_RUNNING, HOLD)}, by_force=HOLD),
    "release": TransitionRule("released", _to(_SET_ASIDE, BACK), by_force=FAILED),
    "fail": TransitionRule("failed", {None: FAILED, **_to(_NOT_RUNNING, FAILED)}, by_force=FAILED),
    "forget": TransitionRule("forgotten", _to(_NOT_RUNNING, GONE), by_force=GONE),
    "roll back": TransitionRule("rolled back", _to((READY, FAILED, RESUBMIT), READY)),
    "recall": TransitionRule(
        "recalled", {READY: RESUBMIT, FAILED: FAILED, RESUBMIT: RESUBMIT, HOLD: HOLD, PENDING: PENDING}
    ),
    "recall and hold": TransitionRule("recalled", {**_to((READY, FAILED, RESUBMIT, HOLD), HOLD), PENDING: PENDING}),
    # What follows from the content of inputs: a chunk that was to be made again is unchanged.
    "keep": TransitionRule("kept", {RESUBMIT: READY}),
}

STEERING = ("resubmit", "hold", "release", "fail", "forget")  # the verbs with which operators choose chunks


def allows(verb: str, before: str | None, after: str | None) -> bool:
    """Whether the table lets a verb of an operator change one status into another."""
    rule = VERBS[verb]
    becomes = rule.by_force if before == RUNNING else rule.becomes.get(before)
    return becomes == BACK or (becomes is not None and becomes == (after or GONE))
