"""The sheet of a chunk: everything that its page tells, by a bounded number of look-ups, whatever the store holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median
from typing import NamedTuple

from ..errors import InvalidPath, NotValidated, OdfError, WrongData
from ..model import (
    FAILED,
    READY,
    RESUBMIT,
    RUNNING,
    YES,
    Catalogue,
    Dataset,
    Job,
    Manifest,
    check_dataid,
    sort_key,
)
from ..project import Project
from ..store import OUTSIDE, Chunk, Event, Published, Recalled, Run, Store
from ..store.views import ChunkLine
from .absent import REFUSED
from .behind import Behind, behind
from .changed import ways_to_accept
from .explain import (
    ChunkState,
    InputUsed,
    answers_now,
    meaning_now,
    producer_of,
    sign_of,
    versions_read,
    with_refusal,
)
from .late import missed
from .run_log import RunLogPage, last_of_log
from .run_sheet import AnswerLine, asked
from .stale import Impact, hanging_on, stale_among, why_stale
from .why import Reason, why
from .why.reasons import ways_to_produce, who_runs
from .words import when

_VERSIONS = 10
_RUNS = 20
_EVENTS = 50
_TOLD = 15  # events that are shown
_SOURCES = 200
_MADE = 100
_EARLIER = 30  # chunks that it is compared with
_LOG = 25  # lines
_BY_DATA = (NotValidated.name, WrongData.name, InvalidPath.name)

ChunkId = tuple[str, str]


@dataclass(frozen=True, slots=True)
class VersionLine:
    """One published version, and what became of it."""

    version: int
    published: datetime | None
    jobid: str
    runid: int | None
    manifest: Manifest
    is_current: bool
    is_removed: bool
    recalled: Recalled | None


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk that it was made from: the version that was read, what stands there now, and whether that is stale."""

    datasetid: str
    dataid: str
    version: int
    status: str | None
    version_now: int | None
    is_stale: bool = False

    @property
    def is_other(self) -> bool:
        """Whether another version stands now."""
        return self.version_now is not None and self.version_now != self.version


class ReadBy(NamedTuple):
    """A job that reads the dataset, and how far it is with this chunk: its status and the version; None for not yet."""

    jobid: str
    status: str | None
    version: int | None


class Counted(NamedTuple):
    """How many rows one chunk has."""

    dataid: str
    rows: int


@dataclass(frozen=True, slots=True)
class RowCounts:
    """The row counts of the chunks before this one, oldest first, and of this one, if they were counted."""

    earlier: tuple[Counted, ...]
    own: int | None

    @property
    def usual(self) -> float | None:
        """What is in the middle of the earlier ones."""
        return median(each.rows for each in self.earlier) if self.earlier else None

    @property
    def difference(self) -> float | None:
        """By which part of the usual this one differs."""
        usual = self.usual
        return (self.own - usual) / usual if self.own is not None and usual else None


@dataclass(frozen=True, slots=True)
class Asking:
    """One time at which the five questions were asked, and answered."""

    eventid: int
    at: datetime | None
    kind: str
    runid: int | None
    verdict: str
    answers: tuple[AnswerLine, ...]


@dataclass(frozen=True, slots=True)
class ChunkSheet:
    """Everything that the page of a chunk tells."""

    datasetid: str
    dataid: str
    status: str | None
    sign: str | None  # REFUSED or MISSING, where it has no status
    meaning: str
    chunk: Chunk | None
    producer: str | None
    stale: tuple[str, ...]
    missed: datetime | None
    refused: str
    reasons: tuple[Reason, ...]  # what keeps it from being READY
    answers: tuple[AnswerLine, ...]  # of a job that reads it now
    ways_out: tuple[str, ...]
    has_looked: bool
    askings: tuple[Asking, ...]  # newest first
    versions: tuple[VersionLine, ...]
    more_versions: bool
    rows: RowCounts
    made_from: tuple[Piece, ...]
    more_sources: int
    made: Impact  # from it, at any distance
    read_by: tuple[ReadBy, ...]
    behind: Behind | None  # what waits until it is READY
    runs: tuple[Run, ...]
    log: RunLogPage | None
    events: tuple[Event, ...]  # newest first
    more_events: bool
    previous: str | None
    next: str | None

    @property
    def current(self) -> VersionLine | None:
        """The version that stands."""
        return next((version for version in self.versions if version.is_current), None)

    @property
    def recalled(self) -> tuple[Recalled, ...]:
        """Which of the versions listed were recalled."""
        return tuple(version.recalled for version in self.versions if version.recalled)

    @property
    def running(self) -> Run | None:
        """The run that holds it now."""
        return next((run for run in self.runs if run.status == RUNNING), None)


def chunk_sheet(store: Store, project: Project, datasetid: str, dataid: str, *, look: bool = False) -> ChunkSheet:
    """The sheet of a chunk that is or could be; with look, also what its data is like now."""
    catalogue = store.catalogue()
    dataset = catalogue.dataset(datasetid)
    chunk = store.views.chunk(datasetid, dataid)
    if chunk is None:
        check_dataid(dataset.partition, dataid, datasetid)  # a chunk that cannot be is an error
    producer = producer_of(catalogue, datasetid)
    manifests = _manifests(store, datasetid, dataid, chunk)
    published = next((each for each in manifests if chunk and each.version == chunk.version), None)
    runs = _runs(store, producer, chunk, dataid)
    events = store.views.last_events(datasetid, dataid, _EVENTS)
    recalled = tuple(store.views.recalled([(datasetid, dataid)])) if manifests or chunk else ()
    sources, more_sources = _sources(store, published, chunk)
    # One walk upstream for all of them.
    made = store.views.descendants(datasetid, dataid, _MADE)
    beside = [*((each.datasetid, each.dataid) for each in sources), *((row.datasetid, row.dataid) for row in made)]
    marked = stale_among(store, [(datasetid, dataid), *beside])
    sources = _with_stale(sources, marked)
    is_stale = chunk is not None and chunk.status == READY and (datasetid, dataid) in marked
    stale = why_stale(store, datasetid, dataid) if is_stale else ()
    standing = ChunkState(chunk, published, tuple(InputUsed(*each) for each in _as_sources(sources)), recalled)
    answers = answers_now(store.views, dataset, dataid, standing, project if look else None)
    refusal = _refusal(events)
    if chunk is None and refusal is not None:
        answers = with_refusal(answers, f"{datasetid} {dataid}", refusal)
    manifest = published.manifest if published else None
    meaning = meaning_now(store.views, dataset, dataid, chunk.status if chunk else None, manifest, events)
    if chunk is None and refusal is not None:
        meaning = "it came, and was refused"
    earlier, following = _around(store, dataset, dataid, chunk)
    return ChunkSheet(
        datasetid,
        dataid,
        chunk.status if chunk else None,
        sign_of(store.views, catalogue, dataset, dataid, refusal) if chunk is None else None,
        meaning,
        chunk,
        producer,
        stale,
        missed(store.views, catalogue, datasetid, dataid, chunk.status if chunk else None)
        if "deadline" in dataset.options
        else None,
        f"{refusal.after} at {when(refusal.at)}: {refusal.why}" if refusal else "",
        tuple(_reasons(store, project, dataset, dataid, chunk, runs, events)),
        tuple(map(asked, answers)),
        ways_to_accept(catalogue, answers, chunk),
        look,
        tuple(_askings(events)),
        tuple(_versions(store, manifests, chunk, recalled)),
        len(manifests) >= _VERSIONS,
        _rows(earlier, published),
        sources,
        more_sources,
        hanging_on(catalogue, (datasetid, dataid), chunk, made, marked, len(made) >= _MADE),
        tuple(_read_by(store, catalogue, datasetid, dataid)),
        behind(store, [(datasetid, dataid)]) if chunk is None or chunk.status != READY else None,
        tuple(runs),
        last_of_log(store, project, runs[0], _LOG) if runs and runs[0].log else None,
        tuple(events[:_TOLD]),
        len(events) > _TOLD,
        earlier[0].dataid if earlier else None,
        following,
    )


def _manifests(store: Store, datasetid: str, dataid: str, chunk: Chunk | None) -> list[Published]:
    """The newest versions, and the current one if it is older than they are."""
    newest = store.views.newest_manifests(datasetid, dataid, _VERSIONS)
    if chunk and chunk.version and newest and all(each.version != chunk.version for each in newest):
        current = store.views.manifest(datasetid, dataid, chunk.version)
        newest += [current] if current else []
    return newest


def _runs(store: Store, producer: str | None, chunk: Chunk | None, dataid: str) -> list[Run]:
    jobid = producer or (chunk.jobid if chunk and chunk.runid and chunk.jobid != OUTSIDE else None)
    return store.views.runs(jobid=jobid, dataid=dataid, n=_RUNS) if jobid else []


def _versions(
    store: Store, manifests: Sequence[Published], chunk: Chunk | None, recalled: Iterable[Recalled]
) -> Iterator[VersionLine]:
    by_version = {each.version: each for each in recalled}
    removed = store.views.removed_versions(*manifests[0][:2]) if manifests else set()
    for each in manifests:
        yield VersionLine(
            each.version,
            each.published,
            each.jobid,
            each.runid,
            each.manifest,
            chunk is not None and chunk.version == each.version,
            each.version in removed,
            by_version.get(each.version),
        )


# What it was made from, and who reads it -------------------------------------------------------------------


def _sources(store: Store, published: Published | None, chunk: Chunk | None) -> tuple[tuple[Piece, ...], int]:
    consumed = versions_read(store.views, published, chunk)
    shown = consumed[:_SOURCES]
    chunks = [(item.datasetid, item.dataid) for item in shown]
    now = store.views.current(chunks)
    pieces = []
    for item, here in zip(shown, chunks, strict=True):
        there = now.get(here)
        pieces.append(Piece(*item, there.status if there else None, there.version if there else None))
    return tuple(pieces), len(consumed) - len(shown)


def _with_stale(pieces: Iterable[Piece], marked: Set[ChunkId]) -> tuple[Piece, ...]:
    return tuple(
        replace(each, is_stale=True) if each.status == READY and (each.datasetid, each.dataid) in marked else each
        for each in pieces
    )


def _as_sources(pieces: Iterable[Piece]) -> Iterator[tuple[str, str, int, str | None, int | None]]:
    return ((each.datasetid, each.dataid, each.version, each.status, each.version_now) for each in pieces)


def _read_by(store: Store, catalogue: Catalogue, datasetid: str, dataid: str) -> Iterator[ReadBy]:
    rows = {row.jobid: row for row in store.views.readers(datasetid, dataid)}
    for job, _ in catalogue.consumers(datasetid):
        row = rows.pop(job.jobid, None)
        yield ReadBy(job.jobid, row.status if row else None, row.version if row else None)
    for row in rows.values():  # a job that no longer reads this dataset still did
        yield ReadBy(row.jobid, row.status, row.version)


# What is in the way, and what was answered --------------------------------------------------------------------------


def _reasons(
    store: Store,
    project: Project,
    dataset: Dataset,
    dataid: str,
    chunk: Chunk | None,
    runs: Sequence[Run],
    events: Sequence[Event],
) -> Iterator[Reason]:
    catalogue, status = store.catalogue(), chunk.status if chunk else None
    refusal = _refusal(events)
    job: Job | None = catalogue.producer(dataset.datasetid)
    if status == READY:
        return
    if status == RUNNING:
        run = next((run for run in runs if run.status == RUNNING), None)
        if run is not None:
            yield Reason(RUNNING, who_runs(store, run), (f"odf log {run.runid}",) if run.log else ())
        return
    if job is None:
        commands = ways_to_produce(catalogue, dataset.datasetid, dataid)
        here = f"{dataset.datasetid} {dataid}"
        if status is None and refusal is not None:
            yield Reason(REFUSED, f"it came at {when(refusal.at)}: {refusal.after}: {refusal.why}", commands)
        elif status is None:
            yield Reason("MISSING", f"{here} comes from outside, and nobody announced it so far", commands)
        elif status == FAILED:
            yield Reason(FAILED, f"{here} comes from outside: it has to be delivered and announced again", commands)
        return
    receipt = next((event.receipt for event in events if event.receipt is not None), None)
    # Who was refused for what the data is like is told what it is like now; others are not made to wait for that.
    seen = project if receipt is not None and receipt.verdict in _BY_DATA else None
    try:
        found = why(store, job.jobid, dataid, project=seen).reasons
        yield from (each for each in found if each.name != YES or status in (None, RESUBMIT))
    except OdfError as problem:  # a dataid that the job cannot have
        yield Reason(problem.name, problem.message)


def _refusal(events: Sequence[Event]) -> Event | None:
    """That the last delivery from outside was not taken."""
    return events[0] if events and (events[0].kind, events[0].jobid) == ("refused", OUTSIDE) else None


def _askings(events: Iterable[Event]) -> Iterator[Asking]:
    """Each run once, with what was answered last; what was refused before a run began, each time."""
    met: set[int] = set()
    for event in events:
        if event.receipt is None or (event.runid is not None and event.runid in met):
            continue
        if event.runid is not None:
            met.add(event.runid)
        answers = tuple(map(asked, event.receipt.answers))
        yield Asking(event.eventid, event.at, event.kind, event.runid, event.receipt.verdict, answers)


# Beside it ----------------------------------------------------------------------------------------------------------


def _around(store: Store, dataset: Dataset, dataid: str, chunk: Chunk | None) -> tuple[list[ChunkLine], str | None]:
    """The chunks before it, the nearest first, and the next one."""
    key = chunk.sort_key if chunk else sort_key(dataset.partition, dataid)
    earlier = store.views.lines_back(dataset.datasetid, _EARLIER, before=(key, dataid))
    here = chunk or Chunk(dataset.datasetid, dataid, "", "", None, 0, 0, None, 0, None, None, None, key)
    following = store.views.chunks(dataset.datasetid, after=here, n=1)
    return earlier, following[0].dataid if following else None


def _rows(earlier: Sequence[ChunkLine], published: Published | None) -> RowCounts:
    counted = tuple(Counted(line.dataid, line.rows) for line in reversed(earlier) if line.rows is not None)
    return RowCounts(counted, published.manifest.rows if published else None)
