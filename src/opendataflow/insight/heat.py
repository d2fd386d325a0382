"""Heat: the matrix for a page, datasets by periods, in a few bounded looks; what lies in a cell is the next zoom.

Other than `odf status` it counts what is READY only where that is little, and pages through the datasets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..errors import BadDataid, BadId
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
    ordinal,
    sort_key,
)
from ..model.definitions.dataid import moment
from ..store import FirstAndLast, Store
from .absent import MISSING, REFUSED, SIGNS, absent, count_within
from .axis import Axis, axis, single_columns
from .flow import datasets_in_order
from .matrix import WORST_FIRST, Block, Cell, KeyWindow, MatrixRow, window
from .stale import STALE, Marked, marked, stale_now

STATUSES = (READY, RUNNING, FAILED, RESUBMIT, HOLD, PENDING, REFUSED, MISSING, STALE)
_UNSETTLED = (RUNNING, FAILED, RESUBMIT, HOLD, PENDING)
_MOST_UNSETTLED = 10_000  # chunks that are not READY and are read one by one
_MOST_IN_CELL = 1000  # that are counted where there are more of them
_COUNTED = 100_000  # chunks in all cells: where there are more, READY ones are not counted
_UNTOUCHED = 20  # datasets without a chunk that are named

Span = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class MatrixFilter:
    """Which part of the matrix: empty means everything. since and until are dataids or periods."""

    dataset: str = ""
    job: str = ""
    status: str = ""
    since: str = ""
    until: str = ""
    text: str = ""  # part of a dataset's name, or of its job's


@dataclass(frozen=True, slots=True)
class Heat:
    """A page of the matrix: its blocks, how many datasets there are in all, and where the page begins."""

    blocks: tuple[Block, ...]
    datasets: int
    start: int
    shown: int
    untouched: tuple[str, ...] = ()  # datasets without any chunk in the window; of many, the first
    more_untouched: int = 0
    more_stale: bool = False
    types: Mapping[str, str] = field(default_factory=dict)  # by dataset, the type of its dataids

    @property
    def more(self) -> bool:
        """Whether another page follows."""
        return self.start + self.shown < self.datasets


def heat(
    store: Store,
    wanted: MatrixFilter = MatrixFilter(),  # noqa: B008 (it is frozen)
    *,
    start: int = 0,
    rows: int = 40,
    width: int = 40,
    stale: Marked | None = None,
) -> Heat:
    """The datasets that are wanted, from the start-th on, in at most so many rows and columns.

    Its cost depends on the rows, the columns and what is not READY, not on how many chunks there are. Whoever looks often
    gives what is stale, which is the dearest to find.
    """
    catalogue = store.catalogue()
    status = status_of(wanted.status)
    windows = _windows(catalogue, wanted)
    known = _Known(
        store, catalogue, windows, wanted.since if wanted.since == wanted.until else "", stale or stale_now(store)
    )
    filled = [name for name in windows if known.has(name, status)]
    page = filled[start : start + rows]
    blocks = [known.block(type_name, filled, page, width) for type_name in known.types(page)]
    flat = [each for some in blocks for each in some]
    partitions = {name: catalogue.datasets[name].partition for name in page}
    untouched = [] if status else [name for name in windows if not known.has(name, None)]
    return Heat(
        tuple(marked(block, partitions, known.stale) for block in flat),
        len(filled),
        start,
        len(page),
        tuple(untouched[:_UNTOUCHED]),
        max(len(untouched) - _UNTOUCHED, 0),
        known.marks.more,
        {name: partitions[name].type for name in page},
    )


def status_of(word: str) -> str | None:
    """A status, or a sign that only the matrix knows; None for no word."""
    if not word or word.upper() in (REFUSED, MISSING, STALE):
        return word.upper() or None
    return canonical(word)


def _windows(catalogue: Catalogue, wanted: MatrixFilter) -> dict[str, KeyWindow]:
    """The datasets that are wanted, in the order of the flow, each with its window."""
    names = [catalogue.dataset(wanted.dataset).datasetid] if wanted.dataset else datasets_in_order(catalogue)
    if wanted.job:
        job = catalogue.job(wanted.job)
        touched = {*job.outputs, *(item.datasetid for item in job.inputs)}
        names = [name for name in names if name in touched]
    if wanted.text:
        part = wanted.text.casefold()
        names = [
            name for name in names if part in name.casefold() or part in (catalogue.producer_id(name) or "").casefold()
        ]
    windows = {
        name: window(catalogue.datasets[name].partition, wanted.since or None, wanted.until or None) for name in names
    }
    found = {name: each for name, each in windows.items() if each is not None}
    if names and not found:
        raise BadDataid(f"no dataset has dataids like {wanted.since or wanted.until}", hint="See: odf datasets")
    return found


class _Known:
    """What the store says of all these datasets, each thing asked for once."""

    def __init__(
        self, store: Store, catalogue: Catalogue, windows: Mapping[str, KeyWindow], period: str, stale: Marked
    ) -> None:
        self._store, self._catalogue, self._windows, self._period = store, catalogue, windows, period
        names = list(windows)
        self._ends = dict(zip(names, store.views.ends_given([self._span(name) for name in names]), strict=True))
        bad = store.views.span_chunks([(name, "", "") for name in names], _MOST_IN_CELL)
        self._malformed = {name: n for name, n in zip(names, bad, strict=True) if n}
        self.marks, self.stale = stale, stale.within(windows)
        rows = store.views.unsettled_between([self._span(name) for name in names], _MOST_UNSETTLED + 1)
        self._is_all = len(rows) <= _MOST_UNSETTLED
        # By dataset and sign, the keys of what is not READY, in order.
        self._keys: dict[str, dict[str, list[str]]] = {}
        for row in rows if self._is_all else ():
            self._put(row.datasetid, row.status, row.dataid)
        self._counts: dict[str, dict[str, int]] = {}
        if not self._is_all:
            for each in store.views.figures_now().unsettled:
                self._counts.setdefault(each.datasetid, {})[each.status] = each.n
        self._absent()
        for signs in self._keys.values():
            for keys in signs.values():
                keys.sort()

    def _span(self, name: str) -> Span:
        return (name, *self._windows[name])

    def _put(self, name: str, sign: str, dataid: str) -> None:
        try:
            key = sort_key(self._catalogue.datasets[name].partition, dataid)
        except (BadDataid, BadId):
            return  # written by SQL: it has no place
        low, high = self._windows[name]
        if low <= key <= high:
            self._keys.setdefault(name, {}).setdefault(sign, []).append(key)

    def _absent(self) -> None:
        """Chunks that are not there: refused at the door, or missing among the last periods that are expected."""
        for name, known in absent(self._store.views, self._catalogue, self._windows).items():
            for sign in SIGNS:
                for dataid in known.of(sign):
                    self._put(name, sign, dataid)

    def _partition(self, name: str) -> Partition:
        return self._catalogue.datasets[name].partition

    # Which datasets ----------------------------------------------------------------------------------------------

    def has(self, name: str, status: str | None) -> bool:
        """Whether a dataset has a chunk in its window, of this status where one is asked for."""
        if status == STALE:
            return bool(self.stale.get(name))
        if status in (None, READY):
            is_there = self._ends[name].first_dataid is not None
            return is_there or (status is None and (name in self._keys or name in self._malformed))
        if status in _UNSETTLED and not self._is_all:
            return bool(self._counts.get(name, {}).get(status))
        return bool(self._keys.get(name, {}).get(status))

    def types(self, names: Iterable[str]) -> list[str]:
        """The partition types of these datasets, in their order."""
        return list(dict.fromkeys(self._partition(name).type for name in names))

    # Blocks ------------------------------------------------------------------------------------------------------

    def block(self, type_name: str, filled: Sequence[str], page: Sequence[str], width: int) -> list[Block]:
        """The blocks of one partition type: one with columns, and one for lines that have too many dataids for any."""
        lines = [self._line(name) for name in page if self._partition(name).type == type_name]
        if TYPES[type_name].is_ordinal:
            scale = self._ordinal_axis(
                type_name, [name for name in filled if self._partition(name).type == type_name], width
            )
            if scale is None:
                return [Block(type_name, "", (), tuple(lines), False)]
            return [self._cells(type_name, scale, lines)]
        return self._text_blocks(type_name, lines, width)

    def _line(self, name: str) -> MatrixRow:
        ends: FirstAndLast = self._ends[name]
        signs = self._keys.get(name, {})
        counts = {sign: len(keys) for sign, keys in signs.items() if keys}
        if not self._is_all:
            counts = {**self._counts.get(name, {}), **counts}
        if stale := len(self.stale.get(name, ())):
            counts[STALE] = stale
        producer = self._catalogue.producer_id(name)
        malformed = self._malformed.get(name, 0)
        return MatrixRow(name, producer, ends.first_dataid, ends.last_dataid, counts, not self._is_all, (), malformed)

    def _ordinal_axis(self, type_name: str, names: Sequence[str], width: int) -> Axis | None:
        """From the first chunk to the last of all these datasets, also of those on other pages, so that pages compare."""
        numbers: list[int] = []
        for name in names:
            partition, ends = self._partition(name), self._ends[name]
            numbers += [ordinal(partition, dataid) for dataid in ends if dataid is not None]
            for sign in (REFUSED, MISSING):
                keys = self._keys.get(name, {}).get(sign, [])
                numbers += [ordinal(partition, _dataid(type_name, key)) for key in (*keys[:1], *keys[-1:])]
        numbers += _whole(type_name, self._period)
        return axis(type_name, min(numbers), max(numbers), width) if numbers else None

    def _text_blocks(self, type_name: str, lines: Sequence[MatrixRow], width: int) -> list[Block]:
        there: dict[str, dict[str, str]] = {}
        positions: dict[str, str] = {}
        for line in lines:
            _, low, high = self._span(line.datasetid)
            found = self._store.views.chunks_between(line.datasetid, low, high, width + 1)
            if len(found) <= width:
                there[line.datasetid] = {each.dataid: each.status for each in found}
                positions |= {each.dataid: each.sort_key for each in found}
        few = [line for line in lines if line.datasetid in there]
        if len(positions) > width:
            return [Block(type_name, "", (), tuple(lines), False)]
        blocks = []
        if few and positions:
            scale = single_columns(sorted(positions, key=lambda dataid: (positions[dataid], dataid)))
            shown = tuple(
                _with(line, [_single(there[line.datasetid].get(each.first)) for each in scale.columns], True)
                for line in few
            )
            blocks.append(Block(type_name, scale.each, scale.columns, shown, True))
        rest = [line for line in lines if line.datasetid not in there or not positions]
        return [*blocks, Block(type_name, "", (), tuple(rest), False)] if rest else blocks

    def _cells(self, type_name: str, scale: Axis, lines: Sequence[MatrixRow]) -> Block:
        if scale.is_single:
            return self._single_cells(type_name, scale, lines)
        key_of = TYPES[type_name].sort_key
        keys = [(key_of(column.first), key_of(column.last)) for column in scale.columns]
        flat = [(line.datasetid, *ends) for line in lines for ends in keys]
        inside = sum(column.size for column in scale.columns) * len(lines)
        most = _MOST_IN_CELL * 1000 if inside <= _COUNTED else 1
        totals = iter(self._store.views.span_chunks(flat, most))
        counted = iter(self._store.views.span_counts(flat, _MOST_IN_CELL)) if not self._is_all else None
        shown = []
        for line in lines:
            signs = self._keys.get(line.datasetid, {})
            cells = []
            for low, high in keys:
                counts = {sign: count_within(own, low, high) for sign, own in signs.items()}
                if counted is not None:
                    counts |= {status: n for status, n in next(counted).items() if status}
                cells.append(_cell(counts, next(totals), most > 1))
            shown.append(_with(line, cells, most > 1))
        return Block(type_name, scale.each, scale.columns, tuple(shown), most > 1)

    def _single_cells(self, type_name: str, scale: Axis, lines: Sequence[MatrixRow]) -> Block:
        keys = [TYPES[type_name].sort_key(column.first) for column in scale.columns]
        spans = [(line.datasetid, keys[0], keys[-1]) for line in lines]
        found = self._store.views.chunks_within(spans, 2 * len(lines) * len(scale.columns) + 1)
        there = {(row.datasetid, row.dataid): row.status for row in found}
        shown = []
        for line in lines:
            name = line.datasetid
            absent = {key: sign for sign in (MISSING, REFUSED) for key in self._keys.get(name, {}).get(sign, ())}
            cells = [
                _single(there.get((name, column.first)), absent.get(key))
                for column, key in zip(scale.columns, keys, strict=True)
            ]
            shown.append(_with(line, cells, True))
        return Block(type_name, scale.each, scale.columns, tuple(shown), True)


def _whole(type_name: str, period: str) -> list[int]:
    """The first and the last ordinal of a chosen period: all of it is shown, whatever there is."""
    fine = TYPES[type_name]
    for coarse in TYPES.values():
        if coarse.width and coarse.width == len(period) and coarse.width < fine.width and fine.is_time:
            number = coarse.parse(period)
            if coarse.first <= number < coarse.last:
                begin, end = moment(period), moment(coarse.format(number + 1))
                return [fine.parse(begin[: fine.width]), fine.parse(end[: fine.width]) - 1]
    return []


def _dataid(type_name: str, key: str) -> str:
    """The dataid of a position, where dataids are numbered."""
    return key if TYPES[type_name].is_time else str(int(key))


def _single(status: str | None, sign: str | None = None) -> Cell:
    return Cell(status or sign, int(bool(status or sign)), int(status is not None))


def _cell(counts: Mapping[str, int], total: int, is_counted: bool) -> Cell:
    for status in WORST_FIRST:
        if counts.get(status):
            return Cell(status, counts[status], total if is_counted else None)
    return Cell(READY if total else None, total if is_counted else 0, total if is_counted else None)


def _with(line: MatrixRow, cells: Sequence[Cell], is_counted: bool) -> MatrixRow:
    """The line with its cells, and with what is READY where they were counted."""
    counts = dict(line.counts)
    if is_counted:
        total = sum(cell.chunks or 0 for cell in cells)
        if ready := max(total - sum(counts.get(status, 0) for status in _UNSETTLED), 0):
            counts = {READY: ready, **counts}
    return replace(line, cells=tuple(cells), counts=counts)
