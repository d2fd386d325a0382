"""Define the rows that queries return and the parameters that they take; the fields are the queries' columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..model import Consumed, Manifest, Receipt

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def compact(data: object) -> str:
    """Compact JSON."""
    return _encode(data)


def as_objects(rows: Iterable[Any]) -> str:
    """Named tuples as a JSON list of objects, without None fields."""
    return _encode(
        [{name: value for name, value in zip(row._fields, row, strict=True) if value is not None} for row in rows]
    )


class PickedCandidate(NamedTuple):
    """A row of claim_pick: work that must be done first, and a claimable candidate, if any."""

    revision: str
    notes: bool
    expired: bool
    due: bool
    dataid: str | None
    rank: int
    sort_key: str
    epoch: int
    tries: int
    inputs: str


class ExtendedLease(NamedTuple):
    """A run that still holds its chunk, and the end of its lease."""

    runid: int
    lease_until: float


class TakenRun(NamedTuple):
    """A row of claim_take: a new run, and how many of its outputs it took."""

    runid: int
    dataid: str
    epoch: int
    taken: int


class PairKey(NamedTuple):
    """One (job, dataid)."""

    jobid: str
    dataid: str


class PairRead(NamedTuple):
    """The status of an exclusive input of one (job, dataid), as its job reads it."""

    jobid: str
    dataid: str
    status: str


class Status(NamedTuple):
    """The status of one chunk as a product."""

    datasetid: str
    dataid: str
    status: str | None
    version: int | None
    runid: int | None


class ChunkRow(NamedTuple):
    """The OUT row of a chunk, with the status of the run that holds it."""

    datasetid: str
    dataid: str
    jobid: str
    status: str
    epoch: int
    version: int
    runid: int | None
    tries: int
    held: str | None
    sort_key: str
    run_status: str | None


class Expired(NamedTuple):
    """A run whose lease expired."""

    runid: int
    jobid: str
    dataid: str
    epoch: int
    owner: str
    lease: float
    tries: int


class Candidate(NamedTuple):
    """A candidate: its state, its rank, and until when it is deferred."""

    state: str
    rank: int
    not_before: float


class UnpublishedAttempt(NamedTuple):
    """A run that ended without publishing."""

    runid: int
    jobid: str
    dataid: str
    epoch: int
    started: Any  # in the database's format, or a datetime


class ReaderStatus(NamedTuple):
    """The status of a job's IN row for a chunk."""

    datasetid: str
    dataid: str
    jobid: str
    status: str


class Note(NamedTuple):
    """One change by SQL or to a definition that the next claim folds in."""

    noteid: int
    at: object  # in the database's format
    datasetid: str | None
    dataid: str | None
    jobid: str | None
    locktype: str | None
    before: str | None
    after: str | None
    who: str | None


class PoolNow(NamedTuple):
    """The slots of a pool, its options, and the time of day."""

    slots: int | None
    options: str
    now: float


class SpanCounts(NamedTuple):
    """The number of chunks in a span, in total and by status other than READY."""

    chunks: int
    running: int
    failed: int
    resubmit: int
    hold: int
    pending: int

    def by_status(self) -> dict[str, int]:
        """The counts by status."""
        return {name.upper(): n for name, n in self._asdict().items() if name != "chunks"}


class StatusCount(NamedTuple):
    """The number of chunks of a dataset with one status."""

    datasetid: str
    status: str
    n: int


class StateCount(NamedTuple):
    """The number of candidates of a job with one state."""

    jobid: str
    state: str
    n: int


class JobCount(NamedTuple):
    """A count for one job."""

    jobid: str
    n: int


class OrderedDataid(NamedTuple):
    """A chunk of a job that is not done, with its rank and position."""

    rank: int
    sort_key: str
    dataid: str


class ChunkPosition(NamedTuple):
    """A chunk and its position in the order of its dataset."""

    datasetid: str
    sort_key: str
    dataid: str


class DatasetRow(NamedTuple):
    """A row of table dataset."""

    datasetid: str
    kind: str | None
    hostname: str | None
    database: str | None
    schemaname: str | None
    tablename: str | None
    username: str | None
    encryptedpass: str | None
    location: str | None
    format: str | None
    partition: str | None
    checks: str | None
    options: str | None


class JobItem(NamedTuple):
    """A row of table job."""

    jobid: str
    itemtype: str
    datasetid: str
    itemvalue: str | None


class JobRule(NamedTuple):
    """A row of table jobrule."""

    jobid: str
    retries: int
    backoff: float
    backoff_max: float
    retry_on: str | None
    lease: float
    timeout: float | None
    pool: str | None
    options: str | None


class PoolRow(NamedTuple):
    """A row of table pool."""

    poolid: str
    slots: int | None
    options: str


class PauseRow(NamedTuple):
    """A row of table pause."""

    jobid: str
    who: str
    why: str | None
    since: Any


class OutRow(NamedTuple):
    """An OUT row for chunks_put."""

    datasetid: str
    dataid: str
    jobid: str
    status: str
    epoch: int
    version: int
    held: str | None
    sort_key: str
    lower: str | None = None
    upper: str | None = None
    is_new: bool = False  # no row existed when the transaction read it


class AnnouncedRow(NamedTuple):
    """A chunk for chunks_announce."""

    dataid: str
    sort_key: str
    lower: str | None
    upper: str | None


class EventRow(NamedTuple):
    """An event for events_put."""

    kind: str
    datasetid: str | None
    dataid: str | None
    jobid: str | None
    before: str | None = None
    after: str | None = None
    who: str | None = None
    why: str | None = None
    epoch: int | None = None
    runid: int | None = None
    receipt: str | None = None
    at: str | None = None  # default: now


class CandidateRow(NamedTuple):
    """A candidate for candidates_put."""

    jobid: str
    dataid: str
    sort_key: str
    rank: int
    state: str
    not_before: float
    inputs: Sequence[tuple[str, str]] | str


class CandidateState(NamedTuple):
    """The state of one candidate."""

    jobid: str
    dataid: str
    state: str


class CandidateToTake(NamedTuple):
    """A candidate for claim_take."""

    dataid: str
    epoch: int
    sort_key: str
    tries: int
    receipt: str | None
    inputs: tuple[Consumed, ...]


class StatusKey(NamedTuple):
    """The primary key of a status row."""

    datasetid: str
    dataid: str
    jobid: str
    locktype: str


class LocationRow(NamedTuple):
    """The stored location of one version of a chunk."""

    datasetid: str
    dataid: str
    version: int
    location: str


def receipt_events(kind: str, outputs: Sequence[str], receipt: Receipt, who: str | None, **rest: Any) -> list[EventRow]:
    """The events that store a receipt, one per output."""
    stored = compact(receipt.to_data())
    return [
        EventRow(kind, name, receipt.dataid, receipt.jobid, after=receipt.verdict, who=who, receipt=stored, **rest)
        for name in outputs
    ]


def manifest_data(
    chunk: tuple[str, str],
    version: int,
    jobid: str,
    runid: int | None,
    manifest: Manifest,
) -> dict[str, Any]:
    """A manifest for manifest_put and manifests_put."""
    datasetid, dataid = chunk
    data = manifest.to_data()
    row: dict[str, Any] = {"datasetid": datasetid, "dataid": dataid, "version": version, "jobid": jobid, "runid": runid}
    row |= {"location": data.pop("location", ""), "format": data.pop("format", ""), "passed": manifest.passed}
    for name in ("bytes", "rows", "span_lower", "span_upper", "fingerprint"):
        row[name] = data.pop(name, None)
    row["body"] = compact(data)
    return row
