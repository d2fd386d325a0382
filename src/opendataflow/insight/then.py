"""Then: a store as it was at a moment, for the looks that know the store as it is now."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from ..errors import BadDataid, BadId
from ..model import DONE, FAILED, HOLD, PENDING, RESUBMIT, RUNNING, Catalogue, Consumed, sort_key
from ..store import Chunk, Event, FirstAndLast, InputRow, Position, Published, Recalled, Remarked, Run, Store
from ..store.views import ChunkStatus, ChunkThen
from .axis import FIRST_KEY, LAST_KEY
from .seen import StoreViews
from .words import when

LOOKED_AT = 5_000  # chunks of one look, over all datasets
_AT_LEAST = 100  # of one dataset
_READERS = 1000
_NOT_READY = (RUNNING, FAILED, RESUBMIT, HOLD, PENDING)

TODAYS_DEFINITIONS = "datasets, jobs and mappings are those of today: what was declared then is not kept"


def seen_at(store: Store, at: datetime | None) -> StoreViews:
    """The store as it was then, or as it is now."""
    return store.views if at is None else StoreAsOf(store, at)


def history_begins(store: Store, at: datetime) -> tuple[str, ...]:
    """That nothing is known of a moment, where the history begins later."""
    first = store.views.first_event()
    if first is None:
        return ("nothing is known of that time: this store has no history",)
    return (f"nothing is known of that time: the history begins at {when(first)}",) if at < first else ()


class StoreAsOf:
    """What a store would have answered at a moment, from its history; definitions are those of today."""

    def __init__(self, store: Store, at: datetime, *, most: int = LOOKED_AT) -> None:
        self._store, self.at, self._most = store, at, most
        self._there: dict[str, list[Chunk]] = {}
        self.cut: set[str] = set()  # datasets that have more chunks than were looked at

    def catalogue(self) -> Catalogue:
        """All datasets, jobs and pools as they are declared today."""
        return self._store.catalogue()

    def clock(self) -> float:
        """The moment, in seconds since 1970."""
        return self.at.timestamp()

    # One chunk ---------------------------------------------------------------------------------------------------

    def chunk(self, datasetid: str, dataid: str) -> Chunk | None:
        """One chunk as it was; None when it was not there, or nothing is known of it."""
        then = self._store.views.chunks_then([(datasetid, dataid)], self.at)[datasetid, dataid]
        return _chunk(then, then.status, then.sort_key) if then.status is not None else None

    def given_chunks(self, chunks: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """The statuses of these chunks, without those that were not there."""
        then = self._store.views.chunks_then(chunks, self.at)
        return {chunk: each.status for chunk, each in then.items() if each.status is not None}

    def manifests(self, datasetid: str, dataid: str) -> list[Published]:
        """The manifests of a chunk that were published by then, newest first."""
        published = self._store.views.manifests(datasetid, dataid)
        return [each for each in published if each.published is None or each.published <= self.at]

    def inputs_of(self, runid: int | None) -> tuple[Consumed, ...]:
        """The versions that a run read: they never change."""
        return self._store.views.inputs_of(runid)

    def runs(self, *, jobid: str | None = None, dataid: str | None = None, n: int = 20) -> list[Run]:
        """The attempts that had started by then, newest first; one that ended later was running."""
        return [
            as_running(run) if run.ended is not None and run.ended > self.at else run
            for run in self._store.views.runs(jobid=jobid, dataid=dataid, n=n)
            if run.started is None or run.started <= self.at
        ]

    def last_events(self, datasetid: str, dataid: str, n: int = 100) -> list[Event]:
        """The last events of one chunk by then, newest first."""
        return self._store.views.events_until(datasetid, dataid, self.at, n)

    def readers(self, datasetid: str, dataid: str) -> list[InputRow]:
        """The jobs that had made something of the version of then."""
        chunk = self.chunk(datasetid, dataid)
        if chunk is None or not chunk.version:
            return []
        readers: dict[str, InputRow] = {}
        last = self._store.views.run_before(self.at)
        for link in self._store.views.made_of([(datasetid, dataid, chunk.version)], _READERS, last):
            if link.jobid and link.published is not None and link.published <= self.at:
                made = (link.published, link.version, link.in_version, link.runid)
                readers[link.jobid] = InputRow(datasetid, dataid, link.jobid, DONE, *made)
        return list(readers.values())

    def recalled(self, chunks: Iterable[tuple[str, str]]) -> list[Recalled]:
        """The versions of these chunks that were recalled by then."""
        return [each for each in self._store.views.recalled(chunks) if each.at is None or each.at <= self.at]

    def readers_running(self, datasetid: str) -> int | None:
        """Not known."""
        return None

    # Many chunks -------------------------------------------------------------------------------------------------

    def look_at(self, windows: Mapping[str, tuple[str, str]]) -> None:
        """Read what the chunks of datasets were, between two keys each; of very many only the last ones by then."""
        catalogue = self.catalogue()
        windows = {name: window for name, window in windows.items() if name not in self._there}
        if not windows:
            return
        most = max(self._most // len(windows), _AT_LEAST)
        tops: dict[str, str] = {}
        dataids: dict[str, dict[str, str]] = {name: {} for name in windows}
        moved = self._store.views.moved_before(list(windows), self.at)
        for name, dataid in [*moved, *self._store.views.gone_since(self.at)]:
            key = _key(catalogue, name, dataid) if name in windows else None
            if key is not None and windows[name][0] <= key <= windows[name][1]:
                dataids[name][dataid] = key
                tops[name] = max(key, tops.get(name, key))
        for name, (low, high) in windows.items():
            newest = self._store.views.newest_dataids(name, low, high, most)
            if len(newest) == most:  # those that are newest now may all have come later
                self.cut.add(name)
                newest += self._store.views.newest_dataids(name, low, tops.get(name, high), most)
            for dataid in newest:
                key = _key(catalogue, name, dataid)
                if key is not None:
                    dataids[name][dataid] = key
        asked = [(name, dataid) for name, some in dataids.items() for dataid in some]
        then = self._store.views.chunks_then(asked, self.at)
        for name, keys in dataids.items():
            there = [(each, keys[each.dataid]) for dataid in keys if (each := then[name, dataid]).status is not None]
            chunks = [_chunk(each, str(each.status), key) for each, key in there]
            self._there[name] = sorted(chunks, key=lambda chunk: (chunk.sort_key, chunk.dataid))

    def _within(self, datasetid: str, low: str, high: str) -> list[Chunk]:
        if datasetid not in self._there:
            self.look_at({datasetid: (FIRST_KEY, LAST_KEY)})
        chunks = self._there[datasetid]
        first = bisect_left(chunks, low, key=lambda chunk: chunk.sort_key)
        return chunks[first : bisect_right(chunks, high, key=lambda chunk: chunk.sort_key)]

    def chunks(
        self, datasetid: str, *, status: str | None = None, after: Chunk | None = None, n: int = 1000
    ) -> list[Chunk]:
        """A page of a dataset's chunks in the order of their dataids."""
        begin = (after.sort_key, after.dataid) if after else ("", "")
        return [
            chunk
            for chunk in self._within(datasetid, begin[0], LAST_KEY)
            if (chunk.sort_key, chunk.dataid) > begin and status in (None, chunk.status)
        ][:n]

    def ends_given(self, spans: Sequence[tuple[str, str, str]]) -> list[FirstAndLast]:
        """For each (datasetid, first key, last key): the first and the last dataid."""
        found = [self._within(*span) for span in spans]
        return [
            FirstAndLast(chunks[0].dataid, chunks[-1].dataid) if chunks else FirstAndLast(None, None)
            for chunks in found
        ]

    def chunks_between(self, datasetid: str, from_key: str, to_key: str, n: int) -> list[Position]:
        """At most n chunks between two positions."""
        chunks = self._within(datasetid, from_key, to_key)[:n]
        return [Position(chunk.dataid, chunk.sort_key, chunk.status) for chunk in chunks]

    def chunks_within(self, spans: Sequence[tuple[str, str, str]], most: int) -> list[ChunkStatus]:
        """At most so many chunks of these spans, with their statuses."""
        found = [chunk for each in spans for chunk in self._within(*each)]
        return [ChunkStatus(chunk.datasetid, chunk.dataid, chunk.status) for chunk in found[:most]]

    def span_counts(self, spans: Sequence[tuple[str, str, str]], most: int) -> list[dict[str, int]]:
        """How many chunks each span has, in all (under "") and by status other than READY."""
        self.look_at({name: (low or FIRST_KEY, high or LAST_KEY) for name, low, high in spans})
        counted = []
        for span in spans:
            counts = dict.fromkeys(("", *_NOT_READY), 0)
            for chunk in self._within(*span):
                counts[""] += 1
                if chunk.status in counts:
                    counts[chunk.status] += 1
            counted.append({status: min(n, most) for status, n in counts.items()})
        return counted

    def refusals(self) -> list[Event]:
        """Chunks whose last delivery or attempt by then was refused."""
        return self._store.views.refusals_until(self.at)

    def remarked(self) -> list[Remarked]:
        """Not known."""
        return []


def as_running(run: Run) -> Run:
    """An attempt as it was while it ran."""
    return run._replace(status=RUNNING, ended=None, outcome=None, detail=None, exit_code=None)


def _chunk(then: ChunkThen, status: str, key: str) -> Chunk:
    name, dataid = then.datasetid, then.dataid
    made = (then.since, then.epoch, then.version, then.runid)
    return Chunk(name, dataid, then.jobid, status, *made, 0, None, None, None, key)


def _key(catalogue: Catalogue, datasetid: str, dataid: str) -> str | None:
    """The position of a chunk; None for one that cannot be, or of a dataset that is no more."""
    try:
        return sort_key(catalogue.datasets[datasetid].partition, dataid)
    except (BadDataid, BadId, KeyError):
        return None
