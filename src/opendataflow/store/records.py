"""Define the records that the store returns, and build them from query rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import starmap
from typing import Any, NamedTuple

from ..errors import BadDefinition
from ..model import Consumed, Facts, InputChunk, Manifest, Receipt, decide
from ..model.definitions.ids import shown
from .drivers.base import Row
from .engine.inputs import parse_inputs


class Claim(NamedTuple):
    """The right of a run to produce one chunk of each output until the lease ends."""

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
        """The answers that the stored facts give; NOT_ASKED for questions that need a look at the data."""
        return decide(self.facts)


class Chunk(NamedTuple):
    """A chunk as a product: its OUT row."""

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
    """A chunk as an input of a job: its IN row."""

    datasetid: str
    dataid: str
    jobid: str
    status: str
    modified: datetime | None
    epoch: int
    version: int
    runid: int | None


class Run(NamedTuple):
    """One attempt at (jobid, dataid)."""

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
    """One entry of the history."""

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
    """The manifest of one version of a chunk, and when and by which run it was published."""

    datasetid: str
    dataid: str
    version: int
    jobid: str
    runid: int | None
    manifest: Manifest
    published: datetime | None


class LineageLink(NamedTuple):
    """One version made from an input version: by which job and run, when, and the content of the input."""

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
    """The status and version of a chunk now, with the content of that version."""

    datasetid: str
    dataid: str
    jobid: str
    status: str
    version: int
    fingerprint: str | None
    is_recalled: bool


class EarlierChunks(NamedTuple):
    """Facts of earlier publishes of a dataset, for the checks of a new chunk."""

    schema: str  # of the first publish
    rows: tuple[int, ...]  # of the preceding chunks, nearest first
    has_rejected: bool  # whether the dataset of rejected rows has this chunk


class Sample(NamedTuple):
    """A candidate of a job, with the input chunks that decide about it."""

    dataid: str
    state: str
    inputs: list[tuple[str, str]]


class Deferred(NamedTuple):
    """A candidate that is deferred until a moment of the lease clock."""

    dataid: str
    not_before: float


class Position(NamedTuple):
    """A chunk with its position in its dataset."""

    dataid: str
    sort_key: str
    status: str


class Announced(NamedTuple):
    """The result of an announcement: chunks that became READY, and chunks that were READY already."""

    ready: tuple[str, ...]
    unchanged: tuple[str, ...]
    remarks: str = ""  # on announced chunks
    renewed: tuple[str, ...] = ()  # the announced chunks that had a version before


class Steered(NamedTuple):
    """The status of one chunk before and after a verb; None is no row."""

    datasetid: str
    dataid: str
    before: str | None
    after: str | None


class RolledBack(NamedTuple):
    """The version of one chunk before and after a rollback."""

    datasetid: str
    dataid: str
    before: int
    after: int


class Rescued(NamedTuple):
    """A run whose lease expired, and the new status of its chunk: FAILED or RESUBMIT."""

    runid: int
    jobid: str
    dataid: str
    status: str


class AppliedProject(NamedTuple):
    """A project whose definitions are stored; its digest distinguishes a changed store from another version of the project."""

    digest: str
    project: str
    is_whole: bool = True  # whether all jobs are included, also those that only code declares


class Change(NamedTuple):
    """One difference between declared and stored definitions."""

    what: str  # dataset | job | pool
    name: str
    action: str  # add | change | remove
    before: dict[str, Any] | None
    after: dict[str, Any] | None


def moment(value: Any) -> datetime | None:
    """A timestamp of either database as an aware datetime; None if it is malformed."""
    if value is None:
        return None
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        return None  # not a timestamp: typed by SQL
    if not 1 < time.year < 9999:
        return None  # out of range in the local time zone
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def parsed(text: Any, where: str) -> Any:
    """The parsed value of a JSON column; BadDefinition if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        raise BadDefinition(f"{where} is not JSON: {shown(text)}") from None


def table(text: Any, where: str) -> dict[str, Any]:
    """The parsed object of a JSON column, or {} for NULL; BadDefinition otherwise."""
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
    """A row of view run_facts."""
    raw: Any = Run._make(row)
    result: Run = raw._replace(
        log=None if raw.log is None else str(raw.log),
        forced=bool(raw.forced),
        inputs=consumed(raw.inputs),
        started=moment(raw.started),
        ended=moment(raw.ended),
    )
    return result


def consumed(inputs: str) -> tuple[Consumed, ...]:
    """The column inputs of view run_facts."""
    return tuple(starmap(Consumed, json.loads(inputs)))


def event(row: Row) -> Event:
    """A row of table event."""
    raw = Event._make(row)
    receipt = Receipt.from_data(table(raw.receipt, f"event {raw.eventid}, column receipt")) if raw.receipt else None
    return raw._replace(at=moment(raw.at), receipt=receipt)


def link(row: Row) -> LineageLink:
    """A row of the queries links_from_given and links_into_given."""
    raw = LineageLink._make(row)
    return raw._replace(published=moment(raw.published))


def current(row: Row) -> Current:
    """A row of query current_given."""
    raw = Current._make(row)
    return raw._replace(is_recalled=bool(raw.is_recalled))


def sample(row: Row) -> Sample:
    """A row of query candidates_sample."""
    return Sample(str(row[0]), row[1], parse_inputs(row[2]))


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
    sort_key: str = ""  # the position of the chunk, if the query selects it


class ReadRow(NamedTuple):
    """A row of query inputs_given: an input chunk of a run, and the manifest of the version that it reads."""

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
    made_by: int | None  # the run that published this version


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
    """The input chunk in a row of query inputs_given."""
    manifest = None if row.body is None else _manifest(row)
    bounds = None if row.lower is None and row.upper is None else (row.lower, row.upper)
    return InputChunk(row.datasetid, row.dataid, row.version, manifest, bounds)
