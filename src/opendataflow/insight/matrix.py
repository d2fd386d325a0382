"""The matrix of datasets and dataids: what there is, at ten chunks and at ten million for the same price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from ..errors import BadDataid
from ..model import (
    FAILED,
    HOLD,
    PENDING,
    READY,
    RESUBMIT,
    RUNNING,
    TYPES,
    Catalogue,
    Partition,
    canonical,
    check_id,
    from_ordinal,
    ordinal,
    sort_key,
)
from ..store import Chunk
from ..store.views import Views
from .absent import MISSING, REFUSED, SIGNS, Absent, absent, count_within
from .axis import FIRST_KEY, LAST_KEY, Axis, AxisColumn, axis, first_key, last_key, single_columns
from .exceptions import (
    WARNED,
    Exceptions,
    RefusalReason,
    chunks_in,
    exceptional_chunks,
    listed_chunks,
    reasons_of_refusals,
    remarks_on_chunks,
)
from .flow import chosen
from .seen import StoreViews
from .stale import STALE, marked, stale_within

# The worst first: what a cell that stands for many chunks shows.
WORST_FIRST = (FAILED, REFUSED, HOLD, PENDING, RESUBMIT, MISSING, RUNNING)
_COUNTED = 50_000  # chunks that one look counts, over all datasets
_COUNTED_FIRST = 5_000
_COUNTED_IN_CELLS = 100_000
LONGEST_NAME = 32  # longer names are cut, so that the cells find room


class KeyWindow(NamedTuple):
    """A stretch of a dataset's order: the first and the last key in it."""

    low: str = FIRST_KEY
    high: str = LAST_KEY


EVERYTHING = KeyWindow()


@dataclass(frozen=True, slots=True)
class Cell:
    """What a column holds of a dataset: its worst status, how many chunks have it, and how many chunks there are.

    chunks is None where there are too many to count.
    """

    status: str | None
    n: int = 0
    chunks: int | None = 0
    stale: int = 0  # how many of them were made from what is no longer current


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One dataset: where it begins and ends, how many chunks have which status, and its cells."""

    datasetid: str
    producer: str | None
    first: str | None
    last: str | None
    counts: dict[str, int]
    at_least: bool  # counting stopped there
    cells: tuple[Cell, ...] = ()
    malformed: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """The datasets of one partition type, which share an axis; no columns where the dataids do not fit."""

    type: str
    each: str
    columns: tuple[AxisColumn, ...]
    lines: tuple[MatrixRow, ...]
    is_counted: bool  # the cells know how many chunks they stand for, so that holes show


@dataclass(frozen=True, slots=True)
class Overview:
    """The whole matrix."""

    blocks: tuple[Block, ...]
    exceptions: tuple[Exceptions, ...]
    untouched: tuple[str, ...] = field(default=())  # datasets without any chunk in the window
    reasons: tuple[RefusalReason, ...] = ()  # why chunks were refused, and the remarks on those that were published
    at: datetime | None = None  # the moment that is shown, if it is not now
    not_known: tuple[str, ...] = ()  # for that moment
    more_stale: bool = False  # more chunks may be stale than are marked


def overview(
    store: StoreViews,
    named: Sequence[str] = (),
    *,
    since: str | None = None,
    until: str | None = None,
    status: str | None = None,
    width: int = 100,
    exact: bool = False,
) -> Overview:
    """The matrix of these datasets, or of all, for lines of this width."""
    catalogue = store.catalogue()
    names = chosen(catalogue, named)
    wanted = _wanted(status)
    windows = {name: window(catalogue.dataset(name).partition, since, until) for name in names}
    if since or until:
        names = [name for name in names if windows[name] is not None]
        if not names:
            raise BadDataid(f"no dataset has dataids like {since or until}", hint="See: odf datasets")
    lines = _lines(store, catalogue, names, windows, exact=exact)
    within = {name: windows[name] or EVERYTHING for name in names}
    known = absent(store, catalogue, within)
    partitions = {name: catalogue.datasets[name].partition for name in names}
    stale, more_stale = (
        stale_within(store.store, within) if isinstance(store, Views) else ({}, False)
    )  # not known of then
    lines = {
        name: _widened(line, partitions[name], known[name], len(stale.get(name, ()))) for name, line in lines.items()
    }
    if wanted:
        lines = {name: line for name, line in lines.items() if line.counts.get(wanted)}
    filled = {name: line for name, line in lines.items() if line.counts or line.malformed}
    room = max(width - min(max(map(len, filled), default=0), LONGEST_NAME) - 2, 10)
    types = dict.fromkeys(catalogue.datasets[name].partition.type for name in filled)
    blocks = [
        _block(
            store,
            catalogue,
            [line for name, line in filled.items() if catalogue.datasets[name].partition.type == type_name],
            type_name,
            windows,
            known,
            room,
        )
        for type_name in types
    ]
    blocks = [marked(block, partitions, stale) for block in blocks]
    reasons = reasons_of_refusals({name: known[name] for name in filled})
    reasons += remarks_on_chunks(store, {name: within[name] for name in filled})
    exceptions = []
    for name, line in filled.items():
        own = {reason.dataid: reason.status for reason in reasons if reason.datasetid == name}
        listed = {sign: [dataid for dataid in own if own[dataid] == sign] for sign in (REFUSED, WARNED)}
        listed |= {MISSING: [*known[name].missing], STALE: [*stale.get(name, ())]}
        exceptions += [
            listed_chunks(partitions[name], name, bad, listed[bad])
            if bad in listed
            else exceptional_chunks(store, partitions[name], name, bad, line.counts[bad], within[name])
            for bad in (*WORST_FIRST, STALE, WARNED)
            if (listed[bad] if bad in listed else line.counts.get(bad)) and wanted in (None, bad)
        ]
    return Overview(
        tuple(blocks),
        tuple(exceptions),
        () if wanted else tuple(name for name in names if name not in filled),
        tuple(reason for reason in reasons if wanted in (None, reason.status)),
        more_stale=more_stale,
    )


def _wanted(status: str | None) -> str | None:
    """A status, or one of the signs that only the matrix knows."""
    if status is None or status.upper() in (*SIGNS, STALE, WARNED):
        return status.upper() if status else None
    return canonical(status)


def _widened(line: MatrixRow, partition: Partition, known: Absent, stale: int) -> MatrixRow:
    """The line with its chunks that are not there, counted and inside of its ends."""
    from dataclasses import replace

    counts = {sign: len(known.of(sign)) + (len(known.again) if sign == REFUSED else 0) for sign in SIGNS} | {
        STALE: stale
    }
    ends = [end for end in (line.first, line.last) if end is not None]
    ends = sorted([*ends, *known.refused, *known.missing], key=lambda dataid: sort_key(partition, dataid))
    first, last = (ends[0], ends[-1]) if ends else (None, None)
    return replace(line, first=first, last=last, counts={**line.counts, **{sign: n for sign, n in counts.items() if n}})


def window(partition: Partition, since: str | None, until: str | None) -> KeyWindow | None:
    """The window from one dataid or period to another; None when this type has no such dataids."""
    try:
        low = first_key(partition, check_id("dataid", since)) if since else FIRST_KEY
        high = last_key(partition, check_id("dataid", until)) if until else LAST_KEY
    except BadDataid:
        return None
    return KeyWindow(low, high)


def _lines(
    store: StoreViews, catalogue: Catalogue, names: Sequence[str], windows: dict[str, KeyWindow | None], *, exact: bool
) -> dict[str, MatrixRow]:
    spans = {name: (name, *(windows[name] or EVERYTHING)) for name in names}
    lines = {}
    counted, most = _counted(store, spans, exact=exact)
    malformed = store.span_counts([(name, "", "") for name in names], 1000)
    for name, bad, ends in zip(names, malformed, store.ends_given(list(spans.values())), strict=True):
        counts = counted[name]
        total = min(counts.pop(""), most)
        at_least = total == most
        by_status = {status: n for status, n in counts.items() if n}
        if ready := max(total - sum(by_status.values()), 0):
            by_status = {READY: ready, **by_status}
        producer = catalogue.producer(name)
        lines[name] = MatrixRow(name, producer.jobid if producer else None, *ends, by_status, at_least, (), bad[""])
    return lines


def _counted(
    store: StoreViews, spans: dict[str, tuple[str, str, str]], *, exact: bool
) -> tuple[dict[str, dict[str, int]], int]:
    """What each span holds, and where counting stopped: small datasets leave what they do not need to large ones."""
    few = _COUNTED_FIRST
    counts = dict(zip(spans, store.span_counts(list(spans.values()), few), strict=True))
    large = {name: span for name, span in spans.items() if counts[name][""] >= few}
    if not large:
        return counts, few + 1
    most = 2**62 if exact else _nice(max(_COUNTED // len(large), few))
    counts |= zip(large, store.span_counts(list(large.values()), most), strict=True)
    return counts, most


def _nice(n: int) -> int:
    """The next lower of 1000, 2000, 5000, 10000, …: a figure that people take for the limit it is."""
    unit = int("1" + "0" * (len(str(n)) - 1))
    return next(step * unit for step in (5, 2, 1) if step * unit <= n)


def _block(
    store: StoreViews,
    catalogue: Catalogue,
    lines: list[MatrixRow],
    type_name: str,
    windows: dict[str, KeyWindow | None],
    known: dict[str, Absent],
    width: int,
) -> Block:
    partitions = {line.datasetid: catalogue.datasets[line.datasetid].partition for line in lines}
    if TYPES[type_name].is_ordinal:
        scale = _ordinal_axis(lines, partitions, type_name, windows, width)
    else:
        scale = _text_axis(store, lines, partitions, windows, known, width)
    if scale is None or not scale.columns:
        return Block(type_name, "", (), tuple(lines), False)
    if scale.is_single:
        cells = {
            line.datasetid: _single_cells(store, line, partitions[line.datasetid], scale, known[line.datasetid])
            for line in lines
        }
        return Block(type_name, scale.each, scale.columns, _with(lines, cells), True)
    chunks = sum(column.size for column in scale.columns) * len(lines)
    most = 10_000 if chunks <= _COUNTED_IN_CELLS else 1
    between = {
        partition: [(sort_key(partition, column.first), sort_key(partition, column.last)) for column in scale.columns]
        for partition in set(partitions.values())
    }
    spans = [(line.datasetid, *keys) for line in lines for keys in between[partitions[line.datasetid]]]
    signs = {
        line.datasetid: {
            sign: [sort_key(partitions[line.datasetid], dataid) for dataid in known[line.datasetid].of(sign)]
            for sign in SIGNS
        }
        for line in lines
    }
    counted = [
        _cell({**counts, **{sign: count_within(keys, *span[1:]) for sign, keys in signs[span[0]].items()}}, most)
        for span, counts in zip(spans, store.span_counts(spans, most), strict=True)
    ]
    rest = iter(counted)
    cells = {line.datasetid: tuple(next(rest) for _ in scale.columns) for line in lines}
    return Block(type_name, scale.each, scale.columns, _with(lines, cells), most > 1)


def _with(lines: list[MatrixRow], cells: dict[str, tuple[Cell, ...]]) -> tuple[MatrixRow, ...]:
    from dataclasses import replace

    return tuple(replace(line, cells=cells[line.datasetid]) for line in lines)


def _cell(counts: dict[str, int], most: int) -> Cell:
    total = counts[""]
    for status in WORST_FIRST:
        if counts[status]:
            return Cell(status, counts[status], total if most > 1 else None)
    return Cell(READY if total else None, total, total if most > 1 else None)


def _single_cells(
    store: StoreViews, line: MatrixRow, partition: Partition, scale: Axis, known: Absent
) -> tuple[Cell, ...]:
    low, high = sort_key(partition, scale.columns[0].first), sort_key(partition, scale.columns[-1].first)
    chunks = store.chunks_between(line.datasetid, low, high, len(scale.columns) + 1)
    there = {chunk.dataid: chunk.status for chunk in chunks}
    shown = {dataid: sign for sign in SIGNS for dataid in known.of(sign)} | there
    return tuple(
        Cell(shown.get(column.first), int(column.first in shown), int(column.first in there))
        for column in scale.columns
    )


def _ordinal_axis(
    lines: list[MatrixRow],
    partitions: dict[str, Partition],
    type_name: str,
    windows: dict[str, KeyWindow | None],
    width: int,
) -> Axis | None:
    placed = [line for line in lines if line.first is not None and line.last is not None]
    if not placed:
        return None
    low = min(ordinal(partitions[line.datasetid], str(line.first)) for line in placed)
    high = max(ordinal(partitions[line.datasetid], str(line.last)) for line in placed)
    partition = partitions[placed[0].datasetid]
    since, until = windows[placed[0].datasetid] or EVERYTHING
    return axis(type_name, _not_before(partition, low, high, since), _not_after(partition, low, high, until), width)


def _not_before(partition: Partition, low: int, high: int, key: str) -> int:
    """The first ordinal from low to high whose key is not below this one."""
    while low <= high:
        middle = (low + high) // 2
        if sort_key(partition, from_ordinal(partition, middle)) < key:
            low = middle + 1
        else:
            high = middle - 1
    return low


def _not_after(partition: Partition, low: int, high: int, key: str) -> int:
    return _not_before(partition, low, high, key + LAST_KEY) - 1


def _text_axis(
    store: StoreViews,
    lines: list[MatrixRow],
    partitions: dict[str, Partition],
    windows: dict[str, KeyWindow | None],
    known: dict[str, Absent],
    width: int,
) -> Axis | None:
    keys: dict[str, str] = {}
    for line in lines:
        low, high = windows[line.datasetid] or EVERYTHING
        keys |= {chunk.dataid: chunk.sort_key for chunk in store.chunks_between(line.datasetid, low, high, width + 1)}
        partition = partitions[line.datasetid]
        keys |= {dataid: sort_key(partition, dataid) for dataid in known[line.datasetid].refused}
        if len(keys) > width:
            return None
    return single_columns(sorted(keys, key=keys.__getitem__))


def chunk_list(
    store: StoreViews,
    named: Sequence[str] = (),
    *,
    since: str | None = None,
    until: str | None = None,
    status: str | None = None,
    n: int = 1000,
) -> list[Chunk]:
    """The chunks themselves, at most n, in the order of the flow and of their dataids; malformed ones first."""
    catalogue = store.catalogue()
    chunks: list[Chunk] = []
    for name in chosen(catalogue, named):
        span = window(catalogue.dataset(name).partition, since, until)
        if span is not None and len(chunks) < n:
            low = "" if span.low == FIRST_KEY else span.low
            chunks += chunks_in(
                store, name, low, span.high, status=canonical(status) if status else None, n=n - len(chunks)
            )
    return chunks
