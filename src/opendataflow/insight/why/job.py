"""Why a whole job does not run, or what it could run next: its candidates and outputs, summed up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ...errors import NothingToDo
from ...model import (
    FAILED,
    HOLD,
    PENDING,
    READY,
    RUNNING,
    TODAY,
    TYPES,
    WAITING,
    YES,
    Catalogue,
    Job,
    may_read,
    no_beginning,
    takes_all,
    without_beginning,
)
from ...model.decision.cause import cause_key
from ...model.definitions.calendar import comes_by_clock, period_at, zone_of
from ...project import Project
from ...store import OUTSIDE, Event, Store
from ..absent import REFUSED
from ..axis import FIRST_KEY, LAST_KEY, ranges
from ..changed import refused_attempt
from ..recovery import waiting as waiting_behind
from ..words import are, duration, have, many, ranges_as_arguments, ranges_text, said, when
from .chunk import about_chunk
from .reasons import (
    LOCKED,
    MOST_COUNTED,
    NOT_READY,
    SHOWN,
    Reason,
    Why,
    how_it_ended,
    last_words,
    limits_in_the_way,
    log_of,
    not_retried,
    stale_of_job,
    untrusted,
    ways_to_produce,
    ways_to_ready,
    who_runs,
)

_SAMPLE = 2_000
_LISTED = 200


class _Missing(NamedTuple):
    """Input chunks that are waited for, by what keeps them: their dataset and status."""

    datasetid: str
    status: str | None


def about_job(store: Store, catalogue: Catalogue, job: Job, project: Project | None = None) -> Why:
    """What a job can run, what holds it back, and what it waits for."""
    reasons = tuple(_reasons(store, catalogue, job, project)) or _first_in_line(store, catalogue, job)
    reasons = (*(reasons or (_nothing_to_do(store, catalogue, job),)), *stale_of_job(store, job))
    refused = tuple(untrusted(project, catalogue, job)) if project is not None else ()
    if refused:
        reasons = (*refused, *(reason for reason in reasons if reason.name != YES))
    verdict = LOCKED if reasons[0].name == FAILED else reasons[0].name
    return Why(job.jobid, None, verdict, reasons)


def _reasons(store: Store, catalogue: Catalogue, job: Job, project: Project | None) -> Iterator[Reason]:
    yield from _without_beginning(store, catalogue, job)
    refusals = {str(event.dataid): event for event in reversed(store.views.refusals(job.jobid, n=MOST_COUNTED))}
    now = store.views.clock()
    later = {
        each.dataid: each.not_before for each in store.views.deferred(job.jobid, MOST_COUNTED) if each.not_before > now
    }
    yield from _claimable(store, job, project, {*refusals} - {*later})
    yield from _refused(job, refusals)
    yield from _running(store, job)
    yield from _unheld(store, job)
    yield from _deferred(job, {dataid: moment - now for dataid, moment in later.items() if dataid not in refusals})
    yield from _failed_outputs(store, job)
    yield from _waiting(store, catalogue, job)


def _without_beginning(store: Store, catalogue: Catalogue, job: Job) -> Iterator[Reason]:
    for name in without_beginning(job, catalogue.datasets):
        if not store.views.chunks(name, status=READY, n=1):
            yield Reason(NOT_READY, no_beginning(job.jobid, name), ("odf apply",))


def _first_in_line(store: Store, catalogue: Catalogue, job: Job) -> tuple[Reason, ...]:
    """Of a job without candidates: what keeps the chunk that a call would be refused for."""
    dataid = store.views.first_in_line(job.jobid)
    return about_chunk(store, catalogue, job, dataid).reasons if dataid is not None else ()


def _claimable(store: Store, job: Job, project: Project | None, refused: set[str]) -> Iterator[Reason]:
    n = store.views.claimable(job.jobid, MOST_COUNTED)
    n -= min(n, len(refused))
    limits = store.views.limits(job.jobid)
    is_paused = any(limit.what == "job" for limit in limits)
    full = list(limits_in_the_way(store, limits, project))
    if n or is_paused:
        yield from full
    if not n:
        return
    these = f"{many(n, MOST_COUNTED)} of {job.jobid} can run"
    if full:
        yield Reason(LOCKED, f"{these} as soon as {'it is resumed' if is_paused else 'a slot is free'}")
    else:
        ahead = [
            dataid for dataid in store.views.next_dataids(job.jobid, SHOWN + len(refused)) if dataid not in refused
        ]
        following = ", ".join(ahead[:SHOWN]) + "…" * (n > SHOWN)
        yield Reason(YES, f"{these} now; next: {following}", (f"odf run {job.jobid}",))


def _running(store: Store, job: Job) -> Iterator[Reason]:
    running = [run for run in store.views.running() if run.jobid == job.jobid]
    if running:
        first = ", ".join(f"{run.dataid} (run {run.runid})" for run in running[:SHOWN])
        text = f"{many(len(running))} of {job.jobid} {are(len(running))} running now: {first}"
        told = tuple(who_runs(store, run) for run in running[:SHOWN])
        follow = tuple(f"{command} --follow" for command in log_of(running[0]))
        yield Reason(RUNNING, text, follow, told)


def _unheld(store: Store, job: Job) -> Iterator[Reason]:
    """The RUNNING chunks that no run holds."""
    for name in job.outputs:
        if dataids := [dataid for _, dataid in store.views.unheld(name)]:
            these, n = ranges(store.catalogue().datasets[name].partition, dataids), len(dataids)
            text = f"{many(n)} of {name} {are(n)} RUNNING, and no run holds {'it' if n == 1 else 'them'}: {ranges_text(these)}"
            way = f"odf resubmit {name} {ranges_as_arguments(these)} --force{' --yes' * (n > 1)}"
            yield Reason(LOCKED, text, (way,), last_words(store, name, dataids[0]))


def _refused(job: Job, refusals: Mapping[str, Event]) -> Iterator[Reason]:
    """The chunks whose last attempt was refused for what the data is, in groups that say the same."""
    groups: dict[tuple[str, str], list[str]] = {}
    for dataid, event in refusals.items():
        cause = cause_key(event.why or "", (job.jobid, *job.outputs, dataid))
        groups.setdefault((event.after or "", cause), []).append(dataid)
    for (name, _), dataids in groups.items():
        first, n = refusals[dataids[0]], len(dataids)
        these = ", ".join(dataids[:SHOWN]) + "…" * (n > SHOWN)
        text = f"the last attempt at {many(n)} of {job.jobid} was refused: {these}"
        because = f"{dataids[0]}: {first.why or name}, at {when(first.at)}"
        yield Reason(name, text, (f"odf why {job.jobid} {dataids[0]}",), (because,))


def _deferred(job: Job, seconds: Mapping[str, float]) -> Iterator[Reason]:
    if seconds:
        some = list(seconds.items())[:SHOWN]
        first = ", ".join(f"{dataid} for another {duration(left)}" for dataid, left in some)
        more = f" and {len(seconds) - SHOWN:,} more" if len(seconds) > SHOWN else ""
        command = f"odf why {job.jobid} {some[0][0]}"
        yield Reason(LOCKED, f"deferred after a failure or a lost lease: {first}{more}", (command,))


def _failed_outputs(store: Store, job: Job) -> Iterator[Reason]:
    name = job.outputs[0]
    for status in (FAILED, HOLD, PENDING):
        if chunks := store.views.chunks(name, status=status, n=_LISTED):
            (counts,) = store.views.span_counts([(name, "", LAST_KEY)], MOST_COUNTED)
            n = counts[status]
            these = ranges(store.catalogue().datasets[name].partition, [chunk.dataid for chunk in chunks])
            text = f"{many(n, MOST_COUNTED)} of {name} {are(n)} {status}: {ranges_text(these, more=n > len(chunks))}"
            if status == FAILED:
                runs = [store.views.run(chunk.runid) if chunk.runid else None for chunk in chunks[:SHOWN]]
                commands = (*log_of(runs[0]), f"odf resubmit {name} --failed")
                yield Reason(FAILED, not_retried(*runs) + text, commands, how_it_ended(runs[0]))
            else:
                yield Reason(LOCKED, text, (f"odf release {name} --all",))


def _waiting(store: Store, catalogue: Catalogue, job: Job) -> Iterator[Reason]:
    """What the chunks of a job wait for, in groups: its candidates, and what has none since no input was ever READY."""
    sample = store.views.candidates_sample(job.jobid, _SAMPLE)
    waiting = {candidate.dataid: candidate.inputs for candidate in sample if candidate.state == WAITING}
    behind = waiting_behind(store) if len(sample) < _SAMPLE else None
    known = {candidate.dataid for candidate in sample}
    waiting |= {each: inputs for each, inputs in (behind or {}).get(job.jobid, {}).items() if each not in known}
    if not waiting:
        return
    statuses = store.views.given_chunks(list({chunk: None for inputs in waiting.values() for chunk in inputs}))
    arrivals = {(str(each.datasetid), str(each.dataid)): each for each in store.views.refusals(OUTSIDE, n=MOST_COUNTED)}
    statuses |= {chunk: REFUSED for chunk in arrivals if statuses.get(chunk) is None}
    waits: Counter[_Missing] = Counter()
    examples: dict[_Missing, str] = {}
    for inputs in waiting.values():
        missing = {_Missing(name, statuses.get((name, dataid))): dataid for name, dataid in reversed(inputs)}
        missing = {group: dataid for group, dataid in missing.items() if not may_read(group.status)}
        waits.update(missing.keys())
        examples = missing | examples
    because, commands = [], []
    for group, n in waits.most_common(SHOWN):
        state = f"are {group.status}" if group.status else "were never produced"
        if arrival := arrivals.get((group.datasetid, examples[group])) if group.status == REFUSED else None:
            state = "were refused when they arrived"
        waits_for = f"{n:,} {'waits' if n == 1 else 'wait'} for chunks of {group.datasetid}"
        producer = catalogue.producer_id(group.datasetid) if group.status is None else None
        refused = store.views.refusals(producer, examples[group], n=1) if producer else []
        refusal = "".join(f"; {refused_attempt(event)}" for event in refused)
        if arrival:
            refusal = f": {arrival.after}: {said(arrival.why)}, at {when(arrival.at)}; announce the right data"
        because.append(f"{waits_for} that {state}, for instance {examples[group]}{refusal}")
        commands += _helps(catalogue, group, examples[group])
    dynamic = [item.datasetid for item in job.inputs if item.mapping.is_dynamic]
    if not because and dynamic:
        kinds = {"latest": "has a READY chunk", "all": "is complete"}
        told = [f"{item.datasetid} {kinds[item.mapping.kind]}" for item in job.inputs if item.mapping.is_dynamic]
        because.append(f"waits until {' and '.join(told)}")
    commands.append(f"odf why {job.jobid} {next(iter(waiting))}")
    n = len(waiting)
    text = f"{many(n, n if behind is None else None)} of {job.jobid} {'waits' if n == 1 else 'wait'} for inputs"
    yield Reason(NOT_READY, text, tuple(dict.fromkeys(commands)), tuple(because))


def _helps(catalogue: Catalogue, missing: _Missing, dataid: str) -> list[str]:
    """The command that ends a wait for chunks of this dataset that have this status."""
    datasetid, status = missing
    producer = catalogue.producer(datasetid)
    if status == FAILED and producer:
        return [f"odf resubmit {datasetid} --failed"]
    return list(ways_to_ready(catalogue, datasetid, dataid, status)) if status != RUNNING else []


def _nothing_to_do(store: Store, catalogue: Catalogue, job: Job) -> Reason:
    if not job.inputs:
        text = f"{job.jobid} has no inputs, so it runs only for a dataid that is named"
        return Reason(NothingToDo.name, text, (f"odf run {job.jobid} --dataid DATAID",))
    read = [item.datasetid for item in job.inputs if item.datasetid != "today"]
    counted = store.views.span_counts([(name, FIRST_KEY, LAST_KEY) for name in read], 1)
    empty = [name for name, counts in zip(read, counted, strict=True) if not counts[""]]
    if empty:
        done = f"{', '.join(empty)} {have(len(empty))} no chunk yet"
        sources = empty
    else:
        fixed = [item.datasetid for item in job.inputs if not item.mapping.is_dynamic]
        sources = fixed or [item.datasetid for item in job.inputs]
        consumed = f"every chunk of {', '.join(sources)} that it could read is consumed"
        done = f"all of {', '.join(sources)} is consumed" if takes_all(job) else consumed
    if today := _unannounced_today(store, catalogue, job):
        text = f"the next attempt of {job.jobid} announces today {today}"
        return Reason(NothingToDo.name, text, (f"odf run {job.jobid}",))
    timed = [name for name in sources if comes_by_clock(catalogue.datasets[name])]
    if timed:
        done += f"; the clock announces the next chunk of {', '.join(timed)}"
    commands = tuple(command for name in sources if name not in timed for command in ways_to_produce(catalogue, name))
    return Reason(NothingToDo.name, f"{job.jobid} has nothing to do: {done}", commands)


def _unannounced_today(store: Store, catalogue: Catalogue, job: Job) -> str:
    """The current day, where the job reads today and no attempt of this day has announced it."""
    if TODAY.datasetid not in (item.datasetid for item in job.inputs):
        return ""
    day = TYPES["day"].format(period_at(TYPES["day"], store.views.clock(), zone_of(catalogue.datasets)))
    return "" if store.views.chunk(TODAY.datasetid, day) else day
