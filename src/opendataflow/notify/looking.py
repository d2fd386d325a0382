"""Looking: finds what people should be told of, and keeps it as incidents with their messages, in one transaction.

What a chunk is now decides, not what some event said: so a look can be repeated, and two at once do no harm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ..insight.late import late
from ..model.decision.cause import cause_key
from ..model.printable import one_line
from ..project import Project
from ..project.notify import FAILED, LATE, RECALLED, REFUSED
from ..store import Event, Store
from ..store.incidents import IncidentChanges, IncidentChunk
from .rules import rules_of

_FAILURES = 5000  # in one look; the next one finds the others
_EVENTS = 50_000
_MOST_LATE = 5000
_MOST_CAUSES = 20  # open incidents of one kind; what comes then is one incident
_LONGEST_CAUSE = 300
_LONGEST_WHY = 1000
OTHERS = "many different causes"


def look(store: Store, project: Project, *, with_late: bool = False) -> IncidentChanges:
    """Find what went wrong, what got worse and what is over since the last look; write who has to be told.

    with_late looks at deadlines too. Changes nothing where nothing is new.
    """
    rules = rules_of(store, project)
    if rules is None:
        return IncidentChanges()
    kinds = rules.occasions
    found = list(_failures(store)) if FAILED in kinds else []
    up_to = None
    if kinds & {REFUSED, RECALLED}:
        news, up_to = store.incidents.news(_EVENTS)
        if up_to is None:
            store.incidents.begin_noticing()
        found += [each for each in map(_of_event, news) if each.kind in kinds]
    gone: list[tuple[str, str, str]] = []
    if with_late and LATE in kinds:
        late_now, gone = _lateness(store)
        found += late_now
    found = list(_unknown(store, found))
    now = store.views.clock()
    far = up_to is not None and up_to - (store.incidents.noticed_up_to() or 0) >= _EVENTS // 5
    if not (
        found or gone or far or store.incidents.has_settled() or rules.outgoing(store.incidents.standing(200), now)
    ):
        return IncidentChanges()
    return store.incidents.notice(
        _bounded(store, found), gone, lambda standing: rules.outgoing(standing, now), up_to=up_to
    )


def _failures(store: Store) -> Iterator[IncidentChunk]:
    for each in store.incidents.untold_failures(_FAILURES):
        said = each.detail or ""
        why = one_line(f"{each.outcome}: {said}" if each.outcome else "marked FAILED by a person")[:_LONGEST_WHY]
        cause = cause_key(why, (each.datasetid, each.dataid, each.jobid))[:_LONGEST_CAUSE]
        yield IncidentChunk(FAILED, cause, why, each.datasetid, each.dataid, each.jobid)


def _of_event(event: Event) -> IncidentChunk:
    name, dataid, jobid = event.datasetid or "", event.dataid or "", event.jobid or ""
    if event.kind == RECALLED:
        why = one_line(f"{event.who}: {event.why or 'no reason was given'}")[:_LONGEST_WHY]
        return IncidentChunk(RECALLED, why[:_LONGEST_CAUSE], why, name, dataid, jobid, event.eventid)
    said = event.why or next(
        (answer.why for answer in (event.receipt.answers if event.receipt else ()) if answer.yes is False), ""
    )
    why = one_line(f"{event.after}: {said}")[:_LONGEST_WHY]
    cause = cause_key(why, (name, dataid, jobid))[:_LONGEST_CAUSE]
    return IncidentChunk(REFUSED, cause, why, name, dataid, jobid, event.eventid)


def _lateness(store: Store) -> tuple[list[IncidentChunk], list[tuple[str, str, str]]]:
    """What is late now by its root cause, and what is late no more although it is not READY."""
    seen = late(store, only_deadlines=True, most=_MOST_LATE)
    found = []
    for each in seen.late:
        root = each.root
        why = one_line(f"{root.datasetid} {root.dataid}: {root.state}: {root.why}")[:_LONGEST_WHY]
        cause = f"{root.datasetid}: {root.state}"
        found.append(IncidentChunk(LATE, cause, why, each.datasetid, each.dataid, root.jobid or ""))
    there = {(each.datasetid, each.dataid) for each in seen.late}
    known = store.incidents.members_of(LATE, _MOST_LATE * 2)
    gone = [] if seen.more else [(LATE, *chunk) for chunk in known if chunk not in there]
    return found, gone


def _unknown(store: Store, found: Iterable[IncidentChunk]) -> Iterator[IncidentChunk]:
    """Those that no incident has yet; a failure is asked for as one already."""
    listed = list(found)
    kinds = {each.kind for each in listed} - {FAILED}
    known = {(kind, *chunk) for kind in kinds for chunk in store.incidents.members_of(kind, _MOST_LATE * 2)}
    yield from (each for each in listed if (each.kind, each.datasetid, each.dataid) not in known)


def _bounded(store: Store, found: list[IncidentChunk]) -> list[IncidentChunk]:
    """With the causes beyond a certain number as one: a hundred messages at once tell nobody anything."""
    open_ones = [(each.incident.kind, each.incident.cause) for each in store.incidents.standing(0)] if found else []
    counts = Counter(kind for kind, _ in open_ones)
    known = set(open_ones)
    bounded = []
    for each in found:
        if (each.kind, each.cause) not in known:
            if counts[each.kind] >= _MOST_CAUSES:
                each = each._replace(cause=OTHERS)
            else:
                counts[each.kind] += 1
            known.add((each.kind, each.cause))
        bounded.append(each)
    return bounded
