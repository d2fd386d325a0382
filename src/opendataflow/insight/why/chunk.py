"""Why one chunk of a job does not run: every no of the decision, and what stands behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from ...errors import UntrustedDefinition
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
    Job,
    OutputFact,
    ReadFact,
    answer_all,
    check_dataid,
    decide,
    locked_by,
)
from ...project import Project
from ...project.trust import looks
from ...run.decorated_jobs import expected_distrust
from ...store import Store
from ..changed import last_refusal, misplaced_output, refused_input, ways_to_accept
from ..late import LATE, missed
from ..words import duration, said, when
from .inputs import inputs_not_ready
from .reasons import (
    LOCKED,
    ChunkQuestion,
    Reason,
    Why,
    how_it_ended,
    last_words,
    limits_in_the_way,
    log_of,
    not_retried,
    run_of,
    running_chunk,
    since_text,
    stale_chunk,
    ways_to_trust,
)

_BY_ITSELF = "once the data is back where it was, the next attempt runs by itself"


def about_chunk(store: Store, catalogue: Catalogue, job: Job, dataid: str, project: Project | None = None) -> Why:
    """The decision about one dataid of a job, with a reason for every no; where a project is given, by its files too."""
    check_dataid(catalogue.output_partition(job), dataid, job.outputs[0])
    known = store.views.facts(job.jobid, dataid)
    refused: Any = looks(expected_distrust(project, catalogue, job)) if project else {}
    refused = refused or (refused_input(store, project, catalogue, known) if project else {})
    if project and not refused and any(output.status != READY for output in known.outputs):
        refused = misplaced_output(project, catalogue, job, dataid)
    stored = last_refusal(store, job.jobid, dataid) if not refused else {}
    if project is not None:  # its own files vouch for the definitions by now
        stored = {question: look for question, look in stored.items() if look.no != UntrustedDefinition.name}
    known = known._replace(**(refused or stored))
    facts = known._replace(deferred=0.0)  # a named chunk need not wait for its turn
    answers = answer_all(facts)
    asked = ChunkQuestion(store, catalogue, job, dataid, facts, project, known.deferred)
    reasons = [reason for answer in answers if answer.yes is False for reason in _reasons(asked, answer)]
    if not reasons:
        reasons = [_nothing_in_the_way(asked)]
        reasons += [_deferred(asked)] if known.deferred else []
    if all(output.status == READY for output in facts.outputs):
        reasons += stale_chunk(store, job, dataid)
    reasons += _late(asked)
    return Why(job.jobid, dataid, decide(facts).verdict, tuple(reasons), answers)


def _late(asked: ChunkQuestion) -> Iterator[Reason]:
    """The deadlines that its outputs have missed: no obstacle, but worth knowing."""
    for output in asked.facts.outputs:
        if "deadline" in asked.catalogue.datasets[output.datasetid].options:
            here = f"{output.datasetid} {asked.dataid}"
            moment = missed(asked.store.views, asked.catalogue, output.datasetid, asked.dataid, output.status)
            if moment is not None:
                yield Reason(LATE, f"{here} was due at {when(moment)}", (f"odf late {here}",))


def _reasons(asked: ChunkQuestion, answer: Answer) -> Iterator[Reason]:
    if answer.question in _REASONS:
        yield from _REASONS[answer.question](asked, answer)
    else:
        is_untrusted = answer.refusal == UntrustedDefinition.name
        commands = ways_to_trust(asked.project) if asked.project is not None and is_untrusted else ()
        job, here = asked.job, f"--dataid {asked.dataid}"
        if not is_untrusted and asked.store.views.refusals(job.jobid, asked.dataid, n=1):
            commands = (*commands, f"odf run {job.jobid} {here}")
        because: tuple[str, ...] = (_BY_ITSELF,) if GONE in answer.evidence else ()
        because += (_until_its_turn(asked),) if asked.deferred else ()
        ways = (*ways_to_accept(asked.catalogue, [answer]), *commands)
        yield Reason(answer.refusal, answer.why, ways, because)


def _nothing_in_the_way(asked: ChunkQuestion) -> Reason:
    job, dataid = asked.job, asked.dataid
    is_again = RESUBMIT in [output.status for output in asked.facts.outputs]
    if job.inputs or is_again:
        again = ", again and before anything new" if is_again else ""
        text = f"nothing stands in the way, as far as the store knows: {job.jobid} {dataid} can run now{again}"
    else:
        text = f"nothing stands in the way; {job.jobid} has no inputs, so it runs only for a dataid that is named"
    return Reason(YES, text, (f"odf run {job.jobid} --dataid {dataid}",))


# Safe ---------------------------------------------------------------------------------------------------------------


def _not_safe(asked: ChunkQuestion, answer: Answer) -> Iterator[Reason]:
    facts = asked.facts
    lock = locked_by([output.status for output in facts.outputs], [read.status for read in facts.reads])
    if lock is not None:
        locktype, index = lock
        if locktype == OUT:
            yield _output_in_the_way(asked, facts.outputs[index])
            return  # one run writes all outputs: the first answer is the answer
        yield _already_read(asked, facts.reads[index])
    yield from limits_in_the_way(asked.store, facts.limits, asked.project)


def _output_in_the_way(asked: ChunkQuestion, output: OutputFact) -> Reason:
    store, name, dataid, status = asked.store, output.datasetid, asked.dataid, output.status
    here = f"{name} {dataid}"
    chunk = store.views.chunk(name, dataid)
    run = run_of(store, chunk)
    text = f"{here} is {status}{since_text(chunk)}"
    if status == READY:
        is_published = run is not None and chunk is not None and (run.status, run.epoch) == (READY, chunk.version)
        by = f", published by run {run.runid}" if run and is_published else ""
        because = () if is_published else last_words(store, name, dataid)
        commands = (f"odf explain {here}", f"odf resubmit {here}")
        return Reason(LOCKED, f"there is nothing to do: {text}{by}", commands, because)
    if status == FAILED:
        text = f"{not_retried(run)}{text}, and stays FAILED until it is resubmitted"
        return Reason(FAILED, text, (*log_of(run), f"odf resubmit {here}"), how_it_ended(run))
    if status == RUNNING:
        return running_chunk(store, LOCKED, text, (name, dataid), run)
    text = f"{text}: set aside by a person"
    return Reason(LOCKED, text, (f"odf release {here}",), last_words(store, name, dataid))


def _already_read(asked: ChunkQuestion, read: ReadFact) -> Reason:
    job, here = asked.job, f"{read.datasetid} {read.dataid}"
    output = f"{job.outputs[0]} {asked.dataid}"
    row = asked.store.views.input_row(read.datasetid, read.dataid, job.jobid)
    if read.status == RUNNING:
        runid = row.runid if row else None
        by = f" (run {runid})" if runid else ""
        reader = asked.store.views.run(runid) if runid else None
        return Reason(LOCKED, f"{job.jobid} reads {here} right now{by}", log_of(reader))
    force = (f"odf run {job.jobid} --dataid {asked.dataid} --force",)
    if read.status == DONE:
        version = f" (version {row.version})" if row else ""
        told = ("the IN row says DONE and there is no OUT row",)
        return Reason(LOCKED, f"{job.jobid} consumed {here}{version}, but {output} is not there", force, told)
    return Reason(LOCKED, f"{job.jobid} has {here} as {read.status}, and {output} is not there", force)


def _until_its_turn(asked: ChunkQuestion) -> str:
    return f"{asked.job.jobid} {asked.dataid} is deferred for another {duration(asked.deferred)}, unless it is named"


def _deferred(asked: ChunkQuestion) -> Reason:
    job, dataid = asked.job, asked.dataid
    events = asked.store.views.last_events(job.outputs[0], dataid, 20)
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
        text = (
            f"run {last.runid} lost its lease; {job.jobid} {dataid} is taken up at {again}, or as soon as it is named"
        )
    commands = (f"odf run {job.jobid} --dataid {dataid}", f"odf explain {job.outputs[0]} {dataid}")
    return Reason(LOCKED, text, commands, because)


_REASONS: dict[str, Callable[[ChunkQuestion, Answer], Iterator[Reason]]] = {
    "ready": inputs_not_ready,
    "safe": _not_safe,
}
