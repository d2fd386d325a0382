"""Causes: the earliest broken chunk of each chain, and failures that say the same as one group, across jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from ...errors import LeaseLost
from ...model import FAILED, HOLD, PENDING, READY
from ...model.decision.cause import cause_key
from ...store import Event, Store
from .graph import graph
from .nodes import OUTSIDE, REFUSED, Graph, Key, RecoveryNode
from .ways import ChunkId

_DIGITS = str.maketrans("123456789", "000000000")
_LOOKED_UP = 2000  # chunks whose history is asked who said what


@dataclass(frozen=True, slots=True)
class RootCause:
    """What broke, as one: the chunks where it began, what they say, and how much hangs behind them."""

    number: int
    key: str  # the same for the same cause, whenever it is asked
    status: str
    outcome: str
    text: str  # what the first of them says
    since: datetime | None
    jobs: tuple[str, ...]
    chunks: tuple[ChunkId, ...]
    failed_behind: int
    waiting_behind: int

    @property
    def id(self) -> str:
        """Its key in a few letters, for an address."""
        from hashlib import sha256

        return "c" + sha256(self.key.encode()).hexdigest()[:10]


@dataclass(slots=True, eq=False)
class Grouped:
    """The causes, and by node which of them it hangs behind: bit n is cause n."""

    causes: tuple[RootCause, ...]
    behind: dict[RecoveryNode, int]


def causes(store: Store) -> tuple[RootCause, ...]:
    """What is wrong now, grouped by root cause, what began first first."""
    found = graph(store)
    return grouped(store, found).causes


def grouped(store: Store, found: Graph) -> Grouped:
    """The roots of a graph in groups, and what hangs behind each group."""
    ordered = found.order()
    roots = _roots(ordered)
    words = _last_words(store, roots)
    groups: dict[str, list[RecoveryNode]] = {}
    known: dict[tuple[object, ...], str] = {}
    for root in roots:
        groups.setdefault(_alike(root, words.get(root.key), known), []).append(root)
    for nodes in groups.values():
        nodes.sort(key=lambda node: str(_since([node]) or "~"))
    in_time = sorted(groups.items(), key=lambda group: (str(_since(group[1]) or "~"), group[0]))
    bits = {node: 1 << n for n, (_, nodes) in enumerate(in_time, 1) for node in nodes}
    behind: dict[RecoveryNode, int] = {}
    for node in ordered:
        mask = bits.get(node, 0)
        for need in node.all_needs:
            mask |= behind[need]
        behind[node] = mask
    hang: Counter[tuple[int, bool]] = Counter(
        (behind[node], node.state == FAILED) for node in ordered if node not in bits and behind[node]
    )
    return Grouped(
        tuple(_cause(n, key, nodes, hang, words) for n, (key, nodes) in enumerate(in_time, 1)),
        behind,
    )


def _roots(ordered: Iterable[RecoveryNode]) -> list[RecoveryNode]:
    """Where something went wrong, and nothing that it needs did."""
    wrong: set[RecoveryNode] = set()
    roots = []
    for node in ordered:
        is_behind = not wrong.isdisjoint(node.all_needs)
        if is_behind or node.is_origin:
            wrong.add(node)
        if node.is_origin and not is_behind:
            roots.append(node)
    return roots


def _last_words(store: Store, roots: Iterable[RecoveryNode]) -> dict[Key, Event]:
    """Who set chunks aside, or said that they are bad, and why: no run tells that."""
    asked = {node.key: node.failed for node in roots if _is_by_person(node)}
    some = dict(list(asked.items())[:_LOOKED_UP])
    events = store.views.last_words(list(some.values()))
    return {key: events[chunk] for key, chunk in some.items() if chunk in events}


def _is_by_person(node: RecoveryNode) -> bool:
    return node.state in (HOLD, PENDING, OUTSIDE) or (
        node.state == FAILED and node.outcome in ("", READY) and not node.is_expired
    )


def _alike(node: RecoveryNode, event: Event | None, known: dict[tuple[object, ...], str]) -> str:
    """What the failures of one cause have in common; texts that differ only in digits are looked at once."""
    text = _text(node, event)
    names = [name for name in (node.jobid, *(name for name, _ in node.chunks), node.dataid) if name and name in text]
    kind = node.state if node.state in (HOLD, PENDING, OUTSIDE, REFUSED) else FAILED
    looks = (kind, _outcome(node), text.translate(_DIGITS), *names)
    if looks not in known:
        known[looks] = f"{kind} {_outcome(node)} {cause_key(text, names)}".strip()
    return known[looks]


def _outcome(node: RecoveryNode) -> str:
    return "" if _is_by_person(node) else node.outcome


def _text(node: RecoveryNode, event: Event | None) -> str:
    if not _is_by_person(node):
        return node.detail
    if event is None:
        return ""
    return event.why or f"{event.kind} by {(event.who or 'somebody').partition('@')[0]}"


def _since(nodes: Iterable[RecoveryNode]) -> datetime | None:
    moments = [row.modified for node in nodes for row in node.rows if row.modified is not None]
    return min(moments, default=None)


def _cause(
    number: int, key: str, nodes: list[RecoveryNode], hang: Counter[tuple[int, bool]], words: dict[Key, Event]
) -> RootCause:
    bit, first = 1 << number, nodes[0]
    event = words.get(first.key)
    is_lost = all(node.outcome == LeaseLost.name for node in nodes)
    return RootCause(
        number,
        key,
        first.state if first.state in (HOLD, PENDING, OUTSIDE, REFUSED) else FAILED,
        LeaseLost.name if is_lost else _outcome(first),
        _text(first, event),
        _since(nodes),
        tuple(dict.fromkeys(node.jobid for node in nodes if node.jobid)),
        tuple(node.failed for node in nodes),
        sum(n for (mask, failed), n in hang.items() if mask & bit and failed),
        sum(n for (mask, failed), n in hang.items() if mask & bit and not failed),
    )
