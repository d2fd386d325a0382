"""Why one chunk of a job does not run: every no of the decision, and what stands behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from ...errors import BadDataid, BadId, UntrustedDefinition
from ...gate import GONE
from ...model import (
    DONE,
    FAILED,
    OUT,
    READY,
    RESUBMIT,
    RUNNING,
    YES,
    Answer,
    Catalogue,
    Facts,
    InputFact,
    Job,
    OutputFact,
    ReadFact,
    Unresolved,
    answer_all,
    check_dataid,
    decide,
    latest_bound,
    locked_by,
    may_read,
    no_beginning,
    without_beginning,
)
from ...project import Project
from ...project.trust import looks
from ...run.declared import foreseen_distrust
from ...shapes import dataclass
from ...store import Chunk, Run, Store
from ..axis import LAST_KEY, ranges
from ..changed import last_refusal, refused_input, ways_to_accept
from ..late import LATE, missed
from ..words import duration, ranges_text, said, state, when
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
    stale_chunk,
    ways_to_produce,
    ways_to_trust,
    who_runs,
)

_BY_ITSELF = "once the data is back where it was, the next attempt runs by itself"


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the question is about, and where its details are read."""

    store: Store
    catalogue: Catalogue
    job: Job
    dataid: str
    facts: Facts
    project: Project | None
    deferred: float = 0.0  # seconds until its turn, for which a run that names it does not wait


def about_chunk(store: Store, catalogue: Catalogue, job: Job, dataid: str, project: Project | None = None) -> Why:
    """The decision about one dataid of a job, with a reason for every no; where a project is given, by its files too."""
    check_dataid(catalogue.output_partition(job), dataid, job.outputs[0])
    known = store.facts(job.jobid, dataid)
    refused: Any = looks(foreseen_distrust(project, catalogue, job)) if project else {}
    refused = refused or (refused_input(store, project, catalogue, known) if project else {})
    stored = last_refusal(store, job.jobid, dataid) if not refused else {}
    if project is not None:  # its own files vouch for the definitions by now
        stored = {question: look for question, look in stored.items() if look.no != UntrustedDefinition.name}
    known = known._replace(**(refused or stored))
    facts = known._replace(deferred=0.0)  # whoever names a chunk need not wait for its turn
    answers = answer_all(facts)
    asked = _Asked(store, catalogue, job, dataid, facts, project, known.deferred)
    reasons = [reason for answer in answers if answer.yes is False for reason in _reasons(asked, answer)]
    if not reasons:
        reasons = [_nothing_in_the_way(asked)]
        reasons += [_deferred(asked)] if known.deferred else []
    if all(output.status == READY for output in facts.outputs):
        reasons += stale_chunk(store, job, dataid)
    reasons += _late(asked)
    return Why(job.jobid, dataid, decide(facts).verdict, tuple(reasons), answers)


def _late(asked: _Asked) -> Iterator[Reason]:
    """The deadlines that its outputs have missed: no obstacle, but worth knowing."""
    for output in asked.facts.outputs:
        if "deadline" in asked.catalogue.datasets[output.datasetid].options:
            here = f"{output.datasetid} {asked.dataid}"
            moment = missed(asked.catalogue, output.datasetid, asked.dataid, output.status, asked.store.clock())
            if moment is not None:
                yield Reason(LATE, f"{here} was due at {when(moment)}", (f"odf late {here}",))


def _reasons(asked: _Asked, answer: Answer) -> Iterator[Reason]:
    if answer.question in _REASONS:
        yield from _REASONS[answer.question](asked, answer)
    else:
        is_untrusted = answer.refusal == UntrustedDefinition.name
        commands = ways_to_trust(asked.project) if asked.project is not None and is_untrusted else ()
        job, here = asked.job, f"--dataid {asked.dataid}"
        if not is_untrusted and asked.store.refusals(job.jobid, asked.dataid, n=1):
            commands = (*commands, f"odf run {job.jobid} {here}")
        because: tuple[str, ...] = (_BY_ITSELF,) if GONE in answer.evidence else ()
        because += (_until_its_turn(asked),) if asked.deferred else ()
        ways = (*ways_to_accept(asked.catalogue, [answer]), *commands)
        yield Reason(answer.refusal, answer.why, ways, because)


def _nothing_in_the_way(asked: _Asked) -> Reason:
    job, dataid = asked.job, asked.dataid
    is_again = RESUBMIT in [output.status for output in asked.facts.outputs]
    if job.inputs or is_again:
        again = ", again and before anything new" if is_again else ""
        text = f"nothing stands in the way, as far as the store knows: {job.jobid} {dataid} can run now{again}"
    else:
        text = f"nothing stands in the way; {job.jobid} has no inputs, so it runs only for a dataid that somebody names"
    return Reason(YES, text, (f"odf run {job.jobid} --dataid {dataid}",))


# Ready --------------------------------------------------------------------------------------------------------------


def _not_ready(asked: _Asked, answer: Answer) -> Iterator[Reason]:
    missing: dict[str, list[InputFact]] = {}
    for item in asked.facts.inputs:
        if not may_read(item.status):
            missing.setdefault(item.datasetid, []).append(item)
    for datasetid, items in missing.items():
        for item in items[:SHOWN]:
            yield _missing(asked, item)
        if rest := items[SHOWN:]:
            partition = asked.catalogue.datasets[datasetid].partition
            these = ranges_text(ranges(partition, [item.dataid for item in rest]))
            text = f"{len(rest):,} more chunks of {datasetid} are not READY: {these}"
            yield Reason(NOT_READY, text, (f"odf status {datasetid}",))
    incomplete: dict[str, list[str]] = {}
    for unresolved in asked.facts.unresolved:
        if unresolved.mapping == "latest":
            yield _no_latest(asked, unresolved)
        else:
            incomplete.setdefault(unresolved.datasetid, []).append(unresolved.why)
    for datasetid, whys in incomplete.items():
        yield _not_all(asked, datasetid, whys)


def _missing(asked: _Asked, item: InputFact) -> Reason:
    """One input chunk that is not READY, and what stands behind it: one level up."""
    store, catalogue = asked.store, asked.catalogue
    datasetid, dataid, status = item.datasetid, item.dataid, item.status
    here = f"{datasetid} {dataid}"
    producer = catalogue.producer(datasetid)
    if status is None:
        return _never_produced(asked, datasetid, dataid, producer)
    chunk = store.chunk(datasetid, dataid)
    run = _run_of(store, chunk)
    text = f"{here} is {status}{_since(chunk)}"
    if status == FAILED:
        commands = (*log_of(run), f"odf resubmit {here}" if producer else f"odf ready {here}")
        return Reason(NOT_READY, text, commands, how_it_ended(run) or last_words(store, datasetid, dataid))
    if status == RUNNING:
        return Reason(NOT_READY, text, log_of(run), (who_runs(store, run),) if run else ())
    if status == RESUBMIT and producer:
        again = f"{text}: {producer.jobid} has to produce it again"
        commands = (f"odf run {producer.jobid} --dataid {dataid}",)
        return Reason(NOT_READY, again, commands, tuple(_one_level_up(store, catalogue, producer, dataid)))
    if status == RESUBMIT:
        text = f"{text}, and comes from outside: it has to be announced again"
        return Reason(NOT_READY, text, (f"odf ready {here}",))
    told = last_words(store, datasetid, dataid)
    return Reason(NOT_READY, f"{text}: somebody set it aside", (f"odf release {here}",), told)


def _never_produced(asked: _Asked, datasetid: str, dataid: str, producer: Job | None) -> Reason:
    store, catalogue = asked.store, asked.catalogue
    here = f"{datasetid} {dataid}"
    if producer is not None:
        text = f"{here} was never produced; {producer.jobid} should produce it"
        told = tuple(_one_level_up(store, catalogue, producer, dataid))
        if datasetid in without_beginning(producer, catalogue.datasets):
            told = (*told, no_beginning(producer.jobid, datasetid))
        return Reason(NOT_READY, text, (f"odf why {producer.jobid} {dataid}",), told)
    commands = ways_to_produce(catalogue, datasetid, dataid)
    last = next(iter(store.last_events(datasetid, dataid, 1)), None)
    if last is not None and last.kind == "refused":
        told = (f"{last.after}: {last.why}",)
        text = f"{here} was refused at {when(last.at)}; announce it again when the right data is there"
        return Reason(NOT_READY, text, commands, told)
    text = f"{here} was never announced, and no job produces {datasetid}: it comes from outside"
    return Reason(NOT_READY, text, commands)


def _one_level_up(store: Store, catalogue: Catalogue, producer: Job, dataid: str) -> Iterator[str]:
    try:
        needed = catalogue.inputs_of(producer, dataid)
    except (BadDataid, BadId):
        return
    statuses = store.given_chunks(needed)
    missing = [chunk for chunk in needed if not may_read(statuses.get(chunk))]
    for chunk in missing[:3]:
        yield f"{producer.jobid} {dataid} waits for {' '.join(chunk)}, which {state(statuses.get(chunk))}"
    if len(missing) > 3:
        yield f"… and for {len(missing) - 3:,} more"
    if not missing:
        yield f"{producer.jobid} {dataid} has all its inputs"


def _no_latest(asked: _Asked, unresolved: Unresolved) -> Reason:
    partition = asked.catalogue.datasets[unresolved.datasetid].partition
    until = latest_bound(partition, asked.catalogue.output_partition(asked.job), asked.dataid)
    return Reason(NOT_READY, unresolved.why, ways_to_produce(asked.catalogue, unresolved.datasetid, until))


def _not_all(asked: _Asked, datasetid: str, whys: list[str]) -> Reason:
    """An input of which every chunk is read: which of them are not READY, and who can still produce more."""
    store = asked.store
    (counts,) = store.span_counts([(datasetid, "", LAST_KEY)], MOST_COUNTED)
    total = counts.pop("")
    commands = [f"odf status {datasetid} --status {status}" for status, n in counts.items() if n]
    if not total:
        commands += ways_to_produce(asked.catalogue, datasetid)
    commands += [
        f"odf run {upstream}" for upstream in asked.catalogue.upstream(datasetid) if store.claimable(upstream, 1)
    ]
    text, *because = whys
    return Reason(NOT_READY, text, tuple(commands) or (f"odf status {datasetid}",), tuple(because))


# Safe ---------------------------------------------------------------------------------------------------------------


def _not_safe(asked: _Asked, answer: Answer) -> Iterator[Reason]:
    facts = asked.facts
    lock = locked_by([output.status for output in facts.outputs], [read.status for read in facts.reads])
    if lock is not None:
        locktype, index = lock
        if locktype == OUT:
            yield _output_in_the_way(asked, facts.outputs[index])
            return  # one run writes all outputs: the first answer is the answer
        yield _already_read(asked, facts.reads[index])
    yield from limits_in_the_way(asked.store, facts.limits, asked.project)


def _output_in_the_way(asked: _Asked, output: OutputFact) -> Reason:
    store, name, dataid, status = asked.store, output.datasetid, asked.dataid, output.status
    here = f"{name} {dataid}"
    chunk = store.chunk(name, dataid)
    run = _run_of(store, chunk)
    text = f"{here} is {status}{_since(chunk)}"
    if status == READY:
        is_published = run is not None and chunk is not None and (run.status, run.epoch) == (READY, chunk.version)
        by = f", published by run {run.runid}" if run and is_published else ""
        because = () if is_published else last_words(store, name, dataid)
        commands = (f"odf explain {here}", f"odf resubmit {here}")
        return Reason(LOCKED, f"there is nothing to do: {text}{by}", commands, because)
    if status == FAILED:
        text = f"{text}, and stays FAILED until somebody resubmits it"
        return Reason(LOCKED, text, (*log_of(run), f"odf resubmit {here}"), how_it_ended(run))
    if status == RUNNING:
        return Reason(LOCKED, text, log_of(run), (who_runs(store, run),) if run else ())
    text = f"{text}: somebody set it aside"
    return Reason(LOCKED, text, (f"odf release {here}",), last_words(store, name, dataid))


def _already_read(asked: _Asked, read: ReadFact) -> Reason:
    job, here = asked.job, f"{read.datasetid} {read.dataid}"
    output = f"{job.outputs[0]} {asked.dataid}"
    row = asked.store.input_row(read.datasetid, read.dataid, job.jobid)
    if read.status == RUNNING:
        runid = row.runid if row else None
        by = f" (run {runid})" if runid else ""
        reader = asked.store.run(runid) if runid else None
        return Reason(LOCKED, f"{job.jobid} reads {here} right now{by}", log_of(reader))
    force = (f"odf run {job.jobid} --dataid {asked.dataid} --force",)
    if read.status == DONE:
        version = f" (version {row.version})" if row else ""
        told = ("the IN row says DONE and there is no OUT row",)
        return Reason(LOCKED, f"{job.jobid} consumed {here}{version}, but {output} is not there", force, told)
    return Reason(LOCKED, f"{job.jobid} has {here} as {read.status}, and {output} is not there", force)


def _until_its_turn(asked: _Asked) -> str:
    return f"{asked.job.jobid} {asked.dataid} is deferred for another {duration(asked.deferred)}, unless it is named"


def _deferred(asked: _Asked) -> Reason:
    job, dataid = asked.job, asked.dataid
    events = asked.store.last_events(job.outputs[0], dataid, 20)
    last = next((event for event in events if event.kind in ("refused", "failed", "rescued", "lost")), None)
    because: tuple[str, ...] = ()
    if last is not None and last.receipt is not None:
        no = last.receipt.no
        reason = no.why if no and no.why else last.why
        because = (f"refused at {when(last.at)} with {last.receipt.verdict}" + (f": {reason}" if reason else ""),)
    elif last is not None:
        because = (f"the last attempt failed at {when(last.at)}" + (f": {said(last.why)}" if last.why else ""),)
    again = when(datetime.now(UTC) + timedelta(seconds=asked.deferred))
    text = _until_its_turn(asked)
    if last is not None and last.kind in ("rescued", "lost"):
        because = (last.why,) if last.why else ()
        text = f"run {last.runid} lost its lease; {job.jobid} {dataid} is taken up at {again}, or as soon as somebody names it"
    commands = (f"odf run {job.jobid} --dataid {dataid}", f"odf explain {job.outputs[0]} {dataid}")
    return Reason(LOCKED, text, commands, because)


def _run_of(store: Store, chunk: Chunk | None) -> Run | None:
    return store.run(chunk.runid) if chunk and chunk.runid else None


def _since(chunk: Chunk | None) -> str:
    return f" since {when(chunk.modified)}" if chunk and chunk.modified else ""


_REASONS: dict[str, Callable[[_Asked, Answer], Iterator[Reason]]] = {
    "ready": _not_ready,
    "safe": _not_safe,
}
