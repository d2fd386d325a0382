"""Describes the effect of a verb before it is confirmed: its changes, and the runs and downstream chunks they affect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..insight.words import are, count, duration
from ..model import FAILED, READY, RESUBMIT, RUNNING
from ..store import plan_digest
from . import verbs

if TYPE_CHECKING:
    from ..insight.recovery import RecoveryPlan
    from ..model.selector import Selector
    from ..project import Project
    from ..store import Recall, RolledBack, Steered, Store

LISTED = 20  # changes that a preview lists
MOST = 20_000  # chunks that a page changes at once
_LOOKED_AT = 20  # chunks whose waiting downstream chunks are counted
_MOST_BELOW = 1000


@dataclass(frozen=True, slots=True)
class Preview:
    """The effect of a verb: a headline, the first changes, and sentences about the consequences.

    `seen` is a digest of the plan: a confirmation with another digest is refused.
    """

    headline: str
    count: int = 0
    changes: tuple[Steered, ...] = ()
    words: tuple[str, ...] = ()
    seen: str = ""

    @property
    def more(self) -> int:
        """The number of changes that are not listed."""
        return self.count - len(self.changes)


def preview_chunks(store: Store, verb: str, selector: Selector, *, force: bool = False) -> Preview:
    """The effect of resubmit, hold, release, fail or forget."""
    chunks = verbs.select_chunks(store, verb, selector)
    check_number(sum(len(each.dataids) for each in chunks))
    return _preview(store, verb, verbs.steer_chunks(store, verb, chunks, force=force, dry_run=True))


def check_number(n: int) -> None:
    """UsageError for more chunks than a page may change at once: a long transaction blocks workers."""
    if n > MOST:
        raise UsageError(
            f"{n:,} chunks are selected, and a page changes at most {MOST:,} at once",
            hint="Narrow the selection, or use the command line.",
        )


def preview_remake(store: Store, selector: Selector) -> Preview:
    """The effect of remaking the selected stale chunks."""
    chunks = verbs.select_stale(store, selector)
    check_number(len(chunks))
    return _preview(store, "remake", store.remake(chunks, dry_run=True))


def _preview(store: Store, verb: str, changes: Sequence[Steered]) -> Preview:
    if not changes:
        return Preview("Nothing changes", words=("No change needed.",), seen=plan_digest(changes))
    n, statuses = len(changes), {change.after for change in changes}
    after = next(iter(statuses)) if len(statuses) == 1 else None
    if after is not None:
        effect = f"{_plural(n, 'becomes', 'become')} {after}"
    elif statuses == {None}:
        effect = _plural(n, "is treated", "are treated") + " as never produced"
    else:
        effect = _plural(n, "returns to its previous status", "return to their previous statuses")
    headline = f"{_name(changes)} {effect}"
    with store.looking():
        words = tuple(_consequences(store, verb, changes))
    return Preview(headline, len(changes), tuple(changes[:LISTED]), words, plan_digest(changes))


def _plural(n: int, singular: str, plural: str) -> str:
    return singular if n == 1 else plural


def _name(changes: Sequence[Steered]) -> str:
    first = changes[0]
    return f"{first.datasetid} {first.dataid}" if len(changes) == 1 else count(len(changes), "chunk")


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
                yield f"{_listed(jobs)} {makes} {it} again at the next ordinary start, before new chunks."
            if outside:
                yield f"No job produces {_listed(outside)}: deliver and announce {it} again."
            yield from _waiting_downstream(store, changes)
            if verb == "remake":
                yield "Chunks downstream of an unchanged result are READY again without a run."
        case "hold":
            yield f"Jobs neither read nor produce {it} until an operator releases {it}."
        case "release":
            yield f"Jobs may read or produce {it} again, as before."
        case "fail":
            yield f"Jobs do not read {it} until {it if it == 'it' else 'they'} {are(len(changes))} produced again (RESUBMIT)."
        case "forget":
            yield f"The store treats {it} as never produced. History and published versions stay."
            if jobs:
                yield f"{_listed(jobs)} may produce {it} again as soon as the inputs are READY."
    paused = [jobid for jobid in jobs if jobid in catalogue.paused]
    if paused and verb in ("resubmit", "remake", "forget"):
        them = _plural(len(paused), "it is", "they are")
        yield f"{_listed(paused)} {are(len(paused))} paused: nothing starts until {them} resumed."
    lost = sum(change.before == RUNNING for change in changes)
    if lost:
        yield f"{count(lost, 'run')} {'loses its' if lost == 1 else 'lose their'} chunk and cannot publish."
    yield from _readers_and_descendants(store, verb, changes)


def _waiting_downstream(store: Store, changes: Sequence[Steered]) -> Iterator[str]:
    """The downstream chunks that wait for these, and their jobs."""
    from ..insight.behind import behind

    unready = [(each.datasetid, each.dataid) for each in changes if each.before != READY][:_LOOKED_AT]
    found = behind(store, unready, _MOST_BELOW) if unready else None
    if found and found.chunks:
        n = len(found.chunks)
        many = f"{'At least ' if found.more or len(changes) > _LOOKED_AT else ''}{count(n, 'chunk')}"
        them = _plural(len(changes), "it", "them")
        jobs = _plural(len(found.jobs), "downstream job", "downstream jobs")
        yield f"{many} {_plural(n, 'waits', 'wait')} for {them}; {jobs}: {_listed(found.jobs)}."


def _readers_and_descendants(store: Store, verb: str, changes: Sequence[Steered]) -> Iterator[str]:
    """The runs that read these chunks now, and the chunks that were made from them."""
    ready = [(each.datasetid, each.dataid) for each in changes if each.before == READY and each.after != READY]
    changed = set(ready)
    reading = [run for run in store.views.running() if any(item[:2] in changed for item in run.inputs)] if ready else []
    if reading:
        n = len(reading)
        reads = _plural(n, "reads it now continues with its version", "read it now continue with their version")
        yield f"{count(n, 'run')} that {reads} of the input."
    elif ready and verb in ("resubmit", "remake", "hold", "fail"):
        yield f"Until then no job starts to read {_plural(len(changes), 'it', 'them')}."
    below = _below(store, ready, {(change.datasetid, change.dataid) for change in changes})
    if below:
        many = f"{'at least ' if below >= _MOST_BELOW else ''}{count(below, 'chunk')}"
        them = _plural(len(changes), "it", "them")
        made = f"{many} made from {them} {_plural(below, 'stays unchanged', 'stay unchanged')}"
        if verb in ("resubmit", "remake", "forget"):
            yield f"{made}, and {_plural(below, 'is', 'are')} STALE if the new version has other content."
        else:
            yield f"{made}."


def _below(store: Store, chunks: Sequence[tuple[str, str]], changed: set[tuple[str, str]]) -> int:
    """The number of current chunks that were made from these and do not change themselves; counts up to a limit."""
    found: set[tuple[str, str]] = set()
    for first in range(0, len(chunks), _MOST_BELOW):
        level = set(chunks[first : first + _MOST_BELOW])
        while level and len(found - changed) < _MOST_BELOW:
            links = store.views.links_from(level)
            stand = store.views.current({(link.datasetid, link.dataid) for link in links})
            versions = {(each.datasetid, each.dataid, each.version) for each in stand.values()}
            level = {link[3:5] for link in links if link[3:6] in versions} - found
            found |= level
    return len(found - changed)


def _listed(names: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return shown + (f" and {len(names) - most:,} more" if len(names) > most else "")


def preview_recall(store: Store, datasetid: str, dataid: str, *, cascade: bool = False, hold: bool = False) -> Preview:
    """The effect of a recall."""
    recall = verbs.recall(store, datasetid, dataid, why="", cascade=cascade, hold=hold, dry_run=True)
    n = len(recall.versions)
    headline = f"{count(n, 'version')} will be blocked for all jobs"
    with store.looking():
        words = tuple(_of_recall(store, recall, (datasetid, dataid), cascade=cascade, hold=hold))
    changes = tuple(recall.changed[:LISTED])
    return Preview(headline, len(recall.changed), changes, words, plan_digest((recall.versions, recall.changed)))


def _of_recall(store: Store, recall: Recall, chunk: tuple[str, str], *, cascade: bool, hold: bool) -> Iterator[str]:
    chunks = {version[:2] for version in recall.versions}
    if len(recall.versions) > len(chunks):
        yield "They include older versions: rollback to these is not possible."
    again = sum(change.after == RESUBMIT for change in recall.changed)
    if again:
        yield f"{count(again, 'chunk')} {are(again)} produced again, upstream first."
        if any(store.catalogue().producer_id(change.datasetid) is None for change in recall.changed):
            yield "Chunks that no job produces wait until they are delivered again."
    if hold:
        yield "The chunk stays on HOLD until an operator releases it; then it is produced again."
    if recall.lost:
        n = len(recall.lost)
        lost = _plural(n, "reads it now and loses its chunk", "read it now and lose their chunks")
        yield f"{count(n, 'run')} {lost}; {_plural(n, 'it is', 'they are')} retried automatically."
    if not cascade:
        below = len({(each.datasetid, each.dataid) for each in store.views.descendants(*chunk, _MOST_BELOW)})
        if below:
            many = f"{'at least ' if below >= _MOST_BELOW else ''}{count(below, 'chunk')}"
            yield f"{many} made from it {'stays' if below == 1 else 'stay'} readable, unless the recall includes downstream chunks."
    yield "A recalled version cannot be released, rolled back to or announced again unchanged. This cannot be undone."


def preview_rollback(store: Store, project: Project, datasetid: str, dataid: str, to: int | None = None) -> Preview:
    """The effect of a rollback."""
    changed = verbs.rollback(store, project, datasetid, dataid, to, dry_run=True)
    chosen = next(each for each in changed if each.datasetid == datasetid)
    headline = (
        f"{datasetid} {dataid} is READY again with version {chosen.after}"
        if chosen.after == chosen.before
        else f"{datasetid} {dataid} returns from version {chosen.before} to version {chosen.after}"
    )
    with store.looking():
        words = tuple(_of_rollback(store, changed, chosen))
    return Preview(headline, len(changed), (), words, plan_digest(changed))


def _of_rollback(store: Store, changed: Sequence[RolledBack], chosen: RolledBack) -> Iterator[str]:
    yield f"The next reader gets version {chosen.after}. No data is copied or removed; another rollback undoes it."
    others = [each.datasetid for each in changed if each is not chosen]
    if others:
        yield f"The same run wrote {_listed(others)}: this rollback includes {_plural(len(others), 'it', 'them')}."
    if chosen.before != chosen.after:
        made = store.views.made_of([(chosen.datasetid, chosen.dataid, chosen.before)], _MOST_BELOW)
        below = len({(each.datasetid, each.dataid) for each in made})
        if below:
            stay = _plural(below, "stays unchanged, and is", "stay unchanged, and are")
            yield f"{count(below, 'chunk')} made from version {chosen.before} {stay} STALE if the content differs."


def preview_cancel(store: Store, run_or_job: str, dataid: str | None = None) -> Preview:
    """The effect of cancelling a run."""
    found = verbs.cancel(store, run_or_job, dataid, dry_run=True)
    run = found.run
    words = (
        f"{run.jobid} {run.dataid} is FAILED at once, and further output of the run is not published.",
        f"{found.following}.",
    )
    return Preview(f"Run {run.runid} is ended", 1, (), words)


def preview_pause(store: Store, job: str) -> Preview:
    """The effect of pausing a job."""
    jobid = verbs.pause(store, job, dry_run=True)
    with store.looking():
        running = sum(run.jobid == jobid for run in store.views.running())
        by = store.catalogue().paused.get(jobid)
    runs = (
        f"{count(running, 'run')} {'continues' if running == 1 else 'continue'} to the end."
        if running
        else "It has no running chunk."
    )
    words = [runs, "While the job is paused, its chunks are LOCKED; the receipt names the operator and the reason."]
    if by is not None:
        words.append(f"The job is paused already: {by}")
    return Preview(f"No chunk of {jobid} will start on any machine", 1, (), tuple(words))


def preview_resume(store: Store, job: str) -> Preview:
    """The effect of resuming a job."""
    if not verbs.resume(store, job, dry_run=True):
        return Preview(f"{job} is not paused", words=("No change needed.",))
    with store.looking():
        waiting = store.views.claimable(job, _MOST_BELOW)
    many = f"{'At least ' if waiting >= _MOST_BELOW else ''}{count(waiting, 'chunk')} can start at once."
    return Preview(f"{job} is resumed", 1, (), (many,))


def preview_pool(store: Store, name: str, slots: str) -> Preview:
    """The effect of a new number of slots; without a number, the current slots."""
    from ..insight.pools import slots_text

    planned = verbs.set_pool(store, name, slots or None, dry_run=True)
    if not planned.is_changed:
        return Preview(f"Pool {name} has {slots_text(planned.pool.slots)} slots already")
    was = f"; before: {slots_text(planned.before.slots)}" if planned.before else ""
    taken = store.views.slots_taken(name)
    words = [
        f"The limit applies from the next claim. {count(taken, 'run')} {'continues' if taken == 1 else 'continue'}; none is ended."
    ]
    if planned.hours and planned.pool.slots:
        words.append("The pool keeps its hours: " + "; ".join(planned.hours))
    headline = f"Slots of pool {name}: {slots_text(planned.pool.slots)}{was}"
    return Preview(headline, 1, (), tuple(words))


def preview_recover(store: Store, causes: Sequence[str] = ()) -> Preview:
    """The effect of a recovery."""
    plan, _ = verbs.recover(store, causes, dry_run=True)
    n = len(plan.resubmit)
    if not n and not plan.found.expired:
        return Preview("Nothing to recover", words=("No failed chunk can be fixed by RESUBMIT.",))
    from ..store import Steered

    changes = tuple(Steered(*chunk, FAILED, RESUBMIT) for chunk in plan.resubmit[:LISTED])
    return Preview(f"{count(n, 'chunk')} {_plural(n, 'becomes', 'become')} RESUBMIT", n, changes, tuple(_of_plan(plan)))


def _of_plan(plan: RecoveryPlan) -> Iterator[str]:
    follows = plan.runs - len(plan.resubmit)
    if follows > 0:
        yield f"{count(follows, 'downstream chunk')} will run automatically."
    if plan.runs and plan.estimate.seconds is not None:
        yield f"At least {duration(plan.estimate.seconds)}, by the durations of past runs."
    if plan.found.expired:
        n = plan.found.expired
        yield f"{count(n, 'run')} with an expired lease {are(n)} ended first."
    if plan.by_hand:
        yield f"{count(len(plan.by_hand), 'item')} must be resolved by hand."
