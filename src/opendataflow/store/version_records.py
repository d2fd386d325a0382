"""Define the records about versions: stale, remade, recalled, and versions made from others."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from .drivers.base import Row
from .records import moment


class Superseded(NamedTuple):
    """A current version that was made from an outdated input version; an existing stale mark has no job."""

    datasetid: str
    dataid: str
    version: int
    jobid: str
    status: str
    in_datasetid: str
    in_dataid: str
    in_version: int
    is_same: bool  # both versions of the input have the same content


class StaleChunk(NamedTuple):
    """A chunk whose current version is stale, directly or through an input that is stale."""

    datasetid: str
    dataid: str
    jobid: str
    status: str
    version: int
    sort_key: str
    is_direct: bool


class StaleMark(NamedTuple):
    """Why a chunk is stale: the input version that it was made from, and the current one."""

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


class InputNow(NamedTuple):
    """A chunk that the current version of another chunk was made from."""

    datasetid: str
    dataid: str
    in_datasetid: str
    in_dataid: str


class Remade(NamedTuple):
    """A chunk that is RESUBMIT only because an input is newer, with its version."""

    datasetid: str
    dataid: str
    version: int
    jobid: str
    epoch: int
    sort_key: str


class Recalled(NamedTuple):
    """A recalled version: jobs no longer read it."""

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
    """A current version with the version that it was made from, its job and run, and when."""

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
