"""What the store hands out: frozen facts, in the order of the columns that the queries name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ..model import Consumed, Facts, InputChunk, Manifest, Receipt, decide
from .backend import Row


class Claim(NamedTuple):
    """The right to produce one chunk of each output, until the lease ends: what a run holds."""

    runid: int
    jobid: str
    dataid: str
    epoch: int
    inputs: tuple[Consumed, ...]
    outputs: tuple[str, ...]
    lease: float
    tries: int
    was_resubmit: bool
    forced: bool
    owner: str
    facts: Facts

    @property
    def receipt(self) -> Receipt:
        """The answers that the facts give; NOT_ASKED as long as nobody looked at data that has to be looked at."""
        return decide(self.facts)


class Chunk(NamedTuple):
    """One chunk as a product: its OUT row."""

    datasetid: str
    dataid: str
    jobid: str
    status: str
    modified: datetime | None
    epoch: int
    version: int
    runid: int | None
    tries: int
    held: str | None
    lower: str | None
    upper: str | None
    sort_key: str


class InputRow(NamedTuple):
    """One job's relation to one chunk: its IN row."""

    datasetid: str
    dataid: str
    jobid: str
    status: str
    modified: datetime | None
    epoch: int
    version: int
    runid: int | None


class Run(NamedTuple):
    """One attempt of (jobid, dataid)."""

    runid: int
    jobid: str
    dataid: str
    epoch: int
    status: str
    pool: str
    owner: str
    forced: bool
    inputs: tuple[Consumed, ...]
    started: datetime | None
    ended: datetime | None
    outcome: str | None
    detail: str | None
    exit_code: int | None
    log: str | None
    lease_until: float | None


class Event(NamedTuple):
    """One line of history."""

    eventid: int
    at: datetime | None
    kind: str
    datasetid: str | None
    dataid: str | None
    jobid: str | None
    runid: int | None
    epoch: int | None
    before: str | None
    after: str | None
    who: str | None
    why: str | None
    receipt: Receipt | None


class Published(NamedTuple):
    """The manifest of one version of a chunk, and who published it when."""

    datasetid: str
    dataid: str
    version: int
    jobid: str
    runid: int | None
    manifest: Manifest
    published: datetime | None


class Past(NamedTuple):
    """What earlier publishes of a dataset say: its schema, the rows of the chunks before this one, newest first, and
    whether the dataset beside it has this chunk."""

    schema: str
    rows: tuple[int, ...]
    has_beside: bool


class Announced(NamedTuple):
    """What an announcement did: chunks that became READY, and chunks that already were."""

    ready: tuple[str, ...]
    unchanged: tuple[str, ...]


class Change(NamedTuple):
    """One difference between what is declared and what is stored."""

    what: str  # dataset | job | pool
    name: str
    action: str  # add | change | remove
    before: dict[str, Any] | None
    after: dict[str, Any] | None


def moment(value: Any) -> datetime | None:
    """A timestamp of either database as an aware datetime."""
    if value is None or isinstance(value, datetime):
        return value
    try:
        found = datetime.fromisoformat(str(value))
    except ValueError:
        return None  # typed by a person: shown as unknown rather than refused
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def chunk(row: Row) -> Chunk:
    """An OUT row."""
    return Chunk._make((*row[:4], moment(row[4]), *row[5:]))


def input_row(row: Row) -> InputRow:
    """An IN row."""
    return InputRow._make((*row[:4], moment(row[4]), *row[5:]))


def run(row: Row) -> Run:
    """A row of table run."""
    inputs = tuple(Consumed(*item) for item in json.loads(row[8]))
    return Run._make((*row[:7], bool(row[7]), inputs, moment(row[9]), moment(row[10]), *row[11:]))


def event(row: Row) -> Event:
    """A row of table event."""
    receipt = Receipt.from_data(json.loads(row[12])) if row[12] else None
    return Event._make((row[0], moment(row[1]), *row[2:12], receipt))


def published(row: Row) -> Published:
    """A row of table data_manifest."""
    datasetid, dataid, version, jobid, runid = row[:5]
    body = json.loads(row[13])
    names = ("location", "format", "bytes", "rows", "span_lower", "span_upper", "fingerprint")
    facts = {name: value for name, value in zip(names, row[5:12], strict=True) if value is not None}
    return Published(datasetid, dataid, version, jobid, runid, Manifest.from_data({**body, **facts}), moment(row[14]))


def input_chunk(row: Row) -> tuple[int, InputChunk]:
    """A row of query inputs_given: the run, and the chunk that it reads."""
    runid, datasetid, dataid, version, lower, upper, *facts, body = row
    names = ("location", "format", "bytes", "rows", "span_lower", "span_upper", "fingerprint")
    manifest = None
    if body is not None:
        known = {name: value for name, value in zip(names, facts, strict=True) if value is not None}
        manifest = Manifest.from_data({**json.loads(body), **known})
    bounds = None if lower is None and upper is None else (lower, upper)
    return runid, InputChunk(datasetid, dataid, version, manifest, bounds)


def manifest_row(
    datasetid: str, dataid: str, version: int, jobid: str, runid: int | None, manifest: Manifest
) -> dict[str, Any]:
    """A manifest as the query manifest_put takes it."""
    data = manifest.to_data()
    row: dict[str, Any] = {"datasetid": datasetid, "dataid": dataid, "version": version, "jobid": jobid, "runid": runid}
    row |= {"location": data.pop("location", ""), "format": data.pop("format", ""), "passed": manifest.passed}
    for name in ("bytes", "rows", "span_lower", "span_upper", "fingerprint"):
        row[name] = data.pop(name, None)
    row["body"] = compact(data)
    return row


def receipt_events(
    kind: str,
    outputs: Sequence[str],
    receipt: Receipt,
    who: str | None,
    *,
    claim: Claim | None = None,
    before: str | None = None,
    why: str | None = None,
) -> list[dict[str, Any]]:
    """The events that store a receipt, one for each output, as the query events_put takes them."""
    facts = {
        "kind": kind,
        "dataid": receipt.dataid,
        "jobid": receipt.jobid,
        "runid": claim.runid if claim else None,
        "epoch": claim.epoch if claim else None,
        "before": before,
        "after": receipt.verdict,
        "who": who,
        "why": why,
        "receipt": compact(receipt.to_data()),
    }
    return [{**facts, "datasetid": datasetid} for datasetid in outputs]


_encode = json.JSONEncoder(separators=(",", ":")).encode


def compact(data: object) -> str:
    """JSON without needless spaces."""
    return _encode(data)
