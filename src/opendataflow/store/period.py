"""Period: what happened between two moments, in bounded looks."""

# No `from __future__ import annotations` here: see records.py.

from datetime import datetime
from typing import NamedTuple

from . import records
from .backend import Row
from .figures import NameCount
from .session import Session
from .then import stamp


class Attempted(NamedTuple):
    """How one attempt went."""

    runid: int
    jobid: str
    dataid: str
    status: str
    owner: str
    forced: bool
    started: datetime | None
    ended: datetime | None
    outcome: str | None
    detail: str | None

    @property
    def seconds(self) -> float | None:
        """How long it took; None while it runs."""
        return (self.ended - self.started).total_seconds() if self.started and self.ended else None


class Deed(NamedTuple):
    """One thing that a person did to a chunk, or that was refused at the door."""

    eventid: int
    at: datetime | None
    kind: str
    datasetid: str | None
    dataid: str | None
    jobid: str | None
    after: str | None
    who: str | None
    why: str | None


class RowCount(NamedTuple):
    """How many rows the current version of a chunk has, and since when."""

    dataid: str
    rows: int
    published: datetime | None


class Periods(Session):
    """What happened between two numbers of runs or events, the newest first."""

    def attempts_between(self, floor: int, last: int, n: int) -> list[Attempted]:
        """Attempts after one number and up to another."""
        return self._fetch(attempted, "attempts_between", floor=floor, last=last, n=n)

    def deeds_between(self, floor: int, last: int, n: int) -> list[Deed]:
        """What people did, and what was refused at the door, after one event and up to another."""
        return self._fetch(deed, "events_by_people", floor=floor, last=last, n=n)

    def event_counts(self, floor: int, since: datetime) -> dict[str, int]:
        """How many events of each kind happened since a moment, among those after a number."""
        return dict(self._fetch(NameCount._make, "event_counts", floor=floor, since=stamp(since)))

    def newest_rows(self, datasetid: str, n: int) -> list[RowCount]:
        """How many rows the last n chunks of a dataset have, as far as that is known, the last ones first."""
        return self._fetch(row_count, "rows_newest", datasetid=datasetid, n=n)


def attempted(row: Row) -> Attempted:
    """A row of query attempts_between."""
    raw = Attempted._make(row)
    return raw._replace(forced=bool(raw.forced), started=records.moment(raw.started), ended=records.moment(raw.ended))


def deed(row: Row) -> Deed:
    """A row of query events_by_people."""
    raw = Deed._make(row)
    return raw._replace(at=records.moment(raw.at))


def row_count(row: Row) -> RowCount:
    """A row of query rows_newest."""
    raw = RowCount._make(row)
    return raw._replace(published=records.moment(raw.published))
