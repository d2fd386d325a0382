"""Read what happened between two moments, in bounded queries."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from ...model import Consumed
from .. import records
from ..drivers.base import Row
from ..rows import compact
from .as_of import stamp
from .counts import NameCount
from .view import View

_RECENT_RUNS = 20_000
_MOST_INPUTS = 100  # of one attempt


class Attempted(NamedTuple):
    """The duration and outcome of one attempt."""

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
        """Seconds that the attempt took; None while it runs."""
        return (self.ended - self.started).total_seconds() if self.started and self.ended else None


class OperatorEvent(NamedTuple):
    """An operator's change of a chunk, or the refusal of a delivery."""

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
    """The number of rows in the current version of a chunk, and when it was published."""

    dataid: str
    rows: int
    published: datetime | None


class RunSpan(NamedTuple):
    """The time span of one attempt; inputs is None if there are too many to return."""

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
    """The current version of a chunk: its size, and when its run began and ended."""

    dataid: str
    status: str
    runid: int | None
    rows: int | None
    bytes: int | None
    started: datetime | None
    ended: datetime | None

    @property
    def seconds(self) -> float | None:
        """Seconds that its run took; None for chunks that no run produced."""
        return (self.ended - self.started).total_seconds() if self.started and self.ended else None


class FailedChunk(NamedTuple):
    """A FAILED chunk with the outcome of its last run."""

    dataid: str
    runid: int | None
    modified: datetime | None
    outcome: str | None
    detail: str | None


class PublishedVersion(NamedTuple):
    """A version and when it was published."""

    datasetid: str
    dataid: str
    version: int
    published: Any


class ActivityViews(View):
    """Events and attempts within a range of event or run ids, newest first."""

    def attempts_between(self, floor: int, last: int, n: int) -> list[Attempted]:
        """Attempts with a runid after `floor` and up to `last`."""
        return self._fetch(attempted, "attempts_between", floor=floor, last=last, n=n)

    def deeds_between(self, floor: int, last: int, n: int) -> list[OperatorEvent]:
        """Changes by operators and refused deliveries, with an eventid after `floor` and up to `last`."""
        return self._fetch(deed, "events_by_people", floor=floor, last=last, n=n)

    def event_counts(self, floor: int, since: datetime) -> dict[str, int]:
        """The number of events by kind since a moment, among those with an eventid after `floor`."""
        return dict(self._fetch(NameCount._make, "event_counts", floor=floor, since=stamp(since)))

    def newest_rows(self, datasetid: str, n: int) -> list[RowCount]:
        """The row counts of the last n chunks of a dataset, as far as known, last chunk first."""
        return self._fetch(row_count, "rows_newest", datasetid=datasetid, n=n)

    def stints_between(self, since: datetime, until: datetime, *, floor: int, last: int, n: int) -> list[RunSpan]:
        """Attempts that ran between two moments, with a runid after `floor` and up to `last`."""
        page: dict[str, Any] = {"floor": floor, "last": last, "n": n, "most": _MOST_INPUTS}
        return self._fetch(stint, "stints_between", since=stamp(since), until=stamp(until), **page)

    def stints_running(self, n: int) -> list[RunSpan]:
        """The attempts that run now."""
        return self._fetch(stint, "stints_running", n=n, most=_MOST_INPUTS)

    def published_given(self, versions: Iterable[Consumed]) -> dict[Consumed, datetime]:
        """When these versions were published, as far as known."""
        wanted = list(dict.fromkeys(versions))
        rows = self._fetch(PublishedVersion._make, "published_given", versions=compact(wanted)) if wanted else []
        moments = ((Consumed(row.datasetid, row.dataid, row.version), records.moment(row.published)) for row in rows)
        return {version: moment for version, moment in moments if moment is not None}

    def made_newest(self, datasetid: str, n: int) -> list[MadeChunk]:
        """The last n chunks of a dataset with their runs, last chunk first."""
        return self._fetch(made_chunk, "made_newest", datasetid=datasetid, n=n)

    def failed_newest(self, datasetid: str, n: int) -> list[FailedChunk]:
        """The last n FAILED chunks of a dataset, last chunk first."""
        return self._fetch(failed_chunk, "failed_newest", datasetid=datasetid, n=n)

    def attempts_failed(self, jobid: str, n: int) -> list[Attempted]:
        """Unsuccessful attempts of a job, newest first, among the last attempts of all jobs."""
        floor = int(self._value("newest_run") or 0) - _RECENT_RUNS
        return self._fetch(attempted, "attempts_failed_of_job", jobid=jobid, floor=floor, n=n)


def stint(row: Row) -> RunSpan:
    """A row of stints_between or stints_running."""
    raw: Any = RunSpan._make(row)
    inputs = None if raw.inputs is None else records.consumed(raw.inputs)
    result: RunSpan = raw._replace(started=records.moment(raw.started), ended=records.moment(raw.ended), inputs=inputs)
    return result


def made_chunk(row: Row) -> MadeChunk:
    """A row of made_newest."""
    raw = MadeChunk._make(row)
    return raw._replace(started=records.moment(raw.started), ended=records.moment(raw.ended))


def failed_chunk(row: Row) -> FailedChunk:
    """A row of failed_newest."""
    raw = FailedChunk._make(row)
    return raw._replace(modified=records.moment(raw.modified))


def attempted(row: Row) -> Attempted:
    """A row of attempts_between."""
    raw = Attempted._make(row)
    return raw._replace(forced=bool(raw.forced), started=records.moment(raw.started), ended=records.moment(raw.ended))


def deed(row: Row) -> OperatorEvent:
    """A row of events_by_people."""
    raw = OperatorEvent._make(row)
    return raw._replace(at=records.moment(raw.at))


def row_count(row: Row) -> RowCount:
    """A row of rows_newest."""
    raw = RowCount._make(row)
    return raw._replace(published=records.moment(raw.published))
