"""What is true of the tables at a quiet moment and that nobody but a test asks: slots that are taken, candidates by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.histories.flows import POOL

Rows = Callable[[str], list[tuple[Any, ...]]]


def in_pool(rows: Rows) -> int:
    """How many runs hold a slot, without those that were forced."""
    return int(rows(f"select count(*) from run where pool = '{POOL}' and status = 'RUNNING' and not forced")[0][0])


def candidates(rows: Rows) -> set[tuple[str, str]]:
    """What can be taken, now or later."""
    return {(jobid, dataid) for jobid, dataid in rows("select jobid, dataid from candidate where state <> 'WAITING'")}
