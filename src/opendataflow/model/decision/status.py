"""Define the statuses and the two lock tables: what each status forbids."""

from __future__ import annotations

from typing import NamedTuple

from ...errors import UnknownStatus
from ..definitions.ids import shown

RUNNING = "RUNNING"
READY = "READY"
FAILED = "FAILED"
RESUBMIT = "RESUBMIT"
HOLD = "HOLD"
PENDING = "PENDING"
DONE = "DONE"

IN = "IN"
OUT = "OUT"


class OutLock(NamedTuple):
    """What the status of an OUT row allows."""

    may_read: bool
    may_produce: bool
    meaning: str


class InLock(NamedTuple):
    """What the status of an IN row allows its job."""

    may_consume: bool
    may_consume_after_resubmit: bool
    meaning: str


OUT_LOCKS: dict[str | None, OutLock] = {
    None: OutLock(False, True, "never produced"),
    RUNNING: OutLock(False, False, "being produced under a lease"),
    READY: OutLock(True, False, "published, after the checks that its dataset declares"),
    FAILED: OutLock(False, False, "the last attempt failed; stays FAILED until it is resubmitted"),
    RESUBMIT: OutLock(False, True, "produce it again, before anything new"),
    HOLD: OutLock(False, False, "set aside by a person"),
    PENDING: OutLock(False, False, "set aside by a person"),
}

IN_LOCKS: dict[str | None, InLock] = {
    None: InLock(True, True, "not consumed by this job"),
    RUNNING: InLock(False, False, "being consumed now"),
    DONE: InLock(False, True, "consumed; the row stays, with the version consumed"),
    FAILED: InLock(True, True, "the attempt failed; read lock released"),
}

SYNONYMS = {"COMPLETE": READY, "ERROR": FAILED, "RERUN": RESUBMIT}

_OUT_SET_ASIDE = OutLock(False, False, "set aside by a person")
_IN_SET_ASIDE = InLock(False, False, "set aside by a person")
_KNOWN = {
    OUT: tuple(status for status in OUT_LOCKS if status is not None),
    IN: tuple(status for status in IN_LOCKS if status is not None),
}


def canonical(status: str, locktype: str = OUT) -> str:
    """The stored form of a status, from any case and any accepted synonym."""
    if locktype not in _KNOWN:
        raise UnknownStatus(f"there is no locktype {shown(locktype)}", hint="The locktypes are IN and OUT.")
    known = _KNOWN[locktype]
    word = status.upper() if isinstance(status, str) else ""
    word = SYNONYMS.get(word, word)
    if word in known:
        return word
    raise UnknownStatus(
        f"{shown(status)} is not a status of {locktype} rows", hint=f"The statuses are {', '.join(known)}."
    )


def statuses() -> str:
    """The valid statuses, as text."""
    return "; ".join(f"{', '.join(known)} in {locktype} rows" for locktype, known in _KNOWN.items())


def may_read(out_status: str | None) -> bool:
    """Whether jobs may read a chunk with this OUT status."""
    return OUT_LOCKS.get(out_status, _OUT_SET_ASIDE).may_read


def may_produce(out_status: str | None) -> bool:
    """Whether a chunk with this OUT status may be produced."""
    return OUT_LOCKS.get(out_status, _OUT_SET_ASIDE).may_produce


def may_consume(in_status: str | None, out_status: str | None) -> bool:
    """Whether a job may read an input chunk (again), given its IN status and the OUT status of the output."""
    lock = IN_LOCKS.get(in_status, _IN_SET_ASIDE)
    return lock.may_consume_after_resubmit if out_status == RESUBMIT else lock.may_consume
