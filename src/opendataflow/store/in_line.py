"""In line: which chunk of a job is first in the way when none can be claimed, found at a cost that history does not raise."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ..errors import BadDataid, BadId
from ..model import FAILED, HOLD, PENDING, READY, RESUBMIT, RUNNING, Catalogue, Job, sort_key
from . import records
from .backend import Transaction
from .facts import statuses_of
from .records import Chunk
from .rows import InLine

_MOST_CANDIDATES = 10_000
_LOOKED_AT = 20  # chunks of an input with one status, and outputs that each of them decides about
_LOCKED = (RUNNING, FAILED, HOLD, PENDING)  # what keeps a chunk from being a candidate, and is not the end of it
_BEFORE_ALL = " "  # comes before every position, and after the empty one of a malformed dataid


def first_in_line(tx: Transaction, catalogue: Catalogue, job: Job) -> str | None:
    """The first chunk of a job, in its order, that is not done: a candidate, a locked output, or one whose input is not READY."""
    found = tx.fetch(InLine._make, "candidates_first", jobid=job.jobid, most=_MOST_CANDIDATES)
    for datasetid in job.outputs:
        locked = (chunk for status in _LOCKED for chunk in _unsettled(tx, datasetid, status, 1))
        found += (InLine(1, chunk.sort_key, chunk.dataid) for chunk in locked)
    waiting = list(_waiting(tx, catalogue, job))
    statuses = statuses_of(tx, [(job.outputs[0], each.dataid) for each in waiting]) if waiting else {}
    found += (each for each in waiting if statuses[job.outputs[0], each.dataid].status != READY)
    return min(found).dataid if found else None


def _waiting(tx: Transaction, catalogue: Catalogue, job: Job) -> Iterator[InLine]:
    """What a job would produce from input chunks that are not READY: nobody made candidates of it yet."""
    partition = catalogue.output_partition(job)
    for item in job.inputs:
        if item.mapping.is_dynamic:
            continue
        for status in (*_LOCKED, RESUBMIT):
            for chunk in _unsettled(tx, item.datasetid, status, _LOOKED_AT):
                try:
                    for dataid in islice(catalogue.outputs_of(job, item, chunk.dataid), _LOOKED_AT):
                        yield InLine(1, sort_key(partition, dataid), dataid)
                except (BadDataid, BadId):
                    continue  # it belongs to no output


def _unsettled(tx: Transaction, datasetid: str, status: str, n: int) -> list[Chunk]:
    page = {"datasetid": datasetid, "status": status, "after_key": _BEFORE_ALL, "after_dataid": "", "n": n}
    return tx.fetch(records.chunk, "unsettled_page", **page)
