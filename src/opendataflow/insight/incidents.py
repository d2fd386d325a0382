"""Incidents: what needs a person, one line for each root cause, the worst first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from datetime import datetime

from ..model import FAILED, HOLD, PENDING, READY, Catalogue
from ..model.decision.cause import cause_key
from ..store import OUTSIDE, Event, Store
from .absent import MISSING, REFUSED, refused_chunks
from .holdup import Holdup, link_text
from .late import LATE, Late, late
from .recovery import RootCause, causes
from .stale import STALE, stale_chunks
from .words import count, said

BROKEN, PAUSED = "BROKEN", "PAUSED"
# The worst first.
KINDS = (FAILED, BROKEN, REFUSED, LATE, MISSING, PENDING, HOLD, PAUSED, STALE)
_FOLLOWED = 4000  # chunks that are not READY: with more of them, what waits behind is not counted
_GROUPED = 2000
_LATE = 1000
_STALE = 1000
_CHAINS = 20  # groups of late chunks that are told what holds them up
_LONGEST = 300
_NOT_THERE = {MISSING: "expected, and not delivered", REFUSED: "expected; it came, and was refused"}

ChunkId = tuple[str, str]


@dataclass(frozen=True, slots=True)
class OpenProblem:
    """One thing that needs a person: what it is, how many chunks it began with, since when, and what waits behind it.

    cause is its number in the plan of `odf recover`; behind is None where it was not counted.
    """

    kind: str
    outcome: str
    text: str
    n: int
    at_least: bool
    since: datetime | None
    failed_behind: int | None
    waiting_behind: int | None
    jobs: tuple[str, ...]
    datasets: tuple[str, ...]
    chunk: ChunkId | None  # the first of them
    cause: int | None = None
    pool: str = ""  # that is paused

    @property
    def behind(self) -> int | None:
        """How many chunks fail or wait because of it."""
        return None if self.waiting_behind is None else self.waiting_behind + (self.failed_behind or 0)


def incidents(store: Store) -> tuple[OpenProblem, ...]:
    """What needs a person now, the worst first: root causes, what is late and missing, and what was refused.

    Its cost depends on what is not READY, up to a few thousand chunks, and not on what is.
    """
    catalogue = store.catalogue()
    found = [
        *(told := [*_of_causes(store)]),
        *_refused_again(store),
        *_of_late(store, catalogue, are_told={each.kind for each in told}),
        *_of_definitions(catalogue),
        *_of_stale(store),
    ]
    return tuple(sorted(found, key=_rank))


def _rank(each: OpenProblem) -> tuple[int, int, int, str]:
    return KINDS.index(each.kind), -(each.behind or 0), -each.n, str(each.since or "~")


# Root causes --------------------------------------------------------------------------------------------------------


def _of_causes(store: Store) -> Iterator[OpenProblem]:
    counts = store.views.figures_now().unsettled
    if sum(each.n for each in counts) <= _FOLLOWED:
        yield from map(_of_cause, causes(store))
        return
    totals: dict[str, int] = {}
    for each in counts:
        totals[each.status] = totals.get(each.status, 0) + each.n
    groups: dict[tuple[str, str], list[ChunkId]] = {}
    said: dict[tuple[str, str], OpenProblem] = {}
    seen: dict[str, int] = {}
    for row in store.views.unsettled(_GROUPED):
        if row.status not in (FAILED, HOLD, PENDING):
            continue
        seen[row.status] = seen.get(row.status, 0) + 1
        text = row.detail or "" if row.status == FAILED else ""
        key = row.status, f"{row.outcome} {cause_key(text, (row.jobid, row.datasetid, row.dataid))}"
        groups.setdefault(key, []).append((row.datasetid, row.dataid))
        if key not in said:
            outcome = row.outcome or "" if row.status == FAILED else ""
            jobs = (row.jobid,) if row.jobid and row.jobid != OUTSIDE else ()
            said[key] = OpenProblem(
                *(row.status, outcome, _line(text), 0, False, row.modified, None, None),
                *(jobs, (row.datasetid,), (row.datasetid, row.dataid)),
            )
    for key, chunks in groups.items():
        first, status = said[key], key[0]
        # One group alone has all of its status; of several, each has at least what was looked at.
        alone = sum(other[0] == status for other in groups) == 1
        n = totals[status] if alone else len(chunks)
        datasets = tuple(dict.fromkeys(name for name, _ in chunks))
        yield OpenProblem(
            *(first.kind, first.outcome, first.text, n, not alone and seen[status] < totals[status], first.since),
            *(None, None, first.jobs, datasets, first.chunk),
        )


def _of_cause(cause: RootCause) -> OpenProblem:
    kind = cause.status if cause.status in KINDS else FAILED
    return OpenProblem(
        kind,
        cause.outcome,
        _line(cause.text),
        len(cause.chunks),
        False,
        cause.since,
        cause.failed_behind,
        cause.waiting_behind,
        cause.jobs,
        tuple(dict.fromkeys(name for name, _ in cause.chunks)),
        cause.chunks[0],
        cause.number,
    )


# Arrivals -----------------------------------------------------------------------------------------------------------


def _refused_again(store: Store) -> Iterator[OpenProblem]:
    """Later deliveries of chunks that are READY which were refused: no root cause, since nothing waits for them."""
    groups: dict[str, list[tuple[tuple[str, str], Event]]] = {}
    for chunk, status, event in refused_chunks(store.views, store.views.refusals()):
        if status == READY:
            groups.setdefault(f"{event.after} {cause_key(event.why, chunk)}", []).append((chunk, event))
    for some in groups.values():
        chunk, first = some[-1]  # they come newest first
        text = f"a later delivery was refused: {first.why or ''}"
        datasets = tuple(dict.fromkeys(name for (name, _), _ in reversed(some)))
        yield OpenProblem(
            *(REFUSED, first.after or "", _line(text), len(some), False, first.at, 0, 0, (), datasets, chunk)
        )


# Late and missing ---------------------------------------------------------------------------------------------------


def _of_late(store: Store, catalogue: Catalogue, are_told: Set[str]) -> Iterator[OpenProblem]:
    seen = late(store, chains=False, most=_LATE)
    groups: dict[tuple[str, str], list[Late]] = {}
    for each in seen.late:
        if each.sign == REFUSED and REFUSED in are_told:
            continue  # with its cause
        groups.setdefault((each.sign, each.datasetid), []).append(each)
    held = Holdup(store, catalogue)
    for number, ((sign, datasetid), some) in enumerate(groups.items()):
        first = some[0]
        is_made = sign == LATE or catalogue.producer_id(datasetid) is not None
        chain = held.chain(datasetid, first.dataid) if is_made and number < _CHAINS else ()
        text = link_text(chain[0]) if chain else _NOT_THERE.get(sign, "")
        jobs = tuple(dict.fromkeys(link.jobid for link in chain[:1] if link.jobid))
        yield OpenProblem(
            *(sign, "", _line(text), len(some), seen.more, first.due, None, None),
            *(jobs, (datasetid,), (datasetid, first.dataid)),
        )


# Definitions --------------------------------------------------------------------------------------------------------


def _of_definitions(catalogue: Catalogue) -> Iterator[OpenProblem]:
    for (what, name), broken in catalogue.broken.items():
        if broken.cause is not None:
            continue  # what it rests on is named
        jobs = (name,) if what == "job" else ()
        datasets = (name,) if what == "dataset" else ()
        yield OpenProblem(BROKEN, "", _line(broken.message), 1, False, None, None, None, jobs, datasets, None)
    for poolid, pool in sorted(catalogue.pools.items()):
        if pool.slots == 0:
            held = tuple(sorted(job.jobid for job in catalogue.jobs.values() if job.pool == poolid))
            text = f"pool {poolid} has 0 slots: nothing of {count(len(held), 'job')} can begin"
            yield OpenProblem(PAUSED, "", _line(text), 1, False, None, None, None, held, (), None, pool=poolid)
    for jobid, pause in catalogue.paused.items():
        text = f"by {pause.who.partition('@')[0]}" + (f": {pause.why}" if pause.why else "")
        yield OpenProblem(PAUSED, "", _line(text), 1, False, pause.since, None, None, (jobid,), (), None)


# Stale --------------------------------------------------------------------------------------------------------------


def _of_stale(store: Store) -> Iterator[OpenProblem]:
    """One line for all that is stale: nothing waits for it, and one answer makes all of it again."""
    found = list(stale_chunks(store, _STALE)) if store.views.has_stale() else []
    if found:
        datasets = tuple(dict.fromkeys(name for name, _ in found))
        at_least = len(found) >= _STALE // 2  # a chunk may have been met twice
        text = "READY, and made from what is no longer current"
        yield OpenProblem(STALE, "", text, len(found), at_least, None, 0, 0, (), datasets, found[0])


def _line(text: str) -> str:
    return said(text, _LONGEST)


def in_short(found: Iterable[OpenProblem]) -> str:
    """How many of each kind, in a few words."""
    kinds: dict[str, int] = {}
    for each in found:
        kinds[each.kind] = kinds.get(each.kind, 0) + 1
    return ", ".join(f"{n:,} {kind}" for kind, n in kinds.items()) or count(0, "incident")
