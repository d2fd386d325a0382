"""Steering: what a person may do to chunks, runs, jobs and pools. The terminal and the console call the same functions."""

from __future__ import annotations

from .verbs import (
    VERBS,
    Cancelled,
    PoolSet,
    cancel,
    carry_out,
    check_reason,
    meant,
    pause,
    recall,
    recover,
    remake,
    resume,
    rollback,
    set_pool,
    slots_of,
    stale_meant,
    steer,
    steer_chunks,
)

__all__ = [
    "VERBS",
    "Cancelled",
    "PoolSet",
    "cancel",
    "carry_out",
    "check_reason",
    "meant",
    "pause",
    "recall",
    "recover",
    "remake",
    "resume",
    "rollback",
    "set_pool",
    "slots_of",
    "stale_meant",
    "steer",
    "steer_chunks",
]
