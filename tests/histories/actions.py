"""What may happen in a history, as plain data: it can be played again, left out, or handed to another process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from opendataflow.store import Claim
from tests.histories.flows import POOL, Flow, Work
from tests.histories.typed import SOMEBODY

LONG_AGO = "2020-01-01 00:00:00"


class Action(NamedTuple):
    """One thing that happens; what it names is always possible to name."""

    kind: str
    of: tuple[Any, ...] = ()


def content(letter: str | None, name: str, dataid: str) -> str | None:
    """The fingerprint of a content: one of two that a chunk may have, one that all have in common, or none."""
    return letter if letter in (None, "same") else f"{name} {dataid} {letter}"


def kth(claims: Sequence[Claim], k: int) -> Claim:
    """One of the newest claims."""
    return claims[-1 - k % len(claims)]


def given(action: Action, claims: Sequence[Claim]) -> list[tuple[Claim, dict[str, str | None]]]:
    """What a commit publishes: each claim once, with contents."""
    found: dict[int, tuple[Claim, dict[str, str | None]]] = {}
    for k, letter in action.of:
        claim = kth(claims, k)
        contents = {name: content(letter, name, claim.dataid) for name in claim.outputs}
        found.setdefault(claim.runid, (claim, contents if letter else {}))
    return list(found.values())


OF_CLAIMS = ("commit", "fail", "give_back", "heartbeat", "expire", "cancel", "shake")


def called(action: Action, flow: Flow, claims: Sequence[Claim]) -> tuple[Any, ...] | None:
    """The verb and its arguments, as a hand takes them; None where there is nothing to do it to."""
    kind, of = action
    if kind in OF_CLAIMS:
        return _of_claims(action, claims) if claims else None
    if kind in ("rescue", "fold", "look"):
        return (kind,)
    if kind == "register":
        return "register", flow, (wanted(action, flow),), False
    if kind == "unregister":
        jobid, by_prune = of
        if by_prune:
            return "register", flow, tuple(work for work in flow.works if work.name != jobid), True
        return "sql", f"delete from job where jobid = '{jobid}'"
    if kind in SQL:
        return "sql", SQL[kind](*of)
    if kind == "claim":
        return kind, *of[:-1], list(claims) if of[-1] else []
    return kind, *of


def wanted(action: Action, flow: Flow) -> Work:
    """The definition that a job is registered with."""
    index, rules = action.of
    work: Work = (flow.works + flow.others)[index]
    if rules is not None:
        work = work._replace(retries=rules[0], backoff=rules[1], on_new_version=rules[2])
    return work


def _of_claims(action: Action, claims: Sequence[Claim]) -> tuple[Any, ...]:
    if action.kind == "commit":
        return "commit", given(action, claims)
    claim = kth(claims, action.of[0])
    if action.kind == "expire":
        return "sql", f"update run set lease_until = 1 where runid = {claim.runid} and status = 'RUNNING'"
    if action.kind in ("cancel", "shake"):
        return action.kind, claim.runid, *action.of[1:]
    return action.kind, claim, *action.of[1:]


def _row(name: str, dataid: str) -> str:
    return f"where datasetid = '{name}' and dataid = '{dataid}' and locktype = 'OUT'"


def _relation(name: str, dataid: str, jobid: str) -> str:
    return f"where datasetid = '{name}' and dataid = '{dataid}' and jobid = '{jobid}' and locktype = 'IN'"


def _inserted(name: str, dataid: str, jobid: str, locktype: str, word: str) -> str:
    columns = "datasetid, dataid, jobid, locktype, status"
    return f"insert into datastatus ({columns}) values ('{name}', '{dataid}', '{jobid}', '{locktype}', '{word}')"


SQL: dict[str, Callable[..., str]] = {
    "type_out": lambda name, dataid, word: f"update datastatus set status = '{word}' {_row(name, dataid)}",
    "type_view": lambda name, dataid, word: (
        f"update job_status set status = '{word}' where datasetid = '{name}' and dataid = '{dataid}'"
    ),
    "put_out": lambda name, dataid, word: _inserted(name, dataid, SOMEBODY, "OUT", word),
    "drop_out": lambda name, dataid: f"delete from datastatus {_row(name, dataid)}",
    "touch": lambda name, dataid: f"update datastatus set modified = '{LONG_AGO}' {_row(name, dataid)}",
    "type_in": lambda name, dataid, jobid, word: (
        f"update datastatus set status = '{word}' {_relation(name, dataid, jobid)}"
    ),
    "put_in": lambda name, dataid, jobid, word: _inserted(name, dataid, jobid, "IN", word),
    "drop_in": lambda name, dataid, jobid: f"delete from datastatus {_relation(name, dataid, jobid)}",
    "by_hand": lambda jobid, dataid, word: (
        f"update datastatus set status = '{word}' where jobid = '{jobid}' and dataid = '{dataid}'"
    ),
    "break": lambda name, jobid: (
        f"update job set itemvalue = 'nonsense' where jobid = '{jobid}' and datasetid = '{name}' and itemtype = 'IN'"
    ),
    "type_rule": lambda jobid, retries: f"update jobrule set retries = {retries} where jobid = '{jobid}'",
    "type_slots": lambda slots: f"update pool set slots = {'null' if slots is None else slots} where poolid = '{POOL}'",
}
