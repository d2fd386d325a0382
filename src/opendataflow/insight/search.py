"""Search: what a few typed words may mean: a job, a dataset, a chunk or a run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..errors import BadId, UnknownRun
from ..model import TODAY, Catalogue, check_id
from ..store import Store
from .axis import FIRST_KEY, LAST_KEY
from .matrix import window

JOB, DATASET, CHUNK, RUN = "job", "dataset", "chunk", "run"
LONGEST = 200  # characters that are looked at
_NAMES = 20  # datasets that a dataid is looked for in, where only a part of their name was typed
_LARGEST = 2**62

_is_run = re.compile(r"(?:run|#)?\s*#?\s*([0-9]{1,18})", re.IGNORECASE).fullmatch
_is_apart = re.compile(r"[\s:/]+")


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing that may be meant: what it is, its name, and its status where it has one."""

    kind: str
    name: str  # as it is shown
    datasetid: str | None = None
    dataid: str | None = None
    jobid: str | None = None
    runid: int | None = None
    status: str | None = None
    told: str = ""


def search(store: Store, text: str, n: int = 20) -> tuple[Hit, ...]:
    """At most n things that a text may mean, the likeliest first.

    Runs and chunks are found by their whole number or dataid, or by a period; jobs and datasets by any part of their name.
    """
    text = text.strip()[:LONGEST]
    words = [word for word in _is_apart.split(text) if word]
    if not words:
        return ()
    catalogue = store.catalogue()
    hits: dict[tuple[object, ...], Hit] = {}
    for hit in _found(store, catalogue, text, words, n):
        key = (hit.kind, hit.datasetid, hit.dataid, hit.jobid, hit.runid)
        if key not in hits:
            hits[key] = hit
        if len(hits) >= n:
            break
    return tuple(hits.values())


def _found(store: Store, catalogue: Catalogue, text: str, words: list[str], n: int) -> Iterator[Hit]:
    names = list(_names(catalogue, words[0])) if len(words) == 1 else []
    exact = [hit for hit in names if hit.name == text]
    yield from exact
    if number := _is_run(text):
        yield from _run(store, int(number[1]))
    yield from _chunks(store, catalogue, words, n)
    yield from names


def _run(store: Store, number: int) -> Iterator[Hit]:
    try:
        run = store.views.run(number) if number <= _LARGEST else None
    except UnknownRun:
        return
    if run is not None:
        told = f"{run.jobid} {run.dataid}"
        yield Hit(RUN, f"run {run.runid}", None, run.dataid, run.jobid, run.runid, run.status, told)


def _names(catalogue: Catalogue, word: str) -> list[Hit]:
    """Jobs and datasets whose name is this, begins with it or has it inside, in this order."""
    part = word.casefold()
    found: list[tuple[int, str, Hit]] = []
    datasets = {name for name in catalogue.datasets if name != TODAY.datasetid}
    datasets |= {name for what, name in catalogue.broken if what == DATASET}
    jobs = {*catalogue.jobs, *(name for what, name in catalogue.broken if what == JOB)}
    for name in datasets:
        if (rank := _rank(name, part)) is not None:
            producer = catalogue.producer_id(name)
            told = f"written by {producer}" if producer else "from outside"
            found.append((rank, name, Hit(DATASET, name, name, told=told)))
    for name in jobs:
        if (rank := _rank(name, part)) is not None:
            job = catalogue.jobs.get(name)
            told = f"writes {', '.join(job.outputs)}" if job and job.outputs else ""
            found.append((rank, name, Hit(JOB, name, jobid=name, told=told)))
    return [hit for _, _, hit in sorted(found, key=lambda each: (*each[:2], each[2].kind))]


def _rank(name: str, part: str) -> int | None:
    folded = name.casefold()
    if part not in folded:
        return None
    return 0 if folded == part else 1 if folded.startswith(part) else 2


def _chunks(store: Store, catalogue: Catalogue, words: list[str], n: int) -> Iterator[Hit]:
    """A dataid in every dataset that has it; or in the datasets that were named before it."""
    try:
        dataid = check_id("dataid", words[-1])
    except BadId:
        return
    if len(words) == 1:
        yield from (_chunk(*row) for row in store.views.chunks_of_dataid(dataid, n))
        return
    if len(words) != 2:
        return
    meant = [hit.name for hit in _names(catalogue, words[0]) if hit.kind == DATASET]
    meant = [name for name in meant if name == words[0]] or meant[:_NAMES]
    there = store.views.given_chunks([(name, dataid) for name in meant])
    yield from (_chunk(name, dataid, there[name, dataid]) for name in meant if (name, dataid) in there)
    yield from _within(store, catalogue, meant, dataid, n)


def _within(store: Store, catalogue: Catalogue, names: Iterable[str], period: str, n: int) -> Iterator[Hit]:
    """The first chunks of a period, like a day of hours."""
    for name in names:
        dataset = catalogue.datasets.get(name)
        span = window(dataset.partition, period, period) if dataset else None
        if span is not None and span != (FIRST_KEY, LAST_KEY):
            yield from (
                _chunk(name, each.dataid, each.status)
                for each in store.views.chunks_between(name, span.low, span.high, n)
            )


def _chunk(datasetid: str, dataid: str, status: str) -> Hit:
    return Hit(CHUNK, f"{datasetid} {dataid}", datasetid, dataid, status=status)
