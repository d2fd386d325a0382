"""History: what happened, newest first, to whatever a selector means. Every look is bounded, however long the history is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from ..errors import UnknownDataset, UnknownJob, UsageError
from ..model import FAILED, HOLD, PENDING, RESUBMIT, check_dataid, dataids
from ..model.selector import Selector, Subject
from ..store import Store
from ..store.views import Filter, HistoryLine, Stretch
from .selection import ChunkId, Scope, scope

# Every kind of event, in words.
KINDS = {
    "claimed": "claimed",
    "admitted": "allowed to run",
    "refused": "refused",
    "given back": "given back, not begun",
    "published": "published",
    "failed": "failed",
    "rescued": "lease ran out",
    "lost": "lost its chunk",
    "cancelled": "cancelled",
    "stopped": "stopped",
    "announced": "announced",
    "resubmitted": "resubmitted",
    "held": "held",
    "released": "released",
    "forgotten": "forgotten",
    "recalled": "recalled",
    "kept": "kept",
    "rolled back": "rolled back",
    "vacuumed": "files removed",
    "sql": "changed by SQL",
    "sql reading": "what a job has read was changed by SQL",
    "unfit note": "a note of a change that did not happen",
    "schema accepted": "new schema accepted",
    "paused": "job paused",
    "resumed": "job resumed",
    "pool set": "slots changed",
}
_MARKED = "marked as bad"  # a failure without a run
_OFTEN = ("claimed", "admitted", "published", "announced")
_RARE = tuple(kind for kind in KINDS if kind not in _OFTEN)
_ONLY_RARELY = {FAILED, RESUBMIT, HOLD, PENDING}
_OF_JOBS = ("paused", "resumed")

_STRETCH = 20_000  # events that are looked at one by one
_LOOK = 2_000  # events that an index names
_LONG_LOOK = 5_000  # where the index is walked through to find them
_MOST_LOOKS = 5
_MOST_CHUNKS = 2_000
_LAST = 2**62
_MARGIN = 3_000  # events of transactions that began before others and ended after them


@dataclass(frozen=True, slots=True)
class Happened:
    """One event: when, what in words, to what, from which status to which, by whom and why, and how its run ended."""

    eventid: int
    at: datetime | None
    kind: str
    what: str
    datasetid: str | None
    dataid: str | None
    jobid: str | None
    runid: int | None
    epoch: int | None
    before: str | None
    after: str | None
    who: str | None
    outcome: str | None
    why: str | None

    @property
    def pool(self) -> str:
        """The pool whose slots were changed."""
        return (self.why or "").partition(":")[0].removeprefix("pool ") if self.kind == "pool set" else ""


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A page of history. older is where the next page begins, if there may be one.

    partly is the event before which claims, publishes and announcements were not looked at, where nothing else was named.
    """

    events: tuple[Happened, ...]
    older: int | None
    partly: int | None = None


class _Look(NamedTuple):
    """What one look found, and the event after which nothing is left to be found."""

    events: list[HistoryLine]
    floor: int


_Way = Callable[[Stretch], _Look]


def history(
    store: Store, selector: Selector, *, kinds: Sequence[str] = (), n: int = 50, before: int | None = None
) -> HistoryPage:
    """The newest n events that are meant, before a given one."""
    kinds = [_kind_of(kind) for kind in kinds]
    meant = _scope(store, selector)
    newest = min(store.views.newest_event() + 1, before if before is not None else _LAST)
    stretch = _stretch(store, selector, newest)
    found = {each.eventid: each for each in _told_late(store, meant, kinds, stretch, newest)}
    partly: int | None = None
    left, floor = stretch, stretch.before - 1
    for way, is_partial in _ways(store, meant, kinds, n + 1):  # one more: whether there is an older page
        if len(found) > n or left.before <= left.floor + 1:
            break
        if is_partial and partly is None:
            partly = left.before
        look = way(left)
        found |= {
            each.eventid: each
            for each in look.events
            if each.eventid > look.floor and (not kinds or each.kind in kinds) and meant.matches(subject_of(each))
        }
        left, floor = left._replace(before=look.floor + 1), look.floor
    page = sorted(found.values(), key=lambda each: -each.eventid)[:n]
    older = page[-1].eventid if len(found) > n else floor + 1 if floor > stretch.floor else None
    return HistoryPage(tuple(map(_happened, page)), older, partly)


def subject_of(event: HistoryLine) -> Subject:
    """An event as a selector sees it."""
    said = (event.outcome, event.after, event.why)
    return Subject(event.datasetid, event.dataid, event.jobid, event.after, event.at, event.who, said)


def _happened(event: HistoryLine) -> Happened:
    what = KINDS.get(event.kind, event.kind)
    if event.kind == "failed" and event.runid is None:
        what = _MARKED
    # How a run ended is said where it ended, not where it began.
    outcome = event.outcome if event.kind in ("failed", "rescued", "lost", "cancelled", "stopped") else None
    return Happened(
        *(event.eventid, event.at, event.kind, what, event.datasetid, event.dataid, event.jobid, event.runid),
        *(event.epoch, event.before, event.after, event.who, outcome, event.why),
    )


def _kind_of(word: str) -> str:
    """A kind of event by its name, or by the words in which it is printed."""
    if word in KINDS:
        return word
    for kind, words in (*KINDS.items(), ("failed", _MARKED)):
        if word == words:
            return kind
    raise UsageError(f"there is no kind of event {word[:60]!r}", hint=f"There are: {', '.join(KINDS)}.")


def _scope(store: Store, selector: Selector) -> Scope:
    """What a selector can mean; a dataset or a job that is no longer there still has its history."""
    try:
        return scope(store, selector)
    except UnknownDataset:
        if selector.is_by_flow or not store.views.history_of_datasets(Stretch(_LAST), selector.datasets, 1):
            raise
    except UnknownJob:
        if selector.is_by_flow or not any(store.views.runs(jobid=jobid, n=1) for jobid in selector.jobs):
            raise
    return Scope(selector, store.catalogue(), frozenset(selector.datasets) or None)


def _stretch(store: Store, selector: Selector, newest: int) -> Stretch:
    """The part of history that a span of time lies in; times rise with numbers, but for changes by SQL, told later."""
    top = min(newest, store.views.event_before(selector.until) + 1) if selector.until else newest
    floor = max(store.views.event_before(selector.since) - _MARGIN, 0) if selector.since else 0
    return Stretch(top, min(floor, top - 1))


def _told_late(store: Store, meant: Scope, kinds: Sequence[str], stretch: Stretch, newest: int) -> list[HistoryLine]:
    """Changes by SQL of the span of time that were folded in after it."""
    if stretch.before >= newest or (kinds and "sql" not in kinds):
        return []
    late = store.views.history_of_kinds(Stretch(newest, stretch.before - 1), ("sql",), _LOOK)
    return [event for event in late if meant.matches(subject_of(event))]


# Ways to look ---------------------------------------------------------------------------------------------------------


def _ways(store: Store, meant: Scope, kinds: Sequence[str], n: int) -> Iterator[tuple[_Way, bool]]:
    """The looks in their order, each with whether it leaves out what happens often."""
    selector = meant.selector
    chunks = _chunks(meant)
    if chunks is not None:
        yield from [(_by_chunks(store, chunks), False)] * _MOST_LOOKS
        return
    datasets = _datasets(meant)
    is_rare = bool(selector.causes) or (bool(selector.statuses) and set(selector.statuses) <= _ONLY_RARELY)
    rare = [kind for kind in kinds or _RARE if kind in _RARE]
    if kinds and set(kinds) == set(rare):
        is_rare = True
    if is_rare:
        looks = 1 if datasets else _MOST_LOOKS
        yield from [(_by_kinds(store, rare), False)] * looks
    else:
        yield _one_by_one(store, meant, kinds, n), False
    if datasets:
        yield _by_datasets(store, datasets, selector.jobs), False
    elif not is_rare and selector.who and not kinds:
        yield from [(_by_kinds(store, _RARE), True)] * 2
    elif not is_rare:
        yield from [(_one_by_one(store, meant, kinds, n), False)] * 2


def _chunks(meant: Scope) -> list[ChunkId] | None:
    """The chunks that are named, where they are not too many; also those that are no longer there."""
    if meant.chunks is not None:
        named = [chunk for chunk in meant.chunks if meant.datasets is None or chunk[0] in meant.datasets]
        return named if len(named) <= _MOST_CHUNKS else None
    if not meant.selector.dataids:
        return None
    named = []
    for name in _datasets(meant):
        dataset = meant.catalogue.datasets.get(name)
        for word in meant.selector.dataids:
            first, dots, last = word.partition("..")
            if not dots:
                named.append((name, check_dataid(dataset.partition, word, name) if dataset else word))
            elif dataset is not None:
                ids = dataids(dataset.partition, first, last)
                named += [(name, each) for each in islice(ids, _MOST_CHUNKS + 1 - len(named))]
    return named if len(named) <= _MOST_CHUNKS else None


def _datasets(meant: Scope) -> list[str]:
    """The datasets that are meant, where some are: by name, along the flow, or because these jobs write them."""
    outputs = _outputs(meant)
    if meant.datasets is None:
        return outputs
    return [name for name in sorted(meant.datasets) if not meant.selector.jobs or name in outputs]


def _outputs(meant: Scope) -> list[str]:
    jobs = (meant.catalogue.jobs.get(jobid) for jobid in meant.selector.jobs)
    return [name for job in jobs if job for name in job.outputs]


def _by_chunks(store: Store, chunks: Sequence[ChunkId]) -> _Way:
    return lambda stretch: _cut(store.views.history_of_chunks(stretch, chunks, _LOOK), stretch, _LOOK)


def _by_datasets(store: Store, datasets: Sequence[str], jobs: Sequence[str]) -> _Way:
    def look(stretch: Stretch) -> _Look:
        found = _cut(store.views.history_of_datasets(stretch, datasets, _LONG_LOOK), stretch, _LONG_LOOK)
        if jobs:  # what is said of a job itself is about no dataset
            found.events.extend(store.views.history_of_kinds(stretch._replace(floor=found.floor), _OF_JOBS, _LOOK))
        return found

    return look


def _by_kinds(store: Store, kinds: Sequence[str]) -> _Way:
    def look(stretch: Stretch) -> _Look:
        events = store.views.history_of_kinds(stretch, kinds, _LOOK)
        cut = [stretch.floor]
        for kind in kinds:
            own = [event.eventid for event in events if event.kind == kind]
            cut += [own[-1] - 1] if len(own) == _LOOK else []
        return _Look(events, max(cut))

    return look


def _one_by_one(store: Store, meant: Scope, kinds: Sequence[str], n: int) -> _Way:
    selector = meant.selector
    jobs, outputs = selector.jobs, _outputs(meant)
    wanted = Filter(kinds, sorted(meant.datasets or ()), jobs, outputs, selector.statuses, selector.who)
    # The database sorts out everything but these.
    most = _STRETCH if selector.dataids or selector.causes else n + _LOOK * bool(selector.since or selector.until)

    def look(stretch: Stretch) -> _Look:
        part = stretch._replace(floor=max(stretch.floor, stretch.before - 1 - _STRETCH))
        return _cut(store.views.history(part, wanted, most), part, most)

    return look


def _cut(events: list[HistoryLine], stretch: Stretch, most: int) -> _Look:
    return _Look(events, events[-1].eventid - 1 if len(events) >= most else stretch.floor)
