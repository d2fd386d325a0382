"""Read the chunk and dataset pages, each by a bounded index scan."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from ...model import READY, canonical
from .. import records
from ..drivers.base import Row
from ..records import Published
from .view import View

_LAST_KEY = "\x7f"  # sorts after every position


class ChunkLine(NamedTuple):
    """A chunk in a list: its status, and the figures of its current version."""

    dataid: str
    status: str
    modified: datetime | None
    version: int
    runid: int | None
    sort_key: str
    rows: int | None
    bytes: int | None
    published: datetime | None


class Columns(NamedTuple):
    """The columns of the current version of a chunk, if recorded."""

    dataid: str
    version: int
    published: datetime | None
    columns: str | None


class SheetViews(View):
    """Chunks from the last one backwards, and versions from the newest backwards."""

    def lines_back(
        self, datasetid: str, n: int, *, status: str | None = None, before: tuple[str, str] | None = None
    ) -> list[ChunkLine]:
        """The last n chunks of a dataset before a position (sort key, dataid), last one first."""
        key, dataid = before or (_LAST_KEY, "")
        where: dict[str, Any] = {"datasetid": datasetid, "before_key": key, "before_dataid": dataid, "n": n}
        if status is None:
            return self._fetch(chunk_line, "lines_back", **where)
        status = canonical(status)
        if status == READY:
            return self._fetch(chunk_line, "lines_back_ready", **where)
        return self._fetch(chunk_line, "lines_back_unsettled", status=status, **where)

    def schemas_back(self, datasetid: str, n: int) -> list[Columns]:
        """The columns of the last n chunks of a dataset, last one first."""
        return self._fetch(columns, "schemas_back", datasetid=datasetid, n=n)

    def newest_manifests(self, datasetid: str, dataid: str, n: int) -> list[Published]:
        """The newest n manifests of a chunk, newest first."""
        newest = self._fetch(records.published, "manifests_newest", datasetid=datasetid, dataid=dataid, n=n)
        return list(map(self._store.located, newest))


def chunk_line(row: Row) -> ChunkLine:
    """A row of lines_back."""
    raw = ChunkLine._make(row)
    return raw._replace(modified=records.moment(raw.modified), published=records.moment(raw.published))


def columns(row: Row) -> Columns:
    """A row of schemas_back."""
    raw = Columns._make(row)
    return raw._replace(published=records.moment(raw.published))
