"""One chunk explained: what it is now, how it came to be, who read it, and how the five questions were answered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from ..errors import BadDataid, BadId, OdfError, UntrustedDefinition
from ..files.quarantine import REJECTED
from ..gate import content_of_input, place_of_input, validity_of_input
from ..model import (
    FAILED,
    OUT_LOCKS,
    QUESTIONS,
    READY,
    RUNNING,
    Answer,
    Catalogue,
    Consumed,
    DataLook,
    Dataset,
    Facts,
    InputChunk,
    InputFact,
    Limit,
    Manifest,
    answer_reader,
    check_dataid,
    check_form,
    sort_key,
    validation,
)
from ..model.definitions.calendar import comes_by_clock, why_unannounced, zone_of
from ..project import Project
from ..project.trust import distrust_of, reasons_text
from ..store import OUTSIDE, Chunk, Event, Published, Recalled, Run
from ..store.views import Views
from .absent import MISSING, REFUSED, missing_in
from .changed import refused_attempt, ways_to_accept
from .decided import Decision as Decision
from .late import missed
from .seen import StoreViews
from .stale import why_stale
from .words import count, when

_MOST_EVENTS = 500
_MOST_OUTPUTS = 1000


@dataclass(frozen=True, slots=True)
class InputUsed:
    """One input that a version was made from: the version consumed, and what stands there now."""

    datasetid: str
    dataid: str
    version: int
    status: str | None
    version_now: int | None

    @property
    def is_newer(self) -> bool:
        """Whether another version of the input stands now: it was published again, or rolled back."""
        return self.version_now is not None and self.version_now != self.version


class ProducedChunk(NamedTuple):
    """One chunk that a reader makes of this one."""

    datasetid: str
    dataid: str
    status: str | None


@dataclass(frozen=True, slots=True)
class Reader:
    """One job's relation to this chunk, with the outputs that it makes of it."""

    jobid: str
    status: str | None
    version: int | None
    outputs: tuple[ProducedChunk, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that the store knows about one chunk."""

    datasetid: str
    dataid: str
    status: str | None
    meaning: str
    producer: str | None
    chunk: Chunk | None
    published: Published | None
    versions: tuple[int, ...]
    answers: tuple[Answer, ...]
    made_from: tuple[InputUsed, ...]
    read_by: tuple[Reader, ...]
    runs: tuple[Run, ...]
    decisions: tuple[Decision, ...]
    events: tuple[Event, ...]
    more_events: bool
    refused: str = ""  # what came last from outside and was not taken: when, and why
    ways_out: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()  # why it is made from what is no longer current
    recalled: tuple[Recalled, ...] = ()  # its versions that were recalled
    missed: datetime | None = None  # the deadline that has passed, while it is not READY
    at: datetime | None = None  # the moment that is told of, if it is not now
    not_known: tuple[str, ...] = ()  # for that moment
    by_clock: bool = False  # whether a calendar announces it


def explain(store: StoreViews, datasetid: str, dataid: str, project: Project | None = None) -> Explanation:
    """The five questions about one chunk, now and at each past run; where a project is given, with a look at the data."""
    catalogue = store.catalogue()
    dataset = catalogue.dataset(datasetid)
    chunk = store.chunk(datasetid, dataid)
    if chunk is None:
        # A chunk that cannot be is an error, one that is not yet is a fact.
        check_dataid(dataset.partition, dataid, datasetid)
    producer = producer_of(catalogue, datasetid) or (
        chunk.jobid if chunk and chunk.runid and chunk.jobid != OUTSIDE else None
    )
    versions = store.manifests(datasetid, dataid)
    published = next((version for version in versions if chunk and version.version == chunk.version), None)
    runs = store.runs(jobid=producer, dataid=dataid, n=100) if producer else []
    events = store.last_events(datasetid, dataid, _MOST_EVENTS)[::-1]
    status = chunk.status if chunk else None
    sources = _sources(store, published, chunk)
    recalled = tuple(store.recalled([(datasetid, dataid)]))
    answers = answers_now(store, dataset, dataid, ChunkState(chunk, published, sources, recalled), project)
    refusal = events[-1] if events and (events[-1].kind, events[-1].jobid) == ("refused", OUTSIDE) else None
    refused = f"{refusal.after} at {when(refusal.at)}: {refusal.why}" if refusal else ""
    meaning = meaning_now(store, dataset, dataid, status, published.manifest if published else None, events[::-1])
    if chunk is None and refusal is not None:
        answers, meaning = (
            with_refusal(answers, f"{datasetid} {dataid}", refusal),
            f"it came and was refused: {refused}",
        )
    elif chunk is None and (why_not := why_unannounced(dataset, dataid, store.clock(), zone_of(catalogue.datasets))):
        meaning = f"{meaning}: {why_not}"
    elif status == FAILED and (run := next((run for run in runs if chunk and run.runid == chunk.runid), None)):
        outcome = run.outcome if run.status != READY else None
        meaning = meaning.replace("the last attempt failed", f"{outcome}, not retried") if outcome else meaning
    return Explanation(
        datasetid,
        dataid,
        status,
        meaning,
        producer,
        chunk,
        published,
        tuple(version.version for version in versions),
        answers,
        sources,
        tuple(_readers(store, catalogue, datasetid, dataid)),
        tuple(runs),
        tuple(
            Decision(event.at, event.kind, event.runid, event.receipt.verdict, event.receipt)
            for event in events
            if event.receipt is not None
        ),
        tuple(events),
        len(events) == _MOST_EVENTS,
        refused,
        ways_to_accept(catalogue, answers, chunk),
        why_stale(store.store, datasetid, dataid)
        if status == READY and isinstance(store, Views)
        else (),  # not known of then
        recalled,
        missed(store, catalogue, datasetid, dataid, status) if "deadline" in dataset.options else None,
        by_clock=comes_by_clock(dataset),
    )


def meaning_of(
    dataset: Dataset, dataid: str, status: str | None, manifest: Manifest | None, newest_first: Iterable[Event]
) -> str:
    """What the status of a chunk means; of one that is READY, also whether checks ran, since not asked is not a yes."""
    if status != READY:
        lock = OUT_LOCKS.get(status)
        return lock.meaning if lock else "set aside by a person"
    # What a person typed was published by no run; a run that lost its chunk to it changed nothing.
    last = next((event for event in newest_first if event.after == READY and event.before != READY), None)
    how = f"set READY by SQL by {last.who or 'an unknown user'}" if last and last.kind == "sql" else "published"
    if dataset.is_only_tracked:
        return f"{how}; only tracked: no data was looked at"
    checked = validation(dataset, dataid, manifest)
    if isinstance(checked, str):
        return f"{how}; {checked}"
    return f"{how}; {checked.problem or count(len(manifest.checks) if manifest else 0, 'check') + ' passed'}"


def meaning_now(
    store: StoreViews,
    dataset: Dataset,
    dataid: str,
    status: str | None,
    manifest: Manifest | None,
    newest_first: list[Event],
) -> str:
    """What the status of a chunk means, with the refusal of the last attempt at it, and whether it is expected by now."""
    meaning = meaning_of(dataset, dataid, status, manifest, newest_first)
    if status is None and is_expected(store, store.catalogue(), dataset, dataid):
        meaning += ", although it is expected by now"
    if status == RUNNING and isinstance(store, Views) and store.unheld(dataset.datasetid, dataid):
        return f"set RUNNING by SQL, and no run holds it: odf resubmit {dataset.datasetid} {dataid} --force"
    last = newest_first[0] if newest_first and status != READY else None
    if last is not None and last.kind == "refused" and last.jobid != OUTSIDE:
        counts = any(event.eventid == last.eventid for event in store.refusals())
        meaning += f"; {refused_attempt(last)}" * counts
    return meaning


class ChunkState(NamedTuple):
    """What stands of a chunk: its row, the manifest of its version, what that was made from, and what was recalled."""

    chunk: Chunk | None
    published: Published | None
    sources: tuple[InputUsed, ...]
    recalled: tuple[Recalled, ...]


def answers_now(
    store: StoreViews, dataset: Dataset, dataid: str, standing: ChunkState, project: Project | None
) -> tuple[Answer, ...]:
    """The five questions for a job that reads the chunk; where a project is given, with a look at the data."""
    chunk = standing.chunk
    place, validated = _looks(dataset, chunk, standing.published, project)
    if by := next((each for each in standing.recalled if chunk and each.version == chunk.version), None):
        validated = DataLook(f"version {by.version} was recalled by {by.who}: {by.why}")
    facts = _facts(store, dataset, dataid, chunk, standing.sources)
    if chunk and standing.published and isinstance(facts.right, DataLook) and not facts.right.problem:
        read = InputChunk(chunk.datasetid, dataid, chunk.version, standing.published.manifest)
        held = content_of_input(dataset, read)
        facts = facts._replace(right=held if held.problem else facts.right)
    return answer_reader(facts._replace(place=place, validated=validated))


def is_expected(store: StoreViews, catalogue: Catalogue, dataset: Dataset, dataid: str) -> bool:
    """Whether a chunk should be there by now and has no status."""
    key = sort_key(dataset.partition, dataid)
    return bool(missing_in(store, catalogue, {dataset.datasetid: (key, key)}).get(dataset.datasetid))


def sign_of(
    store: StoreViews, catalogue: Catalogue, dataset: Dataset, dataid: str, refusal: Event | None
) -> str | None:
    """What is known of a chunk that has no status: it came and was refused, or it is expected by now."""
    if refusal is not None:
        return REFUSED
    return MISSING if is_expected(store, catalogue, dataset, dataid) else None


def producer_of(catalogue: Catalogue, datasetid: str) -> str | None:
    """The job that produces a dataset; rejected rows come from the job that produces the good ones."""
    return catalogue.producer_id(datasetid) or catalogue.producer_id(datasetid.removesuffix(REJECTED))


def with_refusal(answers: tuple[Answer, ...], here: str, refusal: Event) -> tuple[Answer, ...]:
    """The answers about a chunk that came and was refused: the question that it failed is the one that says no."""
    asked = {question.no: question.name for question in QUESTIONS}.get(refusal.after or "")
    whys = {"ready": f"{here} came and was refused", asked: f"{refusal.why} (refused at {when(refusal.at)})"}
    return tuple(
        Answer(answer.question, False, answer.evidence, whys[answer.question]) if answer.question in whys else answer
        for answer in answers
    )


def _sources(store: StoreViews, published: Published | None, chunk: Chunk | None) -> tuple[InputUsed, ...]:
    sources = []
    for item in versions_read(store, published, chunk):
        now = store.chunk(item.datasetid, item.dataid)
        sources.append(InputUsed(*item, now.status if now else None, now.version if now else None))
    return tuple(sources)


def versions_read(store: StoreViews, published: Published | None, chunk: Chunk | None) -> tuple[Consumed, ...]:
    """What the current version of a chunk was made from; without such a version, what the run that makes it reads."""
    read = store.inputs_of(published.runid) if published else ()
    return store.inputs_of(chunk.runid) if not read and chunk is not None and chunk.status == RUNNING else read


def _readers(store: StoreViews, catalogue: Catalogue, datasetid: str, dataid: str) -> list[Reader]:
    rows = {row.jobid: row for row in store.readers(datasetid, dataid)}
    readers = []
    for job, item in catalogue.consumers(datasetid):
        try:
            dataids = catalogue.outputs_of(job, item, dataid)
        except (BadDataid, BadId):
            dataids = []
        outputs = [(name, output) for output in dataids[:_MOST_OUTPUTS] for name in job.outputs]
        statuses = store.given_chunks(outputs)
        row = rows.pop(job.jobid, None)
        made = tuple(ProducedChunk(*output, statuses.get(output)) for output in outputs)
        readers.append(Reader(job.jobid, row.status if row else None, row.version if row else None, made))
    # A job that no longer reads this dataset still did.
    return readers + [Reader(row.jobid, row.status, row.version, ()) for row in rows.values()]


# The facts for a reader of the chunk now -----------------------------------------------------------------------------


def _facts(
    store: StoreViews,
    dataset: Dataset,
    dataid: str,
    chunk: Chunk | None,
    sources: tuple[InputUsed, ...],
) -> Facts:
    readers = dataset.options.get("readers")
    running = store.readers_running(dataset.datasetid) if isinstance(readers, int) else None
    return Facts(
        jobid="",
        dataid=dataid,
        inputs=(
            InputFact(dataset.datasetid, dataid, chunk.status, chunk.version)
            if chunk
            else InputFact(dataset.datasetid, dataid, None),
        ),
        limits=(
            (Limit("dataset", dataset.datasetid, readers, running),)
            if isinstance(readers, int) and running is not None
            else ()
        ),
        partition=dataset.partition.type,
        right=_right(dataset, dataid, sources),
    )


def _right(dataset: Dataset, dataid: str, sources: tuple[InputUsed, ...]) -> DataLook:
    try:
        check_form(dataset.partition, dataid, dataset.datasetid)
    except (BadDataid, BadId) as error:
        return DataLook(error.message)
    newer = [
        [source.datasetid, source.dataid, source.version, source.version_now] for source in sources if source.is_newer
    ]
    return DataLook("", {"newer": newer} if newer else {})


def _looks(
    dataset: Dataset, chunk: Chunk | None, published: Published | None, project: Project | None
) -> tuple[DataLook | str, DataLook | str]:
    """What a look at the data says to questions 3 and 4, as the gate would see it; else why it is not looked at."""
    if dataset.is_only_tracked:
        return ("only tracked: no location and no checks are declared",) * 2
    if chunk is None or project is None:
        return ("the data was not looked at",) * 2
    problems = distrust_of(project, dataset)
    if problems:
        untrusted = DataLook(reasons_text(problems), no=UntrustedDefinition.name)
        return untrusted, "the definition of the dataset is not trusted, so it was not looked at"
    read = InputChunk(chunk.datasetid, chunk.dataid, chunk.version, published.manifest if published else None)
    try:
        place = place_of_input(project.environment, dataset, read)
        if isinstance(place, DataLook) and place.problem:
            return place, "it is not in the right place, so it was not looked at"
        return place, validity_of_input(dataset, read)
    except OdfError as error:
        return (f"it cannot be looked at: {error.message}",) * 2
