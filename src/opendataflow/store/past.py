"""Past: what happened, by whom and why, in bounded looks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from ..shapes import NamedTuple
from .backend import Row
from .inputs import ChunkId
from .records import moment
from .rows import compact
from .session import Session


class LastChange(NamedTuple):
    """What a chunk is now, how its last attempt ended, and who changed it last, and why."""

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


class Told(NamedTuple):
    """One line of history as people read it: without its receipt, and with how the run ended that it is about."""

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
    """A part of history: the events after floor and before another one."""

    before: int
    floor: int = 0


class Filter(NamedTuple):
    """What the database sorts out by itself: empty means any. outputs are the datasets that the jobs write."""

    kinds: Sequence[str] = ()
    datasets: Sequence[str] = ()
    jobs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    statuses: Sequence[str] = ()
    who: Sequence[str] = ()  # how it begins


class Pages(Session):
    """History as people ask for it: the newest first, and a page at a time."""

    def told(self, stretch: Stretch, wanted: Filter, n: int) -> list[Told]:
        """Events of a stretch, newest first; every event of the stretch is looked at."""
        lists = {name: compact(list(values)) for name, values in wanted._asdict().items()}
        return self._fetch(told, "history_stretch", **stretch._asdict(), **lists, n=n)

    def told_of_kinds(self, stretch: Stretch, kinds: Iterable[str], n: int) -> list[Told]:
        """At most n events of each of these kinds, newest first; by index, for kinds that neither a claim nor a commit tells."""
        return self._fetch(told, "history_of_kinds", **stretch._asdict(), kinds=compact(list(kinds)), n=n)

    def told_of_datasets(self, stretch: Stretch, datasets: Iterable[str], n: int) -> list[Told]:
        """The newest events of these datasets, by index; it costs more the more events they have."""
        return self._fetch(told, "history_of_datasets", **stretch._asdict(), datasets=compact(list(datasets)), n=n)

    def told_of_chunks(self, stretch: Stretch, chunks: Iterable[ChunkId], n: int) -> list[Told]:
        """The newest events of these chunks, by index."""
        asked = compact(list(chunks))
        return self._fetch(told, "history_of_chunks", **stretch._asdict(), chunks=asked, n=n) if asked != "[]" else []

    def newest_event(self) -> int:
        """The number of the newest event."""
        return int(self._value("newest_event") or 0)

    def last_changes(self, chunks: Iterable[ChunkId]) -> dict[ChunkId, LastChange]:
        """What these chunks are now, and what their last change was, without those that were never produced."""
        asked = compact(list(chunks))
        rows = self._fetch(last_change, "last_changes_given", chunks=asked) if asked != "[]" else []
        return {(row.datasetid, row.dataid): row for row in rows}


def last_change(row: Row) -> LastChange:
    """A row of query last_changes_given."""
    raw = LastChange._make(row)
    return raw._replace(modified=moment(raw.modified))


def told(row: Row) -> Told:
    """A row of a query about history."""
    raw = Told._make(row)
    return raw._replace(at=moment(raw.at))
