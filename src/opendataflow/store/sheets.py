"""Sheets: what the pages of a chunk and of a dataset read, each a bounded look along an index."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ..model import READY, canonical
from ..shapes import NamedTuple
from . import records
from .backend import Row
from .records import Published
from .session import Session

_LAST_KEY = "\x7f"  # comes after every position


class ChunkLine(NamedTuple):
    """A chunk in a list: its status, and the figures of the version that stands."""

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
    """The columns that the current version of a chunk has, if anybody recorded them."""

    dataid: str
    version: int
    published: datetime | None
    columns: str | None


class Sheets(Session):
    """Chunks from the last one back, and versions from the newest back."""

    def lines_back(
        self, datasetid: str, n: int, *, status: str | None = None, before: tuple[str, str] | None = None
    ) -> list[ChunkLine]:
        """The last n chunks of a dataset before a position (sort key, dataid), the last one first."""
        key, dataid = before or (_LAST_KEY, "")
        where: dict[str, Any] = {"datasetid": datasetid, "before_key": key, "before_dataid": dataid, "n": n}
        if status is None:
            return self._fetch(chunk_line, "lines_back", **where)
        status = canonical(status)
        if status == READY:
            return self._fetch(chunk_line, "lines_back_ready", **where)
        return self._fetch(chunk_line, "lines_back_unsettled", status=status, **where)

    def schemas_back(self, datasetid: str, n: int) -> list[Columns]:
        """The columns of the last n chunks of a dataset, the last one first."""
        return self._fetch(columns, "schemas_back", datasetid=datasetid, n=n)

    def newest_manifests(self, datasetid: str, dataid: str, n: int) -> list[Published]:
        """The newest n manifests of a chunk, newest first."""
        found = self._fetch(records.published, "manifests_newest", datasetid=datasetid, dataid=dataid, n=n)
        return [each._replace(manifest=each.manifest.at(self.roots().found)) for each in found]


def chunk_line(row: Row) -> ChunkLine:
    """A row of the queries lines_back."""
    raw = ChunkLine._make(row)
    return raw._replace(modified=records.moment(raw.modified), published=records.moment(raw.published))


def columns(row: Row) -> Columns:
    """A row of query schemas_back."""
    raw = Columns._make(row)
    return raw._replace(published=records.moment(raw.published))
