"""Verbs that people type from habit, and what we call them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from ..errors import UsageError

_LOOK = ("odf status", "odf jobs", "odf datasets", "odf runs")
_AGAIN = ("odf resubmit DATASET DATAID", "odf resubmit --failed")
_DETAILS = ("odf explain DATASET DATAID", "odf why JOB", "odf status")
_END = ("odf cancel RUN", "odf end RUN FAILED")
_REMOVE = ("odf forget DATASET DATAID",)

# What is typed → what to type.
HABITS: dict[str, tuple[str, ...]] = {
    "list": _LOOK,
    "ls": _LOOK,
    "kill": _END,
    "stop": _END,
    "abort": _END,
    "retry": _AGAIN,
    "rerun": _AGAIN,
    "restart": _AGAIN,
    "backfill": ("odf ready DATASET FROM..TO", "odf resubmit DATASET FROM..TO", "odf drain"),
    "catchup": ("odf drain",),
    "logs": ("odf log JOB", "odf runs"),
    "tail": ("odf log RUN --follow",),
    "show": _DETAILS,
    "describe": _DETAILS,
    "info": _DETAILS,
    "events": ("odf history", "odf explain DATASET DATAID"),
    "ps": ("odf runs",),
    "trigger": ("odf run JOB", "odf drain JOB"),
    "exec": ("odf run JOB",),
    "runjob": ("odf run SCRIPT",),
    "delete": _REMOVE,
    "remove": _REMOVE,
    "rm": _REMOVE,
    "clear": _REMOVE,
    "unlock": ("odf release DATASET DATAID", "odf rescue"),
    "deploy": ("odf apply",),
    "sync": ("odf apply",),
    "query": ("odf sql STATEMENT",),
    "help": ("odf --help",),
    "version": ("odf --version",),
}


def no_such_verb(words: Sequence[str], verbs: Iterable[str]) -> UsageError:
    """The error for a first word that is no verb."""
    known = list(verbs)
    first, following = words[0], words[1:]
    if first.lower() in HABITS:
        commands = ", or ".join(HABITS[first.lower()])
        return UsageError(f"there is no verb {first!r}", hint=f"What you want may be: {commands}")
    if following and following[0] in known:  # `utility.sh KEY sql …`: whatever stands there is not repeated
        from .words import no_key

        return no_key(f"odf {following[0]} …" if following[1:] else f"odf {following[0]}")
    # The original's programs have capitals: what differs only by them comes first.
    same = [name for name in known if name.lower() == first.lower()]
    close = same or get_close_matches(first, [*known, *HABITS], n=1)
    if close and close[0] in HABITS:
        return no_such_verb([close[0]], known)
    return UsageError(
        f"there is no verb {first!r}", hint=f"Did you mean {close[0]}? See: odf --help" if close else "See: odf --help"
    )
