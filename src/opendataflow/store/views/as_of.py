"""Read the state of the store at a past moment from events, runs and manifests, without current definitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from .. import records
from ..engine.inputs import ChunkId
from ..records import Event, Run
from ..rows import compact
from .view import View

_MARGIN = 1000  # events that may commit out of order
_LOOK_BACK = 100_000  # in events
_FIRST_LOOKS = (2_000, 20_000)
_RUNS = 20_000


class ChunkThen(NamedTuple):
    """The state of a chunk at a moment; without a status if it did not exist or its history does not reach back."""

    datasetid: str
    dataid: str
    status: str | None
    since: datetime | None
    jobid: str
    version: int
    epoch: int
    runid: int | None
    is_known: bool
    known_from: datetime | None  # start of its history, if later than the moment
    sort_key: str


class _ChunkAround(NamedTuple):
    """A chunk at a moment: the last event before and the first after, its version then, and its current state."""

    datasetid: str
    dataid: str
    at: Any
    kind: str | None
    jobid: str | None
    runid: int | None
    epoch: int | None
    after: str | None
    next_at: Any
    next_kind: str | None
    next_before: str | None
    version_then: int | None
    status_now: str | None
    version_now: int | None
    jobid_now: str | None
    runid_now: int | None
    modified_now: Any
    sort_key: str | None


class _TimedNumber(NamedTuple):
    """The id and time of an event or a run."""

    number: int
    at: Any


class _ChunkKey(NamedTuple):
    """The key of a chunk."""

    datasetid: str
    dataid: str


def stamp(time: datetime) -> str:
    """A moment as text; SQLite compares timestamps as text, and this format has the full precision."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f+00")


class AsOfViews(View):
    """Bounded reads of past states."""

    def event_before(self, time: datetime) -> int:
        """The id of the last event up to a moment; only changes by SQL that are folded in later may follow.

        A binary search, so its cost does not grow with the history. The result may be slightly too late, since transactions
        overlap: callers also compare the times of events.
        """
        newest = int(self._value("newest_event") or 0)
        return min(self._last_before("event_from", time, newest) + _MARGIN, newest)

    def run_before(self, time: datetime) -> int:
        """The id of the last run that started up to a moment."""
        newest = int(self._value("newest_run") or 0)
        return min(self._last_before("run_from", time, newest) + _MARGIN, newest)

    def _last_before(self, query: str, time: datetime, newest: int) -> int:
        low, high = 0, newest  # low is old enough; everything after high is too new
        while low < high:
            middle = (low + high + 1) // 2
            found = self._timed_number(query, middle, high)
            at = records.moment(found.at) if found else None
            if found is None or (at is not None and at > time):
                high = middle - 1
            else:
                low = found.number
        return low

    def _timed_number(self, query: str, number: int, last: int) -> _TimedNumber | None:
        if query == "run_from":
            return self._first(_TimedNumber._make, "run_from", number=number, last=last)
        return self._first(_TimedNumber._make, "event_from", number=number, last=last)

    def first_event(self) -> datetime | None:
        """The start of this store's history."""
        first = self._timed_number("event_from", 0, 2**62)
        return records.moment(first.at) if first else None

    def chunks_then(self, chunks: Iterable[ChunkId], time: datetime) -> dict[ChunkId, ChunkThen]:
        """The state of these chunks at a moment, in the given order."""
        keys = compact(list(dict.fromkeys(chunks)))
        rows = self._fetch(_ChunkAround._make, "chunks_then", chunks=keys, at=stamp(time)) if keys != "[]" else []
        return {(row.datasetid, row.dataid): _state_at(row, time) for row in rows}

    def events_until(self, datasetid: str, dataid: str, time: datetime, n: int = 100) -> list[Event]:
        """The last events of one chunk up to a moment, newest first."""
        chunk: dict[str, Any] = {"datasetid": datasetid, "dataid": dataid, "at": stamp(time), "n": n}
        return self._fetch(records.event, "events_of_chunk_until", **chunk)

    def gone_since(self, time: datetime, look_back: int = _LOOK_BACK) -> list[_ChunkKey]:
        """Chunks that were forgotten or deleted since a moment, among the last events."""
        gone = self._fetch(_ChunkKey._make, "chunks_gone_since", at=stamp(time), look_back=look_back)
        return list(dict.fromkeys(gone))

    def moved_before(
        self, datasets: Sequence[str], time: datetime, look_back: int = _FIRST_LOOKS[1]
    ) -> list[_ChunkKey]:
        """The chunks of these datasets that the last events before a moment changed."""
        last = self.event_before(time)
        names = compact(list(datasets))
        moved = self._fetch(_ChunkKey._make, "chunks_of_events", datasets=names, floor=last - look_back, last=last)
        return list(dict.fromkeys(moved))

    def refusals_until(self, time: datetime, n: int = 1000) -> list[Event]:
        """Chunks whose last delivery or attempt up to a moment was refused because of the data, newest first."""
        last = self.event_before(time)
        page: dict[str, Any] = {"floor": last - _LOOK_BACK, "last": last, "n": n}
        return self._fetch(records.event, "refusals_until", at=stamp(time), **page)

    def receipts_until(self, jobid: str, time: datetime, n: int = 5) -> list[Event]:
        """The last receipts of a job up to a moment, newest first; searches only the end of a long history."""
        last = self.event_before(time)
        found: list[Event] = []
        for look_back in (*_FIRST_LOOKS, _LOOK_BACK):
            page: dict[str, Any] = {"floor": last - look_back, "last": last, "n": n}
            found = self._fetch(records.event, "receipts_of_job_until", jobid=jobid, at=stamp(time), **page)
            if len(found) == n or look_back > last:
                break
        return found

    def running_at(self, jobid: str, time: datetime, n: int = 100) -> list[Run]:
        """Attempts of a job that ran at a moment, newest first, among the last that had started."""
        before = self.run_before(time) + 1
        page: dict[str, Any] = {"before": before, "floor": before - _RUNS, "n": n}
        return self._fetch(records.run, "runs_of_job_at", jobid=jobid, at=stamp(time), **page)


def _state_at(row: _ChunkAround, time: datetime) -> ChunkThen:
    """The state of a chunk, from the last event before, the first event after, and its current state."""
    told_at, next_at, modified = (records.moment(each) for each in (row.at, row.next_at, row.modified_now))
    is_as_now = row.next_kind is None and modified is not None and modified <= time
    if row.kind is not None:
        status, since = (row.status_now if is_as_now else row.after), told_at
    elif row.next_kind is not None:
        status, since = row.next_before, None
    else:
        status, since = (row.status_now, modified) if is_as_now else (None, None)
    is_known = row.kind is not None or is_as_now or (row.next_kind is not None and row.next_before is not None)
    return ChunkThen(
        row.datasetid,
        row.dataid,
        status,
        since,
        row.jobid or row.jobid_now or "",
        _version(row, is_as_now) if status is not None else 0,
        row.epoch or 0,
        row.runid if row.kind else row.runid_now if is_as_now else None,
        is_known,
        next_at if row.kind is None else None,
        row.sort_key or "",
    )


def _version(row: _ChunkAround, is_as_now: bool) -> int:
    return row.version_then or (row.version_now if is_as_now else None) or 0
