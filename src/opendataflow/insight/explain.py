"""One chunk explained: what it is now, how it came to be, who read it, and how the five questions were answered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ..errors import BadDataid, BadId
from ..model import (
    OUT_LOCKS,
    QUESTIONS,
    READY,
    Answer,
    Catalogue,
    Dataset,
    Job,
    Receipt,
    check_dataid,
    check_form,
    may_produce,
    may_read,
)
from ..store import Chunk, Event, Published, Run, Store
from .matrix import see_changes

_MOST_EVENTS = 500


@dataclass(frozen=True, slots=True)
class Source:
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


@dataclass(frozen=True, slots=True)
class Reader:
    """One job's relation to this chunk, with the outputs that it makes of it."""

    jobid: str
    status: str | None
    version: int | None
    outputs: tuple[tuple[str, str, str | None], ...]  # (datasetid, dataid, status)


@dataclass(frozen=True, slots=True)
class Decision:
    """One stored receipt: when it was asked, about which run, and the five answers."""

    at: datetime | None
    kind: str
    runid: int | None
    verdict: str
    receipt: Receipt


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
    made_from: tuple[Source, ...]
    read_by: tuple[Reader, ...]
    runs: tuple[Run, ...]
    decisions: tuple[Decision, ...]
    events: tuple[Event, ...]
    more_events: bool


def explain(store: Store, datasetid: str, dataid: str) -> Explanation:
    """The five questions about one chunk, now and at each past run."""
    see_changes(store)
    catalogue = store.catalogue()
    dataset = catalogue.dataset(datasetid)
    chunk = store.chunk(datasetid, dataid)
    if chunk is None:
        check_dataid(
            dataset.partition, dataid, datasetid
        )  # a chunk that cannot be is an error, one that is not yet is a fact
    producer = catalogue.producer(datasetid)
    manifests = store.manifests(datasetid, dataid)
    published = next((each for each in manifests if chunk and each.version == chunk.version), None)
    runs = store.runs(jobid=producer.jobid, dataid=dataid, n=100) if producer else []
    events = store.last_events(datasetid, dataid, _MOST_EVENTS)[::-1]
    status = chunk.status if chunk else None
    lock = OUT_LOCKS.get(status)
    sources = _sources(store, published, runs, chunk)
    return Explanation(
        datasetid,
        dataid,
        status,
        lock.meaning if lock else "set aside by a person",
        producer.jobid if producer else None,
        chunk,
        published,
        tuple(each.version for each in manifests),
        tuple(_answers(store, catalogue, dataset, dataid, chunk, published, producer, sources)),
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
    )


def _sources(store: Store, published: Published | None, runs: list[Run], chunk: Chunk | None) -> tuple[Source, ...]:
    consumed = published.manifest.inputs if published else ()
    if not consumed and chunk is not None:
        consumed = next((run.inputs for run in runs if run.runid == chunk.runid), ())
    found = []
    for datasetid, dataid, version in consumed:
        now = store.chunk(datasetid, dataid)
        found.append(Source(datasetid, dataid, version, now.status if now else None, now.version if now else None))
    return tuple(found)


def _readers(store: Store, catalogue: Catalogue, datasetid: str, dataid: str) -> list[Reader]:
    rows = {row.jobid: row for row in store.readers(datasetid, dataid)}
    found = []
    for job, item in catalogue.consumers(datasetid):
        try:
            dataids = catalogue.outputs_of(job, item, dataid)
        except (BadDataid, BadId):
            dataids = []
        outputs = [(name, each) for each in dataids[:1000] for name in job.outputs]
        statuses = store.given_chunks(outputs)
        row = rows.pop(job.jobid, None)
        found.append(
            Reader(
                job.jobid,
                row.status if row else None,
                row.version if row else None,
                tuple((*each, statuses.get(each)) for each in outputs),
            )
        )
    # A job that no longer reads this dataset still did.
    found += [Reader(row.jobid, row.status, row.version, ()) for row in rows.values()]
    return found


def _answers(
    store: Store,
    catalogue: Catalogue,
    dataset: Dataset,
    dataid: str,
    chunk: Chunk | None,
    published: Published | None,
    producer: Job | None,
    sources: tuple[Source, ...],
) -> list[Answer]:
    """What the store can say about this chunk to somebody who wants to read it now."""
    status = chunk.status if chunk else None
    return [
        Answer(
            "ready",
            may_read(status),
            {"status": status},
            "" if status == READY else f"it is {status}" if status else "it was never produced",
        ),
        _right(dataset, dataid, chunk, sources),
        _place(dataset, dataid, published),
        _validated(dataset, chunk, published),
        _safe(store, catalogue, chunk, producer),
    ]


def _right(dataset: Dataset, dataid: str, chunk: Chunk | None, sources: tuple[Source, ...]) -> Answer:
    try:
        check_form(dataset.partition, dataid, dataset.datasetid)
    except (BadDataid, BadId) as error:
        return Answer("right", False, {}, error.message)
    newer = [each for each in sources if each.is_newer]
    if newer:
        first = newer[0]
        text = (
            f"{len(newer)} of its inputs were published again since, or rolled back: {first.datasetid} {first.dataid} "
            f"is version {first.version_now}, and version {first.version} was read"
        )
        return Answer(
            "right",
            True,
            {"newer": [[each.datasetid, each.dataid, each.version, each.version_now] for each in newer]},
            text,
        )
    return Answer(
        "right", True if chunk else None, {"type": dataset.partition.type, "version": chunk.version if chunk else None}
    )


def _place(dataset: Dataset, dataid: str, published: Published | None) -> Answer:
    if published is not None and published.manifest.location:
        return Answer(
            "place",
            True,
            {"location": published.manifest.location},
            "where it was published; looked at again before every run",
        )
    if dataset.location:
        try:
            return Answer("place", None, {"location": dataset.location_of(dataid)}, "where it would be")
        except (BadDataid, BadId) as error:
            return Answer("place", False, {}, error.message)
    if dataset.hostname or dataset.tablename:
        return Answer(
            "place",
            None,
            {"host": dataset.hostname, "table": ".".join(filter(None, (dataset.schemaname, dataset.tablename)))},
        )
    return Answer("place", True, {}, "only tracked: no location is declared")


def _validated(dataset: Dataset, chunk: Chunk | None, published: Published | None) -> Answer:
    if not dataset.checks and (published is None or not published.manifest.checks):
        return Answer("validated", True if chunk else None, {}, "no checks are declared")
    if published is None:
        return Answer("validated", False if chunk else None, {}, "nothing was published, so nothing was checked")
    failed = [result.check for result in published.manifest.checks if not result.passed]
    return Answer(
        "validated",
        published.manifest.passed,
        {"checks": len(published.manifest.checks), "failed": failed},
        ", ".join(failed),
    )


def _safe(store: Store, catalogue: Catalogue, chunk: Chunk | None, producer: Job | None) -> Answer:
    status = chunk.status if chunk else None
    evidence: dict[str, object] = {"may_be_read": may_read(status), "may_be_produced": may_produce(status)}
    if producer is not None and producer.pool:
        pool = catalogue.pools.get(producer.pool)
        evidence["pool"] = [producer.pool, store.slots_taken(producer.pool), pool.slots if pool else None]
    locked = not may_read(status) and not may_produce(status)
    return Answer("safe", not locked, evidence, f"{status}: nobody reads or produces it" if locked else "")


def question_text(name: str) -> str:
    """The question as it is asked."""
    return next(question.text for question in QUESTIONS if question.name == name)
