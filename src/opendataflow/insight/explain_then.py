"""One chunk explained as it was at a moment."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from ..store import Store
from .explain import Explanation, explain
from .then import TODAYS_DEFINITIONS, StoreAsOf, history_begins
from .words import when


def explain_then(store: Store, datasetid: str, dataid: str, at: datetime) -> Explanation:
    """One chunk as it was: its status, version, attempts, receipts and history up to then."""
    told = explain(StoreAsOf(store, at), datasetid, dataid)
    then = store.views.chunks_then([(datasetid, dataid)], at)[datasetid, dataid]
    not_known = [*history_begins(store, at)]
    if not then.is_known:
        begins = f" before {when(then.known_from)}" if then.known_from else ""
        told = replace(told, meaning=f"nothing is known of it{begins}")
    elif then.known_from is not None:
        not_known.append(f"its history begins at {when(then.known_from)}, and tells what was found there")
    not_known += [
        TODAYS_DEFINITIONS,
        "limits, what was STALE, and what a look at the data would have found are not known for that time",
    ]
    return replace(told, at=at, not_known=tuple(not_known))
