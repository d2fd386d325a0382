"""What the store hands out about versions that stand on other versions: stale, waiting to be made again, called back."""

from __future__ import annotations

from datetime import datetime

from ..shapes import NamedTuple
from .backend import Row
from .records import moment


class Superseded(NamedTuple):
    """A standing version that was made from another version than the current one; a mark that is there has no job."""

    datasetid: str
    dataid: str
    version: int
    jobid: str
    status: str
    in_datasetid: str
    in_dataid: str
    in_version: int
    is_same: bool  # the two versions of the input have the same content


class StaleChunk(NamedTuple):
    """A chunk whose current version was made from what is no longer current: itself, or something that it was made from."""

    datasetid: str
    dataid: str
    jobid: str
    status: str
    version: int
    sort_key: str
    is_direct: bool


class Mark(NamedTuple):
    """Why a chunk is stale itself: the version of an input that it was made from, and the one that stands now."""

    datasetid: str
    dataid: str
    version: int
    in_datasetid: str
    in_dataid: str
    in_version: int
    in_now: int

    def __str__(self) -> str:
        return (
            f"{self.in_datasetid} {self.in_dataid} is version {self.in_now} now, and version {self.in_version} was read"
        )


class Above(NamedTuple):
    """A chunk that the current version of another one was made from."""

    datasetid: str
    dataid: str
    in_datasetid: str
    in_dataid: str


class Remade(NamedTuple):
    """A chunk that is RESUBMIT only because what it was made from is newer, with the version that it has."""

    datasetid: str
    dataid: str
    version: int
    jobid: str
    epoch: int
    sort_key: str


class Recalled(NamedTuple):
    """A version that somebody called back: no job reads it again."""

    datasetid: str
    dataid: str
    version: int
    who: str
    why: str
    at: datetime | None


class VersionId(NamedTuple):
    """One version of one chunk."""

    datasetid: str
    dataid: str
    version: int


class Descendant(NamedTuple):
    """A standing version, what it was made from, by which job and run, and when."""

    in_datasetid: str
    in_dataid: str
    in_version: int
    datasetid: str
    dataid: str
    version: int
    jobid: str | None
    runid: int | None
    published: datetime | None
    status: str
    sort_key: str


def stale_chunk(row: Row) -> StaleChunk:
    """A row of query stale_chunks."""
    raw = StaleChunk._make(row)
    return raw._replace(is_direct=bool(raw.is_direct))


def recalled(row: Row) -> Recalled:
    """A row of table recalled."""
    raw = Recalled._make(row)
    return raw._replace(at=moment(raw.at))


def descendant(row: Row) -> Descendant:
    """A row of query descendants."""
    raw = Descendant._make(row)
    return raw._replace(published=moment(raw.published))
