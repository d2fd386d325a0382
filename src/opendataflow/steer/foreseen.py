"""Foreseen: what a verb would do, in words, before anybody does it: what changes, what follows, and what goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..insight.words import are, count, duration
from ..model import FAILED, READY, RESUBMIT, RUNNING
from ..shapes import dataclass
from . import verbs

if TYPE_CHECKING:
    from ..insight.recovery import Plan
    from ..model.selector import Selector
    from ..project import Project
    from ..store import Recall, RolledBack, Steered, Store

LISTED = 20  # changes that are named
MOST = 20_000  # chunks that one look is about
_LOOKED_AT = 20  # chunks whose readers and descendants are looked for
_MOST_BELOW = 1000


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What would happen: in one sentence, change by change as far as they are listed, and what follows from it.

    seen tells one plan from another, so that nobody confirms what he did not read.
    """

    headline: str
    count: int = 0
    changes: tuple[Steered, ...] = ()
    words: tuple[str, ...] = ()
    seen: str = ""

    @property
    def more(self) -> int:
        """How many changes are not listed."""
        return self.count - len(self.changes)


def foresee_chunks(store: Store, verb: str, selector: Selector, *, force: bool = False) -> Foreseen:
    """What resubmit, hold, release, fail or forget would do."""
    chunks = verbs.meant(store, verb, selector)
    check_number(sum(len(each.dataids) for each in chunks))
    return _foreseen(store, verb, verbs.steer_chunks(store, verb, chunks, force=force, dry_run=True))


def check_number(n: int) -> None:
    """UsageError when somebody means more chunks than a page should change: a transaction so long keeps workers waiting."""
    if n > MOST:
        raise UsageError(
            f"{n:,} chunks are meant, and a page changes at most {MOST:,} at once",
            hint="Narrow it down, or do it in a terminal.",
        )


def foresee_remake(store: Store, selector: Selector) -> Foreseen:
    """What would happen to what is stale."""
    chunks = verbs.stale_meant(store, selector)
    check_number(len(chunks))
    return _foreseen(store, "remake", store.remake(chunks, dry_run=True))


def _foreseen(store: Store, verb: str, changes: Sequence[Steered]) -> Foreseen:
    if not changes:
        return Foreseen("Nothing changes", words=("It is so already.",), seen=_digest(changes))
    n, becomes = len(changes), {change.after for change in changes}
    after = next(iter(becomes)) if len(becomes) == 1 else None
    if after is not None:
        then = f"{_say(n, 'becomes', 'become')} {after}"
    elif becomes == {None}:
        then = _say(n, "is treated", "are treated") + " as never produced"
    else:
        then = _say(n, "goes back to what it was", "go back to what they were")
    headline = f"{_name(changes)} {then}"
    with store.looking():
        words = tuple(_consequences(store, verb, changes))
    return Foreseen(headline, len(changes), tuple(changes[:LISTED]), words, _digest(changes))


def _say(n: int, of_one: str, of_many: str) -> str:
    return of_one if n == 1 else of_many


def _name(changes: Sequence[Steered]) -> str:
    first = changes[0]
    return f"{first.datasetid} {first.dataid}" if len(changes) == 1 else count(len(changes), "chunk")


def _digest(facts: object) -> str:
    return sha256(repr(facts).encode()).hexdigest()[:16]


def _consequences(store: Store, verb: str, changes: Sequence[Steered]) -> Iterator[str]:
    catalogue = store.catalogue()
    it = "it" if len(changes) == 1 else "them"
    datasets = list(dict.fromkeys(change.datasetid for change in changes))
    jobs = list(dict.fromkeys(jobid for name in datasets if (jobid := catalogue.producer_id(name))))
    outside = [name for name in datasets if catalogue.producer_id(name) is None]
    match verb:
        case "resubmit" | "remake":
            if jobs:
                makes = "makes" if len(jobs) == 1 else "make"
                yield f"{_listed(jobs)} {makes} {it} again at the next ordinary start, before anything new."
            if outside:
                yield f"No job produces {_listed(outside)}: it has to be delivered and announced again."
            yield from _behind(store, changes)
            if verb == "remake":
                yield "What comes out the same is READY again without a run."
        case "hold":
            yield f"Nobody reads or produces {it} until somebody releases {it}."
        case "release":
            yield f"Jobs may read or produce {it} again, as before."
        case "fail":
            yield f"Nobody reads {it} until {it if it == 'it' else 'they'} {are(len(changes))} produced again: say RESUBMIT then."
        case "forget":
            yield f"The store treats {it} as never produced. History and published versions stay."
            if jobs:
                yield f"{_listed(jobs)} may produce {it} anew as soon as the inputs are READY."
    paused = [jobid for jobid in jobs if jobid in catalogue.paused]
    if paused and verb in ("resubmit", "remake", "forget"):
        them = _say(len(paused), "it", "them")
        yield f"{_listed(paused)} {are(len(paused))} paused: nothing starts until somebody resumes {them}."
    lost = sum(change.before == RUNNING for change in changes)
    if lost:
        yield f"{count(lost, 'run')} {'loses its' if lost == 1 else 'lose their'} chunk and cannot publish any more."
    yield from _around(store, verb, changes)


def _behind(store: Store, changes: Sequence[Steered]) -> Iterator[str]:
    """What waits for it, and which jobs follow."""
    from ..insight.behind import behind

    waited_for = [(each.datasetid, each.dataid) for each in changes if each.before != READY][:_LOOKED_AT]
    found = behind(store, waited_for, _MOST_BELOW) if waited_for else None
    if found and found.chunks:
        n = len(found.chunks)
        many = f"{'At least ' if found.more or len(changes) > _LOOKED_AT else ''}{count(n, 'chunk')}"
        them = _say(len(changes), "it", "them")
        follow = _say(len(found.jobs), "the job that follows", "the jobs that follow")
        yield f"{many} {_say(n, 'waits', 'wait')} behind {them}; {follow}: {_listed(found.jobs)}."


def _around(store: Store, verb: str, changes: Sequence[Steered]) -> Iterator[str]:
    """Who reads it right now, and what was made from it."""
    ready = [change for change in changes if change.before == READY and change.after != READY][:_LOOKED_AT]
    reading = {
        row.runid
        for change in ready
        for row in store.readers(change.datasetid, change.dataid)
        if row.status == RUNNING and row.runid
    }
    if reading:
        n = len(reading)
        told = _say(n, "reads it now goes on with the version that it has", "read it now go on with what they have")
        yield f"{count(n, 'run')} that {told}."
    elif ready and verb in ("resubmit", "remake", "hold", "fail"):
        yield "Until then no job begins to read " + ("it." if len(changes) == 1 else "them.")
    below = _below(store, ready, {(change.datasetid, change.dataid) for change in changes})
    if below:
        many = f"{'at least ' if below >= _MOST_BELOW else ''}{count(below, 'chunk')}"
        them = _say(len(changes), "it", "them")
        made = f"{many} made from {them} {_say(below, 'stays as it is', 'stay as they are')}"
        if verb in ("resubmit", "remake", "forget"):
            yield f"{made}, and {_say(below, 'is', 'are')} STALE if the new version has other content."
        else:
            yield f"{made}."


def _below(store: Store, changes: Iterable[Steered], changed: set[tuple[str, str]]) -> int:
    """How many chunks were made from those that change, without those that change themselves."""
    found: set[tuple[str, str]] = set()
    for change in changes:
        found |= {
            (each.datasetid, each.dataid) for each in store.descendants(change.datasetid, change.dataid, _MOST_BELOW)
        }
        found -= changed
        if len(found) >= _MOST_BELOW:
            break
    return len(found)


def _listed(names: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return shown + (f" and {len(names) - most:,} more" if len(names) > most else "")


def foresee_recall(store: Store, datasetid: str, dataid: str, *, cascade: bool = False, hold: bool = False) -> Foreseen:
    """What a recall would do."""
    recall = verbs.recall(store, datasetid, dataid, why="", cascade=cascade, hold=hold, dry_run=True)
    n = len(recall.versions)
    headline = f"No job reads {count(n, 'version')} again"
    with store.looking():
        words = tuple(_of_recall(store, recall, (datasetid, dataid), cascade=cascade, hold=hold))
    changes = tuple(recall.changed[:LISTED])
    return Foreseen(headline, len(recall.changed), changes, words, _digest((recall.versions, recall.changed)))


def _of_recall(store: Store, recall: Recall, chunk: tuple[str, str], *, cascade: bool, hold: bool) -> Iterator[str]:
    chunks = {version[:2] for version in recall.versions}
    if len(recall.versions) > len(chunks):
        yield "Older versions are among them: nobody can roll back to them."
    again = sum(change.after == RESUBMIT for change in recall.changed)
    if again:
        yield f"{count(again, 'chunk')} {are(again)} made again, upstream first."
        if any(store.catalogue().producer_id(change.datasetid) is None for change in recall.changed):
            yield "What no job produces waits until it is delivered anew."
    if hold:
        yield "On HOLD, it stays recalled until somebody releases it; then it is made again."
    if recall.lost:
        n = len(recall.lost)
        told = _say(n, "reads it now and loses its chunk", "read it now and lose their chunks")
        yield f"{count(n, 'run')} {told}; {_say(n, 'it comes', 'they come')} back without help."
    if not cascade:
        below = len({(each.datasetid, each.dataid) for each in store.descendants(*chunk, _MOST_BELOW)})
        if below:
            many = f"{'at least ' if below >= _MOST_BELOW else ''}{count(below, 'chunk')}"
            yield f"{many} made from it {'stays' if below == 1 else 'stay'} readable, unless what was made from it is recalled too."
    yield "A recalled version cannot be released, rolled back to or announced again unchanged. This cannot be undone."


def foresee_rollback(store: Store, project: Project, datasetid: str, dataid: str, to: int | None = None) -> Foreseen:
    """What a rollback would do."""
    changed = verbs.rollback(store, project, datasetid, dataid, to, dry_run=True)
    mine = next(each for each in changed if each.datasetid == datasetid)
    headline = (
        f"{datasetid} {dataid} is READY again with version {mine.after}"
        if mine.after == mine.before
        else f"{datasetid} {dataid} goes from version {mine.before} back to version {mine.after}"
    )
    with store.looking():
        words = tuple(_of_rollback(store, changed, mine))
    return Foreseen(headline, len(changed), (), words, _digest(changed))


def _of_rollback(store: Store, changed: Sequence[RolledBack], mine: RolledBack) -> Iterator[str]:
    yield f"The next reader gets version {mine.after}. Nothing is copied or removed, so it can be undone the same way."
    others = [each.datasetid for each in changed if each is not mine]
    if others:
        yield f"The same run wrote {_listed(others)}: it goes back too."
    if mine.before != mine.after:
        made = store.made_of([(mine.datasetid, mine.dataid, mine.before)], _MOST_BELOW)
        below = len({(each.datasetid, each.dataid) for each in made})
        if below:
            stay = _say(below, "stays as it is, and is", "stay as they are, and are")
            yield f"{count(below, 'chunk')} made from version {mine.before} {stay} STALE if the content differs."


def foresee_cancel(store: Store, run_or_job: str, dataid: str | None = None) -> Foreseen:
    """What cancelling a run would do."""
    found = verbs.cancel(store, run_or_job, dataid, dry_run=True)
    run = found.run
    soon = "at its next heartbeat" if found.within is None else f"within {duration(found.within)}"
    words = (
        f"{run.jobid} {run.dataid} is FAILED at once, and whatever the run still writes is not published.",
        f"{run.owner} ends its processes {soon}.",
    )
    return Foreseen(f"Run {run.runid} is ended", 1, (), words, _digest(run.runid))


def foresee_pause(store: Store, job: str) -> Foreseen:
    """What pausing a job would do."""
    jobid = verbs.pause(store, job, dry_run=True)
    with store.looking():
        running = sum(run.jobid == jobid for run in store.running())
        by = store.catalogue().paused.get(jobid)
    goes = (
        f"{count(running, 'run')} {'goes' if running == 1 else 'go'} on to the end."
        if running
        else "Nothing of it runs now."
    )
    words = [goes, "Meanwhile its chunks are LOCKED, and whoever asks is told who paused it and why."]
    if by is not None:
        words.append(f"It is paused already: {by}")
    return Foreseen(f"Nothing more of {jobid} starts, on any machine", 1, (), tuple(words), _digest(("pause", jobid)))


def foresee_resume(store: Store, job: str) -> Foreseen:
    """What resuming a job would do."""
    if not verbs.resume(store, job, dry_run=True):
        return Foreseen(f"{job} is not paused", words=("It is so already.",))
    with store.looking():
        waiting = store.claimable(job, _MOST_BELOW)
    many = f"{'At least ' if waiting >= _MOST_BELOW else ''}{count(waiting, 'chunk')} can run at once."
    return Foreseen(f"{job} goes on", 1, (), (many,), _digest(("resume", job)))


def foresee_pool(store: Store, name: str, slots: str) -> Foreseen:
    """What another number of slots would do; without one, how many there are."""
    from ..insight.pools import slots_text

    planned = verbs.set_pool(store, name, slots or None, dry_run=True)
    if not planned.is_changed:
        return Foreseen(f"Pool {name} has {slots_text(planned.pool.slots)} slots already")
    was = f"; before: {slots_text(planned.before.slots)}" if planned.before else ""
    taken = store.slots_taken(name)
    words = [
        f"It counts from the next claim. {count(taken, 'run')} {'goes' if taken == 1 else 'go'} on: nothing is ended."
    ]
    if planned.hours and planned.pool.slots:
        words.append("Its hours stay: " + "; ".join(planned.hours))
    headline = f"Slots of pool {name}: {slots_text(planned.pool.slots)}{was}"
    return Foreseen(headline, 1, (), tuple(words), _digest((name, planned.before, slots)))


def foresee_recover(store: Store, causes: Sequence[str] = ()) -> Foreseen:
    """What a recovery would do."""
    plan, _ = verbs.recover(store, causes, dry_run=True)
    n = len(plan.resubmit)
    if not n and not plan.found.expired:
        return Foreseen("Nothing to recover", words=("No RESUBMIT would help.",))
    from ..store import Steered

    changes = tuple(Steered(*chunk, FAILED, RESUBMIT) for chunk in plan.resubmit[:LISTED])
    return Foreseen(f"{count(n, 'chunk')} {_say(n, 'becomes', 'become')} RESUBMIT", n, changes, tuple(_of_plan(plan)))


def _of_plan(plan: Plan) -> Iterator[str]:
    follows = plan.runs - len(plan.resubmit)
    if follows > 0:
        yield f"{count(follows, 'chunk')} {'follows' if follows == 1 else 'follow'} without one."
    if plan.runs and plan.estimate.seconds is not None:
        yield f"About {duration(plan.estimate.seconds)}, as long as past runs took, if there are workers enough."
    if plan.found.expired:
        n = plan.found.expired
        yield f"{count(n, 'run')} whose lease ran out {are(n)} ended first."
    if plan.by_hand:
        n = len(plan.by_hand)
        yield f"{count(n, 'thing')} no RESUBMIT can heal {'is' if n == 1 else 'are'} left for people."
