"""What the store hands out: frozen facts, made of the rows of the queries whose columns they name."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from ..errors import BadDefinition
from ..model import Consumed, Facts, InputChunk, Manifest, Receipt, decide
from ..model.ids import shown
from ..model.manifest import rows_from_data
from ..shapes import NamedTuple
from .backend import Row
from .inputs import pairs


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


class Remarked(NamedTuple):
    """A READY chunk that was published with a remark."""

    datasetid: str
    dataid: str
    sort_key: str
    remark: str


class Published(NamedTuple):
    """The manifest of one version of a chunk, and who published it when."""

    datasetid: str
    dataid: str
    version: int
    jobid: str
    runid: int | None
    manifest: Manifest
    published: datetime | None


class Link(NamedTuple):
    """One version that was made from a version of a chunk: by which job and run, when, and the content of what was read."""

    in_datasetid: str
    in_dataid: str
    in_version: int
    datasetid: str
    dataid: str
    version: int
    jobid: str | None
    runid: int | None
    published: datetime | None
    in_fingerprint: str | None


class Current(NamedTuple):
    """What a chunk is now, with the content of its current version."""

    datasetid: str
    dataid: str
    jobid: str
    status: str
    version: int
    fingerprint: str | None
    is_recalled: bool


class Past(NamedTuple):
    """What earlier publishes of a dataset say about a chunk that is judged now."""

    schema: str  # of the first publish
    rows: tuple[int, ...]  # of the chunks before it, the nearest first
    has_beside: bool  # whether the dataset beside it has this chunk


class Sample(NamedTuple):
    """One candidate of a job, with the input chunks that decide about it."""

    dataid: str
    state: str
    inputs: list[tuple[str, str]]


class Deferred(NamedTuple):
    """One candidate that is not tried before a moment of the clock of leases."""

    dataid: str
    not_before: float


class Position(NamedTuple):
    """One chunk in the order of its dataset."""

    dataid: str
    sort_key: str
    status: str


class Announced(NamedTuple):
    """What an announcement did: chunks that became READY, and chunks that already were."""

    ready: tuple[str, ...]
    unchanged: tuple[str, ...]
    remarks: str = ""  # on what was announced all the same
    renewed: tuple[str, ...] = ()  # those of them that had a version before


class Steered(NamedTuple):
    """What a verb did to one chunk; None is no row."""

    datasetid: str
    dataid: str
    before: str | None
    after: str | None


class RolledBack(NamedTuple):
    """What a rollback did to one chunk: its version before and after."""

    datasetid: str
    dataid: str
    before: int
    after: int


class Rescued(NamedTuple):
    """One run whose lease ran out, and what its chunk became: FAILED or RESUBMIT."""

    runid: int
    jobid: str
    dataid: str
    status: str


class Applied(NamedTuple):
    """A project whose definitions are stored: by its digest a worker tells a changed store from another version of it."""

    digest: str
    project: str
    is_whole: bool = True  # whether all its jobs are given, also those that only its code declares


class Change(NamedTuple):
    """One difference between what is declared and what is stored."""

    what: str  # dataset | job | pool
    name: str
    action: str  # add | change | remove
    before: dict[str, Any] | None
    after: dict[str, Any] | None


# From rows -----------------------------------------------------------------------------------------------------------


def moment(value: Any) -> datetime | None:
    """A timestamp of either database as an aware datetime."""
    if value is None:
        return None
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        return None  # typed by a person: shown as unknown rather than refused
    if not 1 < time.year < 9999:
        return None  # it may not exist in the zone of whoever wants to see it
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def parsed(text: Any, where: str) -> Any:
    """The data in a column that holds JSON; BadDefinition when it holds something else."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        raise BadDefinition(f"{where} is not JSON: {shown(text)}") from None


def table(text: Any, where: str) -> dict[str, Any]:
    """The same for a column that holds an object of JSON, or nothing."""
    data = parsed(text or "{}", where)
    if not isinstance(data, dict):
        raise BadDefinition(f"{where} is not a JSON object: {shown(text)}")
    return data


def chunk(row: Row) -> Chunk:
    """An OUT row."""
    raw = Chunk._make(row)
    return raw._replace(modified=moment(raw.modified))


def input_row(row: Row) -> InputRow:
    """An IN row."""
    raw = InputRow._make(row)
    return raw._replace(modified=moment(raw.modified))


def run(row: Row) -> Run:
    """A row of table run."""
    raw: Any = Run._make(row)
    result: Run = raw._replace(
        log=None if raw.log is None else str(raw.log),
        forced=bool(raw.forced),
        inputs=consumed(raw.inputs, raw.runid),
        started=moment(raw.started),
        ended=moment(raw.ended),
    )
    return result


def consumed(inputs: str, runid: int) -> tuple[Consumed, ...]:
    """The column inputs of table run."""
    where = f"run {runid}, column inputs"
    return rows_from_data(Consumed, parsed(inputs, where), where)


def event(row: Row) -> Event:
    """A row of table event."""
    raw = Event._make(row)
    receipt = Receipt.from_data(table(raw.receipt, f"event {raw.eventid}, column receipt")) if raw.receipt else None
    return raw._replace(at=moment(raw.at), receipt=receipt)


def link(row: Row) -> Link:
    """A row of the queries links_from_given and links_into_given."""
    raw = Link._make(row)
    return raw._replace(published=moment(raw.published))


def current(row: Row) -> Current:
    """A row of query current_given."""
    raw = Current._make(row)
    return raw._replace(is_recalled=bool(raw.is_recalled))


def sample(row: Row) -> Sample:
    """A row of query candidates_sample."""
    return Sample(str(row[0]), row[1], pairs(row[2]))


class ManifestRow(NamedTuple):
    """A row of table data_manifest."""

    datasetid: str
    dataid: str
    version: int
    jobid: str
    runid: int | None
    location: str
    format: str
    bytes: int | None
    rows: int | None
    span_lower: str | None
    span_upper: str | None
    fingerprint: str | None
    body: str
    published: Any
    sort_key: str = ""  # the position of the chunk, where the query tells it


class ReadRow(NamedTuple):
    """A row of query inputs_given: a chunk that a run reads, and the manifest of the version that it reads."""

    runid: int
    datasetid: str
    dataid: str
    version: int
    lower: str | None
    upper: str | None
    location: str | None
    format: str | None
    bytes: int | None
    rows: int | None
    span_lower: str | None
    span_upper: str | None
    fingerprint: str | None
    body: str | None


_COLUMNS = ("location", "format", "bytes", "rows", "span_lower", "span_upper", "fingerprint")


def _manifest(row: ManifestRow | ReadRow) -> Manifest:
    known = {name: value for name in _COLUMNS if (value := getattr(row, name)) is not None}
    where = f"the manifest of {row.datasetid} {row.dataid}, version {row.version}"
    return Manifest.from_data({**table(row.body, f"{where}, column body"), **known}, where)


def published(row: Row) -> Published:
    """The manifest in a row of table data_manifest."""
    raw = ManifestRow(*row)
    return Published(
        raw.datasetid, raw.dataid, raw.version, raw.jobid, raw.runid, _manifest(raw), moment(raw.published)
    )


def input_chunk(row: ReadRow) -> InputChunk:
    """What a run reads."""
    manifest = None if row.body is None else _manifest(row)
    bounds = None if row.lower is None and row.upper is None else (row.lower, row.upper)
    return InputChunk(row.datasetid, row.dataid, row.version, manifest, bounds)
