"""Period: what happened between two moments, in bounded looks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from ..model import Consumed
from ..shapes import NamedTuple
from . import records
from .backend import Row
from .figures import NameCount
from .rows import compact
from .session import Session
from .then import stamp

_RECENT_RUNS = 20_000


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


class Stint(NamedTuple):
    """One attempt as a stint of work; inputs is None where they are too many to tell."""

    runid: int
    jobid: str
    dataid: str
    epoch: int
    status: str
    pool: str
    owner: str
    started: datetime | None
    ended: datetime | None
    outcome: str | None
    inputs: tuple[Consumed, ...] | None


class MadeChunk(NamedTuple):
    """The current version of a chunk: how much it holds, and when the run that published it began and ended."""

    dataid: str
    status: str
    runid: int | None
    rows: int | None
    bytes: int | None
    started: datetime | None
    ended: datetime | None

    @property
    def seconds(self) -> float | None:
        """How long its run took; None for what no run made."""
        return (self.ended - self.started).total_seconds() if self.started and self.ended else None


class FailedChunk(NamedTuple):
    """A chunk that is FAILED, and how its last run ended."""

    dataid: str
    runid: int | None
    modified: datetime | None
    outcome: str | None
    detail: str | None


class Version(NamedTuple):
    """When a version was published."""

    datasetid: str
    dataid: str
    version: int
    published: Any


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

    def stints_between(self, since: datetime, until: datetime, *, floor: int, last: int, n: int) -> list[Stint]:
        """Attempts as stints of work that ran between two moments, after one number and up to another."""
        page: dict[str, Any] = {"floor": floor, "last": last, "n": n}
        return self._fetch(stint, "stints_between", since=stamp(since), until=stamp(until), **page)

    def stints_running(self, n: int) -> list[Stint]:
        """The same of what runs now."""
        return self._fetch(stint, "stints_running", n=n)

    def published_given(self, versions: Iterable[Consumed]) -> dict[Consumed, datetime]:
        """When these versions were published, as far as that is known."""
        wanted = list(dict.fromkeys(versions))
        rows = self._fetch(Version._make, "published_given", versions=compact(wanted)) if wanted else []
        moments = ((Consumed(row.datasetid, row.dataid, row.version), records.moment(row.published)) for row in rows)
        return {version: moment for version, moment in moments if moment is not None}

    def made_newest(self, datasetid: str, n: int) -> list[MadeChunk]:
        """The last n chunks of a dataset with what made them, the last one first."""
        return self._fetch(made_chunk, "made_newest", datasetid=datasetid, n=n)

    def failed_newest(self, datasetid: str, n: int) -> list[FailedChunk]:
        """The last n chunks of a dataset that are FAILED, the last one first."""
        return self._fetch(failed_chunk, "failed_newest", datasetid=datasetid, n=n)

    def attempts_failed(self, jobid: str, n: int) -> list[Attempted]:
        """Attempts of a job that did not end well, newest first, among the last ones of all jobs."""
        floor = int(self._value("newest_run") or 0) - _RECENT_RUNS
        return self._fetch(attempted, "attempts_failed_of_job", jobid=jobid, floor=floor, n=n)


def stint(row: Row) -> Stint:
    """A row of the queries stints_between and stints_running."""
    raw: Any = Stint._make(row)
    inputs = None if raw.inputs is None else records.consumed(raw.inputs, raw.runid)
    result: Stint = raw._replace(started=records.moment(raw.started), ended=records.moment(raw.ended), inputs=inputs)
    return result


def made_chunk(row: Row) -> MadeChunk:
    """A row of query made_newest."""
    raw = MadeChunk._make(row)
    return raw._replace(started=records.moment(raw.started), ended=records.moment(raw.ended))


def failed_chunk(row: Row) -> FailedChunk:
    """A row of query failed_newest."""
    raw = FailedChunk._make(row)
    return raw._replace(modified=records.moment(raw.modified))


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
