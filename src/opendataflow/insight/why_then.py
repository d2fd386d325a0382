"""Why a job or one chunk of it did not run at a moment: what was stored then, and what its inputs were."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ..errors import NothingToDo
from ..model import (
    READY,
    RESUBMIT,
    RUNNING,
    YES,
    Answer,
    Catalogue,
    Facts,
    Input,
    InputFact,
    Job,
    OutputFact,
    Unresolved,
    answer_all,
    check_dataid,
    decide,
    latest_bound,
    locked_by,
    may_read,
    sort_key,
)
from ..store import Event, Run, Store
from ..store.views import ChunkThen
from .axis import FIRST_KEY
from .decided import Decision
from .then import TODAYS_DEFINITIONS, as_running, history_begins
from .why.reasons import LOCKED, NOT_READY, SHOWN, Reason
from .words import are, many, when

_LOOKED_AT = 500  # chunks, for the mapping latest
_UNSEEN = "what a look at the data would have found is not known for that time"
_NOT_KNOWN = (TODAYS_DEFINITIONS, "pools, limits, deferrals and looks at the data are not known for that time")


@dataclass(frozen=True, slots=True)
class WhyThen:
    """The answer about a moment: what was in the way by history, and the last receipt that was stored by then."""

    jobid: str
    dataid: str | None
    at: datetime
    verdict: str
    reasons: tuple[Reason, ...]
    answers: tuple[Answer, ...]
    decision: Decision | None
    running: tuple[Run, ...]
    not_known: tuple[str, ...]


def why_then(store: Store, jobid: str, dataid: str | None, at: datetime) -> WhyThen:
    """What stood in the way of a job, or of one dataid of it, at a moment."""
    catalogue = store.catalogue()
    job = catalogue.job(jobid)
    if dataid is None:
        return _about_job(store, job, at)
    return _about_chunk(store, catalogue, job, dataid, at)


def _about_job(store: Store, job: Job, at: datetime) -> WhyThen:
    running = [as_running(run) for run in store.views.running_at(job.jobid, at)]
    stored = store.views.receipts_until(job.jobid, at, n=100)
    last: dict[str, Event] = {}
    for event in stored:
        last.setdefault(event.dataid or "", event)
    reasons = []
    if running:
        told = tuple(f"run {run.runid} of {run.dataid} by {run.owner}, since {when(run.started)}" for run in running)
        text = f"{many(len(running))} of {job.jobid} {'was' if are(len(running)) == 'is' else 'were'} running"
        reasons.append(Reason(RUNNING, text, (), told[:SHOWN]))
    name = job.outputs[0]
    then = store.views.chunks_then([(name, dataid) for dataid in last if dataid], at)
    ready = [dataid for dataid in last if dataid and then[name, dataid].status == READY]
    open_ones = {dataid: event for dataid, event in last.items() if dataid and dataid not in ready}
    stood = [_stood(then[name, dataid], event) for dataid, event in list(open_ones.items())[:SHOWN]]
    reasons += [reason for reason in stood if reason.name != RUNNING]
    if ready:
        text = f"{many(len(ready))} of {name} {'was' if len(ready) == 1 else 'were'} READY, among the last that it asked for"
        reasons.append(Reason(NothingToDo.name, text))
    if not reasons:
        reasons.append(Reason(NothingToDo.name, f"no run and no answer of {job.jobid} is known up to {when(at)}"))
    decision = _decision(stored[0]) if stored else None
    return WhyThen(
        job.jobid, None, at, reasons[0].name, tuple(reasons), (), decision, tuple(running), _not_known(store, at)
    )


def _stood(chunk: ChunkThen, event: Event) -> Reason:
    """What a chunk was then that was not READY: refused, locked, or due."""
    if event.receipt is not None and event.receipt.no is not None:
        return _stored(event)
    name = {None: NothingToDo.name, RUNNING: RUNNING, RESUBMIT: YES}.get(chunk.status, LOCKED)
    return Reason(name, _was(chunk))


def _stored(event: Event) -> Reason:
    """A receipt that was the last of its chunk."""
    receipt = event.receipt
    no = receipt.no if receipt else None
    why = f": {no.why}" if no and no.why else f": {event.why}" if event.why else ""
    return Reason(
        receipt.verdict if receipt else "", f"{event.datasetid} {event.dataid} {event.kind} at {when(event.at)}{why}"
    )


def _decision(event: Event) -> Decision | None:
    receipt = event.receipt
    return Decision(event.at, event.kind, event.runid, receipt.verdict, receipt) if receipt else None


def _not_known(store: Store, at: datetime) -> tuple[str, ...]:
    return (*history_begins(store, at), *_NOT_KNOWN)


# One chunk ----------------------------------------------------------------------------------------------------------


def _about_chunk(store: Store, catalogue: Catalogue, job: Job, dataid: str, at: datetime) -> WhyThen:
    check_dataid(catalogue.output_partition(job), dataid, job.outputs[0])
    needed = catalogue.inputs_of(job, dataid)
    unresolved, not_known = [], list(_not_known(store, at))
    for item in job.inputs:
        if item.mapping.kind == "latest":
            newest = _latest(store, catalogue, job, item, dataid, at)
            needed += [newest] if newest else []
            unresolved += (
                [] if newest else [Unresolved(item.datasetid, "latest", f"no chunk of {item.datasetid} was READY")]
            )
        elif item.mapping.is_dynamic:
            not_known.append(
                f"{job.jobid} reads all of {item.datasetid}: whether all was there is not known for that time"
            )
    outputs = [(name, dataid) for name in job.outputs]
    then = store.views.chunks_then([*needed, *outputs], at)
    facts = Facts(
        job.jobid,
        dataid,
        inputs=tuple(InputFact(*chunk, then[chunk].status, then[chunk].version or None) for chunk in needed),
        unresolved=tuple(unresolved),
        outputs=tuple(OutputFact(name, then[name, dataid].status, then[name, dataid].runid) for name in job.outputs),
        partition=catalogue.output_partition(job).type,
        place=_UNSEEN,
        validated=_UNSEEN,
    )
    missing = [then[chunk] for chunk in needed if not may_read(then[chunk].status)]
    reasons = [Reason(NOT_READY, _was(chunk)) for chunk in missing[:SHOWN]]
    if len(missing) > SHOWN:
        reasons.append(Reason(NOT_READY, f"{len(missing) - SHOWN:,} more chunks were not READY"))
    reasons += [Reason(NOT_READY, each.why) for each in unresolved]
    lock = locked_by([output.status for output in facts.outputs], [])
    if lock is not None:
        reasons.append(Reason(LOCKED, _was(then[outputs[lock[1]]])))
    if not reasons:
        text = f"nothing stood in the way of {job.jobid} {dataid}, as far as the history knows"
        reasons.append(Reason(YES, text))
    events = store.views.events_until(job.outputs[0], dataid, at, 500)
    stored = next((event for event in events if event.receipt is not None), None)
    running = [run for run in store.views.runs(jobid=job.jobid, dataid=dataid, n=100) if _ran(run, at)]
    return WhyThen(
        job.jobid,
        dataid,
        at,
        decide(facts).verdict,
        tuple(reasons),
        answer_all(facts),
        _decision(stored) if stored else None,
        tuple(map(as_running, running)),
        tuple(not_known),
    )


def _ran(run: Run, at: datetime) -> bool:
    return run.started is not None and run.started <= at and (run.ended is None or run.ended > at)


def _was(chunk: ChunkThen) -> str:
    here = f"{chunk.datasetid} {chunk.dataid}"
    if not chunk.is_known:
        return f"nothing is known of {here}" + (
            f" before {when(chunk.known_from)}" if chunk.known_from else " for that time"
        )
    if chunk.status is None:
        return f"{here} was not there"
    return f"{here} was {chunk.status}" + (f" since {when(chunk.since)}" if chunk.since else "")


def _latest(
    store: Store, catalogue: Catalogue, job: Job, item: Input, dataid: str, at: datetime
) -> tuple[str, str] | None:
    """The newest chunk that was READY then and is not after a dataid, among the newest ones that there are now."""
    partition = catalogue.datasets[item.datasetid].partition
    until = sort_key(partition, latest_bound(partition, catalogue.output_partition(job), dataid))
    dataids = store.views.newest_dataids(item.datasetid, FIRST_KEY, until, _LOOKED_AT)
    then = store.views.chunks_then([(item.datasetid, each) for each in dataids], at)
    return next((chunk for chunk, each in then.items() if may_read(each.status)), None)
