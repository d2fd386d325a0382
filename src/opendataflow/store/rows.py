"""Rows: the shapes in which the queries give and take what only this room needs. Their fields are the queries' columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from json import encoder
from typing import Any

from ..model import Consumed, Manifest, Receipt
from ..shapes import NamedTuple

_make: Any = getattr(encoder, "c_make_encoder", None)
if _make is None:  # a Python without it
    _encode = json.JSONEncoder(separators=(",", ":")).encode
else:
    # JSONEncoder makes such a thing for every call, which costs as much as a short list itself.
    _parts = _make(None, None, encoder.encode_basestring_ascii, None, ":", ",", False, False, True)

    def _encode(o: Any) -> str:
        return "".join(_parts(o, 0))


def compact(data: object) -> str:
    """JSON without needless spaces."""
    return _encode(data)


def as_objects(rows: Iterable[Any]) -> str:
    """Named tuples as a JSON list of objects, for the queries that take lists."""
    return _encode(
        [{name: value for name, value in zip(row._fields, row, strict=True) if value is not None} for row in rows]
    )


# What queries give ---------------------------------------------------------------------------------------------------


class Picked(NamedTuple):
    """A row of claim_pick: what has to be done first, and a candidate that may be taken; without one when there is none."""

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


class Held(NamedTuple):
    """A run that still holds its chunk, and until when."""

    runid: int
    lease_until: float


class Taken(NamedTuple):
    """A row of claim_take: a new run, and how many of its outputs it really got."""

    runid: int
    dataid: str
    epoch: int
    taken: int


class PairKey(NamedTuple):
    """One (job, dataid)."""

    jobid: str
    dataid: str


class PairRead(NamedTuple):
    """The status of one input that belongs to one (job, dataid) alone, as the job reads it."""

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


class Standing(NamedTuple):
    """One chunk as it stands, with the status of the run that holds it."""

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
    """A run whose lease ran out."""

    runid: int
    jobid: str
    dataid: str
    epoch: int
    owner: str
    inputs: str
    lease: float
    tries: int


class Candidate(NamedTuple):
    """One (jobid, dataid) that may be claimed, or waits: its state, its rank, and until when it is deferred."""

    state: str
    rank: int
    not_before: float


class Attempt(NamedTuple):
    """A run that ended without publishing."""

    runid: int
    jobid: str
    dataid: str
    epoch: int
    started: Any  # as the database has it, or a moment


class Reader(NamedTuple):
    """One job's relation to a chunk."""

    datasetid: str
    dataid: str
    jobid: str
    status: str


class Note(NamedTuple):
    """One change from outside."""

    noteid: int
    at: object  # as the database says it
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
    """How many chunks a span has, in all and by status other than READY."""

    chunks: int
    running: int
    failed: int
    resubmit: int
    hold: int
    pending: int

    def by_status(self) -> dict[str, int]:
        """The counts of the statuses, by their names."""
        return {name.upper(): n for name, n in self._asdict().items() if name != "chunks"}


class StatusCount(NamedTuple):
    """How many chunks of a dataset have a status."""

    datasetid: str
    status: str
    n: int


class StateCount(NamedTuple):
    """How many candidates of a job have a state."""

    jobid: str
    state: str
    n: int


class JobCount(NamedTuple):
    """How many there are of a job."""

    jobid: str
    n: int


class InLine(NamedTuple):
    """A chunk of a job that is not done, by its position in the order in which they are taken."""

    rank: int
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


# What queries take ---------------------------------------------------------------------------------------------------


class OutRow(NamedTuple):
    """An OUT row as chunks_put writes it."""

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


class AnnouncedRow(NamedTuple):
    """A chunk as chunks_announce writes it, beside what it has in common with others."""

    dataid: str
    sort_key: str
    lower: str | None
    upper: str | None


class EventRow(NamedTuple):
    """An event as events_put appends it."""

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
    at: str | None = None  # now, unless it happened before


class CandidateRow(NamedTuple):
    """A candidate as candidates_put writes it."""

    jobid: str
    dataid: str
    sort_key: str
    rank: int
    state: str
    not_before: float
    inputs: Sequence[tuple[str, str]] | str


class Take(NamedTuple):
    """A candidate as claim_take takes it."""

    dataid: str
    epoch: int
    sort_key: str
    tries: int
    receipt: str | None
    inputs: tuple[Consumed, ...]


class StatusKey(NamedTuple):
    """What names one status row."""

    datasetid: str
    dataid: str
    jobid: str
    locktype: str


class LocationRow(NamedTuple):
    """Where one version of a chunk lies, as it is kept."""

    datasetid: str
    dataid: str
    version: int
    location: str

    @property
    def key(self) -> dict[str, Any]:
        """What names the version."""
        return {"datasetid": self.datasetid, "dataid": self.dataid, "version": self.version}


def receipt_events(kind: str, outputs: Sequence[str], receipt: Receipt, who: str | None, **rest: Any) -> list[EventRow]:
    """The events that store a receipt, one for each output."""
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
    inputs: Sequence[Consumed] = (),
) -> dict[str, Any]:
    """A manifest as manifest_put and manifests_put record it; inputs are those of the run, where the manifest names none itself."""
    datasetid, dataid = chunk
    data = manifest.to_data()
    row: dict[str, Any] = {"datasetid": datasetid, "dataid": dataid, "version": version, "jobid": jobid, "runid": runid}
    row |= {"location": data.pop("location", ""), "format": data.pop("format", ""), "passed": manifest.passed}
    for name in ("bytes", "rows", "span_lower", "span_upper", "fingerprint"):
        row[name] = data.pop(name, None)
    if inputs:
        data.setdefault("inputs", inputs)
    row["body"] = compact(data)
    return row
