"""Why a job does not run: what stands in the way, in words, and which command would help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from ..errors import BadDataid, BadId
from ..model import (
    DONE,
    FAILED,
    HOLD,
    PENDING,
    READY,
    RESUBMIT,
    RUNNING,
    YES,
    Catalogue,
    Input,
    Job,
    check_dataid,
    latest_bound,
    may_consume,
    sort_key,
    takes_all,
)
from ..store import Run, Store
from .axis import FIRST_KEY, LAST_KEY, ranges
from .matrix import see_changes
from .pools import change_text

_MOST = 10_000
_SAMPLE = 2_000
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that stands in the way: its name, what it is, and the commands that would help."""

    name: str
    text: str
    commands: tuple[str, ...] = ()
    because: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Why:
    """The answer about one job, or one chunk of it."""

    jobid: str
    dataid: str | None
    verdict: str
    reasons: tuple[Reason, ...]


def why(store: Store, jobid: str, dataid: str | None = None) -> Why:
    """What stands in the way of a job, or of one dataid of it."""
    see_changes(store)
    catalogue = store.catalogue()
    job = catalogue.job(jobid)
    if dataid is None:
        reasons = tuple(_about_job(store, catalogue, job)) or (_nothing_to_do(store, catalogue, job),)
        return Why(jobid, None, reasons[0].name, reasons)
    reasons = tuple(_about_dataid(store, catalogue, job, dataid))
    return Why(jobid, dataid, reasons[0].name, reasons)


# One chunk ----------------------------------------------------------------------------------------------------------


def _about_dataid(store: Store, catalogue: Catalogue, job: Job, dataid: str) -> Iterator[Reason]:
    try:
        check_dataid(catalogue.output_partition(job), dataid, job.outputs[0])
    except (BadDataid, BadId) as error:
        yield Reason(
            "WRONG_DATA",
            f"{job.jobid} cannot have the dataid {dataid[:40]!r}: {error.message}. {error.hint}".strip(),
            (f"odf datasets {job.outputs[0]}",),
        )
        return
    outs = {name: store.chunk(name, dataid) for name in job.outputs}
    statuses = {name: chunk.status for name, chunk in outs.items() if chunk}
    found = list(_outputs_in_the_way(store, job, dataid, statuses))
    if not found:
        output = RESUBMIT if RESUBMIT in statuses.values() else None
        found = list(_inputs_in_the_way(store, catalogue, job, dataid))
        found += _consumed_already(store, catalogue, job, dataid, output)
        found += _deferred(store, job, dataid)
        found += _limits_in_the_way(store, job)
    if found:
        yield from found
        return
    again = ", again and before anything new" if RESUBMIT in statuses.values() else ""
    if not job.inputs and store.candidate(job.jobid, dataid) is None:
        yield Reason(
            YES,
            f"nothing stands in the way; {job.jobid} has no inputs, so it runs only for a dataid that somebody names",
            (f"odf run {job.jobid} --dataid {dataid}",),
        )
    else:
        yield Reason(
            YES,
            f"nothing stands in the way: {job.jobid} {dataid} can run now{again}",
            (f"odf run {job.jobid} --dataid {dataid}",),
        )


def _outputs_in_the_way(store: Store, job: Job, dataid: str, statuses: dict[str, str]) -> Iterator[Reason]:
    for name, status in statuses.items():
        chunk = store.chunk(name, dataid)
        run = store.run(chunk.runid) if chunk and chunk.runid else None
        since = f" since {_when(chunk.modified)}" if chunk and chunk.modified else ""
        here = f"{name} {dataid}"
        if status == READY:
            yield Reason(
                "DONE",
                f"there is nothing to do: {here} is READY{since}" + (f", published by run {run.runid}" if run else ""),
                (f"odf explain {here}", f"odf resubmit {here}"),
            )
        elif status == FAILED:
            yield Reason(
                "LOCKED",
                f"{here} is FAILED{since}, and stays so until somebody says resubmit",
                (*_log_of(run), f"odf resubmit {here}"),
                _how_it_ended(run),
            )
        elif status == RUNNING:
            yield Reason("LOCKED", f"{here} is RUNNING{since}", _log_of(run), (_running(store, run),) if run else ())
        elif status in (HOLD, PENDING):
            yield Reason(
                "LOCKED",
                f"{here} is {status}{since}: somebody set it aside",
                (f"odf release {here}",),
                _last_words(store, name, dataid),
            )
        if status != RESUBMIT and status in (READY, FAILED, RUNNING, HOLD, PENDING):
            return  # one run writes all outputs: the first answer is the answer


def _inputs_in_the_way(store: Store, catalogue: Catalogue, job: Job, dataid: str) -> Iterator[Reason]:
    for item in job.inputs:
        if item.mapping.is_dynamic:
            yield from _dynamic_input(store, catalogue, job, item, dataid)
            continue
        needed = [(item.datasetid, each) for each in catalogue.needed(job, item, dataid)]
        statuses = store.given_chunks(needed)
        missing = [each for each in needed if statuses.get(each) != READY]
        for _, each in missing[:_SHOWN]:
            yield _missing(store, catalogue, item.datasetid, each, statuses.get((item.datasetid, each)))
        if len(missing) > _SHOWN:
            partition = catalogue.datasets[item.datasetid].partition
            rest = ranges(partition, [each for _, each in missing[_SHOWN:]])
            yield Reason(
                "DATA_NOT_READY",
                f"{len(missing) - _SHOWN:,} more chunks of {item.datasetid} are not READY: {shown_ranges(rest)}",
                (f"odf status {item.datasetid}",),
            )


def _dynamic_input(store: Store, catalogue: Catalogue, job: Job, item: Input, dataid: str) -> Iterator[Reason]:
    name = item.datasetid
    partition = catalogue.datasets[name].partition
    if item.mapping.kind == "latest":
        until = latest_bound(partition, catalogue.output_partition(job), dataid)
        if store.newest_ready(name, sort_key(partition, until)) is None:
            yield Reason(
                "DATA_NOT_READY",
                f"no chunk of {name} up to {until} is READY, and {job.jobid} reads the latest one",
                _ways_to_produce(catalogue, name, until),
            )
        return
    (counts,) = store.span_counts([(name, "", LAST_KEY)], _MOST)
    total = counts.pop("")
    for status, n in counts.items():
        if n:
            chunks = [chunk.dataid for chunk in store.chunks(name, status=status, n=_SHOWN)]
            yield Reason(
                "DATA_NOT_READY",
                f"{job.jobid} reads all of {name}, and {n:,} of its chunks are {status}: {', '.join(chunks)}",
                (f"odf status {name} --status {status}",),
            )
    if not total:
        yield Reason(
            "DATA_NOT_READY",
            f"{job.jobid} reads all of {name}, which has no chunk yet",
            _ways_to_produce(catalogue, name, None),
        )
    elif partition.count is not None and total < min(partition.count, _MOST):
        yield Reason(
            "DATA_NOT_READY",
            f"{job.jobid} reads all {partition.count:,} chunks of {name}, and only {total:,} are there",
            (f"odf status {name}",),
        )
    for upstream in catalogue.upstream(name):
        if n := store.claimable(upstream, _MOST):
            yield Reason(
                "DATA_NOT_READY",
                f"{job.jobid} waits until {upstream} has produced all of {name}: {_many(n)} can still run",
                (f"odf run {upstream}",),
            )


def _missing(store: Store, catalogue: Catalogue, datasetid: str, dataid: str, status: str | None) -> Reason:
    """One input chunk that is not READY, and what stands behind it: one level up."""
    here = f"{datasetid} {dataid}"
    producer = catalogue.producer(datasetid)
    if status is None:
        if producer is None:
            ways = _ways_to_produce(catalogue, datasetid, dataid)
            last = next(iter(store.last_events(datasetid, dataid, 1)), None)
            if last is not None and last.kind == "refused":
                told = f"{last.why}: it was refused at {_when(last.at)}. When the right data is there, say so"
                return Reason(str(last.after), told, ways)
            return Reason(
                "DATA_NOT_READY",
                f"{here} was never announced, and no job produces {datasetid}: it comes from outside",
                ways,
            )
        return Reason(
            "DATA_NOT_READY",
            f"{here} was never produced; {producer.jobid} should produce it",
            (f"odf why {producer.jobid} {dataid}",),
            tuple(_one_level_up(store, catalogue, producer, dataid)),
        )
    chunk = store.chunk(datasetid, dataid)
    run = store.run(chunk.runid) if chunk and chunk.runid else None
    since = f" since {_when(chunk.modified)}" if chunk and chunk.modified else ""
    text = f"{here} is {status}{since}"
    if status == FAILED:
        again = (f"odf resubmit {here}",) if producer else (f"odf ready {here}",)
        return Reason(
            "DATA_NOT_READY", text, (*_log_of(run), *again), _how_it_ended(run) or _last_words(store, datasetid, dataid)
        )
    if status == RUNNING:
        return Reason("DATA_NOT_READY", text, _log_of(run), (_running(store, run),) if run else ())
    if status == RESUBMIT and producer:
        return Reason(
            "DATA_NOT_READY",
            f"{text}: {producer.jobid} has to produce it again",
            (f"odf run {producer.jobid} --dataid {dataid}",),
            tuple(_one_level_up(store, catalogue, producer, dataid)),
        )
    if status == RESUBMIT:
        return Reason(
            "DATA_NOT_READY", f"{text}, and comes from outside: it has to be announced again", (f"odf ready {here}",)
        )
    return Reason(
        "DATA_NOT_READY",
        f"{text}: somebody set it aside",
        (f"odf release {here}",),
        _last_words(store, datasetid, dataid),
    )


def _one_level_up(store: Store, catalogue: Catalogue, producer: Job, dataid: str) -> Iterator[str]:
    try:
        needed = catalogue.inputs_of(producer, dataid)
    except (BadDataid, BadId):
        return
    statuses = store.given_chunks(needed)
    missing = [(each, statuses.get(each)) for each in needed if statuses.get(each) != READY]
    for (name, each), status in missing[:3]:
        state = "was never produced" if status is None else f"is {status}"
        yield f"{producer.jobid} {dataid} waits for {name} {each}, which {state}"
    if len(missing) > 3:
        yield f"… and for {len(missing) - 3:,} more"
    if not missing:
        yield f"{producer.jobid} {dataid} has all its inputs"


def _ways_to_produce(catalogue: Catalogue, datasetid: str, dataid: str | None) -> tuple[str, ...]:
    producer = catalogue.producer(datasetid)
    if producer is not None:
        return (f"odf why {producer.jobid}" + (f" {dataid}" if dataid else ""),)
    announce = f"odf ready {datasetid} {dataid or 'DATAID'}"
    return (announce, f"odf discover {datasetid}") if catalogue.datasets[datasetid].location else (announce,)


def _consumed_already(
    store: Store, catalogue: Catalogue, job: Job, dataid: str, output: str | None
) -> Iterator[Reason]:
    for item in job.inputs:
        if item.mapping.is_dynamic or item.mapping.is_shared:
            continue
        for each in catalogue.needed(job, item, dataid):
            row = store.input_row(item.datasetid, each, job.jobid)
            if row is None or may_consume(row.status, output):
                continue
            here = f"{item.datasetid} {each}"
            if row.status == RUNNING:
                yield Reason(
                    "LOCKED",
                    f"{job.jobid} reads {here} right now (run {row.runid})",
                    (f"odf log {row.runid}",) if row.runid else (),
                )
            elif row.status == DONE:
                text = (
                    f"{job.jobid} consumed {here} (version {row.version}), but {job.outputs[0]} {dataid} is not there"
                )
                yield Reason(
                    "LOCKED",
                    text,
                    (f"odf run {job.jobid} --dataid {dataid} --force",),
                    ("the IN row says DONE and there is no OUT row: somebody removed the output by SQL",),
                )
            else:
                text = f"{job.jobid} failed on {here}, and {job.outputs[0]} {dataid} is not there to be resubmitted"
                yield Reason("LOCKED", text, (f"odf run {job.jobid} --dataid {dataid} --force",))


def _deferred(store: Store, job: Job, dataid: str) -> Iterator[Reason]:
    candidate = store.candidate(job.jobid, dataid)
    if candidate is None or candidate[0] != "DEFERRED":
        return
    left = candidate[2] - store.lease_now()
    if left <= 0:
        return
    refused = next(
        (event for event in store.last_events(job.outputs[0], dataid, 20) if event.kind in ("refused", "failed")), None
    )
    because: list[str] = []
    name = "LOCKED"
    if refused is not None and refused.receipt is not None:
        name = refused.receipt.verdict
        no = next((answer for answer in refused.receipt.answers if not answer.yes), None)
        because.append(
            f"refused at {_when(refused.at)} with {name}"
            + (f": {no.why}" if no and no.why else f": {refused.why}" if refused.why else "")
        )
    elif refused is not None:
        because.append(f"the last attempt failed at {_when(refused.at)}" + (f": {refused.why}" if refused.why else ""))
    yield Reason(
        name,
        f"{job.jobid} {dataid} is put off for another {_duration(left)}",
        (f"odf run {job.jobid} --dataid {dataid}", f"odf explain {job.outputs[0]} {dataid}"),
        tuple(because),
    )


def _limits_in_the_way(store: Store, job: Job) -> Iterator[Reason]:
    for limit in store.limits(job.jobid):
        if limit.free:
            continue
        if limit.what == "pool":
            more = f"odf pool set {limit.name} {limit.slots * 2 or 4}"
            change = change_text(store.pool_now(limit.name)[1])
            yield Reason("LOCKED", str(limit), ("odf pool", more), (f"by its hours it has {change}",) if change else ())
        else:
            yield Reason("LOCKED", str(limit), ("odf pool", f"odf datasets {limit.name}"))


# The whole job ------------------------------------------------------------------------------------------------------


def _about_job(store: Store, catalogue: Catalogue, job: Job) -> Iterator[Reason]:
    claimable = store.claimable(job.jobid, _MOST)
    full = list(_limits_in_the_way(store, job))
    running = [run for run in store.running() if run.jobid == job.jobid]
    deferred = store.deferred(job.jobid, _SHOWN)
    waiting = list(_waiting(store, catalogue, job))
    failed = list(_failed_outputs(store, job))
    if claimable:
        yield from full
        following = ", ".join(store.next_dataids(job.jobid, _SHOWN)) if not full else ""
        text = f"{_many(claimable)} of {job.jobid} can run" + (
            f" now; next: {following}" + ("…" if claimable > _SHOWN else "") if following else ", once a slot is free"
        )
        yield Reason("LOCKED" if full else YES, text, () if full else (f"odf run {job.jobid}",))
    if running:
        first = ", ".join(f"{run.dataid} (run {run.runid})" for run in running[:_SHOWN])
        yield Reason(
            RUNNING,
            f"{_many(len(running))} of {job.jobid} {'runs' if len(running) == 1 else 'run'} now: {first}",
            (f"odf log {running[0].runid} --follow",),
            tuple(_running(store, run) for run in running[:_SHOWN]),
        )
    if deferred:
        now = store.lease_now()
        first = ", ".join(f"{dataid} for another {_duration(left - now)}" for dataid, left in deferred if left > now)
        if first:
            yield Reason(
                "LOCKED", f"put off after a no or a failed attempt: {first}", (f"odf why {job.jobid} {deferred[0][0]}",)
            )
    yield from failed
    yield from waiting


def _waiting(store: Store, catalogue: Catalogue, job: Job) -> Iterator[Reason]:
    """What the candidates of a job wait for, in groups."""
    sample = store.candidates_sample(job.jobid, _SAMPLE)
    waiting = [(dataid, inputs) for dataid, state, inputs in sample if state == "WAITING"]
    if not waiting:
        return
    needed = list(dict.fromkeys(each for _, inputs in waiting for each in inputs))
    statuses = store.given_chunks(needed)
    groups: Counter[tuple[str, str | None]] = Counter()
    examples: dict[tuple[str, str | None], tuple[str, str]] = {}
    for dataid, inputs in waiting:
        for group in {
            (name, statuses.get((name, each))) for name, each in inputs if statuses.get((name, each)) != READY
        }:
            groups[group] += 1
            examples.setdefault(
                group, (dataid, next(each for name, each in inputs if (name, statuses.get((name, each))) == group))
            )
    more = " at least" if len(sample) == _SAMPLE else ""
    because = []
    commands = []
    for (name, status), n in groups.most_common(_SHOWN):
        _, each = examples[name, status]
        because.append(
            f"{n:,} wait for chunks of {name} that "
            + ("were never produced" if status is None else f"are {status}")
            + f", for instance {each}"
        )
        producer = catalogue.producer(name)
        if status == FAILED and producer:
            commands.append(f"odf resubmit {name} --failed")
        elif status is None and producer is None:
            commands.append(f"odf ready {name} {each}")
        elif status in (HOLD, PENDING):
            commands.append(f"odf release {name} {each}")
        elif producer is not None and status != RUNNING:
            commands.append(f"odf why {producer.jobid} {each}")
    dynamic = [item.datasetid for item in job.inputs if item.mapping.is_dynamic]
    if not because and dynamic:
        because.append(f"they wait until {', '.join(dynamic)} is complete")
    commands.append(f"odf why {job.jobid} {waiting[0][0]}")
    yield Reason(
        "DATA_NOT_READY",
        f"{len(waiting):,}{more} of {job.jobid} wait for inputs",
        tuple(dict.fromkeys(commands)),
        tuple(because),
    )


def _failed_outputs(store: Store, job: Job) -> Iterator[Reason]:
    name = job.outputs[0]
    (counts,) = store.span_counts([(name, "", LAST_KEY)], _MOST)
    for status in (FAILED, HOLD, PENDING):
        if n := counts[status]:
            chunks = store.chunks(name, status=status, n=_SHOWN)
            first = ", ".join(chunk.dataid for chunk in chunks)
            more = "…" if n > len(chunks) else ""
            run = store.run(chunks[0].runid) if chunks and chunks[0].runid and status == FAILED else None
            command = f"odf resubmit {name} --failed" if status == FAILED else f"odf release {name} --all"
            yield Reason(
                "LOCKED",
                f"{_many(n)} of {name} {'is' if n == 1 else 'are'} {status}: {first}{more}",
                (*_log_of(run), command),
                _how_it_ended(run),
            )


def _nothing_to_do(store: Store, catalogue: Catalogue, job: Job) -> Reason:
    if not job.inputs:
        return Reason(
            "NOTHING_TO_DO",
            f"{job.jobid} has no inputs, so it runs only for a dataid that somebody names",
            (f"odf run {job.jobid} --dataid DATAID",),
        )
    empty = []
    for item in job.inputs:
        (counts,) = store.span_counts([(item.datasetid, FIRST_KEY, LAST_KEY)], 1)
        if not counts[""] and item.datasetid != "today":
            empty.append(item.datasetid)
    if empty:
        commands = tuple(command for name in empty for command in _ways_to_produce(catalogue, name, None))
        return Reason(
            "NOTHING_TO_DO",
            f"{job.jobid} has nothing to do: {', '.join(empty)} {'has' if len(empty) == 1 else 'have'} no chunk yet",
            commands,
        )
    sources = [item.datasetid for item in job.inputs if not item.mapping.is_dynamic] or [
        item.datasetid for item in job.inputs
    ]
    commands = tuple(command for name in sources for command in _ways_to_produce(catalogue, name, None))
    done = (
        "it has produced all that it reads"
        if takes_all(job)
        else f"every chunk of {', '.join(sources)} that it could read is consumed"
    )
    return Reason("NOTHING_TO_DO", f"{job.jobid} has nothing to do: {done}", commands)


# Words --------------------------------------------------------------------------------------------------------------


def _when(moment: datetime | None) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S") if moment else "an unknown time"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _many(n: int) -> str:
    return f"at least {n:,} chunks" if n >= _MOST else f"{n:,} chunk{'s' * (n != 1)}"


def _log_of(run: Run | None) -> tuple[str, ...]:
    return (f"odf log {run.runid}",) if run and run.log else ()


def _how_it_ended(run: Run | None) -> tuple[str, ...]:
    if run is None:
        return ()
    exit_code = f" (exit code {run.exit_code})" if run.exit_code is not None else ""
    return (
        f"run {run.runid} of {run.jobid} ended {run.outcome or run.status}{exit_code}"
        + (f": {run.detail}" if run.detail else ""),
    )


def _running(store: Store, run: Run) -> str:
    text = f"run {run.runid} of {run.jobid} {run.dataid} by {run.owner}, since {_when(run.started)}"
    if run.lease_until is None:
        return text
    left = run.lease_until - store.lease_now()
    return (
        f"{text}; its lease lasts another {_duration(left)}"
        if left > 0
        else f"{text}; its lease ran out {_duration(-left)} ago: odf rescue"
    )


def _last_words(store: Store, datasetid: str, dataid: str) -> tuple[str, ...]:
    for event in store.last_events(datasetid, dataid, 1):
        return (
            f"{event.kind} by {event.who or 'somebody'} at {_when(event.at)}" + (f": {event.why}" if event.why else ""),
        )
    return ()


def shown_ranges(found: Sequence[tuple[str, str]], most: int = _SHOWN) -> str:
    """Ranges as people write them: 1..5, 7, …"""
    words = [first if first == last else f"{first}..{last}" for first, last in found[:most]]
    return ", ".join(words) + (", …" if len(found) > most else "")
