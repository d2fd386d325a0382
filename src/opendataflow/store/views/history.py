"""Read the history: what happened, by whom and why, in bounded queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from ..drivers.base import Row
from ..engine.inputs import ChunkId
from ..records import moment
from ..rows import compact
from .view import View


class LastChange(NamedTuple):
    """A chunk's current state, the outcome of its last attempt, and its last change with author and reason."""

    datasetid: str
    dataid: str
    jobid: str
    status: str
    modified: datetime | None
    runid: int | None
    outcome: str | None
    detail: str | None
    who: str | None
    why: str | None


class HistoryLine(NamedTuple):
    """An event for people: without its receipt, with the outcome of its run."""

    eventid: int
    at: datetime | None
    kind: str
    datasetid: str | None
    dataid: str | None
    jobid: str | None
    runid: int | None
    epoch: int | None
    before: str | None
    after: str | None
    who: str | None
    why: str | None
    outcome: str | None


class Stretch(NamedTuple):
    """A range of the history: the events with ids after `floor` and before `before`."""

    before: int
    floor: int = 0


class Filter(NamedTuple):
    """Conditions that the database evaluates; empty means any. `outputs` are the datasets that the jobs write."""

    kinds: Sequence[str] = ()
    datasets: Sequence[str] = ()
    jobs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    statuses: Sequence[str] = ()
    who: Sequence[str] = ()  # a prefix


class HistoryViews(View):
    """Pages of the history, newest first."""

    def history(self, stretch: Stretch, wanted: Filter, n: int) -> list[HistoryLine]:
        """Events of a range, newest first; scans the whole range."""
        lists = {name: compact(list(values)) for name, values in wanted._asdict().items()}
        return self._fetch(history_line, "history_stretch", **stretch._asdict(), **lists, n=n)

    def history_of_kinds(self, stretch: Stretch, kinds: Iterable[str], n: int) -> list[HistoryLine]:
        """At most n events of each kind, newest first; by index, for kinds that claims and commits do not write."""
        return self._fetch(history_line, "history_of_kinds", **stretch._asdict(), kinds=compact(list(kinds)), n=n)

    def history_of_datasets(self, stretch: Stretch, datasets: Iterable[str], n: int) -> list[HistoryLine]:
        """The newest events of these datasets, by index; the cost grows with their number of events."""
        return self._fetch(
            history_line, "history_of_datasets", **stretch._asdict(), datasets=compact(list(datasets)), n=n
        )

    def history_of_chunks(self, stretch: Stretch, chunks: Iterable[ChunkId], n: int) -> list[HistoryLine]:
        """The newest events of these chunks, by index."""
        keys = compact(list(chunks))
        return (
            self._fetch(history_line, "history_of_chunks", **stretch._asdict(), chunks=keys, n=n)
            if keys != "[]"
            else []
        )

    def newest_event(self) -> int:
        """The id of the newest event."""
        return int(self._value("newest_event") or 0)

    def last_changes(self, chunks: Iterable[ChunkId]) -> dict[ChunkId, LastChange]:
        """The current state and last change of these chunks; chunks that were never produced are left out."""
        keys = compact(list(chunks))
        rows = self._fetch(last_change, "last_changes_given", chunks=keys) if keys != "[]" else []
        return {(row.datasetid, row.dataid): row for row in rows}


def last_change(row: Row) -> LastChange:
    """A row of last_changes_given."""
    raw = LastChange._make(row)
    return raw._replace(modified=moment(raw.modified))


def history_line(row: Row) -> HistoryLine:
    """A row of a history query."""
    raw = HistoryLine._make(row)
    return raw._replace(at=moment(raw.at))
