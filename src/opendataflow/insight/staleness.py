"""Staleness: chunks that would come out differently if they were made again now, followed up through every hop."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..errors import BadDataid, BadId
from ..model import READY, Catalogue, Input, Job, latest_bound, sort_key
from ..store import Store

ChunkId = tuple[str, str]
_AFTER_ALL = chr(0x10FFFF)
_MOST = 1_000_000


class _Known(NamedTuple):
    """What the store knows of one dataset: what its current versions were made from, and what is READY in order."""

    made_from: Mapping[str, Sequence[ChunkId]]
    ready: list[tuple[str, str]]  # (position, dataid)


class Staleness:
    """Why chunks are stale; every chunk is judged once, and every dataset read once, or chunk by chunk for a few of many."""

    def __init__(self, store: Store, catalogue: Catalogue, *, by_chunk: bool = False) -> None:
        self._store, self._catalogue, self._by_chunk = store, catalogue, by_chunk
        self._datasets: dict[str, _Known] = {}
        direct = [(row.datasetid, row.dataid) for row in store.views.stale(_MOST) if row.is_direct]
        self._marks: dict[ChunkId, str] = {}
        for mark in store.views.stale_marks(direct) if direct else ():
            self._marks.setdefault((mark.datasetid, mark.dataid), str(mark))
        self.causes: dict[ChunkId, str] = {}  # of every chunk that was looked at; empty where it is not stale

    def cause(self, datasetid: str, dataid: str) -> str:
        """What is newer than a published chunk, at whatever distance upstream; empty when nothing is."""
        # A job that reads its own previous chunk makes a chain as long as its history: no recursion.
        pending: list[ChunkId] = [(datasetid, dataid)]
        waiting = set(pending)
        while pending:
            chunk = pending[-1]
            if chunk in self.causes:
                pending.pop()
                continue
            direct = next(self._newer(*chunk), "")
            above = [] if direct else self._made_from(*chunk)
            unknown = [item for item in above if item not in self.causes and item not in waiting]
            if unknown:
                pending += unknown
                waiting.update(unknown)
                continue
            self.causes[pending.pop()] = direct or next(
                (self.causes[item] for item in above if self.causes.get(item)), ""
            )
        return self.causes[datasetid, dataid]

    def is_direct(self, datasetid: str, dataid: str) -> bool:
        """Whether something that this chunk itself was made from is newer."""
        return next(self._newer(datasetid, dataid), "") != ""

    def _known(self, datasetid: str) -> _Known:
        if datasetid not in self._datasets:
            ready = sorted(
                (chunk.sort_key, chunk.dataid) for chunk in self._store.views.all_chunks(datasetid, status=READY)
            )
            made_from: dict[str, list[ChunkId]] = {}
            for each in self._store.views.inputs_now((datasetid, dataid) for _, dataid in ready):
                made_from.setdefault(each.dataid, []).append((each.in_datasetid, each.in_dataid))
            self._datasets[datasetid] = _Known(made_from, ready)
        return self._datasets[datasetid]

    def _made_from(self, datasetid: str, dataid: str) -> Sequence[ChunkId]:
        if not self._catalogue.producer(datasetid):
            return ()  # only announced: its inputs are not known
        if self._by_chunk:
            return [(each.in_datasetid, each.in_dataid) for each in self._store.views.inputs_now([(datasetid, dataid)])]
        return self._known(datasetid).made_from.get(dataid, ())

    def _newer(self, datasetid: str, dataid: str) -> Iterator[str]:
        """What a chunk would be made from now, and was not."""
        consumed, job = self._made_from(datasetid, dataid), self._catalogue.producer(datasetid)
        if (datasetid, dataid) in self._marks:
            yield self._marks[datasetid, dataid]
        for given in job.inputs if job and consumed else ():
            read = {in_dataid for in_datasetid, in_dataid in consumed if in_datasetid == given.datasetid}
            late = [each for each in self._chosen(job, given, dataid) if each not in read] if job else []
            if late:
                more = f" and {len(late) - 1:,} more" if len(late) > 1 else ""
                yield f"{given.datasetid} {late[0]}{more} would be read now ({given.mapping}), and was not there then"

    def _chosen(self, job: Job, given: Input, dataid: str) -> list[str]:
        """The chunks that an input which depends on what exists would be now."""
        if not given.mapping.is_dynamic:
            return []
        ready = self._known(given.datasetid).ready
        if given.mapping.kind == "all":
            return [each for _, each in ready]
        partition = self._catalogue.dataset(given.datasetid).partition
        try:
            until = latest_bound(partition, self._catalogue.output_partition(job), dataid)
            last = bisect_right(ready, (sort_key(partition, until), _AFTER_ALL))
        except (BadDataid, BadId):
            return []
        return [ready[last - 1][1]] if last else []
