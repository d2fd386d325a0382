"""Metrics: what a machine that watches wants to know, as figures with names and few labels.

No dataid, run or message is ever a label, and of very many datasets, jobs or pools the rest goes under one name.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ..errors import BY_NAME, OdfError
from ..lineage import DROPPED, SENT
from ..model import READY
from ..store import Store
from ..store.views.counts import BUCKETS, CountsNow, Cursor, Since
from .absent import refused_chunks
from .late import Late, late

GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"
OTHER = "other"
MOST = 1000  # names of one kind
_LAST = 100_000  # runs and events that a single look goes back
_PATIENCE = 2.0
_LEAST_PAUSE = 30.0  # between two counts of all READY chunks
_SHARE = 50  # such a count takes at most one part in so many of the time

Labels = tuple[tuple[str, str], ...]


class Spread(NamedTuple):
    """How many values are not above each bound, with the last for all of them, and their sum."""

    counts: tuple[int, ...]
    total: float


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: its kind, what it means, and its values by labels."""

    name: str
    kind: str
    help: str
    values: Mapping[Labels, float | Spread]

    def to_data(self) -> dict[str, object]:
        """As JSON data."""
        values = [
            {"labels": dict(labels), **({"value": value} if isinstance(value, (int, float)) else value._asdict())}
            for labels, value in self.values.items()
        ]
        return {"name": self.name, "kind": self.kind, "help": self.help, "values": values}


class LimitedNames:
    """The first so many names keep their own; those that come later are one."""

    def __init__(self, most: int = MOST) -> None:
        self._most, self._known = most, set[str]()

    def __call__(self, name: str) -> str:
        if name not in self._known and len(self._known) < self._most:
            self._known.add(name)
        return name if name in self._known else OTHER


@dataclass
class CountedHistory:
    """What was counted so far: every run and every refusal once."""

    claims: Counter[str] = field(default_factory=Counter)
    published: Counter[str] = field(default_factory=Counter)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    buckets: dict[str, list[int]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, since: Since) -> None:
        """Take in what a look found."""
        for run in since.runs:
            if run.is_new:
                self.claims[run.jobid] += run.n
            if run.status == READY:
                self.published[run.jobid] += run.n
            elif run.status in ("FAILED", "LOST"):
                self.failures[run.jobid, _known_outcome(run.outcome)] += run.n
            if run.status in (READY, "FAILED"):
                self.buckets.setdefault(run.jobid, [0] * (len(BUCKETS) + 1))[run.bucket] += run.n
                self.seconds[run.jobid] = self.seconds.get(run.jobid, 0.0) + run.seconds
        for name, n in since.refusals.items():
            self.refusals[_known_outcome(name)] += n


def _known_outcome(name: str | None) -> str:
    return name if name in BY_NAME else OTHER


@dataclass
class _Labelled:
    """Values under labels; those whose names are the same in the end are added up."""

    jobs: LimitedNames
    datasets: LimitedNames
    pools: LimitedNames

    def of(self, kind: str, counts: Iterable[tuple[tuple[str, ...], float]], *further: str) -> dict[Labels, float]:
        names = {"job": self.jobs, "dataset": self.datasets, "pool": self.pools}[kind]
        found: dict[Labels, float] = {}
        for (name, *rest), n in counts:
            labels = ((kind, names(name)), *zip(further, rest, strict=True))
            found[labels] = found.get(labels, 0) + n
        return found


class Metrics:
    """Looks at a store again and again, and counts its history only once."""

    def __init__(self, open_it: Callable[[], Store], version: str, most: int = MOST) -> None:
        self._open_it, self._version = open_it, version
        self._store: Store | None = None
        self._named = _Labelled(LimitedNames(most), LimitedNames(most), LimitedNames(most))
        self._history = CountedHistory()
        self._mark, self._horizon = Cursor(), Cursor()
        self._is_counted = False
        self._ready: Mapping[str, int] = {}
        self._late: tuple[Late, ...] = ()
        self._lock = threading.Lock()
        self._over = threading.Event()

    # One look -----------------------------------------------------------------------------------------------------

    def once(self, *, totals: bool = False) -> list[Figure]:
        """Everything, by one look: of the history the last runs and events, or all of it."""
        store = self._opened()
        self._ready, self._late = _ready_counts(store), late(store, chains=False).late
        if totals:
            self._count_all(store)
            return [*self._now(store), *self._totals()]
        newest = store.views.newest()
        recent = CountedHistory()
        mark = Cursor(max(newest.runid - _LAST, 0), max(newest.eventid - _LAST, 0))
        recent.add(store.views.figures_since(mark, newest))
        return [*self._now(store), *self._recent(recent)]

    def _opened(self) -> Store:
        if self._store is None:
            self._store = self._open_it()
            self._store.patience = _PATIENCE
        return self._store

    def close(self) -> None:
        """Stop, and give the connection back."""
        self._over.set()
        if self._store is not None:
            self._store.close()

    # Again and again ----------------------------------------------------------------------------------------------

    def again(self) -> list[Figure]:
        """What is so now, and the history up to the look before this one: by then, what was on its way has arrived.

        Totals are there once the whole history was counted. A store that cannot be asked is a figure too.
        """
        if not self._lock.acquire(timeout=_PATIENCE):
            return [not_up()]
        try:
            store = self._opened()
            is_counted = self._is_counted  # by now: what is counted meanwhile has its READY chunks in the next look
            if is_counted:
                horizon = self._horizon
                self._horizon = store.views.newest()
                self._count(store, horizon)
            return [*self._now(store), *(self._totals() if is_counted else ())]
        except OdfError:
            return [not_up()]
        finally:
            self._lock.release()

    def watch(self) -> None:
        """Beside the looks: count the history from its beginning once, and all READY chunks now and then."""
        store: Store | None = None
        while not self._over.is_set():
            began = time.monotonic()
            try:
                store = store or self._open_it()
                store.patience = _PATIENCE
                self._ready, self._late = _ready_counts(store), late(store, chains=False).late
                if not self._is_counted:
                    self._count_all(store)
            except OdfError:
                pass  # the next look says that it is away
            self._over.wait(max(_LEAST_PAUSE, _SHARE * (time.monotonic() - began)) if self._is_counted else 1.0)
        if store is not None:
            store.close()

    def _count_all(self, store: Store) -> None:
        newest = store.views.newest()
        while not self._over.is_set() and not self._count(store, newest, one_page=True):
            pass
        self._horizon, self._is_counted = newest, True

    def _count(self, store: Store, until: Cursor, *, one_page: bool = False) -> bool:
        while True:
            since = store.views.figures_since(self._mark, until)
            self._history.add(since)
            self._mark = since.mark
            if since.is_all or one_page:
                return since.is_all

    # Figures ------------------------------------------------------------------------------------------------------

    def _now(self, store: Store) -> Iterator[Figure]:
        named = self._named
        began = time.perf_counter()
        store.views.clock()
        trip = time.perf_counter() - began
        now, catalogue = store.views.figures_now(), store.catalogue()
        yield replace(not_up(), values={(): 1})
        yield Figure("odf_build_info", GAUGE, "The version of OpenDataFlow.", {(("version", self._version),): 1})
        yield _one("odf_store_round_trip_seconds", "How long the store took to answer the shortest question.", trip)
        chunks = [((name, READY), n) for name, n in self._ready.items()]
        chunks += [((each.datasetid, each.status), each.n) for each in now.unsettled]
        yield Figure(
            "odf_chunks", GAUGE, "Chunks by dataset and status.", named.of("dataset", _floats(chunks), "status")
        )
        yield from self._jobs(now)
        refused = Counter(
            (name, _known_outcome(event.after))
            for (name, _), status, event in refused_chunks(store.views, store.views.refusals())
            if status != READY
        )
        meaning = "Chunks whose last delivery or attempt was refused, by the name of the no; at most 1000 are counted."
        yield Figure("odf_refused", GAUGE, meaning, named.of("dataset", _floats(list(refused.items())), "name"))
        yield from self._lag()
        slots = [((name,), float(n)) for name in catalogue.pools if (n := store.views.pool_now(name)[0]) is not None]
        use = [((name,), 0.0) for name in catalogue.pools]
        use += [((each.pool,), float(each.n)) for each in now.running if each.pool in catalogue.pools]
        yield Figure("odf_pool_slots", GAUGE, "Slots of a pool now, where it has a limit.", named.of("pool", slots))
        yield Figure("odf_pool_slots_used", GAUGE, "Chunks that run in a pool now.", named.of("pool", use))
        yield _one("odf_jobs_paused", "Jobs that are paused.", len(catalogue.paused))
        yield _one("odf_definitions_broken", "Definitions that do not load.", len(catalogue.broken))
        waiting = now.messages.get("WAITING", 0) + now.messages.get("SENDING", 0)
        yield _one("odf_notifications_pending", "Messages to people that were not sent yet.", waiting)
        for what in ("sent", "dropped"):
            meaning = f"Messages to people that were {what}."
            yield Figure(f"odf_notifications_{what}", COUNTER, meaning, {(): now.messages.get(what.upper(), 0)})
        for what, name in (("sent", SENT), ("dropped", DROPPED)):
            meaning = f"OpenLineage events that were {what}, as workers said when they ended."
            yield Figure(f"odf_openlineage_{what}", COUNTER, meaning, {(): store.views.added_up(name)})

    def _jobs(self, now: CountsNow) -> Iterator[Figure]:
        named = self._named
        claimable = named.of("job", (((name,), float(n)) for name, n in now.claimable.items()))
        meaning = "Chunks that a job could take now; counting stops at 10000 for each job."
        yield Figure("odf_claimable", GAUGE, meaning, claimable)
        deferred = named.of("job", (((name,), float(n)) for name, n in now.deferred.items()))
        yield Figure("odf_deferred", GAUGE, "Chunks that wait until they are tried again.", deferred)
        running = named.of("job", (((each.jobid,), float(each.n)) for each in now.running))
        yield Figure("odf_running", GAUGE, "Chunks that run now.", running)
        lost = sum(each.expired for each in now.running)
        yield _one("odf_leases_expired", "Runs whose lease ran out and that nobody has ended yet.", lost)

    def _lag(self) -> Iterator[Figure]:
        """How late chunks are; as slowly counted as READY ones."""
        chunks = self._named.of("dataset", (((each.datasetid, each.sign), 1.0) for each in self._late), "sign")
        yield Figure("odf_late", GAUGE, "Chunks that are late or missing; at most 1000 are counted.", chunks)
        lag: dict[Labels, float | Spread] = {}
        for each in sorted(self._late, key=lambda late: late.seconds_late):
            lag[(("dataset", self._named.datasets(each.datasetid)),)] = each.seconds_late  # the longest is the last
        yield Figure("odf_lag_seconds", GAUGE, "How long the longest overdue chunk is behind its deadline.", lag)

    def _totals(self) -> Iterator[Figure]:
        yield from self._counted(self._history, "odf_", COUNTER, "since the store was made")
        labels = {labels: [0.0] * (len(BUCKETS) + 2) for labels in self._named.of("job", self._each_job())}
        for name, counts in self._history.buckets.items():
            sums = labels[(("job", self._named.jobs(name)),)]
            for number, n in enumerate((*counts, self._history.seconds[name])):
                sums[number] += n
        spreads = {key: Spread(_cumulated(sums[:-1]), sums[-1]) for key, sums in labels.items()}
        yield Figure(
            "odf_run_seconds", HISTOGRAM, "How long runs took that were published or failed, in seconds.", spreads
        )

    def _each_job(self) -> Iterator[tuple[tuple[str, ...], float]]:
        return (((name,), 0.0) for name in self._history.buckets)

    def _recent(self, recent: CountedHistory) -> Iterator[Figure]:
        """Gauges under names of their own: what looks back a fixed number of rows goes down as well as up."""
        yield from self._counted(recent, "odf_recent_", GAUGE, f"among the last {_LAST} runs or events")

    def _counted(self, history: CountedHistory, prefix: str, kind: str, when: str) -> Iterator[Figure]:
        named = self._named
        for name, meaning, counts in (
            ("claims", "Chunks that were claimed", history.claims),
            ("published", "Runs that published what they made", history.published),
        ):
            values = named.of("job", (((jobid,), float(n)) for jobid, n in counts.items()))
            yield Figure(f"{prefix}{name}", kind, f"{meaning}, {when}.", values)
        failures = named.of("job", _floats(list(history.failures.items())), "outcome")
        yield Figure(f"{prefix}failures", kind, f"Runs that failed or were lost, by outcome, {when}.", failures)
        refusals: dict[Labels, float | Spread] = {(("name", name),): n for name, n in history.refusals.items()}
        yield Figure(f"{prefix}refusals", kind, f"Chunks that were refused, by the name of the no, {when}.", refusals)


def not_up() -> Figure:
    """All that there is to say of a store that does not answer."""
    return _one("odf_up", "Whether the store answered.", 0)


def _one(name: str, meaning: str, value: float) -> Figure:
    return Figure(name, GAUGE, meaning, {(): value})


def _floats(counts: Iterable[tuple[tuple[str, ...], int]]) -> list[tuple[tuple[str, ...], float]]:
    return [(labels, float(n)) for labels, n in counts]


def _cumulated(counts: Iterable[float]) -> tuple[int, ...]:
    total, found = 0, []
    for n in counts:
        total += int(n)
        found.append(total)
    return tuple(found)


def _ready_counts(store: Store) -> dict[str, int]:
    return {name: counts[READY] for name, counts in store.views.status_counts().items() if READY in counts}
