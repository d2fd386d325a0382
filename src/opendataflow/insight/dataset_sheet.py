"""The sheet of a dataset: everything that its page tells, by a bounded number of look-ups, whatever the store holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import NamedTuple

from ..model import Catalogue, Dataset, check_dataid, sort_key
from ..model.definitions.ddl import column_differences, columns_of
from ..store import Store
from ..store.views import ChunkLine, Columns
from ..tokens import shown_facts, without_secrets
from .axis import LAST_KEY
from .check_words import check_words
from .dataset_signs import lines_of, signs_of
from .explain import producer_of
from .job_sheet import mapping_words
from .stale import stale_among

PAGE = 30
_COUNTED = 10_000
_POINTS = 60  # chunks of a plot, and of the history of columns


class ReadingJob(NamedTuple):
    """A job that reads the dataset, and what each of its chunks needs of it, in words."""

    jobid: str
    needs: str


class Declared(NamedTuple):
    """A check that is declared: its name, what it demands in words, and whether it only warns."""

    label: str
    words: str
    only_warns: bool


@dataclass(frozen=True, slots=True)
class ColumnsSince:
    """The columns from one chunk on, in the order of dataids, and how they differ from those before."""

    dataid: str
    version: int
    published: datetime | None
    columns: str
    differs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChunkCounts:
    """How many chunks there are, in all and by status; where counting stopped, at least so many."""

    chunks: int
    by_status: tuple[tuple[str, int], ...]
    most: int = _COUNTED

    @property
    def is_all(self) -> bool:
        """Whether none was left out."""
        return self.chunks < self.most


@dataclass(frozen=True, slots=True)
class Signed:
    """How many chunks have a sign beside their status: MISSING, REFUSED, STALE or LATE."""

    word: str
    n: int
    at_least: bool


@dataclass(frozen=True, slots=True)
class DatasetSheet:
    """Everything that the page of a dataset tells."""

    dataset: Dataset
    definition: tuple[tuple[str, str], ...]
    producer: str | None
    readers: tuple[ReadingJob, ...]
    checks: tuple[Declared, ...]
    pinned: str | None  # the columns of the first publish
    counts: ChunkCounts
    signs: tuple[Signed, ...]  # those that some have
    recent: tuple[ChunkLine, ...]  # the last chunks, oldest first
    columns: tuple[ColumnsSince, ...]  # newest first
    lines: tuple[ChunkLine, ...]  # a page of its chunks, the last one first
    stale: frozenset[str]  # dataids on that page
    older: str | None  # the dataid before which the next page begins
    rejected: str | None  # the dataset of its rejected rows

    @property
    def usual_rows(self) -> float | None:
        """How many rows a chunk has, in the middle of the last ones."""
        return _middle([line.rows for line in self.recent])

    @property
    def usual_bytes(self) -> float | None:
        """How large a chunk is, in the middle of the last ones."""
        return _middle([line.bytes for line in self.recent])


def dataset_sheet(
    store: Store, datasetid: str, *, status: str | None = None, before: str | None = None, n: int = PAGE
) -> DatasetSheet:
    """The sheet of a dataset, with a page of its chunks: those of one status or sign, or before one dataid."""
    catalogue = store.catalogue()
    dataset = catalogue.dataset(datasetid)
    recent = store.views.lines_back(datasetid, _POINTS)
    edge = _position(store, dataset, before) if before else None
    signs = signs_of(store, dataset)
    if status and status.upper() in signs:
        lines = lines_of(store, dataset, signs[status.upper()], edge, n + 1)
    else:
        lines = store.views.lines_back(datasetid, n + 1, status=status, before=edge)
    shown = lines[:n]
    stale = stale_among(store, [(datasetid, line.dataid) for line in shown if line.status == "READY"])
    aside = f"{datasetid}__rejected"
    return DatasetSheet(
        dataset,
        tuple(_definition(dataset)),
        producer_of(catalogue, datasetid),
        tuple(_readers(catalogue, dataset)),
        tuple(_checks(dataset)),
        store.pinned_schema(datasetid),
        _counts(store, datasetid),
        tuple(Signed(each.word, len(each.dataids), each.more) for each in signs.values() if each.dataids),
        tuple(reversed(recent)),
        tuple(_columns_since(store.views.schemas_back(datasetid, _POINTS))),
        tuple(shown),
        frozenset(dataid for _, dataid in stale),
        shown[-1].dataid if len(lines) > n else None,
        aside if aside in catalogue.datasets else None,
    )


def _position(store: Store, dataset: Dataset, dataid: str) -> tuple[str, str]:
    chunk = store.views.chunk(dataset.datasetid, dataid)
    if chunk is not None:
        return chunk.sort_key, dataid
    check_dataid(dataset.partition, dataid, dataset.datasetid)
    return sort_key(dataset.partition, dataid), dataid


def _definition(dataset: Dataset) -> Iterator[tuple[str, str]]:
    partition = dataset.partition
    words = partition.type
    words += f" of {partition.count:,}" if partition.count else ""
    words += f" by {partition.column}" if partition.column else ""
    words += f", from {partition.start}" if partition.start else ""
    words += f", to {partition.end}" if partition.end else ""
    table = ".".join(filter(None, (dataset.database, dataset.schemaname, dataset.tablename)))
    options: dict[str, object] = shown_facts(dataset.options)
    yield "Kind", dataset.kind or "only tracked: the store knows statuses, there is no data to look at"
    yield "Location", without_secrets(dataset.location)
    yield "Format", dataset.format
    yield "Host", without_secrets(dataset.hostname, "hostname")
    yield "Table", table
    yield "User", without_secrets(dataset.username, "username")
    yield "Password", "encrypted" if dataset.encryptedpass else ""
    yield "Partition", words
    if "expected" in options:
        yield "Expected", _expected(options.pop("expected"))
    for name in ("description", "owner", "deadline", "schema", "readers"):
        yield _TITLES.get(name, name.capitalize()), _text(options.pop(name, None))
    for name, value in options.items():
        yield name, _text(value)


_TITLES = {"schema": "Declared columns", "readers": "Readers at once"}


def _expected(rule: object) -> str:
    if isinstance(rule, bool):
        return "at the end of its period" if rule else "no"
    return f"{_text(rule)} after the end of its period"


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _readers(catalogue: Catalogue, dataset: Dataset) -> Iterator[ReadingJob]:
    for job, item in catalogue.consumers(dataset.datasetid):
        written = catalogue.output_partition(job)
        yield ReadingJob(job.jobid, mapping_words(item.mapping, dataset.partition, written))


def _checks(dataset: Dataset) -> Iterator[Declared]:
    for check in dataset.checks:
        yield Declared(check.label, check_words(check), check.severity != "error")


def _counts(store: Store, datasetid: str) -> ChunkCounts:
    (counted,) = store.views.span_counts([(datasetid, "", LAST_KEY)], _COUNTED)
    total = counted.pop("")
    others = sum(counted.values())
    by_status = [("READY", max(total - others, 0)), *sorted(counted.items())]
    return ChunkCounts(total, tuple((name, n) for name, n in by_status if n))


def _columns_since(found: Sequence[Columns]) -> list[ColumnsSince]:
    """The chunks from which on the columns are others than before, newest first."""
    changes: list[ColumnsSince] = []
    before: dict[str, str] = {}
    for each in reversed(found):
        if not each.columns:
            continue
        columns = columns_of(each.columns)
        differs = tuple(column_differences(before, columns)) if changes else ()
        if differs or not changes:
            changes.append(ColumnsSince(each.dataid, each.version, each.published, each.columns, differs))
        before = columns
    return changes[::-1]


def _middle(values: Sequence[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
