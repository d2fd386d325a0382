"""Past: what happened, by whom and why, in bounded looks."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

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


class Pages(Session):
    """History as people ask for it: the newest first, and a page at a time."""

    def last_changes(self, chunks: Iterable[ChunkId]) -> dict[ChunkId, LastChange]:
        """What these chunks are now, and what their last change was, without those that were never produced."""
        asked = compact(list(chunks))
        rows = self._fetch(last_change, "last_changes_given", chunks=asked) if asked != "[]" else []
        return {(row.datasetid, row.dataid): row for row in rows}


def last_change(row: Row) -> LastChange:
    """A row of query last_changes_given."""
    raw = LastChange._make(row)
    return raw._replace(modified=moment(raw.modified))
