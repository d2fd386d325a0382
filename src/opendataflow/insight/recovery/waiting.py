"""Waiting: chunks that wait behind others, derived from what jobs declare, since the store has candidates of only some of them."""

from __future__ import annotations

from ...store import Store
from .graph import graph
from .nodes import NEW
from .ways import ChunkId

_FOLLOWED = 4000  # unsettled chunks; with more of them, what waits behind is not computed

Waits = dict[str, dict[str, list[ChunkId]]]


def waiting(store: Store) -> Waits | None:
    """By job, the dataids that wait behind others, each with its inputs; None where very many chunks are not READY."""
    counts = store.views.unsettled_counts(_FOLLOWED + 1)
    if sum(sum(states.values()) for states in counts.values()) > _FOLLOWED:
        return None
    found: Waits = {}
    for node in graph(store).nodes.values():
        if node.state == NEW and node.is_behind:
            found.setdefault(node.jobid, {})[node.dataid] = node.inputs
    return found
