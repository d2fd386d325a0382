"""Timeline: the runs of a period as bars, one row for each worker, pool or job, and what each of them waited for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from math import ceil

from ..errors import UsageError
from ..model import READY, RUNNING, Consumed
from ..store import Store
from ..store.views import RunSpan
from .reported import is_failed
from .words import count

DEFAULT_PERIOD = timedelta(hours=1)
LONGEST_PERIOD = timedelta(days=31)
_SECOND = timedelta(seconds=1)
BY = ("worker", "pool", "job")
NO_POOL = "no pool"
_MOST_RUNS = 20_000  # that are looked at
_MOST_RUNNING = 2000
_MOST_BARS = 700  # beyond, those that lie close together are one
_MOST_LANES = 40
_MOST_ROWS = 12  # of one lane, each for runs that do not overlap
_MOST_INPUTS = 20_000  # whose publishing is looked up
_LOOK_BACK = 7000  # runs before the period, some of which may still run in it
_MOST_CELLS = 600  # of all lanes, where bars are drawn together
_CELLS = (15, 200)  # parts of the period, at least and at most
_PARTS = 120  # in which those that wait are counted
_REST = "others"

_Full = Mapping[str, Sequence[tuple[datetime, datetime]]]  # when all slots of a pool were taken


@dataclass(frozen=True, slots=True)
class Wait:
    """What a run waited for after everything that it reads was READY."""

    ready: datetime
    seconds: float
    full: float  # seconds of it in which its pool had no free slot, by the slots that the pool has now
    read: Consumed  # what came last


@dataclass(frozen=True, slots=True)
class Bar:
    """One run, or, without a runid, all that ran in one part of the period; its ends lie inside the period."""

    row: int
    begin: datetime
    end: datetime
    status: str  # the worst, where it stands for several
    runs: int
    runid: int | None
    jobid: str
    dataid: str
    outcome: str
    failed: int = 0
    wait: Wait | None = None


@dataclass(frozen=True, slots=True)
class Queue:
    """How many runs that could have begun waited in each of many equal parts of the period, and how many of them for a slot."""

    waiting: tuple[int, ...]
    for_slot: tuple[int, ...]

    @property
    def most(self) -> int:
        """How many waited when most did."""
        return max(self.waiting, default=0)


@dataclass(frozen=True, slots=True)
class Lane:
    """One worker, pool or job: as many rows as runs overlapped, and its bars from left to right."""

    name: str
    runs: int
    failed: int
    busy: float  # seconds of all its runs inside the period
    rows: int
    bars: tuple[Bar, ...]
    slots: int | None = None  # of a pool with a limit
    queue: Queue | None = None  # of a pool or a job


@dataclass(frozen=True, slots=True)
class Timeline:
    """The runs of a period."""

    since: datetime
    until: datetime
    now: datetime
    by: str
    runs: int
    failed: int
    is_together: bool  # whether bars that lie close together are drawn as one
    lanes: tuple[Lane, ...]
    queue: Queue | None  # of all; None where too many runs are drawn to tell
    longest_waits: tuple[Bar, ...]
    remarks: tuple[str, ...]


def timeline(
    store: Store, since: datetime | None = None, until: datetime | None = None, by: str = "worker", jobid: str = ""
) -> Timeline:
    """The runs that ran between two moments, or in the last hour, of all jobs or of one."""
    if by not in BY:
        raise UsageError(f"{by} is no kind of row", hint=f"Say one of {', '.join(BY)}.")
    now = datetime.fromtimestamp(store.views.clock(), UTC)
    until = min(until, now) if until else now
    since = since or until - DEFAULT_PERIOD
    if since >= until:
        raise UsageError("the period would begin after its end", hint="Say another since, or until with it.")
    if until - since > LONGEST_PERIOD:
        raise UsageError("the period is too long", hint=f"Say at most {LONGEST_PERIOD.days} days.")
    catalogue = store.catalogue()
    # What a job that is gone ran stays in the history.
    if jobid and ("job", jobid) not in catalogue.broken and not store.views.runs(jobid=jobid, n=1):
        catalogue.job(jobid)
    remarks: list[str] = []
    found = [stint for stint in _stints(store, since, until, remarks) if not jobid or stint.jobid == jobid]
    bars = [_Bar(stint, since, until) for stint in found]
    is_together = len(bars) > _MOST_BARS
    queues: _Queues | None = None
    if not is_together:
        full = {poolid: _full(bars, poolid, pool.slots) for poolid, pool in catalogue.pools.items() if pool.slots}
        _waits(store, bars, full)
        queues = _Queues(since, until, full)
    else:
        remarks.append(f"{count(len(bars), 'run')} are too many to draw each: columns say how many ran at a time.")
    groups = _groups(bars, by, remarks)
    cells = min(max(_MOST_CELLS // max(len(groups), 1), _CELLS[0]), _CELLS[1])
    lanes = tuple(
        _lane(
            name,
            group,
            list(_placed(group) if queues else _together(group, since, until, cells)),
            catalogue.pools[name].slots if by == "pool" and name in catalogue.pools else None,
            queues.of(group) if queues and by != "worker" else None,
        )
        for name, group in groups.items()
    )
    waited = sorted((bar for bar in bars if bar.wait), key=lambda bar: -(bar.wait.seconds if bar.wait else 0))
    failed = sum(bar.is_failed for bar in bars)
    longest = tuple(bar.bar(0) for bar in waited[:10] if bar.wait and bar.wait.seconds >= 1)
    queue = queues.of(bars) if queues else None
    return Timeline(since, until, now, by, len(bars), failed, is_together, lanes, queue, longest, tuple(remarks))


def counted(drawn: Timeline, of: Lane, parts: int) -> list[tuple[int, int]]:
    """How many runs of a lane ran in each of so many equal parts of the period, and how many of them failed."""
    step = (drawn.until - drawn.since) / parts
    counts = [(0, 0)] * parts
    for bar in of.bars:
        first = min(int((bar.begin - drawn.since) / step), parts - 1)
        last = max(min(ceil((bar.end - drawn.since) / step), parts), first + 1)
        for part in range(first, last):
            counts[part] = counts[part][0] + bar.runs, counts[part][1] + bar.failed
    return counts


class _Bar:
    """A run inside the period, while the drawing is made."""

    __slots__ = ("begin", "end", "stint", "wait")

    def __init__(self, stint: RunSpan, since: datetime, until: datetime) -> None:
        self.stint = stint
        self.begin = max(stint.started or since, since)
        self.end = max(min(stint.ended or until, until), self.begin)
        self.wait: Wait | None = None

    def bar(self, row: int) -> Bar:
        stint = self.stint
        told, failed = stint.outcome or stint.status, int(self.is_failed)
        names = stint.runid, stint.jobid, stint.dataid
        return Bar(row, self.begin, self.end, stint.status, 1, *names, told, failed, self.wait)

    @property
    def is_failed(self) -> bool:
        return is_failed(self.stint)


def _stints(store: Store, since: datetime, until: datetime, remarks: list[str]) -> list[RunSpan]:
    """The runs of a period, the first one first."""
    floor, last = max(store.views.run_before(since) - _LOOK_BACK, 0), store.views.run_before(until)
    # In the embedded store times are texts, of which equal moments may differ: what is too much goes out below.
    found = store.views.stints_between(since - _SECOND, until + _SECOND, floor=floor, last=last, n=_MOST_RUNS + 1)
    if len(found) > _MOST_RUNS:
        found = found[:_MOST_RUNS]
        remarks.append(f"Only the last {count(_MOST_RUNS, 'run')} of the period are shown.")
    known = {stint.runid: stint for stint in [*found, *store.views.stints_running(_MOST_RUNNING)]}
    inside = (
        stint
        for stint in known.values()
        if stint.started is not None and stint.started < until and _end(stint, until) > since
    )
    return sorted(inside, key=lambda stint: (stint.started, stint.runid))


def _end(stint: RunSpan, otherwise: datetime) -> datetime:
    if stint.ended is None:
        return otherwise
    # A run that took no time at all is still seen in the moment in which it ran.
    return stint.ended + timedelta(microseconds=1)


# Waits --------------------------------------------------------------------------------------------------------------


def _waits(store: Store, bars: Sequence[_Bar], full: _Full) -> None:
    """How long each first attempt waited since the last of its inputs was published."""
    asked: list[Consumed] = []
    first = [bar for bar in bars if bar.stint.epoch == 1 and bar.stint.inputs]
    for bar in reversed(first):
        asked += bar.stint.inputs or ()
        if len(asked) > _MOST_INPUTS:
            break
    published = store.views.published_given(asked[:_MOST_INPUTS])
    for bar in first:
        inputs, started = bar.stint.inputs or (), bar.stint.started
        if started is None or not all(each in published for each in inputs):
            continue
        read = max(inputs, key=lambda each: published[each])
        ready = published[read]
        if ready <= started:
            held = sum(
                max((min(high, started) - max(low, ready)).total_seconds(), 0.0)
                for low, high in full.get(bar.stint.pool, ())
            )
            bar.wait = Wait(ready, (started - ready).total_seconds(), held, read)


def _full(bars: Iterable[_Bar], poolid: str, slots: int) -> list[tuple[datetime, datetime]]:
    """When all slots of a pool were taken."""
    edges: list[tuple[datetime, int]] = []
    for bar in bars:
        if bar.stint.pool == poolid:
            edges += [(bar.begin, 1), (bar.end, -1)]
    taken, since, found = 0, None, []
    for at, step in sorted(edges):
        taken += step
        if taken >= slots and since is None:
            since = at
        elif taken < slots and since is not None:
            if at > since:
                found.append((since, at))
            since = None
    return found


class _Queues:
    """Counts who waits in each part of the period."""

    def __init__(self, since: datetime, until: datetime, full: _Full) -> None:
        self._since, self._step = since, (until - since) / _PARTS
        self._full = {
            poolid: {part for low, high in spans for part in self._parts(low, high)} for poolid, spans in full.items()
        }

    def of(self, bars: Iterable[_Bar]) -> Queue:
        waiting, for_slot = [0] * _PARTS, [0] * _PARTS
        for bar in bars:
            if bar.wait:
                full = self._full.get(bar.stint.pool, ())
                for part in self._parts(bar.wait.ready, bar.begin):
                    waiting[part] += 1
                    for_slot[part] += part in full
        return Queue(tuple(waiting), tuple(for_slot))

    def _parts(self, low: datetime, high: datetime) -> range:
        """The parts whose middle lies between two moments."""
        first = ceil((low - self._since) / self._step - 0.5)
        last = ceil((high - self._since) / self._step - 0.5)
        return range(max(first, 0), min(last, _PARTS))


# Lanes --------------------------------------------------------------------------------------------------------------


def _groups(bars: Sequence[_Bar], by: str, remarks: list[str]) -> dict[str, list[_Bar]]:
    groups: defaultdict[str, list[_Bar]] = defaultdict(list)
    for bar, name in zip(bars, _named(bars, by, remarks), strict=True):
        groups[name].append(bar)
    return {name: groups[name] for name in sorted(groups, key=lambda each: (each in (_REST, NO_POOL), each))}


def _lane(name: str, group: Sequence[_Bar], placed: Sequence[Bar], slots: int | None, queue: Queue | None) -> Lane:
    failed = sum(bar.is_failed for bar in group)
    busy = sum((bar.end - bar.begin).total_seconds() for bar in group)
    rows = max((bar.row for bar in placed), default=0) + 1
    return Lane(name, len(group), failed, busy, rows, tuple(placed), slots, queue)


def _named(bars: Sequence[_Bar], by: str, remarks: list[str]) -> list[str]:
    """The name of the lane of each bar; what would be too many lanes shares one."""
    if by == "pool":
        names = [bar.stint.pool or NO_POOL for bar in bars]
    elif by == "job":
        names = [bar.stint.jobid for bar in bars]
    else:
        names = [bar.stint.owner or "unknown" for bar in bars]
        if len({*names}) > _MOST_LANES // 2:
            names = [_machine(name) for name in names]
            remarks.append("There are many workers: those of one user on one machine share their rows.")
    most = Counter(names).most_common()
    if len(most) <= _MOST_LANES:
        return names
    kept = {name for name, _ in most[: _MOST_LANES - 1]}
    remarks.append(f"The {_MOST_LANES - 1} busiest of {count(len(most), by)} have rows of their own.")
    return [name if name in kept else _REST for name in names]


def _machine(owner: str) -> str:
    """Whose worker it is and where, without the number of its process."""
    name, colon, number = owner.rpartition(":")
    return name if colon and number.isdigit() else owner


def _placed(bars: Iterable[_Bar]) -> Iterator[Bar]:
    """Each bar in the first row that is free; beyond the last row they lie upon each other."""
    busy: list[tuple[datetime, int]] = []  # until when each row is taken
    free: list[int] = []
    rows = 0
    for bar in bars:
        while busy and busy[0][0] <= bar.begin:
            heappush(free, heappop(busy)[1])
        if free:
            row = heappop(free)
        else:
            row, rows = min(rows, _MOST_ROWS - 1), rows + 1
        heappush(busy, (bar.end, row))
        yield bar.bar(row)


def _together(bars: Iterable[_Bar], since: datetime, until: datetime, parts: int) -> Iterator[Bar]:
    """One bar for each part of the period in which something ran."""
    step = (until - since) / parts
    cells: defaultdict[int, list[_Bar]] = defaultdict(list)
    for bar in bars:
        first = min(int((bar.begin - since) / step), parts - 1)
        last = min(int((bar.end - since) / step), parts - 1)
        for cell in range(first, last + 1):
            cells[cell].append(bar)
    for cell, group in sorted(cells.items()):
        begin = since + cell * step
        worst = min((bar.stint.status for bar in group), key=_WORST.index)
        jobs = {bar.stint.jobid for bar in group}
        name = jobs.pop() if len(jobs) == 1 else ""
        yield Bar(0, begin, begin + step, worst, len(group), None, name, "", "", sum(bar.is_failed for bar in group))


_WORST = ("FAILED", "LOST", "REFUSED", RUNNING, READY)
