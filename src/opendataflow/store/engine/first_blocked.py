"""Find the first chunk of a job that blocks it when none can be claimed, at a cost independent of history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from ...errors import BadDataid, BadId
from ...model import FAILED, HOLD, PENDING, READY, RESUBMIT, RUNNING, Catalogue, Job, sort_key
from .. import records
from ..drivers.base import Transaction
from ..records import Chunk
from ..rows import OrderedDataid
from .facts import statuses_of
from .transition import OUTSIDE

_MAX_CANDIDATES = 10_000
_LOOK_BACK = 100_000  # events, among which refused arrivals are looked for
_MAX_CHUNKS = 20  # input chunks per status, and outputs per input chunk
_LOCKED = (RUNNING, FAILED, HOLD, PENDING)  # locked: not a candidate, and not done
_BEFORE_ALL = " "  # sorts before every position, after the empty position of a malformed dataid


def first_blocked(tx: Transaction, catalogue: Catalogue, job: Job) -> str | None:
    """The first dataid of a job that is not done: a candidate, a locked output, or one with an input that is not READY."""
    found = tx.fetch(OrderedDataid._make, "candidates_first", jobid=job.jobid, n=1, most=_MAX_CANDIDATES)
    for datasetid in job.outputs:
        locked = (chunk for status in _LOCKED for chunk in _unsettled(tx, datasetid, status, 1))
        found += (OrderedDataid(1, chunk.sort_key, chunk.dataid) for chunk in locked)
    waiting = list(_waiting(tx, catalogue, job))
    statuses = statuses_of(tx, [(job.outputs[0], each.dataid) for each in waiting]) if waiting else {}
    found += (each for each in waiting if statuses[job.outputs[0], each.dataid].status != READY)
    return min(found).dataid if found else None


def _waiting(tx: Transaction, catalogue: Catalogue, job: Job) -> Iterator[OrderedDataid]:
    """The outputs of input chunks that are not READY; they have no candidates yet."""
    partition = catalogue.output_partition(job)
    refused = _refused(tx, [item.datasetid for item in job.inputs])
    for item in job.inputs:
        if item.mapping.is_dynamic:
            continue
        statuses = (*_LOCKED, RESUBMIT)
        unsettled = [chunk for status in statuses for chunk in _unsettled(tx, item.datasetid, status, _MAX_CHUNKS)]
        for input_dataid in (*(chunk.dataid for chunk in unsettled), *refused.get(item.datasetid, ())):
            try:
                for dataid in islice(catalogue.outputs_of(job, item, input_dataid), _MAX_CHUNKS):
                    yield OrderedDataid(1, sort_key(partition, dataid), dataid)
            except (BadDataid, BadId):
                continue  # it maps to no output


def _refused(tx: Transaction, datasetids: Sequence[str]) -> dict[str, list[str]]:
    """The chunks of these datasets that were refused when they arrived and are not there, by dataset."""
    page = {"jobid": OUTSIDE, "dataid": "", "look_back": _LOOK_BACK, "n": _MAX_CANDIDATES}
    events = tx.fetch(records.event, "refusals", **page)
    chunks = [
        (str(event.datasetid), str(event.dataid)) for event in events if event.datasetid in datasetids and event.dataid
    ]
    found: dict[str, list[str]] = {}
    for (datasetid, dataid), known in (statuses_of(tx, chunks) if chunks else {}).items():
        if known.status is None:
            found.setdefault(datasetid, []).append(dataid)
    return found


def _unsettled(tx: Transaction, datasetid: str, status: str, n: int) -> list[Chunk]:
    page = {"datasetid": datasetid, "status": status, "after_key": _BEFORE_ALL, "after_dataid": "", "n": n}
    return tx.fetch(records.chunk, "unsettled_page", **page)
