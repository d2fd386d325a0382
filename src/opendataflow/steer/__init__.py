"""The operators' verbs on chunks, runs, jobs and pools; the terminal and the console call the same functions."""

from __future__ import annotations

from .verbs import (
    VERBS,
    CancelledRun,
    PoolSet,
    apply_plan,
    cancel,
    check_reason,
    pause,
    recall,
    recover,
    remake,
    resume,
    rollback,
    select_chunks,
    select_stale,
    set_pool,
    slots_of,
    steer,
    steer_chunks,
)

__all__ = [
    "VERBS",
    "CancelledRun",
    "PoolSet",
    "apply_plan",
    "cancel",
    "check_reason",
    "pause",
    "recall",
    "recover",
    "remake",
    "resume",
    "rollback",
    "select_chunks",
    "select_stale",
    "set_pool",
    "slots_of",
    "steer",
    "steer_chunks",
]
